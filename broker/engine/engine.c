/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scheduler thread: everything that decides runs here, one thing after the other.
 *
 * A round: take messages of other threads, of workers and of metralectl; let the scheduler make
 * plans; send them; hand each client what it has to hear; then sleep until a descriptor or a time
 * says that there is more. Nothing in a round waits.
 */
#include "broker/engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "broker/engine/internal.h"

#define MAX_SLEEP_MS      250
#define PUBLISH_MS        20 /* how old the status that others see may be, after a change */
#define SLOW_STEP_NS      (10 * MTR_NS_PER_S) /* health says so; STUCK_NS of workers.c gives up */
#define ROUND_ARENA_BYTES (256u << 20)

/* ---- Status -----------------------------------------------------------------------------------
 */

const char *mtr_engine_state_name(enum mtr_engine_state s)
{
    static const char *const names[] = {"loading", "ready", "degraded", "draining", "stopping"};
    return names[s];
}

static enum mtr_engine_state judge(const struct mtr_engine *e, char *reason, size_t size)
{
    const char *busy = NULL;
    for (uint32_t r = 0; r < e->options.world_size; r++) {
        const struct mtr_worker *w = &e->workers[r];
        if (w->state == MTR_WORKER_ABSENT)
            busy = w->failure[0] ? w->failure : "has not come";
        else if (w->silent)
            busy = "is silent";
        else if (w->state == MTR_WORKER_LOADING)
            busy = w->phase;
        if (!busy)
            continue;
        if (w->state == MTR_WORKER_LOADING && w->total_bytes)
            snprintf(reason, size, "worker[%u]: %s, %.0f%%", r, busy,
                     100.0 * (double)w->done_bytes / (double)w->total_bytes);
        else
            snprintf(reason, size, "worker[%u]: %s", r, busy);
        return w->restarts || w->silent ? MTR_ENGINE_DEGRADED : MTR_ENGINE_LOADING;
    }
    uint64_t now = mtr_now_ns(&e->clock);
    if (mtr_sched_in_flight(e->sched) && now - e->sent_ns > SLOW_STEP_NS &&
        now - e->workers[0].step_ns > SLOW_STEP_NS) {
        snprintf(reason, size, "a step has been running for more than %llu s",
                 (unsigned long long)(SLOW_STEP_NS / MTR_NS_PER_S));
        return MTR_ENGINE_DEGRADED;
    }
    return MTR_ENGINE_READY;
}

/* Adds to the counters what the scheduler has counted since the last time. */
static void publish_metrics(struct mtr_engine *e, const struct mtr_sched_stats *s)
{
    struct mtr_metrics *m = e->metrics;
    uint32_t blocks = 0, used = 0, cached = 0;
    for (uint32_t g = 0; g < s->group_count; g++) {
        blocks += s->groups[g].blocks;
        used += s->groups[g].used;
        cached += s->groups[g].cached;
    }
    mtr_gauge_set(m, MTR_G_RUNNING, s->running);
    mtr_gauge_set(m, MTR_G_WAITING, s->waiting);
    mtr_gauge_set(m, MTR_G_BLOCKS, blocks);
    mtr_gauge_set(m, MTR_G_BLOCKS_USED, used);
    mtr_gauge_set(m, MTR_G_BLOCKS_CACHED, cached);
    mtr_gauge_set(m, MTR_G_SNAPSHOTS, s->snapshots);
    mtr_gauge_set(m, MTR_G_SNAPSHOTS_USED, s->snapshots_used);
    mtr_count(m, MTR_C_PREEMPTIONS, s->preemptions - e->counted.preemptions);
    mtr_count(m, MTR_C_PREFIX_HIT_TOKENS, s->prefix_hit_tokens - e->counted.prefix_hit_tokens);
    mtr_count(m, MTR_C_PREFIX_MISS_TOKENS, s->prefix_miss_tokens - e->counted.prefix_miss_tokens);
    e->counted = *s;
}

void mtr_engine_publish(struct mtr_engine *e)
{
    struct mtr_engine_status now = {0};
    struct mtr_sched_stats stats;
    mtr_sched_stats(e->sched, &stats);
    now.running = stats.running;
    now.waiting = stats.waiting;
    now.state = judge(e, now.reason, sizeof now.reason);
    if (e->workers[0].state != MTR_WORKER_ABSENT)
        snprintf(now.device, sizeof now.device, "%s", e->workers[0].device);
    if (e->draining)
        now.state = MTR_ENGINE_DRAINING;
    if (e->stopping)
        now.state = MTR_ENGINE_STOPPING;
    publish_metrics(e, &stats);
    mtr_gauge_set(e->metrics, MTR_G_READY, now.state == MTR_ENGINE_READY);
    pthread_mutex_lock(&e->status_lock);
    e->status = now;
    pthread_mutex_unlock(&e->status_lock);
}

