/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The life of each worker, as the broker sees it.
 *
 *   ABSENT --Hello/LoadModel--> LOADING --Ready--> READY --death, failure, silence--> ABSENT
 *
 * The scheduler has a worker while all ranks are READY. A rank that is lost takes that away:
 * running sequences go back to waiting with their tokens, and the next complete set of ranks goes
 * on. Each LoadModel starts an epoch; messages of an older one are dropped, so a worker that was
 * given up and wakes again does no harm (it is told to exit).
 *
 * A worker on this machine is watched through its process descriptor, so its death is known at
 * once; any worker is watched by its heartbeats. Which process it is, the kernel says: what a
 * message says of its sender may be a lie, and one that hangs is killed.
 *
 * Whatever a worker sends that can't be right makes it a lost one, with the reason in the log.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker/engine/internal.h"

#define HEARTBEAT_NS  (500 * MTR_NS_PER_MS)
#define SILENT_NS     (2500 * MTR_NS_PER_MS) /* health says degraded */
#define LOST_NS       (10 * MTR_NS_PER_S)    /* given up */
#define MAX_BLOCKS    (1u << 22)             /* of a group: 64 Mi tokens, whatever a worker says */
#define MAX_SNAPSHOTS (1u << 16)
#define STUCK_NS      (120 * MTR_NS_PER_S) /* a step unanswered by a worker whose heart beats */

static struct mtr_str peer_of(const struct mtr_worker *w)
{
    return (struct mtr_str){w->peer, w->peer_len};
}

static bool send_message(struct mtr_engine *e, struct mtr_str peer, Mtr__FromBroker *message)
{
    struct mtr_error error = {0};
    mtr_buf_clear(&e->packed);
    bool ok = mtr_message_pack(&e->packed, &message->base) &&
              mtr_socket_send(e->plan_socket, peer, mtr_buf_view(&e->packed), &error);
    if (!ok)
        mtr_debug(e->log, "message to a worker was not sent: %s", error.message);
    return ok;
}

static void send_exit(struct mtr_engine *e, struct mtr_str peer, uint64_t epoch, const char *reason)
{
    Mtr__Exit body = MTR__EXIT__INIT;
    Mtr__FromBroker message = MTR__FROM_BROKER__INIT;
    body.reason = (char *)reason;
    message.epoch = epoch;
    message.body_case = MTR__FROM_BROKER__BODY_EXIT;
    message.exit = &body;
    send_message(e, peer, &message);
}

/* ---- Loss -------------------------------------------------------------------------------------
 */

static void lose_scheduler_worker(struct mtr_engine *e, uint64_t now)
{
    if (!e->sched_has_worker)
        return;
    e->sched_has_worker = false;
    e->lost_ns = now;
    mtr_sched_worker_lost(e->sched, now);
    mtr_count(e->metrics, MTR_C_WORKER_LOSSES, 1);
}

static void lose_ready(struct mtr_engine *e, uint64_t now);

static void lose_worker(struct mtr_engine *e, uint32_t rank, const char *why, uint64_t now)
{
    struct mtr_worker *w = &e->workers[rank];
    if (w->state == MTR_WORKER_ABSENT)
        return;
    mtr_warn(e->log, "worker[%u] (pid %u) is lost: %s", rank, w->pid, why);
    snprintf(w->failure, sizeof w->failure, "%.199s", why);
    w->state = MTR_WORKER_ABSENT;
    w->restarts++;
    w->silent = false;
    if (w->pidfd >= 0)
        close(w->pidfd);
    w->pidfd = -1;
    lose_scheduler_worker(e, now);
    lose_ready(e, now);
}

/* It is told to end, and why. */
static void refuse_worker(struct mtr_engine *e, uint32_t rank, const char *why, uint64_t now)
{
    send_exit(e, peer_of(&e->workers[rank]), e->workers[rank].epoch, why);
    lose_worker(e, rank, why, now);
}

/* Ranks that have run steps together can't go on with a new one: they start again blank, too. */
static void lose_ready(struct mtr_engine *e, uint64_t now)
{
    for (uint32_t r = 0; r < e->options.world_size; r++)
        if (e->workers[r].state == MTR_WORKER_READY)
            refuse_worker(e, r, "another rank was lost", now);
}

/* ---- Hello ------------------------------------------------------------------------------------
 */

