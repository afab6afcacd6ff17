/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * metrale-broker: options, model, engine, HTTP; then waiting for signals.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "broker/engine/engine.h"
#include "broker/http/server.h"
#include "broker/options.h"
#include "broker/probe.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/circuit/rules.h"
#include "common/circuit/target.h"
#include "common/wire/address.h"
#include "common/wire/socket.h"

#define MAX_ALLOWED_KEYS 256
#define EXIT_USAGE       2
#define STATUS_EVERY_MS  1000
#define LARGE_BYTES      (1 << 20) /* such pieces are given back to the system when they are free */
#define SCORE_ROWS       64 /* rows of logits beside sampled ones: scored prompts take turns */
#define LAST_WORDS_NS    (2 * MTR_NS_PER_S) /* for errors to reach clients whose time is over */

struct broker {
    struct mtr_broker_options options;
    struct mtr_log log;
    struct mtr_arena arena;
    struct mtr_wire_keys keys;
    struct mtr_metrics metrics;
    struct mtr_served_model *model;
    struct mtr_engine *engine;
    struct mtr_access *access;
    struct mtr_store *store;
    struct mtr_http *http;
    int signal_fd;
    bool made_run_dir, chose_hardware;
};

/* ---- Setup ------------------------------------------------------------------------------------
 */

