/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * load-client: many streams at once from one thread, for tests/perf/broker-load.
 *
 * Each round sends one streamed request on each connection and reads all answers. A scripted worker
 * gives every lane of step s the token number s mod N of a list, and writes the time of that result
 * into a shared file; the texts of the list are all different. So the client knows from a token's
 * text which step gave it, and how long it was under way: through the broker, the socket, and this
 * program.
 *
 * A stream whose tokens are not those of consecutive steps, or are too few or too many, fails the
 * run: this is a test of the broker as well.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/map.h"

#define MAX_STREAMS 4096
#define MAX_EVENTS  512
#define READ_BYTES  65536
#define ROUND_LIMIT (60 * MTR_NS_PER_S)
#define MAX_TOKENS  (1u << 26) /* of a whole run */
#define NO_STEP     UINT64_MAX
#define STAMP_STEPS (1u << 20) /* of the shared file: the worker's steps, from 0 */

struct stream {
    int fd;
    uint32_t index;
    struct mtr_buf in; /* what was received and not understood yet */
    bool in_body;
    size_t chunk_left; /* of the HTTP chunk that `in` begins with; 0: its head comes */
    struct mtr_buf frame;
    uint32_t tokens;
    uint64_t step; /* of the last token */
    bool done;
};

struct load {
    uint16_t port;
    uint32_t streams, tokens, rounds;
    bool completions;
    const char *texts_path, *stamps_path;

    struct mtr_map texts; /* hash of a text -> its number */
    uint32_t text_count;
    const volatile uint64_t *stamps; /* [STAMP_STEPS] */
    int epoll;
    struct stream *all;
    uint32_t running;
    uint32_t *added_us; /* [added_count], of tokens; capacity tokens * streams * rounds */
    size_t added_count;
    double *rates; /* [rounds] tokens per second */
};

static uint64_t now_ns(void)
{
    struct mtr_clock c = mtr_clock_monotonic();
    return mtr_now_ns(&c);
}

/* ---- Texts ------------------------------------------------------------------------------------
 */

/* One text a line. */
static bool read_texts(struct load *l, struct mtr_error *err)
{
    struct mtr_arena arena;
    struct mtr_str all;
    mtr_arena_init(&arena, 0);
    bool ok = mtr_file_read(&arena, l->texts_path, 1u << 20, &all, err);
    for (size_t at = 0; ok && at < all.len;) {
        size_t end = mtr_str_find(all, MTR_STR("\n"), at);
        end = end == SIZE_MAX ? all.len : end;
        ok = mtr_map_put(&l->texts, mtr_hash64(all.ptr + at, end - at, 0), l->text_count++) ||
             mtr_fail(err, MTR_NO_MEMORY, "out of memory reading %s", l->texts_path);
        at = end + 1;
    }
    mtr_arena_free(&arena);
    return ok;
}