static bool send_load(struct mtr_engine *e, uint32_t rank)
{
    const struct mtr_engine_options *o = &e->options;
    const struct mtr_plan *plan = e->model->plan;
    struct mtr_worker *w = &e->workers[rank];
    Mtr__LoadModel load = MTR__LOAD_MODEL__INIT;
    Mtr__FromBroker message = MTR__FROM_BROKER__INIT;
    load.checkpoint = (char *)e->model->path;
    load.dummy_weights = o->dummy_weights;
    load.dummy_seed = o->dummy_seed;
    load.precision = (char *)plan->precision;
    load.cache_format = (char *)o->cache_format;
    load.block_tokens = e->sched_config.geometry.block_tokens;
    load.cache_bytes = o->cache_bytes;
    load.memory_percent = o->memory_percent;
    load.reserve_bytes = o->reserve_bytes;
    load.max_slots = e->sched_config.max_batch_size;
    load.max_step_tokens = plan->limits.max_step_tokens;
    load.max_step_outputs = plan->limits.max_step_outputs;
    load.max_sequence_tokens = e->model->max_sequence_tokens;
    load.state_snapshots = o->prefix_caching ? o->state_snapshots : 0;
    load.world_size = o->world_size;
    load.tensor_parallel = load.expert_parallel = 1;
    load.threads = o->worker_threads;
    load.plan_digest.data = (uint8_t *)plan->digest;
    load.plan_digest.len = sizeof plan->digest;
    load.top_logprobs_max = MTR_MAX_TOP_LOGPROBS;
    message.epoch = w->epoch;
    message.body_case = MTR__FROM_BROKER__BODY_LOAD;
    message.load = &load;
    return send_message(e, peer_of(w), &message);
}