void mtr_engine_status(struct mtr_engine *e, struct mtr_engine_status *out)
{
    pthread_mutex_lock(&e->status_lock);
    *out = e->status;
    pthread_mutex_unlock(&e->status_lock);
}

const struct mtr_served_model *mtr_engine_model(const struct mtr_engine *e)
{
    return e->model;
}

struct mtr_text_pool *mtr_engine_text_pool(struct mtr_engine *e)
{
    return e->pool;
}

struct mtr_metrics *mtr_engine_metrics(struct mtr_engine *e)
{
    return e->metrics;
}

int mtr_engine_shutdown_fd(struct mtr_engine *e)
{
    return e->shutdown_fd;
}

bool mtr_engine_idle(struct mtr_engine *e)
{
    return atomic_load(&e->job_count) == 0;
}

/* ---- Loop -------------------------------------------------------------------------------------
 */

static bool take_messages(struct mtr_engine *e)
{
    bool stop = false;
    struct mtr_message *next;
    for (struct mtr_message *m = mtr_inbox_take(&e->inbox); m; m = next) {
        next = m->next;
        if (m->kind == MTR_MESSAGE_STOP) {
            stop = true;
            free(m);
        } else {
            mtr_jobs_message(e, m);
        }
    }
    return !stop;
}

/* most_ms: what is to be published may not wait longer. */
static int sleep_ms(const struct mtr_engine *e, uint64_t now, int most_ms)
{
    uint64_t next = mtr_sched_next_ns(e->sched);
    if (next <= now)
        return 1;
    uint64_t ms = (next - now) / MTR_NS_PER_MS + 1;
    return ms < (uint64_t)most_ms ? (int)ms : most_ms;
}

static void abort_all(struct mtr_engine *e, uint64_t now)
{
    struct mtr_error error = {0};
    mtr_fail(&error, MTR_IO, "the server stops before this answer is complete");
    mtr_sched_fail_all(e->sched, &error, now);
}

/* Descriptors in wake_fd are level-triggered; those of dead processes are taken out by closing. */
static void *thread_main(void *argument)
{
    struct mtr_engine *e = argument;
    uint64_t published = 0;
    bool running = true;
    while (running) {
        running = take_messages(e);
        mtr_workers_receive(e);
        mtr_admin_receive(e);
        uint64_t now = mtr_now_ns(&e->clock);
        mtr_workers_tick(e, now);
        mtr_workers_send_plans(e);
        mtr_sched_expire(e->sched, now);
        if (e->aborting)
            abort_all(e, now);
        mtr_jobs_events(e);
        mtr_jobs_flush(e);
        bool due = now - published >= PUBLISH_MS * MTR_NS_PER_MS;
        if (due) {
            mtr_engine_publish(e);
            published = now;
        }
        mtr_arena_reset(&e->round);
        if (running)
            mtr_socket_wait(e->plan_socket, e->wake_fd,
                            sleep_ms(e, mtr_now_ns(&e->clock), due ? MAX_SLEEP_MS : PUBLISH_MS));
    }
    mtr_jobs_cancel_all(e);
    mtr_jobs_flush(e);
    mtr_workers_exit(e, "the server stops");
    return NULL;
}

/* ---- Life -------------------------------------------------------------------------------------
 */