/* Signals are taken from a descriptor by the main thread; all others are born with them blocked. */
static bool block_signals(struct broker *b, struct mtr_error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 ||
        (b->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return mtr_fail_errno(err, "can't watch signals");
    return true;
}

/* Every connection is a descriptor: as many as the system allows. */
static void raise_descriptor_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static bool resolve_addresses(struct broker *b, struct mtr_error *err)
{
    struct mtr_broker_options *o = &b->options;
    if (!o->run_dir)
        o->run_dir = mtr_default_run_dir(&b->arena, o->port);
    if (!o->plan_address)
        o->plan_address = mtr_plan_address(&b->arena, o->run_dir);
    if (!o->admin_socket)
        o->admin_socket = mtr_admin_address(&b->arena, o->run_dir);
    b->made_run_dir = mkdir(o->run_dir, 0750) == 0;
    if (!b->made_run_dir && errno != EEXIST)
        return mtr_fail_errno(err, "can't make the directory %s (see --run-dir)", o->run_dir);
    return true;
}

static bool read_allowed(struct broker *b, const char *path, struct mtr_error *err)
{
    struct mtr_str text;
    char(*allowed)[41] = mtr_arena_calloc(&b->arena, MAX_ALLOWED_KEYS, sizeof *allowed);
    if (!allowed)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading %s", path);
    if (!mtr_file_read(&b->arena, path, 1u << 20, &text, err))
        return false;
    for (size_t at = 0; at < text.len;) {
        size_t end = mtr_str_find(text, MTR_STR("\n"), at);
        struct mtr_str line = mtr_str_sub(text, at, end == SIZE_MAX ? text.len : end - at);
        at = end == SIZE_MAX ? text.len : end + 1;
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        if (line.len != 40 || b->keys.allowed_count == MAX_ALLOWED_KEYS)
            return mtr_fail(err, MTR_INVALID,
                            "%s: each line must be a public key of 40 characters, at most %d", path,
                            MAX_ALLOWED_KEYS);
        memcpy(allowed[b->keys.allowed_count++], line.ptr, 40);
    }
    b->keys.allowed = (const char(*)[41])allowed;
    return true;
}

static bool read_keys(struct broker *b, struct mtr_error *err)
{
    const struct mtr_broker_options *o = &b->options;
    if (!o->curve_key)
        return true;
    struct mtr_str secret = mtr_str(o->curve_key);
    if (!mtr_str_ends(secret, MTR_STR(".key")))
        return mtr_fail(err, MTR_INVALID, "--curve-key takes a file named NAME.key, not %s",
                        o->curve_key);
    const char *public = mtr_arena_printf(&b->arena, "%.*s.pub", (int)(secret.len - 4), secret.ptr);
    return mtr_wire_read_key(o->curve_key, true, b->keys.secret_key, err) &&
           mtr_wire_read_key(public, false, b->keys.public_key, err) &&
           (!o->curve_allow || read_allowed(b, o->curve_allow, err));
}

/* What the class would have, where nobody said it. */
static void take_defaults(struct mtr_broker_options *o)
{
    const struct mtr_hardware *h = mtr_hardware_find(o->hardware);
    if (h && !o->max_batch_size)
        o->max_batch_size = h->max_batch_size;
    if (h && !o->max_prefill_tokens)
        o->max_prefill_tokens = h->max_prefill_tokens;
}

/* The class that the plan is made for. Only auto needs to be asked for; a worker of another class
 * is refused when it says hello. */
static bool choose_hardware(struct broker *b, struct mtr_error *err)
{
    struct mtr_broker_options *o = &b->options;
    struct mtr_probe probe = {0};
    if (strcmp(o->hardware, "auto") != 0)
        return take_defaults(o), true;
    if (!mtr_probe_worker(&b->arena, o->hardware, o->device, &probe, err))
        return mtr_error_prefix(err, "which kernel class (see --hardware)");
    o->hardware = probe.hardware;
    b->chose_hardware = true;
    take_defaults(o);
    mtr_info(&b->log, "class %s: %s%s%s", probe.hardware, probe.device, probe.note ? "; " : "",
             probe.note ? probe.note : "");
    return true;
}

static bool load_model(struct broker *b, struct mtr_error *err)
{
    const struct mtr_broker_options *o = &b->options;
    struct mtr_served_model_options m = {
        .model = o->model,
        .cache_dir = o->cache_dir,
        .name = o->model_name,
        .hardware = o->hardware,
        .precision = o->precision,
        .dummy_weights = strcmp(o->load_format, "dummy") == 0,
        .cache_format = o->kv_cache_dtype,
        .limits =
            {
                .max_step_tokens = o->max_prefill_tokens + o->max_batch_size,
                .max_step_outputs = o->max_batch_size + SCORE_ROWS,
                .max_lanes = o->max_batch_size,
                .max_sequence_tokens = o->max_seq_len,
            },
        .template_file = o->chat_template,
        .auto_compact = o->auto_compact,
        .tool_parser = o->tool_parser,
        .reasoning_parser = o->reasoning_parser,
        .disable_thinking = o->disable_thinking,
        .max_thinking_budget = o->max_thinking_budget,
    };
    struct mtr_clock clock = mtr_clock_monotonic();
    uint64_t start = mtr_now_ns(&clock);
    b->model = mtr_served_model_load(&m, err);
    if (!b->model && err->code == MTR_UNSUPPORTED && b->chose_hardware &&
        strcmp(o->hardware, "host") != 0)
        mtr_warn(&b->log, "class %s was chosen for the device; --hardware host may have more",
                 o->hardware);
    if (!b->model) /* what names the file already need not do so twice */
        return strncmp(err->message, o->model, strlen(o->model)) != 0 &&
               mtr_error_prefix(err, "%s", o->model);
    mtr_info(&b->log, "model %.*s: %s, %s, %u tokens of context (%.0f ms)",
             MTR_STR_ARG(b->model->name), b->model->plan->circuit,
             mtr_tokenizer_describe(b->model->tokenizer), b->model->max_sequence_tokens,
             (double)(mtr_now_ns(&clock) - start) / 1e6);
    if (b->model->target)
        mtr_info(&b->log,
                 "taken for %s: sampling and template as class %s has them where neither "
                 "request nor checkpoint says",
                 b->model->target->model, b->model->plan->hardware);
    const struct mtr_formats *f = &b->model->formats;
    if (b->model->chat_template)
        mtr_info(&b->log, "tool calls as %s, reasoning as %s", f->tools ? f->tools->name : "none",
                 f->reasoning ? f->reasoning->name : "none");
    if (!b->model->chat_template)
        mtr_warn(&b->log, "the model has no chat template: /v1/chat/completions will refuse");
    return true;
}

static bool start_engine(struct broker *b, struct mtr_error *err)
{
    const struct mtr_broker_options *o = &b->options;
    struct mtr_engine_options e = {
        .plan_address = o->plan_address,
        .admin_address = o->admin_socket,
        .http_address = mtr_arena_printf(&b->arena, "%s:%u", o->bind, o->port),
        .keys = o->curve_key ? &b->keys : NULL,
        .world_size = o->world_size,
        .text_threads = o->text_threads,
        .worker_threads = o->threads,
        .dummy_weights = strcmp(o->load_format, "dummy") == 0,
        .dummy_seed = o->dummy_seed,
        .cache_format = o->kv_cache_dtype,
        .cache_bytes = (uint64_t)o->kv_cache_mb << 20,
        .memory_percent = (uint32_t)(o->memory_utilization * 100),
        .reserve_bytes = (uint64_t)o->oom_guard_mb << 20,
        .max_batch_size = o->max_batch_size,
        .max_num_seqs = o->max_num_seqs,
        .max_prefill_tokens = o->max_prefill_tokens,
        .prefix_caching = o->prefix_caching,
        .state_snapshots = o->ssm_cache_slots,
        .snapshot_interval_blocks = o->ssm_checkpoint_interval,
        .slai = strcmp(o->scheduler, "slai") == 0,
        .tbt_deadline_ms = o->tbt_deadline_ms,
        .request_timeout_ms = (uint64_t)o->request_timeout_s * 1000,
        .grace_ms = (uint64_t)o->worker_grace_s * 1000,
    };
    b->engine = mtr_engine_create(&e, b->model, &b->metrics, &b->log, err);
    return b->engine != NULL;
}

/* systemd says where state belongs; for others it is where their user's programs keep theirs. */
static const char *state_directory(struct broker *b)
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"STATE_DIRECTORY", ""}, {"XDG_STATE_HOME", "/metrale"}, {"HOME", "/.local/state/metrale"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = getenv(places[i].variable);
        if (value && value[0])
            return mtr_arena_printf(&b->arena, "%s%s", value, places[i].below);
    }
    return b->options.run_dir;
}