static bool open_stamps(struct load *l, struct mtr_error *err)
{
    int fd = open(l->stamps_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mtr_fail_errno(err, "%s", l->stamps_path);
    void *p = mmap(NULL, STAMP_STEPS * sizeof(uint64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return mtr_fail_errno(err, "%s", l->stamps_path);
    l->stamps = p;
    return true;
}

/* The last step that gave text number `text` before now. Only for a stream's first token: the step
 * of each later one follows from the one before. */
static uint64_t last_step(const struct load *l, uint64_t text)
{
    uint64_t found = NO_STEP;
    for (uint64_t s = text; s < STAMP_STEPS; s += l->text_count)
        if (l->stamps[s])
            found = s;
    return found;
}

/* ---- Answers ----------------------------------------------------------------------------------
 */

static bool on_token(struct load *l, struct stream *s, struct mtr_str text, uint64_t now,
                     struct mtr_error *err)
{
    uint64_t number;
    if (!mtr_map_get(&l->texts, mtr_hash64(text.ptr, text.len, 0), &number))
        return mtr_fail(err, MTR_INVALID, "stream %u: a text that no step gave: '%.*s'", s->index,
                        MTR_STR_ARG(text));
    uint64_t step = s->step == NO_STEP ? last_step(l, number) : s->step + 1;
    if (step >= STAMP_STEPS || step % l->text_count != number || l->stamps[step] == 0)
        return mtr_fail(err, MTR_INVALID, "stream %u: token %u is not of step %llu", s->index,
                        s->tokens, (unsigned long long)step);
    s->step = step;
    s->tokens++;
    l->added_us[l->added_count++] = (uint32_t)((now - l->stamps[step]) / MTR_NS_PER_US);
    return true;
}

/* The value of the text member of a chunk. None of the texts needs an escape. */
static struct mtr_str frame_text(const struct load *l, struct mtr_str frame)
{
    struct mtr_str key = l->completions ? MTR_STR("\"text\":\"") : MTR_STR("\"content\":\"");
    size_t at = mtr_str_find(frame, key, 0);
    if (at == SIZE_MAX)
        return (struct mtr_str){0};
    at += key.len;
    return mtr_str_sub(frame, at, mtr_str_find(frame, MTR_STR("\""), at) - at);
}

static bool on_frame(struct load *l, struct stream *s, struct mtr_str frame, uint64_t now,
                     struct mtr_error *err)
{
    if (mtr_str_is(frame, "data: [DONE]")) {
        s->done = true;
        l->running--;
        return s->tokens == l->tokens || mtr_fail(err, MTR_INVALID, "stream %u: %u tokens, not %u",
                                                  s->index, s->tokens, l->tokens);
    }
    struct mtr_str text = frame_text(l, frame);
    return text.len == 0 || on_token(l, s, text, now, err);
}

/* Body bytes: frames end with an empty line. */
static bool on_body(struct load *l, struct stream *s, struct mtr_str bytes, uint64_t now,
                    struct mtr_error *err)
{
    if (!mtr_buf_str(&s->frame, bytes))
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    struct mtr_str have = mtr_buf_view(&s->frame);
    size_t at = 0, end;
    while ((end = mtr_str_find(have, MTR_STR("\n\n"), at)) != SIZE_MAX) {
        if (!on_frame(l, s, mtr_str_sub(have, at, end - at), now, err))
            return false;
        at = end + 2;
    }
    mtr_buf_consume(&s->frame, at);
    return true;
}

/* The answer's head, once it is here whole. Returns the bytes taken, 0 for not yet. */
static size_t take_head(struct stream *s, struct mtr_str in, struct mtr_error *err)
{
    size_t end = mtr_str_find(in, MTR_STR("\r\n\r\n"), 0);
    if (end == SIZE_MAX)
        return 0;
    if (!mtr_str_starts(in, MTR_STR("HTTP/1.1 200 ")) ||
        mtr_str_find(mtr_str_sub(in, 0, end), MTR_STR("transfer-encoding: chunked"), 0) == SIZE_MAX)
        mtr_fail(err, MTR_INVALID, "stream %u: %.*s", s->index, (int)(in.len < 300 ? in.len : 300),
                 in.ptr);
    s->in_body = true;
    return end + 4;
}

/* A chunk's head line: its length in hexadecimal. Returns the bytes taken, 0 for not yet. */
static size_t take_chunk_head(struct stream *s, struct mtr_str in)
{
    size_t at = 0, end = mtr_str_find(in, MTR_STR("\r\n"), 2);
    if (end == SIZE_MAX)
        return 0;
    if (mtr_str_starts(in, MTR_STR("\r\n")))
        at = 2; /* behind the chunk before */
    s->chunk_left = strtoul(in.ptr + at, NULL, 16);
    return end + 2;
}

/* Everything in s->in that is whole. */
static bool parse(struct load *l, struct stream *s, uint64_t now, struct mtr_error *err)
{
    struct mtr_str in = mtr_buf_view(&s->in);
    size_t at = 0, took = 1;
    while (took && at < in.len && !s->done && err->code == MTR_OK) {
        struct mtr_str rest = mtr_str_sub(in, at, SIZE_MAX);
        if (!s->in_body) {
            took = take_head(s, rest, err);
        } else if (s->chunk_left == 0) {
            took = take_chunk_head(s, rest);
        } else {
            took = s->chunk_left < rest.len ? s->chunk_left : rest.len;
            s->chunk_left -= took;
            on_body(l, s, mtr_str_sub(rest, 0, took), now, err);
        }
        at += took;
    }
    mtr_buf_consume(&s->in, at);
    return err->code == MTR_OK;
}

static bool on_readable(struct load *l, struct stream *s, struct mtr_error *err)
{
    if (!mtr_buf_reserve(&s->in, READ_BYTES))
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    ssize_t n = read(s->fd, s->in.data + s->in.len, READ_BYTES);
    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0)
        return s->done || mtr_fail(err, MTR_IO, "stream %u: the broker closed it after %u tokens",
                                   s->index, s->tokens);
    s->in.len += (size_t)n;
    return parse(l, s, now_ns(), err);
}

/* ---- Rounds -----------------------------------------------------------------------------------
 */

static bool connect_stream(struct load *l, struct stream *s, struct mtr_error *err)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(l->port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        fcntl(s->fd, F_SETFL, O_NONBLOCK) != 0)
        return mtr_fail_errno(err, "can't connect to port %u", l->port);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = s};
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->fd, &ev) == 0 || mtr_fail_errno(err, "epoll");
}

static bool send_request(const struct load *l, struct stream *s, struct mtr_error *err)
{
    char body[512], request[1024];
    int n = snprintf(
        body, sizeof body,
        "{\"model\":\"m\",\"stream\":true,\"temperature\":0,\"max_tokens\":%u,"
        "\"ignore_eos\":true,%s\"Tell me of number %u\"%s}",
        l->tokens,
        l->completions ? "\"prompt\":" : "\"messages\":[{\"role\":\"user\",\"content\":", s->index,
        l->completions ? "" : "}]");
    n = snprintf(request, sizeof request,
                 "POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Content-Length: %d\r\n\r\n%s",
                 l->completions ? "completions" : "chat/completions", n, body);
    s->done = s->in_body = false;
    s->chunk_left = 0;
    s->tokens = 0;
    s->step = NO_STEP;
    mtr_buf_clear(&s->in);
    mtr_buf_clear(&s->frame);
    return write(s->fd, request, (size_t)n) == n || mtr_fail_errno(err, "can't send a request");
}

