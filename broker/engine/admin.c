/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What metralectl asks. One request, one answer, on the scheduler thread, so that all of it is
 * true at the same moment.
 */
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "broker/engine/internal.h"
#include "common/wire/admin.pb-c.h"

#define MAX_LISTED 10000

static const char *worker_state_name(const struct mtr_worker *w)
{
    static const char *const names[] = {"absent", "loading", "ready"};
    return w->silent ? "silent" : names[w->state];
}

static bool fill_workers(struct mtr_engine *e, Mtr__StatusReply *reply, uint64_t now)
{
    uint32_t n = e->options.world_size;
    reply->workers = mtr_arena_calloc(&e->round, n, sizeof *reply->workers);
    Mtr__WorkerStatus *list = mtr_arena_calloc(&e->round, n, sizeof *list);
    if (!reply->workers || !list)
        return false;
    reply->n_workers = n;
    for (uint32_t r = 0; r < n; r++) {
        const struct mtr_worker *w = &e->workers[r];
        mtr__worker_status__init(&list[r]);
        list[r].rank = r;
        list[r].pid = w->state == MTR_WORKER_ABSENT ? 0 : w->pid;
        list[r].state = (char *)worker_state_name(w);
        list[r].device = (char *)w->device;
        list[r].memory_total_bytes = w->memory_total_bytes;
        list[r].memory_free_bytes = w->memory_free_bytes;
        list[r].last_step_age_ms = w->step_ns ? (now - w->step_ns) / MTR_NS_PER_MS : 0;
        list[r].steps = w->steps;
        list[r].restarts = w->restarts;
        reply->workers[r] = &list[r];
    }
    return true;
}

static bool fill_groups(struct mtr_engine *e, Mtr__StatusReply *reply,
                        const struct mtr_sched_stats *stats)
{
    uint32_t n = stats->group_count;
    reply->groups = mtr_arena_calloc(&e->round, n + 1, sizeof *reply->groups);
    Mtr__GroupStatus *list = mtr_arena_calloc(&e->round, n + 1, sizeof *list);
    if (!reply->groups || !list)
        return false;
    reply->n_groups = n;
    for (uint32_t g = 0; g < n; g++) {
        mtr__group_status__init(&list[g]);
        list[g].name = (char *)e->model->plan->groups[g].name;
        list[g].blocks = stats->groups[g].blocks;
        list[g].used = stats->groups[g].used;
        list[g].cached = stats->groups[g].cached;
        list[g].free = stats->groups[g].free;
        reply->groups[g] = &list[g];
    }
    return true;
}

static bool answer_status(struct mtr_engine *e, Mtr__AdminReply *reply)
{
    uint64_t now = mtr_now_ns(&e->clock);
    struct mtr_sched_stats stats;
    Mtr__StatusReply *s = mtr_arena_alloc(&e->round, sizeof *s);
    struct mtr_engine_status *status = mtr_arena_alloc(&e->round, sizeof *status);
    if (!s || !status)
        return false;
    mtr__status_reply__init(s);
    mtr_sched_stats(e->sched, &stats);
    mtr_engine_publish(e);
    mtr_engine_status(e, status);
    s->model = mtr_arena_strdup(&e->round, e->model->name);
    s->state = (char *)mtr_engine_state_name(status->state);
    s->reason = status->reason;
    s->uptime_ms = (now - e->started_ns) / MTR_NS_PER_MS;
    s->was_ready = e->was_ready;
    s->running = stats.running;
    s->waiting = stats.waiting;
    s->version = (char *)MTR_VERSION;
    s->address = (char *)e->options.http_address;
    reply->status = s;
    return s->model && fill_workers(e, s, now) && fill_groups(e, s, &stats);
}

