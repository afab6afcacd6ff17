/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * scripted-worker: speaks the plan socket as metrale-worker does, with a scripted model behind it.
 * For tests of the broker: it loads nothing, answers at once or after a given time, says what it is
 * told to say, and dies, hangs or lies on command.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/wire/agreement.h"
#include "common/wire/codec.h"
#include "common/wire/plan.pb-c.h"
#include "common/wire/socket.h"
#include "tests/support/scripted_model.h"

#define HEARTBEAT_MS  500
#define MESSAGE_BYTES (1u << 30)
#define STAMP_STEPS   (1u << 20)
#define MAX_TOKENS    (1u << 22) /* of a file of recorded ones */

static const char help[] =
    "Usage: scripted-worker --connect ADDRESS [options]\n"
    "\n"
    "  --connect ADDRESS     the broker's plan socket\n"
    "  --rank N              this worker's rank (0)\n"
    "  --groups N            cache groups of the model (1)\n"
    "  --blocks N            capacity of each, in blocks (4096)\n"
    "  --vocab N             size of the vocabulary (49152)\n"
    "  --tokens FILE         numbers: the output of every sequence, over and over\n"
    "  --step-tokens FILE    numbers: step s gives every lane the one at s mod their count\n"
    "  --stamps FILE         writes there, at index s, when step s was answered (monotonic ns)\n"
    "  --check               keep block contents and check every read; tokens depend on them\n"
    "  --delay-us N          time that a step takes (0); the heart beats on\n"
    "  --load-ms N           time that loading takes (0)\n"
    "  --crash-after N       kill itself on receiving step N\n"
    "  --hang-after N        stop doing anything on receiving step N\n"
    "  --fail-after N        report a failure on receiving step N and exit\n"
    "  --lie-after N         answer step N with a token outside of the vocabulary\n";

enum option_id {
    OPT_CONNECT = 256,
    OPT_TOKENS,
    OPT_STEP_TOKENS,
    OPT_STAMPS,
    OPT_CHECK,
    OPT_HELP,
    OPT_NUMBERS, /* those behind are numbers[id - OPT_NUMBERS] */
    OPT_RANK = OPT_NUMBERS,
    OPT_GROUPS,
    OPT_BLOCKS,
    OPT_VOCAB,
    OPT_DELAY,
    OPT_LOAD,
    OPT_CRASH,
    OPT_HANG,
    OPT_FAIL,
    OPT_LIE,
    OPT_END,
};

static const struct option long_options[] = {
    {"connect", required_argument, NULL, OPT_CONNECT},
    {"tokens", required_argument, NULL, OPT_TOKENS},
    {"step-tokens", required_argument, NULL, OPT_STEP_TOKENS},
    {"stamps", required_argument, NULL, OPT_STAMPS},
    {"check", no_argument, NULL, OPT_CHECK},
    {"help", no_argument, NULL, OPT_HELP},
    {"rank", required_argument, NULL, OPT_RANK},
    {"groups", required_argument, NULL, OPT_GROUPS},
    {"blocks", required_argument, NULL, OPT_BLOCKS},
    {"vocab", required_argument, NULL, OPT_VOCAB},
    {"delay-us", required_argument, NULL, OPT_DELAY},
    {"load-ms", required_argument, NULL, OPT_LOAD},
    {"crash-after", required_argument, NULL, OPT_CRASH},
    {"hang-after", required_argument, NULL, OPT_HANG},
    {"fail-after", required_argument, NULL, OPT_FAIL},
    {"lie-after", required_argument, NULL, OPT_LIE},
    {NULL, 0, NULL, 0},
};

struct worker {
    const char *address, *tokens_path, *stamps_path;
    bool check, help, by_step;
    uint64_t numbers[OPT_END - OPT_NUMBERS];
    uint32_t *recorded;
    uint32_t recorded_count;
    uint64_t *stamps; /* [STAMP_STEPS] of the shared file, or NULL */

    struct mtr_wire *wire;
    struct mtr_socket *socket;
    struct mtr_arena message, scratch;
    struct mtr_buf out;
    struct mtr_scripted *model;
    uint64_t epoch, step, idle_since_ns, heartbeat_ns;
    bool exiting;
};

static uint64_t number(const struct worker *w, enum option_id id)
{
    return w->numbers[id - OPT_NUMBERS];
}

static uint64_t now_ns(void)
{
    struct mtr_clock c = mtr_clock_monotonic();
    return mtr_now_ns(&c);
}

static void sleep_ns(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / MTR_NS_PER_S), (long)(ns % MTR_NS_PER_S)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* ---- options ----------------------------------------------------------------------------------
 */