static bool take_events(struct load *l, int timeout_ms, struct mtr_error *err)
{
    struct epoll_event events[MAX_EVENTS];
    int n = epoll_wait(l->epoll, events, MAX_EVENTS, timeout_ms);
    for (int i = 0; i < n; i++)
        if (!on_readable(l, events[i].data.ptr, err))
            return false;
    return true;
}

static bool run_round(struct load *l, uint32_t round, struct mtr_error *err)
{
    uint64_t begin = now_ns();
    l->running = l->streams;
    for (uint32_t i = 0; i < l->streams; i++)
        if (!send_request(l, &l->all[i], err) || !take_events(l, 0, err))
            return false;
    while (l->running) {
        if (!take_events(l, 1000, err))
            return false;
        if (now_ns() - begin > ROUND_LIMIT)
            return mtr_fail(err, MTR_TIMEOUT, "round %u: %u streams did not end", round,
                            l->running);
    }
    l->rates[round] = (double)l->streams * l->tokens * 1e9 / (double)(now_ns() - begin);
    usleep(20000); /* the ends of chunked bodies arrive; the broker is idle again */
    return true;
}

/* ---- Program ----------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int by_rate(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(struct load *l)
{
    qsort(l->added_us, l->added_count, sizeof *l->added_us, by_value);
    qsort(l->rates, l->rounds, sizeof *l->rates, by_rate);
    const uint32_t *a = l->added_us;
    size_t n = l->added_count;
    printf("{\"tokens\": %zu, \"tokens_per_s\": %.0f, \"tokens_per_s_best\": %.0f, "
           "\"added_ms_p50\": %.3f, \"added_ms_p99\": %.3f, \"added_ms_max\": %.3f}\n",
           n, l->rates[l->rounds / 2], l->rates[l->rounds - 1], a[n / 2] / 1e3,
           a[n - 1 - n / 100] / 1e3, a[n - 1] / 1e3);
}

static bool run(struct load *l, struct mtr_error *err)
{
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->all = calloc(l->streams, sizeof *l->all);
    l->rates = calloc(l->rounds, sizeof *l->rates);
    l->added_us = calloc((size_t)l->tokens * l->streams * l->rounds, sizeof *l->added_us);
    if (l->epoll < 0 || !l->all || !l->rates || !l->added_us)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    if (!read_texts(l, err) || !open_stamps(l, err))
        return false;
    for (uint32_t i = 0; i < l->streams; i++) {
        l->all[i].index = i;
        if (!connect_stream(l, &l->all[i], err))
            return false;
    }
    for (uint32_t r = 0; r < l->rounds; r++)
        if (!run_round(l, r, err))
            return false;
    report(l);
    return true;
}

static bool parse_options(struct load *l, int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},   {"streams", required_argument, NULL, 's'},
        {"tokens", required_argument, NULL, 't'}, {"rounds", required_argument, NULL, 'r'},
        {"texts", required_argument, NULL, 'x'},  {"stamps", required_argument, NULL, 'm'},
        {"completions", no_argument, NULL, 'c'},  {NULL, 0, NULL, 0},
    };
    uint64_t port = 0, streams = 256, tokens = 200, rounds = 5;
    for (int id; (id = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        uint64_t *number = id == 'p'   ? &port
                           : id == 's' ? &streams
                           : id == 't' ? &tokens
                           : id == 'r' ? &rounds
                                       : NULL;
        if (id == 'x')
            l->texts_path = optarg;
        else if (id == 'm')
            l->stamps_path = optarg;
        else if (id == 'c')
            l->completions = true;
        else if (!number || !mtr_str_to_u64(mtr_str(optarg), number))
            return false;
    }
    l->port = (uint16_t)port;
    l->streams = (uint32_t)streams;
    l->tokens = (uint32_t)tokens;
    l->rounds = (uint32_t)rounds;
    return port && port <= UINT16_MAX && streams && streams <= MAX_STREAMS && tokens && rounds &&
           tokens * streams * rounds <= MAX_TOKENS && l->texts_path && l->stamps_path;
}

int main(int argc, char **argv)
{
    struct load l = {.epoll = -1};
    struct mtr_error err = {0};
    if (!parse_options(&l, argc, argv)) {
        fputs("usage: load-client --port N --texts FILE --stamps FILE [--streams N] [--tokens N] "
              "[--rounds N] [--completions]\n",
              stderr);
        return 2;
    }
    bool ok = run(&l, &err);
    if (!ok)
        fprintf(stderr, "load-client: %s\n", err.message);
    for (uint32_t i = 0; l.all && i < l.streams; i++) {
        mtr_buf_free(&l.all[i].in);
        mtr_buf_free(&l.all[i].frame);
    }
    mtr_map_free(&l.texts);
    free(l.all);
    free(l.rates);
    free(l.added_us);
    return ok ? 0 : 1;
}
