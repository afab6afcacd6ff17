/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine's parts and what they share. Everything here but the inbox, the status and the flags
 * belongs to the scheduler thread.
 *
 *   engine.c   the thread's loop, creation and end
 *   jobs.c     requests into sequences, events of sequences into deliveries
 *   workers.c  the life of each worker: Hello, LoadModel, Ready, silence, loss
 *   budget.c   how long a choice may think, and its end by force
 *   admin.c    metralectl's requests
 */
#ifndef MTR_ENGINE_INTERNAL_H
#define MTR_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "broker/engine/engine.h"
#include "broker/sched/sched.h"
#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/wire/agreement.h"
#include "common/wire/codec.h"
#include "common/wire/plan.pb-c.h"
#include "common/wire/socket.h"

#define MTR_MAX_RANKS 64

/* One completion of one prompt. */
struct mtr_choice {
    struct mtr_job_state *state;
    uint64_t id; /* of the scheduler's sequence; 0: none */
    uint32_t index;
    bool open;
    bool quiet; /* its text stopped it: the client has said goodbye */
    bool cached_said;
    uint64_t seed;
    struct mtr_budget *budget; /* of reasoning; NULL: none */
};

struct mtr_job_state {
    struct mtr_message message; /* JOB, from the text thread */
    struct mtr_engine *engine;
    struct mtr_job *job;
    uint64_t serial;
    _Atomic bool cancelled;
    struct mtr_delivery *last; /* room for DONE, set aside */
    bool failed;               /* error says why there are no prompts */
    struct mtr_error error;
    struct mtr_ids *prompts; /* [request->prompt_count] */
    uint32_t choice_count, open_count;
    struct mtr_choice *choices;            /* [choice_count] */
    struct mtr_job_state *previous, *next; /* running jobs */
};

/* A message that names a job which may be over already. */
struct mtr_cancel {
    struct mtr_message message;
    uint64_t serial;
    uint32_t choice; /* UINT32_MAX: the whole job */
};

enum mtr_worker_state { MTR_WORKER_ABSENT, MTR_WORKER_LOADING, MTR_WORKER_READY };

struct mtr_worker {
    enum mtr_worker_state state;
    char peer[64]; /* routing id */
    uint8_t peer_len;
    uint64_t epoch;
    uint64_t seen_ns; /* last message */
    uint64_t step_ns; /* last result */
    uint64_t steps;
    uint64_t answered; /* the last step of this life */
    uint32_t restarts;
    uint32_t pid; /* as the kernel says, or as it says itself where the kernel does not know */
    int pidfd;    /* -1: not known to be on this machine */
    bool silent;
    char device[96];
    char phase[32];
    uint64_t done_bytes, total_bytes;
    uint64_t memory_total_bytes, memory_free_bytes;
    uint32_t group_blocks[MTR_MAX_GROUPS];
    uint32_t snapshots;
    struct mtr_agreement agreement; /* of Ready */
    char failure[200];              /* what it said before it went */
};

struct mtr_engine {
    struct mtr_engine_options options;
    struct mtr_served_model *model;
    struct mtr_metrics *metrics;
    struct mtr_log *log;
    struct mtr_clock clock;
    struct mtr_text_pool *pool;
    struct mtr_inbox inbox;
    pthread_t thread;
    bool thread_runs;

    struct mtr_wire *wire;
    struct mtr_socket *plan_socket, *admin_socket;
    int wake_fd; /* epoll of inbox, admin socket, process descriptors */
    int shutdown_fd;

    struct mtr_sched *sched;
    struct mtr_sched_config sched_config;
    struct mtr_worker workers[MTR_MAX_RANKS];
    uint64_t epoch;
    bool sched_has_worker, was_ready;
    uint64_t lost_ns; /* when the workers were last complete; for the grace time */
    uint64_t heartbeat_ns;
    uint64_t sent_ns, sent_step;    /* the last plan */
    struct mtr_sched_stats counted; /* what the metrics have seen */

    struct mtr_arena round; /* messages of one loop */
    struct mtr_buf packed;
    struct mtr_job_state *jobs;
    struct mtr_map serials;     /* serial -> struct mtr_job_state * */
    struct mtr_client *touched; /* clients with a pending delivery */
    _Atomic int32_t behind;     /* clients with too many deliveries before them */

    _Atomic uint64_t next_serial;
    _Atomic uint32_t job_count;
    _Atomic bool draining, aborting, stopping;
    uint64_t started_ns;

    pthread_mutex_t status_lock;
    struct mtr_engine_status status;
};

/* ---- jobs.c -----------------------------------------------------------------------------------
 */

void mtr_jobs_message(struct mtr_engine *e, struct mtr_message *m); /* JOB or CANCEL */
void mtr_jobs_events(struct mtr_engine *e); /* takes the scheduler's events */
void mtr_jobs_flush(struct mtr_engine *e);  /* posts the deliveries of this round */
void mtr_jobs_cancel_all(struct mtr_engine *e);

/* ---- budget.c ---------------------------------------------------------------------------------
 */

/* A budget for the choice's reasoning, if request or server set one and the model's reasoning can
 * be ended. False: no memory. */
bool mtr_budget_begin(struct mtr_choice *c, struct mtr_error *err);
void mtr_budget_end(struct mtr_choice *c);
/* Takes note of a token of the answer. True: the budget is spent, and what comes next is forced. */
bool mtr_budget_spent(struct mtr_choice *c, uint32_t token);
/* Is it spent before anything came? */
bool mtr_budget_is_nothing(const struct mtr_choice *c);
/* Was it spent? The sequence then goes on behind the forced tokens. */
bool mtr_budget_forces(const struct mtr_choice *c);
/* The answer so far, the forced tokens too once they were taken. */
const struct mtr_ids *mtr_budget_output(const struct mtr_choice *c);
/* Appends the forced tokens, at most `room` of them, to the output; *first of them is new. The
 * choice is then as any other. False: no memory. */
bool mtr_budget_force(struct mtr_choice *c, uint32_t room, size_t *first);

/* ---- workers.c --------------------------------------------------------------------------------
 */

void mtr_workers_receive(struct mtr_engine *e); /* drains the plan socket */
void mtr_workers_send_plans(struct mtr_engine *e);
void mtr_workers_tick(struct mtr_engine *e, uint64_t now_ns); /* heartbeats, silence, deaths */
void mtr_workers_exit(struct mtr_engine *e, const char *reason);

/* ---- admin.c ----------------------------------------------------------------------------------
 */

void mtr_admin_receive(struct mtr_engine *e);

/* ---- engine.c ---------------------------------------------------------------------------------
 */

/* Writes the snapshot that other threads read. */
void mtr_engine_publish(struct mtr_engine *e);
bool mtr_engine_watch(struct mtr_engine *e, int fd); /* adds to wake_fd */

#endif