static void make_directories(struct broker *b, const char *path)
{
    char *part = mtr_arena_strdup(&b->arena, mtr_str(path));
    for (char *p = part ? part + 1 : NULL; p && *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(part, 0700);
            *p = '/';
        }
    mkdir(path, 0700);
}

/* A file that was asked for must be there; without one the server serves all that needs none. */
static bool open_store(struct broker *b, struct mtr_error *err)
{
    const struct mtr_broker_options *o = &b->options;
    struct mtr_store_options s = {.path = o->store,
                                  .max_bytes = (uint64_t)o->store_max_mb << 20,
                                  .max_age_s = (int64_t)o->store_max_days * 86400};
    if (o->store && strcmp(o->store, "none") == 0)
        return true;
    if (!o->store) {
        const char *directory = state_directory(b);
        make_directories(b, directory);
        s.path = mtr_arena_printf(&b->arena, "%s/%u.db", directory, o->port);
    }
    b->store = mtr_store_open(&s, &b->log, err);
    if (b->store)
        mtr_info(&b->log, "responses and conversations are kept in %s", s.path);
    else if (!o->store)
        mtr_warn(&b->log, "responses can't be kept: %s", err->message);
    return b->store || !o->store;
}

static bool start_http(struct broker *b, struct mtr_error *err)
{
    const struct mtr_broker_options *o = &b->options;
    struct mtr_rate_limits limits = {o->rate_limit_rpm, o->rate_burst_rpm, o->rate_limit_tpm,
                                     o->rate_burst_tpm};
    bool keys = o->auth_token || o->auth_tokens_file;
    struct mtr_http_options h = {
        .bind = o->bind,
        .port = (uint16_t)o->port,
        .listen_fd = sd_listen_fds(1) >= 1 ? SD_LISTEN_FDS_START : -1,
        .tls_cert = o->tls_cert,
        .tls_key = o->tls_key,
        .cors_origin = o->cors_origin,
        .threads = o->http_threads,
        .max_body_bytes = o->max_body_bytes,
        .request_memory_bytes = (size_t)o->max_request_mb << 20,
        .client_timeout_ms = (uint64_t)o->client_timeout_s * 1000,
        .store = b->store,
        .keepalive_ms = (uint64_t)o->keepalive_s * 1000,
        .strict_model = o->strict_model,
        .protect_helpers = keys,
    };
    b->access = mtr_access_create(&limits);
    if (!b->access)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    if (!mtr_access_load(b->access, o->auth_token, o->auth_tokens_file, err))
        return false;
    b->http = mtr_http_start(&h, b->engine, b->access, &b->log, err);
    if (!b->http)
        return false;
    mtr_info(&b->log, "listening on http%s://%s:%u%s", o->tls_cert ? "s" : "", o->bind,
             mtr_http_port(b->http), keys ? " (API key needed)" : "");
    return true;
}

