/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * metrale-worker: one process for each GPU rank, or one for the CPU.
 *
 * Its options say where the broker is and which device is its own. What to load and how comes from
 * the broker, so that two ranks can't be configured to disagree.
 *
 * Exit status: 0 after Exit or SIGTERM, 2 for wrong options, 1 for everything else.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/flags.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "worker/backend/open.h"
#include "worker/session/guard.h"
#include "worker/session/session.h"

#define BROKER_WAIT_MS 60000
#define SILENCE_MS     15000
#define MAX_RANK       1023
#define MAX_THREADS    1024

struct arguments {
    struct mtr_session_options session;
    const char *key, *server_key, *log_level;
    uint32_t wait_ms, silence_ms;
    bool die_with_parent, probe, help, version;
};

#define MAX_FLAGS 24

static struct arguments default_arguments(void)
{
    return (struct arguments){
        .session = {.hardware = "auto", .signal_fd = -1},
        .wait_ms = BROKER_WAIT_MS,
        .silence_ms = SILENCE_MS,
        .log_level = "info",
    };
}

/* The table points into a, so it is made for each use. */
static size_t make_table(struct arguments *a, struct mtr_flag flags[MAX_FLAGS])
{
    const struct mtr_flag table[] = {
        {"connect", MTR_FLAG_STRING, &a->session.address, "ADDRESS",
         "the broker's plan socket: ipc:///path or tcp://host:port"},
        {"rank", MTR_FLAG_U32, &a->session.rank, "N", "this worker's rank", 0, MAX_RANK},
        {"hardware", MTR_FLAG_CHOICE, &a->session.hardware, NULL,
         "kernel class; auto: the CUDA device's, or host without one", 0, 0,
         "auto|host|gb10|hopper|b200"},
        {"device", MTR_FLAG_U32, &a->session.device, "N", "CUDA device", 0, 63},
        {"no-overlap", MTR_FLAG_BOOL, &a->session.no_overlap, NULL,
         "CUDA: start each kernel after the one before it has ended, to look for mistakes"},
        {"probe", MTR_FLAG_BOOL, &a->probe, NULL,
         "print as JSON which class and device this would be, and end"},
        {"threads", MTR_FLAG_U32, &a->session.threads, "N",
         "host class: threads; 0: as many as the broker says", 0, MAX_THREADS},
        {"isa", MTR_FLAG_STRING, &a->session.instruction_set, "NAME",
         "host class: avx512, avx2, neon or portable (default: the best there is)"},
        {"key", MTR_FLAG_STRING, &a->key, "NAME", "key pair NAME.key and NAME.pub, for tcp"},
        {"server-key", MTR_FLAG_STRING, &a->server_key, "FILE", "the broker's public key, for tcp"},
        {"broker-wait-ms", MTR_FLAG_U32, &a->wait_ms, "N",
         "how long the broker may take to answer at first", 0, INT_MAX},
        {"broker-silence-ms", MTR_FLAG_U32, &a->silence_ms, "N",
         "how long the broker may be silent later", 0, INT_MAX},
        {"die-with-parent", MTR_FLAG_BOOL, &a->die_with_parent, NULL,
         "stop when the process that started this one ends"},
        {"log-level", MTR_FLAG_CHOICE, &a->log_level, NULL, "what to log", 0, 0,
         "error|warn|info|debug"},
        {"log-level-file", MTR_FLAG_STRING, &a->session.log_level_file, "FILE",
         "file that holds the log level; reread on SIGHUP"},
        {"help", MTR_FLAG_BOOL, &a->help, NULL, "print this"},
        {"version", MTR_FLAG_BOOL, &a->version, NULL, "print the version"},
    };
    size_t count = sizeof table / sizeof table[0];
    memcpy(flags, table, sizeof table);
    return count;
}

static bool parse(struct arguments *a, int argc, char **argv, struct mtr_error *err)
{
    struct mtr_flag flags[MAX_FLAGS];
    size_t count = make_table(a, flags), positionals;
    if (!mtr_flags_parse(flags, count, argc, argv, NULL, 0, &positionals, err))
        return false;
    if (!a->help && !a->version && !a->probe && !a->session.address)
        return mtr_fail(err, MTR_INVALID, "--connect ADDRESS is needed");
    a->session.broker_wait_ms = (int)a->wait_ms;
    a->session.silence_ms = (int)a->silence_ms;
    return true;
}

