/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Streams from a server that the test plays, a thread a connection. */
#include "ctl/bench_load.c"

#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/check_main.h"

#define CONNECTIONS 8
#define OK_HEAD     "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define ANSWER                                                                                     \
    "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n"

static int listener, together, most_together;
static pthread_t acceptor;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *answer;
static char url[64], asked[4096]; /* the last request */
static struct mtr_bench_target target;
static struct mtr_bench_client *client;
static struct mtr_error err;
static struct mtr_bench_params params = {.api = "chat", .timeout_s = 20, .temperature = 0.5};
static struct mtr_bench_sample samples[64];

static void count(int change)
{
    pthread_mutex_lock(&lock);
    together += change;
    most_together = together > most_together ? together : most_together;
    pthread_mutex_unlock(&lock);
}

static void *serve_one(void *context)
{
    int fd = (int)(intptr_t)context;
    char request[4096];
    size_t n = 0;
    count(1);
    for (ssize_t got = 1; got > 0 && n < sizeof request - 1;) {
        got = read(fd, request + n, sizeof request - 1 - n);
        n += got > 0 ? (size_t)got : 0;
        request[n] = '\0';
        if (strstr(request, "GET ") || strstr(request, "}}"))
            break;
    }
    pthread_mutex_lock(&lock);
    memcpy(asked, request, n + 1);
    pthread_mutex_unlock(&lock);
    usleep(20000);
    count(-1);
    ck_assert(write(fd, answer, strlen(answer)) >= 0);
    close(fd);
    return NULL;
}

static void *accept_all(void *context)
{
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        pthread_t t;
        if (pthread_create(&t, NULL, serve_one, (void *)(intptr_t)fd) == 0)
            pthread_detach(t);
    }
    return NULL;
}

static void setup(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(bind(listener, (struct sockaddr *)&a, len) == 0 && listen(listener, 64) == 0);
    getsockname(listener, (struct sockaddr *)&a, &len);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", ntohs(a.sin_port));
    pthread_create(&acceptor, NULL, accept_all, NULL);
    target = (struct mtr_bench_target){.url = url, .model = "m", .api_key = "k"};
    client = mtr_bench_client_create(&target, &err);
    ck_assert_ptr_nonnull(client);
    most_together = 0;
    answer = OK_HEAD ANSWER;
}

static void teardown(void)
{
    mtr_bench_client_destroy(client);
    shutdown(listener, SHUT_RDWR);
    close(listener);
    pthread_join(acceptor, NULL);
}

static struct mtr_bench_load run(uint32_t width, uint32_t requests)
{
    bool cancelled;
    struct mtr_bench_load load = {.params = &params,
                                  .width = width,
                                  .requests = requests,
                                  .words = 6,
                                  .output_tokens = 3,
                                  .seed = 5,
                                  .samples = samples};
    ck_assert_msg(mtr_bench_load_run(client, &load, &cancelled, &err), "%s", err.message);
    ck_assert_uint_eq(load.begun, requests);
    free(load.gaps.ns);
    return load;
}

START_TEST(as_many_at_once_as_asked)
{
    struct mtr_bench_load load = run(CONNECTIONS, 4 * CONNECTIONS);
    for (uint32_t i = 0; i < load.requests; i++)
        ck_assert_msg(!samples[i].error[0] && samples[i].pieces == 1 &&
                          samples[i].first_ns > samples[i].start_ns,
                      "%u: %s", i, samples[i].error);
    ck_assert(most_together > 1 && most_together <= CONNECTIONS);
    ck_assert(load.wall_ns > 4 * 20 * MTR_NS_PER_MS);
}
END_TEST

START_TEST(a_request_says_what_it_wants)
{
    static const char *const parts[] = {"POST /v1/chat/completions HTTP/1.1",
                                        "Authorization: Bearer k",
                                        "\"model\":\"m\"",
                                        "\"max_tokens\":3",
                                        "\"temperature\":0.5",
                                        "\"seed\":5",
                                        "\"include_usage\":true",
                                        "\"messages\":[{\"role\":\"user\""};
    run(1, 1);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ck_assert_msg(strstr(asked, parts[i]) != NULL, "%s in %s", parts[i], asked);
    ck_assert_ptr_null(strstr(asked, "ignore_eos"));
    params.api = "completions";
    params.ignore_eos = true;
    run(1, 1);
    ck_assert(strstr(asked, "POST /v1/completions ") && strstr(asked, "\"prompt\":\"") &&
              strstr(asked, "\"ignore_eos\":true"));
}
END_TEST

START_TEST(refusals_are_told)
{
    answer =
        "HTTP/1.1 429 Too Many\r\nConnection: close\r\n\r\n{\"error\":{\"message\":\"later\"}}";
    run(2, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(samples[i].error, "status 429: later");
    answer = "";
    run(1, 1);
    ck_assert_ptr_nonnull(strstr(samples[0].error, "no data"));
    answer = OK_HEAD "data: {}\n\n";
    run(1, 1);
    ck_assert_ptr_nonnull(strstr(samples[0].error, "ended early"));
}
END_TEST

START_TEST(a_signal_cancels)
{
    bool cancelled;
    struct mtr_bench_load load = {
        .params = &params, .width = 2, .requests = 60, .words = 6, .samples = samples};
    pthread_kill(pthread_self(), SIGTERM); /* blocked since the client was made */
    ck_assert(!mtr_bench_load_run(client, &load, &cancelled, &err) && cancelled);
    ck_assert(load.begun >= 2 && load.begun < 60 && strcmp(samples[0].error, "cancelled") == 0);
}
END_TEST

START_TEST(the_first_model)
{
    struct mtr_arena arena;
    mtr_arena_init(&arena, 0);
    answer =
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"}]}";
    ck_assert_str_eq(mtr_bench_first_model(client, &arena, &err), "a");
    answer = "HTTP/1.1 404 No\r\nConnection: close\r\n\r\n{\"data\":[]}";
    ck_assert(!mtr_bench_first_model(client, &arena, &err) && strstr(err.message, "404"));
    target.url = "http://127.0.0.1:1";
    ck_assert(!mtr_bench_first_model(client, &arena, &err) && strstr(err.message, "no answer"));
    mtr_arena_free(&arena);
}
END_TEST

MTR_CHECK_MAIN("ctl/bench_load")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, as_many_at_once_as_asked);
    tcase_add_test(tc, a_request_says_what_it_wants);
    tcase_add_test(tc, refusals_are_told);
    tcase_add_test(tc, a_signal_cancels);
    tcase_add_test(tc, the_first_model);
}
