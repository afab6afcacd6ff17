/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The loop: move steps on, take a message, and when there is neither, wait. While the device runs a
 * step with room for another behind it, the wait is short, since either may come: the next plan or
 * the end of the step. Without a step the worker sleeps.
 */
#include "worker/session/session.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/wire/agreement.h"
#include "common/wire/codec.h"
#include "worker/backend/open.h"
#include "worker/session/guard.h"
#include "worker/session/link.h"
#include "worker/session/load.h"
#include "worker/session/steps.h"
#include "worker/weights/progress.h"

#define RESULT_BYTES (1u << 30)   /* of one result that is packed, at most */
#define SEND_MS      5000         /* the broker must make room for a message in this time */
#define POLL_MS      500          /* between looks at the clock */
#define STEP_POLL_US 100          /* between looks at a step that runs */
#define NOTIFY_NS    MTR_NS_PER_S /* between two signs of life to systemd */

struct session {
    const struct mtr_session_options *o;
    struct mtr_log *log;
    struct mtr_link *link;
    struct mtr_backend *backend;
    struct mtr_device_info device; /* as it said hello */
    struct mtr_loaded model;
    struct mtr_steps steps;   /* messages live in its places */
    struct mtr_arena scratch; /* of a message while it is packed */
    struct mtr_buf out;
    uint64_t epoch;
    uint64_t idle_since_ns;       /* 0: a plan was waiting already */
    struct mtr_progress progress; /* of the load, for people */
    uint64_t progress_bytes;      /* done in its phase */
    uint64_t notified_ns;         /* when systemd last heard of us */
    bool loaded, exiting;
};

static uint64_t now_ns(void)
{
    struct mtr_clock c = mtr_clock_monotonic();
    return mtr_now_ns(&c);
}

static struct mtr_backend *open_backend(const struct mtr_session_options *o, uint32_t threads,
                                        struct mtr_error *err)
{
    struct mtr_error note = {0};
    struct mtr_backend *b =
        mtr_backend_open(&(struct mtr_backend_options){.hardware = o->hardware,
                                                       .device = o->device,
                                                       .no_overlap = o->no_overlap,
                                                       .threads = threads,
                                                       .instruction_set = o->instruction_set},
                         &note, err);
    if (b && note.code)
        mtr_debug(o->log, "no GPU: %s", note.message);
    return b;
}

static bool say_hello(struct session *s, struct mtr_error *err)
{
    char host[256] = "";
    if (!s->backend->ops->info(s->backend, &s->device, err))
        return false;
    gethostname(host, sizeof host - 1);
    Mtr__Hello hello = MTR__HELLO__INIT;
    hello.rank = s->o->rank;
    hello.protocol = MTR_PROTOCOL_VERSION;
    hello.build = (char *)MTR_VERSION;
    hello.pid = (uint32_t)getpid();
    hello.hardware = s->device.hardware;
    hello.device = s->device.name;
    hello.memory_total_bytes = s->device.memory_total_bytes;
    hello.memory_free_bytes = s->device.memory_free_bytes;
    hello.host = host;
    Mtr__FromWorker message = MTR__FROM_WORKER__INIT;
    message.body_case = MTR__FROM_WORKER__BODY_HELLO;
    message.hello = &hello;
    mtr_info(s->log, "rank %u on %s, broker at %s", s->o->rank, s->device.name, s->o->address);
    return mtr_link_send(s->link, &message, SEND_MS, err);
}

/* A phase ends when the next one begins. */
static void show_progress(struct session *s, const char *phase, uint64_t done, uint64_t total)
{
    if (!s->progress.phase || strcmp(s->progress.phase, phase) != 0) {
        mtr_progress_end(&s->progress, s->progress_bytes, now_ns());
        mtr_progress_begin(&s->progress, s->log, phase, now_ns());
    }
    s->progress_bytes = done;
    mtr_progress_update(&s->progress, done, total, now_ns());
}

static bool report_progress(void *context, const char *phase, uint64_t done, uint64_t total)
{
    struct session *s = context;
    show_progress(s, phase, done, total);
    Mtr__LoadProgress progress = MTR__LOAD_PROGRESS__INIT;
    Mtr__FromWorker message = MTR__FROM_WORKER__INIT;
    progress.phase = (char *)phase;
    progress.done_bytes = done;
    progress.total_bytes = total;
    message.body_case = MTR__FROM_WORKER__BODY_PROGRESS;
    message.progress = &progress;
    return mtr_link_send(s->link, &message, SEND_MS, NULL);
}

