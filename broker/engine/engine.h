/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine: turns requests into tokens.
 *
 * It owns the model's text side (tokenizer, template), the scheduler and the connections to the
 * workers, and runs one scheduler thread and a few text threads. HTTP threads talk to it by
 * messages only:
 *
 *   HTTP thread             text thread               scheduler thread
 *   mtr_engine_submit ----> template, tokens -------> scheduler ---> plans ---> workers
 *   client->deliver  <----------------------- events <------------- results <--
 *
 * A job belongs to who submits it and must live until its last delivery (MTR_JOB_DONE), also when
 * the client is gone: mtr_engine_cancel() makes that come soon.
 */
#ifndef MTR_ENGINE_H
#define MTR_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/api/chat_request.h"
#include "broker/api/out_event.h"
#include "broker/engine/inbox.h"
#include "broker/engine/model.h"
#include "broker/engine/text_pool.h"
#include "broker/telemetry/metrics.h"
#include "common/base/log.h"

struct mtr_engine;
struct mtr_job;

/* ---- Deliveries: what a job's client hears -------------------------------------------------- */

enum mtr_job_event_kind {
    MTR_JOB_STARTED, /* the prompt was accepted; prompt_tokens is known */
    MTR_JOB_TOKEN,
    MTR_JOB_FINISH, /* one choice ended */
    MTR_JOB_ERROR,  /* the whole job failed; error is set */
    MTR_JOB_DONE,   /* the last event: the engine has forgotten the job */
};

struct mtr_job_event {
    struct mtr_job *job;
    enum mtr_job_event_kind kind;
    uint32_t choice;                           /* prompt * n + completion */
    uint32_t token;                            /* TOKEN */
    const struct mtr_token_logprobs *logprobs; /* TOKEN: or NULL; lives as long as the delivery */
    bool prompt;                               /* TOKEN: an echoed prompt token */
    uint32_t cached_tokens;                    /* TOKEN, FINISH: of a prompt, said once for each */
    enum mtr_end end;                          /* FINISH */
    const struct mtr_error *error;             /* ERROR */
    uint32_t retry_s;                          /* ERROR: when to try again, or 0 */
};

/* What one step said to one client, in its own arena. The client takes it from its inbox and frees
 * it. */
struct mtr_delivery {
    struct mtr_message message; /* kind MTR_MESSAGE_DELIVERY */
    struct mtr_arena arena;
    uint32_t count;
    size_t cap;
    struct mtr_job_event *events; /* [count] */
};

void mtr_delivery_free(struct mtr_delivery *d);

/* An HTTP thread. */
struct mtr_client {
    struct mtr_inbox *inbox;         /* where deliveries are posted */
    struct mtr_delivery *pending;    /* the scheduler thread's: what this round has for it so far */
    struct mtr_client *next_touched; /* the scheduler thread's */
    _Atomic uint32_t waiting;        /* deliveries in its inbox */
};

/* A client has acted on so many deliveries. While one has MTR_MAX_WAITING_DELIVERIES before it, no
 * step is planned: where HTTP can't keep up with the model, tokens would only grow old in a queue.
 */
#define MTR_MAX_WAITING_DELIVERIES 4
void mtr_client_took(struct mtr_engine *e, struct mtr_client *client, uint32_t deliveries);

/* ---- Jobs ------------------------------------------------------------------------------------ */

struct mtr_job {
    struct mtr_client *client;
    struct mtr_chat_request *request; /* lives as long as the job */
    /* Fills the request, on a text thread: bodies may be large. */
    bool (*read)(struct mtr_job *job, struct mtr_error *err);
    const char *name; /* request id, for logs and lists */
    uint64_t arrived_ns;
    uint32_t prompt_tokens; /* sum over prompts, set before STARTED */

    struct mtr_job_state *state; /* the engine's */
    struct mtr_task task;        /* the engine's */
};

/* From any thread. The job will get events until DONE; refusals come as ERROR then DONE. False: no
 * memory, and the engine never heard of it. */
bool mtr_engine_submit(struct mtr_engine *e, struct mtr_job *job, struct mtr_error *err);

/* From any thread, any number of times before DONE was delivered. */
void mtr_engine_cancel(struct mtr_engine *e, struct mtr_job *job);

/* Ends one choice whose text stopped it (stop string); others go on. */
void mtr_engine_stop_choice(struct mtr_engine *e, struct mtr_job *job, uint32_t choice);

/* ---- State ----------------------------------------------------------------------------------- */

enum mtr_engine_state {
    MTR_ENGINE_LOADING,
    MTR_ENGINE_READY,
    MTR_ENGINE_DEGRADED, /* a worker is gone or silent */
    MTR_ENGINE_DRAINING,
    MTR_ENGINE_STOPPING,
};

struct mtr_engine_status {
    enum mtr_engine_state state;
    char reason[160]; /* for people, "" when ready */
    uint32_t running, waiting;
    char device[96]; /* that rank 0 computes on, "" while there is none */
};

/* A snapshot; cheap, from any thread. */
void mtr_engine_status(struct mtr_engine *e, struct mtr_engine_status *out);
const char *mtr_engine_state_name(enum mtr_engine_state s);

const struct mtr_served_model *mtr_engine_model(const struct mtr_engine *e);
struct mtr_text_pool *mtr_engine_text_pool(struct mtr_engine *e);
struct mtr_metrics *mtr_engine_metrics(struct mtr_engine *e);

struct mtr_engine_options {
    const char *plan_address;         /* where workers connect */
    const char *admin_address;        /* ipc path of the admin socket */
    const char *http_address;         /* for status: "127.0.0.1:8888" */
    const struct mtr_wire_keys *keys; /* for tcp, or NULL */
    uint32_t world_size;
    uint32_t text_threads;
    bool dummy_weights; /* random ones instead of the checkpoint's */
    uint64_t dummy_seed;
    uint32_t worker_threads; /* host class; 0: all cores */
    const char *cache_format;
    uint64_t cache_bytes; /* 0: from memory_percent */
    uint32_t memory_percent;
    uint64_t reserve_bytes;
    uint32_t max_batch_size, max_num_seqs, max_prefill_tokens, max_seq_len;
    bool prefix_caching;
    /* Recurrent models: snapshots of states, and blocks between those within a prompt. */
    uint32_t state_snapshots, snapshot_interval_blocks;
    bool slai;
    uint32_t tbt_deadline_ms;
    uint64_t request_timeout_ms; /* 0: none */
    uint64_t grace_ms;           /* how long streams wait for a lost worker */
};

struct mtr_engine *mtr_engine_create(const struct mtr_engine_options *options,
                                     struct mtr_served_model *model, struct mtr_metrics *metrics,
                                     struct mtr_log *log, struct mtr_error *err);

/* Refuses new jobs from now on; running ones go on. */
void mtr_engine_drain(struct mtr_engine *e);
void mtr_engine_resume(struct mtr_engine *e);
bool mtr_engine_idle(struct mtr_engine *e); /* no job is left */

/* Ends every job with an error that says that the server stops. After mtr_engine_drain. */
void mtr_engine_abort(struct mtr_engine *e);

/* Tells workers to exit, ends the threads. Nobody else may use the engine any more; jobs that are
 * left get a last delivery, so their clients' inboxes must still be there. */
void mtr_engine_destroy(struct mtr_engine *e);

/* Set by an admin's shutdown: main should drain and exit. Readable when it happens. */
int mtr_engine_shutdown_fd(struct mtr_engine *e);

#endif