static bool answer_sequences(struct mtr_engine *e, Mtr__AdminReply *reply)
{
    static const char *const states[] = {"waiting", "prefill", "decode"};
    uint64_t now = mtr_now_ns(&e->clock);
    struct mtr_sched_info *info = mtr_arena_calloc(&e->round, MAX_LISTED, sizeof *info);
    if (!info)
        return false;
    size_t n = mtr_sched_list(e->sched, info, MAX_LISTED);
    if (n > MAX_LISTED)
        n = MAX_LISTED;
    Mtr__SequencesReply *s = mtr_arena_alloc(&e->round, sizeof *s);
    Mtr__SequenceStatus *list = mtr_arena_calloc(&e->round, n + 1, sizeof *list);
    Mtr__SequenceStatus **pointers = mtr_arena_calloc(&e->round, n + 1, sizeof *pointers);
    if (!s || !list || !pointers)
        return false;
    mtr__sequences_reply__init(s);
    for (size_t i = 0; i < n; i++) {
        const struct mtr_choice *c = info[i].user;
        mtr__sequence_status__init(&list[i]);
        list[i].id = info[i].id;
        list[i].state = (char *)states[info[i].state];
        list[i].prompt_tokens = info[i].prompt_tokens;
        list[i].cached_tokens = info[i].cached_tokens;
        list[i].output_tokens = info[i].output_tokens;
        list[i].age_ms = (now - info[i].submitted_ns) / MTR_NS_PER_MS;
        list[i].request = (char *)c->state->job->name;
        pointers[i] = &list[i];
    }
    s->sequences = pointers;
    s->n_sequences = n;
    reply->sequences = s;
    return true;
}

static void set_log_level(struct mtr_engine *e, const char *name, Mtr__AdminReply *reply)
{
    enum mtr_level level;
    if (mtr_level_parse(name, &level))
        mtr_log_set_level(e->log, level);
    else
        reply->error = "the log level must be error, warn, info or debug";
}

static void answer(struct mtr_engine *e, const Mtr__AdminRequest *request, Mtr__AdminReply *reply)
{
    uint64_t one = 1;
    bool ok = true;
    switch (request->body_case) {
    case MTR__ADMIN_REQUEST__BODY_STATUS:
        ok = answer_status(e, reply);
        break;
    case MTR__ADMIN_REQUEST__BODY_SEQUENCES:
        ok = answer_sequences(e, reply);
        break;
    case MTR__ADMIN_REQUEST__BODY_DRAIN:
        mtr_engine_drain(e);
        mtr_engine_publish(e); /* true before it is said */
        break;
    case MTR__ADMIN_REQUEST__BODY_RESUME:
        mtr_engine_resume(e);
        mtr_engine_publish(e);
        break;
    case MTR__ADMIN_REQUEST__BODY_SHUTDOWN:
        ok = write(e->shutdown_fd, &one, sizeof one) == sizeof one;
        break;
    case MTR__ADMIN_REQUEST__BODY_LOG_LEVEL:
        set_log_level(e, request->log_level->level, reply);
        break;
    default:
        reply->error = "this broker does not know that request";
    }
    if (!ok)
        reply->error = "out of memory answering";
}

void mtr_admin_receive(struct mtr_engine *e)
{
    for (;;) {
        struct mtr_str peer, bytes;
        struct mtr_error error = {0};
        Mtr__AdminReply reply = MTR__ADMIN_REPLY__INIT;
        if (!mtr_socket_receive(e->admin_socket, &e->round, &peer, &bytes, &error)) {
            mtr_warn(e->log, "the admin socket failed: %s", error.message);
            return;
        }
        if (!bytes.ptr)
            return;
        const Mtr__AdminRequest *request =
            mtr_message_unpack(&e->round, &mtr__admin_request__descriptor, bytes, &error);
        if (request)
            answer(e, request, &reply);
        else
            reply.error = error.message;
        mtr_buf_clear(&e->packed);
        if (!mtr_message_pack(&e->packed, &reply.base) ||
            !mtr_socket_send(e->admin_socket, (struct mtr_str){0}, mtr_buf_view(&e->packed),
                             &error))
            mtr_warn(e->log, "an answer to metralectl was not sent: %s", error.message);
    }
}