static bool say_ready(struct session *s, const Mtr__LoadModel *load, uint64_t load_ns,
                      struct mtr_error *err)
{
    const struct mtr_loaded *m = &s->model;
    struct mtr_agreement agreement;
    char *entries[MTR_AGREEMENT_ENTRIES];
    Mtr__Ready ready = MTR__READY__INIT;
    Mtr__FromWorker message = MTR__FROM_WORKER__INIT;
    ready.weight_bytes = m->weights.total_bytes;
    ready.arena_bytes = m->budget.fixed;
    ready.cache_bytes = m->budget.cache;
    ready.budget_bytes = m->budget.usable;
    ready.n_group_blocks = m->plan->group_count;
    ready.group_blocks = s->model.budget.group_blocks;
    ready.snapshot_slots = m->snapshots;
    ready.load_ns = load_ns;
    mtr_agreement_make(&agreement, &(struct mtr_agreement_facts){
                                       .build = MTR_VERSION,
                                       .hardware = m->plan->hardware,
                                       .precision = m->plan->precision,
                                       .cache_format = load->cache_format,
                                       .plan_digest = m->plan->digest,
                                       .block_tokens = load->block_tokens,
                                       .max_slots = load->max_slots,
                                       .max_step_tokens = m->plan->limits.max_step_tokens,
                                       .max_step_outputs = m->plan->limits.max_step_outputs,
                                       .max_sequence_tokens = m->plan->limits.max_sequence_tokens,
                                       .world_size = load->world_size,
                                   });
    for (uint32_t i = 0; i < agreement.count; i++)
        entries[i] = agreement.entries[i];
    ready.n_agreement = agreement.count;
    ready.agreement = entries;
    message.body_case = MTR__FROM_WORKER__BODY_READY;
    message.ready = &ready;
    return mtr_link_send(s->link, &message, SEND_MS, err);
}

/* The broker knows how many threads a host rank shall have; the pool is made again if that
 * differs. */
static bool fit_threads(struct session *s, uint32_t threads, struct mtr_error *err)
{
    if (s->o->threads || !threads || strcmp(s->device.hardware, "host") != 0)
        return true;
    s->backend->ops->destroy(s->backend);
    s->backend = open_backend(s->o, threads, err);
    return s->backend != NULL;
}

static bool handle_load(struct session *s, uint64_t epoch, const Mtr__LoadModel *load,
                        struct mtr_error *err)
{
    if (s->loaded)
        return mtr_fail(err, MTR_INVALID, "LoadModel twice: a worker loads once in its life");
    uint64_t begin = now_ns();
    s->epoch = epoch;
    mtr_link_set_epoch(s->link, epoch);
    mtr_info(s->log, "loading %s", load->checkpoint);
    struct mtr_load_progress progress = {report_progress, s};
    bool ok = fit_threads(s, load->threads, err) &&
              mtr_load_model(&s->model, load, s->backend, &progress, err);
    mtr_progress_end(&s->progress, s->progress_bytes, now_ns());
    if (!ok)
        return false;
    s->loaded = true;
    s->steps.exec = s->model.exec;
    if (s->device.unified) /* elsewhere the model does not stand in this machine's memory */
        mtr_guard_memory(s->log, s->model.weights.mapped_bytes);
    uint64_t took = now_ns() - begin;
    mtr_info(s->log, "ready in %.2f s: %s, %.1f MB of weights, %.1f MB of cache",
             (double)took / 1e9, s->model.plan->circuit, (double)s->model.weights.total_bytes / 1e6,
             (double)s->model.budget.cache / 1e6);
    if (!say_ready(s, load, took, err))
        return false;
    sd_notifyf(0, "READY=1\nSTATUS=serving %s", load->checkpoint);
    return true;
}

static bool send_result(void *context, const struct mtr_step_result *in, struct mtr_error *err)
{
    struct session *s = context;
    struct mtr_step_result result = *in;
    mtr_link_set_step(s->link, result.step);
    if (s->o->rank != 0)
        result.lane_count = 0;
    mtr_arena_reset(&s->scratch);
    mtr_buf_clear(&s->out);
    if (!mtr_pack_result(&s->scratch, &s->out, s->epoch, &result))
        return mtr_fail(err, MTR_NO_MEMORY, "no memory to pack the result of step %llu",
                        (unsigned long long)result.step);
    return mtr_link_send_bytes(s->link, mtr_buf_view(&s->out), SEND_MS, err);
}

static bool handle_plan(struct session *s, struct mtr_arena *room, const Mtr__FromBroker *message,
                        struct mtr_error *err)
{
    struct mtr_step_plan plan;
    uint64_t waited = s->idle_since_ns ? now_ns() - s->idle_since_ns : 0;
    if (!s->loaded || message->epoch != s->epoch)
        return mtr_fail(err, MTR_INVALID, "a plan of epoch %llu; this is epoch %llu, %s",
                        (unsigned long long)message->epoch, (unsigned long long)s->epoch,
                        s->loaded ? "loaded" : "nothing loaded");
    s->idle_since_ns = 0;
    return mtr_unpack_plan(room, message, &plan, err) &&
           mtr_steps_add(&s->steps, &plan, waited, err);
}

static bool handle(struct session *s, struct mtr_arena *room, const Mtr__FromBroker *m,
                   struct mtr_error *err)
{
    switch (m->body_case) {
    case MTR__FROM_BROKER__BODY_LOAD:
        return handle_load(s, m->epoch, m->load, err);
    case MTR__FROM_BROKER__BODY_PLAN:
        return handle_plan(s, room, m, err);
    case MTR__FROM_BROKER__BODY_EXIT:
        mtr_info(s->log, "the broker says exit: %s", m->exit->reason);
        s->exiting = true;
        return true;
    case MTR__FROM_BROKER__BODY_HEARTBEAT:
        return true;
    default:
        return mtr_fail(err, MTR_INVALID, "a message without a body that this build knows");
    }
}

