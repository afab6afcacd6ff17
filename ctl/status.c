/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * status and sequences, for people and as JSON.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "ctl/ctl.h"

/* ---- status -----------------------------------------------------------------------------------
 */

static void json_workers(struct mtr_json_writer *w, const Mtr__StatusReply *s)
{
    mtr_json_begin_array(w);
    for (size_t i = 0; i < s->n_workers; i++) {
        const Mtr__WorkerStatus *k = s->workers[i];
        mtr_json_begin_object(w);
        mtr_json_key(w, "rank");
        mtr_json_put_u64(w, k->rank);
        mtr_json_key(w, "pid");
        mtr_json_put_u64(w, k->pid);
        mtr_json_key(w, "state");
        mtr_json_put_cstr(w, k->state);
        mtr_json_key(w, "device");
        mtr_json_put_cstr(w, k->device);
        mtr_json_key(w, "memory_total_bytes");
        mtr_json_put_u64(w, k->memory_total_bytes);
        mtr_json_key(w, "memory_free_bytes");
        mtr_json_put_u64(w, k->memory_free_bytes);
        mtr_json_key(w, "last_step_age_ms");
        mtr_json_put_u64(w, k->last_step_age_ms);
        mtr_json_key(w, "steps");
        mtr_json_put_u64(w, k->steps);
        mtr_json_key(w, "restarts");
        mtr_json_put_u64(w, k->restarts);
        mtr_json_end_object(w);
    }
    mtr_json_end_array(w);
}

static void json_groups(struct mtr_json_writer *w, const Mtr__StatusReply *s)
{
    uint64_t used = 0, cached = 0, free_blocks = 0;
    mtr_json_key(w, "cache");
    mtr_json_begin_array(w);
    for (size_t i = 0; i < s->n_groups; i++) {
        const Mtr__GroupStatus *g = s->groups[i];
        used += g->used;
        cached += g->cached;
        free_blocks += g->free;
        mtr_json_begin_object(w);
        mtr_json_key(w, "name");
        mtr_json_put_cstr(w, g->name);
        mtr_json_key(w, "blocks");
        mtr_json_put_u64(w, g->blocks);
        mtr_json_key(w, "used");
        mtr_json_put_u64(w, g->used);
        mtr_json_key(w, "cached");
        mtr_json_put_u64(w, g->cached);
        mtr_json_key(w, "free");
        mtr_json_put_u64(w, g->free);
        mtr_json_end_object(w);
    }
    mtr_json_end_array(w);
    mtr_json_key(w, "blocks_used");
    mtr_json_put_u64(w, used);
    mtr_json_key(w, "blocks_cached");
    mtr_json_put_u64(w, cached);
    mtr_json_key(w, "blocks_free");
    mtr_json_put_u64(w, free_blocks);
}

static void print_status_json(const Mtr__StatusReply *s)
{
    struct mtr_buf out = {0};
    struct mtr_json_writer w = mtr_json_writer(&out);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "model");
    mtr_json_put_cstr(&w, s->model);
    mtr_json_key(&w, "state");
    mtr_json_put_cstr(&w, s->state);
    mtr_json_key(&w, "reason");
    mtr_json_put_cstr(&w, s->reason);
    mtr_json_key(&w, "uptime");
    mtr_json_put_f64(&w, (double)s->uptime_ms / 1000);
    mtr_json_key(&w, "version");
    mtr_json_put_cstr(&w, s->version);
    mtr_json_key(&w, "address");
    mtr_json_put_cstr(&w, s->address);
    mtr_json_key(&w, "running");
    mtr_json_put_u64(&w, s->running);
    mtr_json_key(&w, "waiting");
    mtr_json_put_u64(&w, s->waiting);
    mtr_json_key(&w, "workers");
    json_workers(&w, s);
    json_groups(&w, s);
    mtr_json_end_object(&w);
    printf("%.*s\n", (int)out.len, out.data);
    mtr_buf_free(&out);
}

static void print_status(const Mtr__StatusReply *s)
{
    uint64_t seconds = s->uptime_ms / 1000;
    printf("model      %s\n", s->model);
    printf("state      %s%s%s\n", s->state, s->reason[0] ? ": " : "", s->reason);
    printf("uptime     %llu:%02llu:%02llu\n", (unsigned long long)(seconds / 3600),
           (unsigned long long)(seconds / 60 % 60), (unsigned long long)(seconds % 60));
    printf("address    http://%s  (version %s)\n", s->address, s->version);
    printf("sequences  %u running, %u waiting\n", s->running, s->waiting);
    for (size_t i = 0; i < s->n_groups; i++)
        printf("cache      %s: %u blocks used, %u cached, %u free\n", s->groups[i]->name,
               s->groups[i]->used, s->groups[i]->cached, s->groups[i]->free);
    for (size_t i = 0; i < s->n_workers; i++) {
        const Mtr__WorkerStatus *k = s->workers[i];
        printf("worker[%u]  %s, pid %u, %s, %.1f of %.1f GB free, %llu steps, last %llu ms ago, %u "
               "restarts\n",
               k->rank, k->state, k->pid, k->device, (double)k->memory_free_bytes / 1e9,
               (double)k->memory_total_bytes / 1e9, (unsigned long long)k->steps,
               (unsigned long long)k->last_step_age_ms, k->restarts);
    }
}