/* A descriptor of the process at the other end of the plan socket, if it is one of this machine. */
static int open_process(struct mtr_engine *e, pid_t pid)
{
    if (pid <= 0)
        return -1;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0 && !mtr_engine_watch(e, fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void on_hello(struct mtr_engine *e, struct mtr_str peer, const Mtr__Hello *hello,
                     uint64_t now)
{
    char why[160] = "";
    if (hello->protocol != MTR_PROTOCOL_VERSION)
        snprintf(why, sizeof why, "it speaks plan protocol %u, this broker speaks %d",
                 hello->protocol, MTR_PROTOCOL_VERSION);
    else if (hello->rank >= e->options.world_size)
        snprintf(why, sizeof why, "rank %u does not exist among %u", hello->rank,
                 e->options.world_size);
    else if (strcmp(hello->hardware, e->model->plan->hardware) != 0)
        snprintf(why, sizeof why, "it runs kernels of class '%.40s', the plan is for '%s'",
                 hello->hardware, e->model->plan->hardware);
    else if (peer.len > sizeof e->workers[0].peer)
        snprintf(why, sizeof why, "its routing id has %zu bytes, at most %zu are expected",
                 peer.len, sizeof e->workers[0].peer);
    if (why[0]) {
        mtr_error_log(e->log, "a worker (pid %u) is refused: %s", hello->pid, why);
        send_exit(e, peer, 0, why);
        return;
    }
    struct mtr_worker *w = &e->workers[hello->rank];
    pid_t pid = mtr_socket_peer_pid(e->plan_socket);
    if (w->state != MTR_WORKER_ABSENT) {
        if (mtr_str_equal(peer, peer_of(w)))
            return; /* said twice */
        send_exit(e, peer_of(w), w->epoch, "another worker took this rank");
        lose_worker(e, hello->rank, "another worker took its rank", now);
    }
    memcpy(w->peer, peer.ptr, peer.len);
    w->peer_len = (uint8_t)peer.len;
    w->state = MTR_WORKER_LOADING;
    w->epoch = ++e->epoch;
    w->seen_ns = now;
    w->answered = 0;
    w->pid = pid > 0 ? (uint32_t)pid : hello->pid;
    w->pidfd = open_process(e, pid);
    w->memory_total_bytes = hello->memory_total_bytes;
    w->memory_free_bytes = hello->memory_free_bytes;
    w->failure[0] = '\0';
    snprintf(w->device, sizeof w->device, "%s", hello->device);
    snprintf(w->phase, sizeof w->phase, "starting");
    mtr_info(e->log, "worker[%u] (pid %u of %.64s) on %s: loading", hello->rank, w->pid,
             hello->host, w->device);
    if (!send_load(e, hello->rank))
        lose_worker(e, hello->rank, "it went away before it was told what to load", now);
}

/* ---- Ready ------------------------------------------------------------------------------------
 */

/* Facts that the broker does not order, such as a build's details, must still be the same for all:
 * ranks that compute differently give different sums. */
static bool ranks_agree(struct mtr_engine *e, uint64_t now)
{
    for (uint32_t r = 1; r < e->options.world_size; r++) {
        struct mtr_error error = {0};
        char name[24];
        snprintf(name, sizeof name, "rank %u", r);
        if (mtr_agreement_compare(&e->workers[0].agreement, "rank 0", &e->workers[r].agreement,
                                  name, &error))
            continue;
        refuse_worker(e, r, error.message, now);
        return false;
    }
    return true;
}

/* The scheduler's capacity: what the smallest rank has. */
static void give_scheduler_worker(struct mtr_engine *e, uint64_t now)
{
    struct mtr_sched_capacity c = {0};
    struct mtr_error error = {0};
    for (uint32_t r = 0; r < e->options.world_size; r++)
        if (e->workers[r].state != MTR_WORKER_READY)
            return;
    if (!ranks_agree(e, now))
        return;
    for (uint32_t r = 0; r < e->options.world_size; r++) {
        const struct mtr_worker *w = &e->workers[r];
        for (int g = 0; g < MTR_MAX_GROUPS; g++)
            if (r == 0 || w->group_blocks[g] < c.group_blocks[g])
                c.group_blocks[g] = w->group_blocks[g];
        if (r == 0 || w->snapshots < c.snapshots)
            c.snapshots = w->snapshots;
    }
    if (mtr_sched_worker_ready(e->sched, &c, now, &error)) {
        e->sched_has_worker = e->was_ready = true;
        return;
    }
    mtr_error_log(e->log, "the workers can't run this model: %s", error.message);
    for (uint32_t r = 0; r < e->options.world_size; r++)
        refuse_worker(e, r, error.message, now);
}

static uint32_t at_most(uint32_t n, uint32_t limit)
{
    return n < limit ? n : limit;
}

/* What was ordered by send_load, as a worker must have understood it. */
static void ordered(const struct mtr_engine *e, struct mtr_agreement *a)
{
    const struct mtr_plan *plan = e->model->plan;
    mtr_agreement_make(a, &(struct mtr_agreement_facts){
                              .build = MTR_VERSION,
                              .hardware = plan->hardware,
                              .precision = plan->precision,
                              .cache_format = e->options.cache_format,
                              .plan_digest = plan->digest,
                              .block_tokens = e->sched_config.geometry.block_tokens,
                              .max_slots = e->sched_config.max_batch_size,
                              .max_step_tokens = plan->limits.max_step_tokens,
                              .max_step_outputs = plan->limits.max_step_outputs,
                              .max_sequence_tokens = e->model->max_sequence_tokens,
                              .world_size = e->options.world_size,
                          });
}

static bool check_ready(const struct mtr_engine *e, struct mtr_worker *w, const Mtr__Ready *ready,
                        struct mtr_error *err)
{
    struct mtr_agreement ours;
    uint32_t groups = e->model->plan->group_count;
    if (ready->n_group_blocks != groups)
        return mtr_fail(err, MTR_INVALID, "it has %zu cache groups, the model has %u",
                        ready->n_group_blocks, groups);
    ordered(e, &ours);
    return mtr_agreement_read(&w->agreement, ready->agreement, ready->n_agreement, err) &&
           mtr_agreement_compare(&ours, "the broker", &w->agreement, "the worker", err);
}

static void on_ready(struct mtr_engine *e, uint32_t rank, const Mtr__Ready *ready, uint64_t now)
{
    struct mtr_worker *w = &e->workers[rank];
    struct mtr_error error = {0};
    if (w->state != MTR_WORKER_LOADING)
        return;
    if (!check_ready(e, w, ready, &error)) {
        refuse_worker(e, rank, error.message, now);
        return;
    }
    for (size_t g = 0; g < MTR_MAX_GROUPS; g++)
        w->group_blocks[g] =
            g < ready->n_group_blocks ? at_most(ready->group_blocks[g], MAX_BLOCKS) : 0;
    w->snapshots = at_most(ready->snapshot_slots, MAX_SNAPSHOTS);
    w->state = MTR_WORKER_READY;
    w->step_ns = now;
    mtr_info(
        e->log,
        "worker[%u] is ready after %.2f s: %.1f MB weights, %.1f MB cache (%u blocks), %.1f MB "
        "arena",
        rank, (double)ready->load_ns / 1e9, (double)ready->weight_bytes / 1e6,
        (double)ready->cache_bytes / 1e6, w->group_blocks[0], (double)ready->arena_bytes / 1e6);
    give_scheduler_worker(e, now);
}

/* ---- Results ----------------------------------------------------------------------------------
 */

/* Every rank answers every step, in order, and none that was not sent. */
static bool check_order(const struct mtr_engine *e, const struct mtr_worker *w,
                        const Mtr__StepResult *r, struct mtr_error *err)
{
    if (r->step != w->answered + 1 || r->step > e->sent_step)
        return mtr_fail(err, MTR_INVALID,
                        "it answers step %llu after step %llu, of %llu that were sent",
                        (unsigned long long)r->step, (unsigned long long)w->answered,
                        (unsigned long long)e->sent_step);
    if (w != &e->workers[0] && r->n_lanes > 0)
        return mtr_fail(err, MTR_INVALID, "it gives tokens, which is for rank 0 to do");
    return true;
}

static void on_result(struct mtr_engine *e, uint32_t rank, const Mtr__FromWorker *message,
                      uint64_t now)
{
    struct mtr_worker *w = &e->workers[rank];
    struct mtr_step_result result;
    struct mtr_error error = {0};
    if (w->state != MTR_WORKER_READY || !e->sched_has_worker)
        return;
    if (!check_order(e, w, message->result, &error) ||
        (rank == 0 && (!mtr_unpack_result(&e->round, message, &result, &error) ||
                       !mtr_sched_result(e->sched, &result, now, &error)))) {
        refuse_worker(e, rank, error.message, now);
        return;
    }
    w->step_ns = now;
    w->steps++;
    w->answered++;
    if (rank != 0)
        return;
    mtr_count(e->metrics, MTR_C_STEPS, 1);
    mtr_observe(e->metrics, MTR_H_STEP, result.device_ns);
}

static void on_failure(struct mtr_engine *e, uint32_t rank, const Mtr__Failure *f, uint64_t now)
{
    char why[200];
    snprintf(why, sizeof why, "%.180s", f->message);
    mtr_error_log(e->log, "worker[%u] failed (%s): %s", rank, f->code, f->message);
    lose_worker(e, rank, why, now);
}

static void on_message(struct mtr_engine *e, struct mtr_str peer, const Mtr__FromWorker *m)
{
    uint64_t now = mtr_now_ns(&e->clock);
    if (m->body_case == MTR__FROM_WORKER__BODY_HELLO) {
        on_hello(e, peer, m->hello, now);
        return;
    }
    uint32_t rank = 0;
    while (rank < e->options.world_size && !(e->workers[rank].state != MTR_WORKER_ABSENT &&
                                             mtr_str_equal(peer, peer_of(&e->workers[rank]))))
        rank++;
    if (rank == e->options.world_size || m->epoch != e->workers[rank].epoch) {
        send_exit(e, peer, m->epoch, "this worker was given up; start again");
        return;
    }
    struct mtr_worker *w = &e->workers[rank];
    w->seen_ns = now;
    switch (m->body_case) {
    case MTR__FROM_WORKER__BODY_PROGRESS:
        snprintf(w->phase, sizeof w->phase, "%s", m->progress->phase);
        w->total_bytes = m->progress->total_bytes;
        w->done_bytes =
            m->progress->done_bytes < w->total_bytes ? m->progress->done_bytes : w->total_bytes;
        break;
    case MTR__FROM_WORKER__BODY_READY:
        on_ready(e, rank, m->ready, now);
        break;
    case MTR__FROM_WORKER__BODY_RESULT:
        on_result(e, rank, m, now);
        break;
    case MTR__FROM_WORKER__BODY_HEARTBEAT:
        w->memory_free_bytes = m->heartbeat->memory_free_bytes;
        break;
    case MTR__FROM_WORKER__BODY_FAILURE:
        on_failure(e, rank, m->failure, now);
        break;
    default:
        break;
    }
}

void mtr_workers_receive(struct mtr_engine *e)
{
    for (;;) {
        struct mtr_str peer, bytes;
        struct mtr_error error = {0};
        if (!mtr_socket_receive(e->plan_socket, &e->round, &peer, &bytes, &error)) {
            mtr_warn(e->log, "a message on the plan socket was dropped: %s", error.message);
            if (error.code == MTR_IO || error.code == MTR_NO_MEMORY)
                return;
            continue;
        }
        if (!bytes.ptr)
            return;
        const Mtr__FromWorker *m =
            mtr_message_unpack(&e->round, &mtr__from_worker__descriptor, bytes, &error);
        if (!m) {
            mtr_warn(e->log, "a message on the plan socket is not one: %s", error.message);
            continue;
        }
        on_message(e, peer, m);
        mtr_jobs_events(e);
    }
}

/* ---- Plans ------------------------------------------------------------------------------------
 */

void mtr_workers_send_plans(struct mtr_engine *e)
{
    const struct mtr_step_plan *plan;
    uint64_t now = mtr_now_ns(&e->clock);
    while (e->sched_has_worker && atomic_load(&e->behind) <= 0 &&
           (plan = mtr_sched_plan(e->sched, now))) {
        e->sent_ns = now;
        e->sent_step = plan->step;
        for (uint32_t r = 0; r < e->options.world_size; r++) {
            struct mtr_worker *w = &e->workers[r];
            struct mtr_error error = {0};
            mtr_buf_clear(&e->packed);
            if (!mtr_pack_plan(&e->round, &e->packed, w->epoch, plan) ||
                !mtr_socket_send(e->plan_socket, peer_of(w), mtr_buf_view(&e->packed), &error)) {
                lose_worker(e, r, error.message[0] ? error.message : "no memory for its plan", now);
                break;
            }
        }
    }
    mtr_jobs_events(e);
}

/* ---- Time -------------------------------------------------------------------------------------
 */

static void send_heartbeats(struct mtr_engine *e, uint64_t now)
{
    for (uint32_t r = 0; r < e->options.world_size; r++) {
        Mtr__Heartbeat beat = MTR__HEARTBEAT__INIT;
        Mtr__FromBroker message = MTR__FROM_BROKER__INIT;
        if (e->workers[r].state == MTR_WORKER_ABSENT)
            continue;
        beat.sent_ns = now;
        message.epoch = e->workers[r].epoch;
        message.body_case = MTR__FROM_BROKER__BODY_HEARTBEAT;
        message.heartbeat = &beat;
        send_message(e, peer_of(&e->workers[r]), &message);
    }
}

static bool process_died(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return pidfd >= 0 && poll(&p, 1, 0) > 0;
}

static bool is_stuck(const struct mtr_engine *e, const struct mtr_worker *w, uint64_t now)
{
    return w->state == MTR_WORKER_READY && mtr_sched_in_flight(e->sched) > 0 &&
           now - w->step_ns > STUCK_NS && now - e->sent_ns > STUCK_NS;
}

static void check_worker(struct mtr_engine *e, uint32_t rank, uint64_t now)
{
    struct mtr_worker *w = &e->workers[rank];
    if (w->state == MTR_WORKER_ABSENT)
        return;
    uint64_t silence = now - w->seen_ns;
    if (process_died(w->pidfd)) {
        lose_worker(e, rank, "its process ended", now);
    } else if (silence > LOST_NS || is_stuck(e, w, now)) {
        /* One that hangs would keep its memory and its place; whoever started it starts another. */
        send_exit(e, peer_of(w), w->epoch, "the broker heard nothing for too long");
        if (w->pidfd >= 0)
            syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
        lose_worker(e, rank,
                    silence > LOST_NS ? "it has been silent for too long" : "its step never ends",
                    now);
    } else if (silence > SILENT_NS && !w->silent) {
        mtr_warn(e->log, "worker[%u] (pid %u) is silent", rank, w->pid);
        w->silent = true;
    } else if (silence <= SILENT_NS && w->silent) {
        mtr_info(e->log, "worker[%u] (pid %u) answers again", rank, w->pid);
        w->silent = false;
    }
}

/* Streams wait for a new worker this long, then hear an error instead of nothing. */
static void check_grace(struct mtr_engine *e, uint64_t now)
{
    if (e->sched_has_worker || now - e->lost_ns < e->options.grace_ms * MTR_NS_PER_MS)
        return;
    struct mtr_error error = {0};
    const char *why = e->workers[0].failure;
    mtr_fail(&error, MTR_IO, "no worker has been ready for %llu s%s%s",
             (unsigned long long)(e->options.grace_ms / 1000), why[0] ? ": " : "", why);
    mtr_sched_fail_all(e->sched, &error, now);
    mtr_jobs_events(e);
}

void mtr_workers_tick(struct mtr_engine *e, uint64_t now)
{
    for (uint32_t r = 0; r < e->options.world_size; r++)
        check_worker(e, r, now);
    check_grace(e, now);
    if (now - e->heartbeat_ns >= HEARTBEAT_NS) {
        e->heartbeat_ns = now;
        send_heartbeats(e, now);
    }
}

void mtr_workers_exit(struct mtr_engine *e, const char *reason)
{
    for (uint32_t r = 0; r < e->options.world_size; r++)
        if (e->workers[r].state != MTR_WORKER_ABSENT)
            send_exit(e, peer_of(&e->workers[r]), e->workers[r].epoch, reason);
}