/* Moves steps on, then handles a message; *any says whether there was one. */
static bool turn(struct session *s, bool *any, struct mtr_error *err)
{
    const Mtr__FromBroker *message;
    struct mtr_error why = {0};
    if (!mtr_steps_advance(&s->steps, err))
        return false;
    struct mtr_arena *room = mtr_steps_room(&s->steps);
    bool ok = mtr_link_receive(s->link, room, &message, &why);
    *any = ok && message;
    if (*any)
        ok = handle(s, room, message, &why);
    if (ok)
        return true;
    mtr_steps_flush(&s->steps, NULL); /* what came before is answered before */
    return mtr_fail(err, why.code, "%s", why.message);
}

static void reload(const struct session *s)
{
    struct mtr_error error = {0};
    if (!s->o->log_level_file)
        return;
    if (mtr_log_read_level(s->log, s->o->log_level_file, &error))
        mtr_info(s->log, "the log level was read again");
    else
        mtr_error_log(s->log, "the log level was not read again, nothing changes: %s",
                      error.message);
}

/* True when a signal came that ends the session. */
static bool signalled(const struct session *s)
{
    struct signalfd_siginfo info;
    while (s->o->signal_fd >= 0 && read(s->o->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGHUP)
            return true;
        reload(s);
    }
    return false;
}

static bool check_silence(const struct session *s, struct mtr_error *err)
{
    uint64_t silent_ms = (now_ns() - mtr_link_heard_ns(s->link)) / MTR_NS_PER_MS;
    int limit = s->epoch || s->loaded ? s->o->silence_ms : s->o->broker_wait_ms;
    if (silent_ms <= (uint64_t)limit)
        return true;
    bool strange = s->o->keys && !s->epoch && !s->loaded;
    return mtr_fail(err, MTR_TIMEOUT, "the broker at %s has been silent for %llu ms%s",
                    s->o->address, (unsigned long long)silent_ms,
                    strange ? " (does it run with that --server-key, and allow this --key?)" : "");
}

/* The loop turns, so the worker lives; one that hangs in a step says nothing and is started anew.
 */
static void notify_alive(struct session *s)
{
    uint64_t now = now_ns();
    if (now - s->notified_ns < NOTIFY_NS)
        return;
    s->notified_ns = now;
    sd_notify(0, "WATCHDOG=1");
}

static void wait_for_more(struct session *s)
{
    if (s->steps.count) {
        mtr_link_wait(s->link, s->o->signal_fd, STEP_POLL_US);
        return;
    }
    if (!s->idle_since_ns)
        s->idle_since_ns = now_ns();
    mtr_link_wait(s->link, s->o->signal_fd, POLL_MS * 1000);
}

static bool serve(struct session *s, struct mtr_error *err)
{
    bool any;
    while (!s->exiting) {
        notify_alive(s);
        if (!turn(s, &any, err))
            return false;
        if (signalled(s)) {
            mtr_info(s->log, "terminated by a signal after step %llu",
                     (unsigned long long)s->steps.last_step);
            break;
        }
        if (any)
            continue;
        if (!check_silence(s, err))
            return false;
        wait_for_more(s);
    }
    return mtr_steps_flush(&s->steps, err);
}

static void report_failure(struct session *s, const struct mtr_error *err)
{
    Mtr__Failure failure = MTR__FAILURE__INIT;
    Mtr__FromWorker message = MTR__FROM_WORKER__INIT;
    failure.code = (char *)mtr_code_name(err->code);
    failure.message = (char *)err->message;
    message.body_case = MTR__FROM_WORKER__BODY_FAILURE;
    message.failure = &failure;
    mtr_link_send(s->link, &message, POLL_MS, NULL);
}

bool mtr_session_run(const struct mtr_session_options *o, struct mtr_error *err)
{
    struct session s = {.o = o, .log = o->log};
    struct mtr_error why = {0};
    mtr_steps_init(&s.steps);
    s.steps.send = send_result;
    s.steps.context = &s;
    mtr_arena_init(&s.scratch, RESULT_BYTES);
    s.out.limit_bytes = MTR_WIRE_MAX_MESSAGE_BYTES;
    s.link = mtr_link_open(o->address, o->keys, &why);
    bool ok = s.link != NULL;
    if (ok) {
        s.backend = open_backend(o, o->threads, &why);
        ok = s.backend && say_hello(&s, &why) && serve(&s, &why);
        if (!ok)
            report_failure(&s, &why);
    }
    sd_notify(0, "STOPPING=1");
    mtr_unload_model(&s.model);
    if (s.backend)
        s.backend->ops->destroy(s.backend);
    mtr_link_close(s.link);
    mtr_buf_free(&s.out);
    mtr_arena_free(&s.scratch);
    mtr_steps_free(&s.steps);
    return ok || mtr_fail(err, why.code, "%s", why.message);
}