/* ---- sequences --------------------------------------------------------------------------------
 */

static void print_sequences_json(const Mtr__SequencesReply *s)
{
    struct mtr_buf out = {0};
    struct mtr_json_writer w = mtr_json_writer(&out);
    mtr_json_begin_array(&w);
    for (size_t i = 0; i < s->n_sequences; i++) {
        const Mtr__SequenceStatus *q = s->sequences[i];
        mtr_json_begin_object(&w);
        mtr_json_key(&w, "id");
        mtr_json_put_u64(&w, q->id);
        mtr_json_key(&w, "request");
        mtr_json_put_cstr(&w, q->request);
        mtr_json_key(&w, "state");
        mtr_json_put_cstr(&w, q->state);
        mtr_json_key(&w, "prompt_tokens");
        mtr_json_put_u64(&w, q->prompt_tokens);
        mtr_json_key(&w, "cached_tokens");
        mtr_json_put_u64(&w, q->cached_tokens);
        mtr_json_key(&w, "output_tokens");
        mtr_json_put_u64(&w, q->output_tokens);
        mtr_json_key(&w, "age");
        mtr_json_put_f64(&w, (double)q->age_ms / 1000);
        mtr_json_end_object(&w);
    }
    mtr_json_end_array(&w);
    printf("%.*s\n", (int)out.len, out.data);
    mtr_buf_free(&out);
}

static void print_sequences(const Mtr__SequencesReply *s)
{
    printf("%8s  %-24s  %-8s  %8s  %8s  %8s  %8s\n", "id", "request", "state", "prompt", "cached",
           "output", "age s");
    for (size_t i = 0; i < s->n_sequences; i++) {
        const Mtr__SequenceStatus *q = s->sequences[i];
        printf("%8llu  %-24s  %-8s  %8u  %8u  %8u  %8.1f\n", (unsigned long long)q->id, q->request,
               q->state, q->prompt_tokens, q->cached_tokens, q->output_tokens,
               (double)q->age_ms / 1000);
    }
}

/* ---- Commands ---------------------------------------------------------------------------------
 */

static int ask(int argc, char **argv, const Mtr__AdminRequest *request)
{
    struct mtr_admin_target target = {0};
    struct mtr_flag flags[MTR_ADMIN_FLAGS + 2];
    struct mtr_error error = {0};
    struct mtr_arena arena;
    bool help = false, json = false;
    size_t n = mtr_admin_flags(&target, flags), positionals;
    flags[n++] = (struct mtr_flag){"json", MTR_FLAG_BOOL, &json, NULL, "print JSON", 0, 0, NULL};
    flags[n++] = (struct mtr_flag){"help", MTR_FLAG_BOOL, &help, NULL, "print this", 0, 0, NULL};
    if (!mtr_flags_parse(flags, n, argc, argv, NULL, 0, &positionals, &error))
        return mtr_ctl_error(argv[0], &error);
    if (help)
        return mtr_ctl_help(argv[0], flags, n);
    mtr_arena_init(&arena, 1u << 26);
    const Mtr__AdminReply *reply = mtr_admin_ask(&arena, &target, request, &error);
    if (reply && reply->status)
        (json ? print_status_json : print_status)(reply->status);
    else if (reply && reply->sequences)
        (json ? print_sequences_json : print_sequences)(reply->sequences);
    else if (reply)
        mtr_fail(&error, MTR_INTERNAL, "the server's answer is empty");
    mtr_arena_free(&arena);
    return error.code == MTR_OK ? 0 : mtr_ctl_error(argv[0], &error);
}

int mtr_ctl_status(int argc, char **argv)
{
    Mtr__AdminStatus body = MTR__ADMIN_STATUS__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    request.body_case = MTR__ADMIN_REQUEST__BODY_STATUS;
    request.status = &body;
    return ask(argc, argv, &request);
}

int mtr_ctl_sequences(int argc, char **argv)
{
    Mtr__AdminSequences body = MTR__ADMIN_SEQUENCES__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    request.body_case = MTR__ADMIN_REQUEST__BODY_SEQUENCES;
    request.sequences = &body;
    return ask(argc, argv, &request);
}