static int print_help(void)
{
    struct arguments defaults = default_arguments();
    struct mtr_flag flags[MAX_FLAGS];
    struct mtr_buf text = {0};
    mtr_flags_help(flags, make_table(&defaults, flags), &text);
    printf("usage: metrale-worker --connect ADDRESS [flags]\n\n"
           "Runs a model for a broker, which says what to load.\n\n%.*s",
           (int)text.len, text.len ? text.data : "");
    mtr_buf_free(&text);
    return 0;
}

static int print_probe(const struct arguments *a)
{
    struct mtr_backend_options o = {
        .hardware = a->session.hardware,
        .device = a->session.device,
        .threads = a->session.threads,
        .instruction_set = a->session.instruction_set,
    };
    struct mtr_device_info info = {0};
    struct mtr_error note = {0}, err = {0};
    struct mtr_buf text = {0};
    if (!mtr_backend_probe(&o, &info, &note, &err)) {
        fprintf(stderr, "metrale-worker: %s\n", err.message);
        return 1;
    }
    struct mtr_json_writer w = mtr_json_writer(&text);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "hardware");
    mtr_json_put_cstr(&w, info.hardware);
    mtr_json_key(&w, "device");
    mtr_json_put_cstr(&w, info.name);
    mtr_json_key(&w, "memory_total_bytes");
    mtr_json_put_u64(&w, info.memory_total_bytes);
    if (note.code) {
        mtr_json_key(&w, "note");
        mtr_json_put_cstr(&w, note.message);
    }
    mtr_json_end_object(&w);
    printf("%.*s\n", (int)text.len, text.data);
    mtr_buf_free(&text);
    return 0;
}

static bool read_keys(const struct arguments *a, struct mtr_wire_keys *keys, struct mtr_error *err)
{
    char path[PATH_MAX];
    if (!a->key != !a->server_key)
        return mtr_fail(err, MTR_INVALID, "--key and --server-key belong together");
    if (!a->key)
        return true;
    int n = snprintf(path, sizeof path, "%s.key", a->key);
    if (n < 0 || (size_t)n >= sizeof path)
        return mtr_fail(err, MTR_INVALID, "--key is too long");
    if (!mtr_wire_read_key(path, true, keys->secret_key, err))
        return false;
    snprintf(path, sizeof path, "%s.pub", a->key);
    return mtr_wire_read_key(path, false, keys->public_key, err) &&
           mtr_wire_read_key(a->server_key, false, keys->server_key, err);
}

/* SIGTERM and SIGHUP are read from a descriptor. SIGINT is ignored under a parent that handles
 * Ctrl-C for the whole group: the broker drains first, and tells workers to exit. Done before any
 * thread starts.
 */
static int take_signals(bool supervised)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    if (supervised)
        signal(SIGINT, SIG_IGN);
    else
        sigaddset(&set, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int main(int argc, char **argv)
{
    struct arguments a = default_arguments();
    struct mtr_error err = {0};
    struct mtr_wire_keys keys = {0};
    struct mtr_log log;
    enum mtr_level level = MTR_INFO;
    char source[32];
    bool ok = parse(&a, argc, argv, &err);
    if (ok && a.help)
        return print_help();
    if (ok && a.probe)
        return print_probe(&a);
    if (ok && a.version) {
        puts("metrale " MTR_VERSION);
        return 0;
    }
    if (!ok) {
        fprintf(stderr, "metrale-worker: %s\nmetrale-worker --help lists the flags\n", err.message);
        return 2;
    }
    snprintf(source, sizeof source, "worker[%u]", a.session.rank);
    mtr_log_init(&log, source);
    if (mtr_level_parse(a.log_level, &level))
        mtr_log_set_level(&log, level);
    ok = read_keys(&a, &keys, &err) &&
         (!a.session.log_level_file || mtr_log_read_level(&log, a.session.log_level_file, &err)) &&
         (!a.die_with_parent || mtr_guard_parent(&err));
    if (ok) {
        a.session.keys = a.key ? &keys : NULL;
        a.session.log = &log;
        a.session.signal_fd = take_signals(a.die_with_parent);
        ok = mtr_session_run(&a.session, &err);
    }
    if (!ok)
        mtr_error_log(&log, "%s", err.message);
    return ok ? 0 : err.code == MTR_INVALID && !a.session.log ? 2 : 1;
}