static bool parse(struct worker *w, int argc, char **argv)
{
    w->numbers[OPT_GROUPS - OPT_NUMBERS] = 1;
    w->numbers[OPT_BLOCKS - OPT_NUMBERS] = 4096;
    w->numbers[OPT_VOCAB - OPT_NUMBERS] = 49152;
    for (int id; (id = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        if (id == OPT_CONNECT)
            w->address = optarg;
        else if (id == OPT_TOKENS)
            w->tokens_path = optarg;
        else if (id == OPT_STEP_TOKENS)
            w->tokens_path = optarg, w->by_step = true;
        else if (id == OPT_STAMPS)
            w->stamps_path = optarg;
        else if (id == OPT_CHECK)
            w->check = true;
        else if (id == OPT_HELP)
            return !(w->help = true);
        else if (id < OPT_NUMBERS || id >= OPT_END ||
                 !mtr_str_to_u64(mtr_str(optarg), &w->numbers[id - OPT_NUMBERS]))
            return false;
    }
    return w->address && number(w, OPT_GROUPS) <= MTR_MAX_GROUPS;
}

/* Numbers, with anything else between them. */
static bool read_tokens(struct worker *w, struct mtr_error *err)
{
    struct mtr_arena arena;
    struct mtr_str text;
    mtr_arena_init(&arena, 0);
    bool ok = mtr_file_read(&arena, w->tokens_path, 64u << 20, &text, err);
    w->recorded = ok ? calloc(MAX_TOKENS, sizeof(uint32_t)) : NULL;
    for (size_t i = 0; ok && w->recorded && i < text.len && w->recorded_count < MAX_TOKENS;) {
        char *end;
        unsigned long id = strtoul(text.ptr + i, &end, 10);
        bool is_number = text.ptr[i] >= '0' && text.ptr[i] <= '9';
        if (is_number)
            w->recorded[w->recorded_count++] = (uint32_t)id;
        i = is_number ? (size_t)(end - text.ptr) : i + 1;
    }
    mtr_arena_free(&arena);
    return ok && (w->recorded_count > 0 ||
                  mtr_fail(err, MTR_INVALID, "%s: no token ids in it", w->tokens_path));
}

static bool open_stamps(struct worker *w, struct mtr_error *err)
{
    size_t size = STAMP_STEPS * sizeof(uint64_t);
    int fd = open(w->stamps_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        return mtr_fail_errno(err, "%s", w->stamps_path);
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return mtr_fail_errno(err, "%s", w->stamps_path);
    w->stamps = p;
    return true;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

static bool send_bytes(struct worker *w, struct mtr_error *err)
{
    for (int waited_ms = 0; waited_ms < 5000; waited_ms++) {
        if (mtr_socket_send(w->socket, (struct mtr_str){0}, mtr_buf_view(&w->out), err))
            return true;
        if (err->code != MTR_BUSY)
            return false;
        sleep_ns(MTR_NS_PER_MS);
    }
    return false;
}

static bool send_message(struct worker *w, Mtr__FromWorker *m, struct mtr_error *err)
{
    m->epoch = w->epoch;
    mtr_buf_clear(&w->out);
    return mtr_message_pack(&w->out, &m->base) && send_bytes(w, err);
}

static bool say_hello(struct worker *w, struct mtr_error *err)
{
    char host[256] = "";
    Mtr__Hello hello = MTR__HELLO__INIT;
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    gethostname(host, sizeof(host) - 1);
    hello.rank = (uint32_t)number(w, OPT_RANK);
    hello.protocol = MTR_PROTOCOL_VERSION;
    hello.build = (char *)MTR_VERSION;
    hello.pid = (uint32_t)getpid();
    hello.hardware = "host";
    hello.device = "scripted";
    hello.memory_total_bytes = hello.memory_free_bytes = 8ull << 30;
    hello.host = host;
    m.body_case = MTR__FROM_WORKER__BODY_HELLO;
    m.hello = &hello;
    return send_message(w, &m, err);
}

static bool say_ready(struct worker *w, const Mtr__LoadModel *load, struct mtr_error *err)
{
    static const uint8_t no_digest[32];
    struct mtr_agreement agreement;
    char *entries[MTR_AGREEMENT_ENTRIES];
    uint32_t blocks[MTR_MAX_GROUPS];
    Mtr__Ready ready = MTR__READY__INIT;
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    for (uint32_t g = 0; g < MTR_MAX_GROUPS; g++)
        blocks[g] = (uint32_t)number(w, OPT_BLOCKS);
    mtr_agreement_make(
        &agreement,
        &(struct mtr_agreement_facts){
            .build = MTR_VERSION,
            .hardware = "host",
            .precision = load->precision,
            .cache_format = load->cache_format,
            .plan_digest = load->plan_digest.len == 32 ? load->plan_digest.data : no_digest,
            .block_tokens = load->block_tokens,
            .max_slots = load->max_slots,
            .max_step_tokens = load->max_step_tokens,
            .max_step_outputs = load->max_step_outputs,
            .max_sequence_tokens = load->max_sequence_tokens,
            .world_size = load->world_size,
        });
    for (uint32_t i = 0; i < agreement.count; i++)
        entries[i] = agreement.entries[i];
    ready.budget_bytes = ready.cache_bytes = 1ull << 30;
    ready.n_group_blocks = number(w, OPT_GROUPS);
    ready.group_blocks = blocks;
    ready.n_agreement = agreement.count;
    ready.agreement = entries;
    m.body_case = MTR__FROM_WORKER__BODY_READY;
    m.ready = &ready;
    return send_message(w, &m, err);
}

static bool say_failure(struct worker *w, const struct mtr_error *why)
{
    struct mtr_error err = {0};
    Mtr__Failure failure = MTR__FAILURE__INIT;
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    failure.code = (char *)mtr_code_name(why->code);
    failure.message = (char *)why->message;
    m.body_case = MTR__FROM_WORKER__BODY_FAILURE;
    m.failure = &failure;
    return send_message(w, &m, &err);
}

static bool beat(struct worker *w, struct mtr_error *err)
{
    Mtr__Heartbeat heartbeat = MTR__HEARTBEAT__INIT;
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    if (w->epoch == 0 || now_ns() - w->heartbeat_ns < HEARTBEAT_MS * MTR_NS_PER_MS)
        return true; /* nothing is heard of a worker that has no epoch yet but Hello */
    w->heartbeat_ns = now_ns();
    heartbeat.sent_ns = w->heartbeat_ns;
    heartbeat.last_step = w->step;
    heartbeat.memory_free_bytes = 8ull << 30;
    m.body_case = MTR__FROM_WORKER__BODY_HEARTBEAT;
    m.heartbeat = &heartbeat;
    return send_message(w, &m, err);
}

/* ---- work -------------------------------------------------------------------------------------
 */

static bool handle_load(struct worker *w, uint64_t epoch, const Mtr__LoadModel *load,
                        struct mtr_error *err)
{
    struct mtr_scripted_config c = {.vocab = (uint32_t)number(w, OPT_VOCAB),
                                    .slots = load->max_slots,
                                    .block_tokens = load->block_tokens,
                                    .group_count = (uint32_t)number(w, OPT_GROUPS),
                                    .physical = w->check,
                                    .deep = w->check,
                                    .recorded = w->by_step ? NULL : w->recorded,
                                    .recorded_count = w->recorded_count};
    for (uint32_t g = 0; g < c.group_count; g++)
        c.group_blocks[g] = (uint32_t)number(w, OPT_BLOCKS);
    w->epoch = epoch;
    sleep_ns(number(w, OPT_LOAD) * MTR_NS_PER_MS);
    w->model = mtr_scripted_create(&c, err);
    return w->model && say_ready(w, load, err);
}

/* What was ordered for this step instead of an answer. */
static bool misbehave(struct worker *w, uint64_t step, struct mtr_step_result *result,
                      struct mtr_error *err)
{
    static const uint32_t nonsense = UINT32_MAX;
    if (step == number(w, OPT_CRASH))
        raise(SIGKILL);
    if (step == number(w, OPT_HANG))
        for (;;)
            pause();
    if (step == number(w, OPT_FAIL))
        return mtr_fail(err, MTR_IO, "the device was ordered to fail at step %llu",
                        (unsigned long long)step);
    for (uint32_t i = 0; step == number(w, OPT_LIE) && i < result->lane_count; i++)
        if (result->lanes[i].token_count > 0)
            ((struct mtr_lane_result *)result->lanes)[i].tokens = &nonsense;
    return true;
}

/* The same token for all lanes, which tells of which step it is. */
static void say_step(const struct worker *w, struct mtr_step_result *result)
{
    struct mtr_lane_result *lanes = (struct mtr_lane_result *)result->lanes;
    for (uint32_t i = 0; w->by_step && i < result->lane_count; i++)
        if (lanes[i].token_count > 0)
            lanes[i].tokens = &w->recorded[result->step % w->recorded_count];
}

/* A step that takes its time: the heart beats on, as in metrale-worker. */
static bool dawdle(struct worker *w, uint64_t ns, struct mtr_error *err)
{
    while (ns > HEARTBEAT_MS * MTR_NS_PER_MS) {
        sleep_ns(HEARTBEAT_MS * MTR_NS_PER_MS);
        ns -= HEARTBEAT_MS * MTR_NS_PER_MS;
        if (!beat(w, err))
            return false;
    }
    sleep_ns(ns);
    return true;
}

static bool handle_plan(struct worker *w, const Mtr__FromBroker *m, struct mtr_error *err)
{
    struct mtr_step_plan plan;
    struct mtr_step_result result;
    uint64_t begin = now_ns(), wait_ns = w->idle_since_ns ? begin - w->idle_since_ns : 0;
    if (!w->model || m->epoch != w->epoch)
        return mtr_fail(err, MTR_INVALID, "a plan of epoch %llu", (unsigned long long)m->epoch);
    if (!mtr_unpack_plan(&w->message, m, &plan, err) ||
        !mtr_scripted_step(w->model, &w->message, &plan, &result, err) ||
        !misbehave(w, plan.step, &result, err))
        return false;
    say_step(w, &result);
    uint64_t took = now_ns() - begin, delay = number(w, OPT_DELAY) * MTR_NS_PER_US;
    if (took < delay && !dawdle(w, delay - took, err))
        return false;
    w->step = plan.step;
    w->idle_since_ns = 0;
    result.device_ns = now_ns() - begin;
    result.wait_ns = wait_ns;
    if (number(w, OPT_RANK) != 0)
        result.lane_count = 0;
    mtr_arena_reset(&w->scratch);
    mtr_buf_clear(&w->out);
    if (w->stamps && plan.step < STAMP_STEPS)
        w->stamps[plan.step] = now_ns();
    return mtr_pack_result(&w->scratch, &w->out, w->epoch, &result) && send_bytes(w, err);
}

static bool handle(struct worker *w, const Mtr__FromBroker *m, struct mtr_error *err)
{
    switch (m->body_case) {
    case MTR__FROM_BROKER__BODY_LOAD:
        return handle_load(w, m->epoch, m->load, err);
    case MTR__FROM_BROKER__BODY_PLAN:
        return handle_plan(w, m, err);
    case MTR__FROM_BROKER__BODY_EXIT:
        w->exiting = true;
        return true;
    default:
        return true;
    }
}

static bool drain(struct worker *w, struct mtr_error *err)
{
    struct mtr_str peer, bytes;
    while (!w->exiting) {
        mtr_arena_reset(&w->message);
        if (!mtr_socket_receive(w->socket, &w->message, &peer, &bytes, err))
            return false;
        if (!bytes.ptr)
            return true;
        const Mtr__FromBroker *m =
            mtr_message_unpack(&w->message, &mtr__from_broker__descriptor, bytes, err);
        if (!m || !handle(w, m, err))
            return false;
    }
    return true;
}

static bool serve(struct worker *w, struct mtr_error *err)
{
    w->wire = mtr_wire_create(err);
    if (!w->wire)
        return false;
    w->socket = mtr_socket_connect(w->wire, MTR_SOCKET_DEALER, w->address, NULL, err);
    if (!w->socket || !say_hello(w, err))
        return false;
    while (!w->exiting) {
        if (!beat(w, err) || !drain(w, err))
            return false;
        if (w->exiting)
            break;
        if (!w->idle_since_ns)
            w->idle_since_ns = now_ns();
        mtr_socket_wait(w->socket, -1, HEARTBEAT_MS);
    }
    return true;
}

int main(int argc, char **argv)
{
    struct worker w = {0};
    struct mtr_error err = {0};
    mtr_arena_init(&w.message, MESSAGE_BYTES);
    mtr_arena_init(&w.scratch, MESSAGE_BYTES);
    if (!parse(&w, argc, argv)) {
        fputs(help, w.help ? stdout : stderr);
        return w.help ? 0 : 2;
    }
    bool ok = (!w.tokens_path || read_tokens(&w, &err)) &&
              (!w.stamps_path || open_stamps(&w, &err)) && serve(&w, &err);
    if (!ok) {
        fprintf(stderr, "scripted-worker: %s\n", err.message);
        if (w.socket)
            say_failure(&w, &err);
    }
    mtr_scripted_destroy(w.model);
    mtr_socket_close(w.socket);
    mtr_wire_destroy(w.wire);
    mtr_buf_free(&w.out);
    mtr_arena_free(&w.message);
    mtr_arena_free(&w.scratch);
    free(w.recorded);
    return ok ? 0 : 1;
}
