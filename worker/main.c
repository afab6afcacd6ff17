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
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/str.h"
#include "worker/session/guard.h"
#include "worker/session/session.h"

#define BROKER_WAIT_MS 60000
#define SILENCE_MS     15000
#define MAX_RANK       1023
#define MAX_THREADS    1024

static const char help[] =
    "Usage: metrale-worker --connect ADDRESS [options]\n"
    "\n"
    "Runs a model for a broker, which says what to load.\n"
    "\n"
    "  --connect ADDRESS      the broker's plan socket: ipc:///path or tcp://host:port\n"
    "  --rank N               this worker's rank (0)\n"
    "  --hardware CLASS       kernel class (host)\n"
    "  --threads N            host class: threads, 0 for as many as the broker says (0)\n"
    "  --isa NAME             host class: avx512, avx2, neon or portable (the best there is)\n"
    "  --key NAME             key pair NAME.key and NAME.pub, for tcp\n"
    "  --server-key FILE      the broker's public key, for tcp\n"
    "  --broker-wait-ms N     how long the broker may take to answer at first (60000)\n"
    "  --broker-silence-ms N  how long the broker may be silent later (15000)\n"
    "  --die-with-parent      stop when the process that started this one ends\n"
    "  --log-level LEVEL      error, warn, info or debug (info)\n"
    "  --version, --help\n";

enum option_id {
    OPT_CONNECT = 256,
    OPT_RANK,
    OPT_HARDWARE,
    OPT_THREADS,
    OPT_ISA,
    OPT_KEY,
    OPT_SERVER_KEY,
    OPT_WAIT,
    OPT_SILENCE,
    OPT_PARENT,
    OPT_LOG,
    OPT_VERSION,
    OPT_HELP,
};

static const struct option options[] = {
    {"connect", required_argument, NULL, OPT_CONNECT},
    {"rank", required_argument, NULL, OPT_RANK},
    {"hardware", required_argument, NULL, OPT_HARDWARE},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"isa", required_argument, NULL, OPT_ISA},
    {"key", required_argument, NULL, OPT_KEY},
    {"server-key", required_argument, NULL, OPT_SERVER_KEY},
    {"broker-wait-ms", required_argument, NULL, OPT_WAIT},
    {"broker-silence-ms", required_argument, NULL, OPT_SILENCE},
    {"die-with-parent", no_argument, NULL, OPT_PARENT},
    {"log-level", required_argument, NULL, OPT_LOG},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

struct arguments {
    struct mtr_session_options session;
    const char *key, *server_key;
    bool die_with_parent;
    enum mtr_level level;
    bool done; /* --help, --version */
};

static bool number(const char *name, const char *text, uint64_t max, uint64_t *out,
                   struct mtr_error *err)
{
    if (mtr_str_to_u64(mtr_str(text), out) && *out <= max)
        return true;
    return mtr_fail(err, MTR_INVALID, "--%s \"%s\": a number from 0 to %llu is needed", name, text,
                    (unsigned long long)max);
}

static bool take_option(struct arguments *a, int id, const char *name, struct mtr_error *err)
{
    uint64_t n = 0;
    switch (id) {
    case OPT_CONNECT:
        a->session.address = optarg;
        return true;
    case OPT_HARDWARE:
        a->session.hardware = optarg;
        return true;
    case OPT_ISA:
        a->session.instruction_set = optarg;
        return true;
    case OPT_KEY:
        a->key = optarg;
        return true;
    case OPT_SERVER_KEY:
        a->server_key = optarg;
        return true;
    case OPT_PARENT:
        return a->die_with_parent = true;
    case OPT_RANK:
        if (!number(name, optarg, MAX_RANK, &n, err))
            return false;
        a->session.rank = (uint32_t)n;
        return true;
    case OPT_THREADS:
        if (!number(name, optarg, MAX_THREADS, &n, err))
            return false;
        a->session.threads = (uint32_t)n;
        return true;
    case OPT_WAIT:
        if (!number(name, optarg, INT_MAX, &n, err))
            return false;
        a->session.broker_wait_ms = (int)n;
        return true;
    case OPT_SILENCE:
        if (!number(name, optarg, INT_MAX, &n, err))
            return false;
        a->session.silence_ms = (int)n;
        return true;
    case OPT_LOG:
        return mtr_level_parse(optarg, &a->level) ||
               mtr_fail(err, MTR_INVALID, "--log-level \"%s\": error, warn, info or debug", optarg);
    case OPT_VERSION:
        puts("metrale-worker " MTR_VERSION);
        return a->done = true;
    case OPT_HELP:
        fputs(help, stdout);
        return a->done = true;
    default:
        return mtr_fail(err, MTR_INVALID, "unknown option or missing value; see --help");
    }
}

static bool parse(struct arguments *a, int argc, char **argv, struct mtr_error *err)
{
    int index = 0;
    opterr = 0;
    for (int id; !a->done && (id = getopt_long(argc, argv, "", options, &index)) != -1;)
        if (!take_option(a, id, id == '?' ? "" : options[index].name, err))
            return false;
    if (a->done)
        return true;
    if (optind < argc)
        return mtr_fail(err, MTR_INVALID, "unexpected argument \"%s\"", argv[optind]);
    if (!a->session.address)
        return mtr_fail(err, MTR_INVALID, "--connect ADDRESS is needed");
    return true;
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

/* SIGTERM is read from a descriptor. SIGINT is ignored under a parent that handles Ctrl-C for the
 * whole group: the broker drains first, and tells workers to exit. Done before any thread starts.
 */
static int take_signals(bool supervised)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
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
    struct arguments a = {
        .session = {.hardware = "host", .broker_wait_ms = BROKER_WAIT_MS, .silence_ms = SILENCE_MS},
        .level = MTR_INFO,
    };
    struct mtr_error err = {0};
    struct mtr_wire_keys keys = {0};
    struct mtr_log log;
    char source[32];
    bool ok = parse(&a, argc, argv, &err);
    if (ok && a.done)
        return 0;
    snprintf(source, sizeof source, "worker[%u]", a.session.rank);
    mtr_log_init(&log, source);
    mtr_log_set_level(&log, a.level);
    ok = ok && read_keys(&a, &keys, &err) && (!a.die_with_parent || mtr_guard_parent(&err));
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