/* ---- Running ----------------------------------------------------------------------------------
 */

static void say_reread(struct broker *b, bool ok, const char *what, const struct mtr_error *why)
{
    if (ok)
        mtr_info(&b->log, "the %s read again", what);
    else
        mtr_error_log(&b->log, "the %s not read again, nothing changes: %s", what, why->message);
}

/* What stands in files; the rest of the settings holds for the broker's life. */
static void reload(struct broker *b)
{
    struct mtr_error error = {0};
    const struct mtr_broker_options *o = &b->options;
    if (o->log_level_file)
        say_reread(b, mtr_log_read_level(&b->log, o->log_level_file, &error), "log level was",
                   &error);
    if (o->auth_tokens_file)
        say_reread(b, mtr_access_load(b->access, o->auth_token, o->auth_tokens_file, &error),
                   "API keys were", &error);
    if (!o->log_level_file && !o->auth_tokens_file)
        mtr_info(&b->log, "nothing is to be read again: neither --log-level-file nor "
                          "--auth-tokens-file was given");
}

/* Tells systemd how things are; READY once, when the first worker is. */
static void notify(struct broker *b, bool *ready)
{
    struct mtr_engine_status s;
    mtr_engine_status(b->engine, &s);
    if (!*ready && s.state == MTR_ENGINE_READY) {
        *ready = true;
        sd_notify(0, "READY=1");
        mtr_info(&b->log, "ready");
    }
    sd_notifyf(0, "STATUS=%s%s%s, %u running, %u waiting\nWATCHDOG=1",
               mtr_engine_state_name(s.state), s.reason[0] ? ": " : "", s.reason, s.running,
               s.waiting);
}

/* Until SIGTERM, SIGINT or an admin's shutdown. */
static void run(struct broker *b)
{
    struct pollfd fds[] = {{.fd = b->signal_fd, .events = POLLIN},
                           {.fd = mtr_engine_shutdown_fd(b->engine), .events = POLLIN}};
    bool ready = false;
    for (;;) {
        struct signalfd_siginfo info;
        poll(fds, 2, ready ? STATUS_EVERY_MS : 20);
        if (fds[1].revents)
            return;
        while (read(b->signal_fd, &info, sizeof info) == sizeof info) {
            if (info.ssi_signo != SIGHUP)
                return;
            reload(b);
        }
        notify(b, &ready);
    }
}

static bool is_idle(const struct broker *b)
{
    return mtr_engine_idle(b->engine) && mtr_http_idle(b->http);
}