bool mtr_engine_watch(struct mtr_engine *e, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(e->wake_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static bool open_sockets(struct mtr_engine *e, struct mtr_error *err)
{
    e->wire = mtr_wire_create(err);
    if (!e->wire)
        return false;
    e->plan_socket =
        mtr_socket_bind(e->wire, MTR_SOCKET_ROUTER, e->options.plan_address, e->options.keys, err);
    if (!e->plan_socket)
        return false;
    e->admin_socket = mtr_socket_bind(e->wire, MTR_SOCKET_REP, e->options.admin_address, NULL, err);
    if (!e->admin_socket)
        return false;
    e->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    e->shutdown_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->wake_fd < 0 || e->shutdown_fd < 0 || !mtr_engine_watch(e, e->inbox.fd) ||
        !mtr_engine_watch(e, mtr_socket_fd(e->admin_socket)))
        return mtr_fail_errno(err, "can't watch the engine's descriptors");
    return true;
}

/* Snapshots are taken where chunks end. */
static uint32_t snapshot_interval(const struct mtr_engine_options *o,
                                  const struct mtr_sched_geometry *g)
{
    uint32_t tokens = o->snapshot_interval_blocks * g->block_tokens, chunk = g->chunk_tokens;
    return chunk ? (tokens + chunk - 1) / chunk * chunk : 0;
}

static bool create_scheduler(struct mtr_engine *e, struct mtr_error *err)
{
    const struct mtr_engine_options *o = &e->options;
    struct mtr_sched_geometry g = mtr_sched_geometry(e->model->plan, MTR_PLAN_CHUNK_TOKENS);
    e->sched_config = (struct mtr_sched_config){
        .geometry = g,
        .policy = o->slai ? MTR_SCHED_SLAI : MTR_SCHED_FIFO,
        .prefix_cache = o->prefix_caching,
        .max_batch_size = o->max_batch_size,
        .max_num_seqs = o->max_num_seqs,
        .max_prefill_tokens = o->max_prefill_tokens,
        .max_sequence_tokens = e->model->max_sequence_tokens,
        .max_score_rows = e->model->plan->limits.max_step_outputs - o->max_batch_size,
        .tbt_deadline_ms = o->tbt_deadline_ms,
        .snapshot_interval_tokens = snapshot_interval(o, &g),
    };
    e->sched = mtr_sched_create(&e->sched_config, err);
    return e->sched != NULL;
}

struct mtr_engine *mtr_engine_create(const struct mtr_engine_options *options,
                                     struct mtr_served_model *model, struct mtr_metrics *metrics,
                                     struct mtr_log *log, struct mtr_error *err)
{
    struct mtr_engine *e = calloc(1, sizeof *e);
    if (!e) {
        mtr_fail(err, MTR_NO_MEMORY, "out of memory starting the engine");
        return NULL;
    }
    e->options = *options;
    e->model = model;
    e->metrics = metrics;
    e->log = log;
    e->clock = mtr_clock_monotonic();
    e->started_ns = e->lost_ns = mtr_now_ns(&e->clock);
    e->wake_fd = e->shutdown_fd = -1;
    e->inbox.fd = -1;
    for (int r = 0; r < MTR_MAX_RANKS; r++)
        e->workers[r].pidfd = -1;
    pthread_mutex_init(&e->status_lock, NULL);
    mtr_arena_init(&e->round, ROUND_ARENA_BYTES);
    e->pool = mtr_text_pool_create(model->tokenizer, options->text_threads, err);
    bool ok = e->pool && mtr_inbox_init(&e->inbox, err) && open_sockets(e, err) &&
              create_scheduler(e, err);
    if (ok) {
        mtr_engine_publish(e);
        ok = pthread_create(&e->thread, NULL, thread_main, e) == 0 ||
             mtr_fail(err, MTR_NO_MEMORY, "can't start the scheduler thread");
    }
    if (!ok) {
        mtr_engine_destroy(e);
        return NULL;
    }
    e->thread_runs = true;
    return e;
}

static void post_plain(struct mtr_engine *e, enum mtr_message_kind kind)
{
    struct mtr_message *m = calloc(1, sizeof *m);
    if (!m)
        return;
    m->kind = kind;
    mtr_inbox_post(&e->inbox, m);
}

void mtr_engine_drain(struct mtr_engine *e)
{
    e->draining = true;
}

void mtr_engine_abort(struct mtr_engine *e)
{
    e->aborting = true;
    mtr_inbox_wake(&e->inbox);
}

void mtr_engine_resume(struct mtr_engine *e)
{
    e->draining = false;
}

void mtr_engine_destroy(struct mtr_engine *e)
{
    if (!e)
        return;
    e->stopping = true;
    mtr_text_pool_destroy(e->pool); /* its tasks post to the inbox, so first */
    if (e->thread_runs) {
        post_plain(e, MTR_MESSAGE_STOP);
        pthread_join(e->thread, NULL);
    }
    mtr_sched_destroy(e->sched);
    mtr_socket_close(e->admin_socket);
    mtr_socket_close(e->plan_socket);
    mtr_wire_destroy(e->wire);
    for (int r = 0; r < MTR_MAX_RANKS; r++)
        if (e->workers[r].pidfd >= 0)
            close(e->workers[r].pidfd);
    if (e->inbox.fd >= 0)
        mtr_inbox_free(&e->inbox);
    if (e->wake_fd >= 0)
        close(e->wake_fd);
    if (e->shutdown_fd >= 0)
        close(e->shutdown_fd);
    mtr_map_free(&e->serials);
    mtr_buf_free(&e->packed);
    mtr_arena_free(&e->round);
    pthread_mutex_destroy(&e->status_lock);
    free(e);
}