/* Waits until all is answered. A signal ends the wait. */
static void wait_idle(struct broker *b, uint64_t limit_ns)
{
    struct mtr_clock clock = mtr_clock_monotonic();
    uint64_t end = mtr_now_ns(&clock) + limit_ns;
    struct pollfd fd = {.fd = b->signal_fd, .events = POLLIN};
    while (!is_idle(b) && mtr_now_ns(&clock) < end) {
        struct signalfd_siginfo info;
        if (poll(&fd, 1, 20) > 0 && read(b->signal_fd, &info, sizeof info) == sizeof info &&
            info.ssi_signo != SIGHUP)
            break;
    }
}

/* Running requests go on for a bounded time; a second signal ends them at once, with an error. */
static void drain(struct broker *b)
{
    sd_notify(0, "STOPPING=1\nSTATUS=finishing what runs");
    mtr_info(&b->log, "stopping: finishing what runs, refusing what is new");
    mtr_engine_drain(b->engine);
    mtr_http_drain(b->http);
    wait_idle(b, b->options.drain_timeout_s * MTR_NS_PER_S);
    if (is_idle(b))
        return;
    mtr_warn(&b->log, "some requests did not finish in time and are ended");
    mtr_engine_abort(b->engine);
    wait_idle(b, LAST_WORDS_NS);
}

/* Who started this process waits to hear that more is worth starting. */
static void say_started(const struct mtr_broker_options *o)
{
    int fd = (int)o->started_fd;
    if (fd == 0)
        return;
    if (write(fd, "", 1) != 1)
        return; /* nobody waits any more */
    close(fd);
}

static bool set_log_level(struct broker *b, struct mtr_error *err)
{
    const struct mtr_broker_options *o = &b->options;
    enum mtr_level level;
    if (mtr_level_parse(o->log_level, &level))
        mtr_log_set_level(&b->log, level);
    return !o->log_level_file || mtr_log_read_level(&b->log, o->log_level_file, err);
}

static bool start(struct broker *b, struct mtr_error *err)
{
    return set_log_level(b, err) && block_signals(b, err) && resolve_addresses(b, err) &&
           read_keys(b, err) && choose_hardware(b, err) && load_model(b, err) &&
           open_store(b, err) && start_engine(b, err) && start_http(b, err);
}

static int print_help(struct mtr_broker_options *o)
{
    struct mtr_buf text = {0};
    mtr_broker_options_help(o, &text);
    fwrite(text.data, 1, text.len, stdout);
    mtr_buf_free(&text);
    return 0;
}

int main(int argc, char **argv)
{
    struct broker b = {.signal_fd = -1};
    struct mtr_error error = {0};
    mtr_broker_options_init(&b.options);
    mtr_log_init(&b.log, "broker");
    if (!mtr_broker_options_parse(&b.options, argc, argv, &error)) {
        fprintf(stderr, "metrale-broker: %s\nmetrale-broker --help lists the flags\n",
                error.message);
        return EXIT_USAGE;
    }
    if (b.options.help) {
        mtr_broker_options_init(&b.options);
        return print_help(&b.options);
    }
    if (b.options.version) {
        printf("metrale %s\n", MTR_VERSION);
        return 0;
    }
    say_started(&b.options);
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    mtr_arena_init(&b.arena, 0);
    if (b.options.die_with_parent)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    raise_descriptor_limit();
    int status = 1;
    if (start(&b, &error)) {
        run(&b);
        drain(&b);
        status = 0;
    } else {
        mtr_error_log(&b.log, "%s", error.message);
        sd_notifyf(0, "STATUS=%s\nERRNO=%d", error.message, EINVAL);
    }
    mtr_http_stop(b.http);
    mtr_engine_destroy(b.engine);
    mtr_http_free(b.http);
    mtr_store_close(b.store);
    mtr_access_free(b.access);
    mtr_served_model_free(b.model);
    if (b.made_run_dir)
        rmdir(b.options.run_dir); /* its sockets went with the engine */
    mtr_arena_free(&b.arena);
    return status;
}
