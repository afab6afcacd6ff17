/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Many streamed requests at once, from one thread, with libcurl's multi interface.
 *
 * A lane is one connection and the request on it. While requests are left, a lane that is done
 * begins the next one, so the width holds until the last requests. Requests are made before the
 * clock starts for them. SIGINT and SIGTERM are blocked and read from a file descriptor that is
 * polled with the sockets: a run that is cancelled keeps what it has measured.
 *
 * A proxy of the environment is not used: its time would be the server's.
 */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "ctl/bench.h"

#define CONNECT_TIMEOUT_MS 10000L
#define MODELS_TIMEOUT_MS  10000L
#define POLL_MS            200
#define MAX_ERROR_BODY     4096u
#define MAX_MODELS_BYTES   (4u << 20)
#define SPARE_FILES        64

struct mtr_bench_client {
    CURLM *multi;
    struct curl_slist *headers;
    const struct mtr_bench_target *target;
    struct mtr_clock clock;
    int signal_fd;
    sigset_t old_signals;
};

struct lane {
    CURL *easy;
    const struct mtr_clock *clock;
    struct mtr_bench_stream stream;
    struct mtr_bench_sample *sample; /* NULL: idle */
    struct mtr_buf request, refusal; /* bodies; the second of an answer that is not 200 */
};

/* ---- Client -----------------------------------------------------------------------------------
 */

static bool add_header(struct curl_slist **list, const char *header)
{
    struct curl_slist *longer = curl_slist_append(*list, header);
    *list = longer ? longer : *list;
    return longer != NULL;
}

static bool make_headers(struct mtr_bench_client *c)
{
    struct mtr_buf key = {0};
    bool ok = add_header(&c->headers, "Content-Type: application/json") &&
              add_header(&c->headers, "Expect:");
    if (c->target->api_key)
        ok = ok && mtr_buf_printf(&key, "Authorization: Bearer %s", c->target->api_key) &&
             add_header(&c->headers, key.data);
    mtr_buf_free(&key);
    return ok;
}

struct mtr_bench_client *mtr_bench_client_create(const struct mtr_bench_target *target,
                                                 struct mtr_error *err)
{
    sigset_t set;
    struct mtr_bench_client *c = calloc(1, sizeof *c);
    bool library = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (!c || !library) {
        free(c);
        mtr_fail(err, MTR_NO_MEMORY, "libcurl could not be started");
        return NULL;
    }
    c->target = target;
    c->clock = mtr_clock_monotonic();
    c->multi = curl_multi_init();
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &c->old_signals);
    c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!c->multi || c->signal_fd < 0 || !make_headers(c)) {
        mtr_bench_client_destroy(c);
        mtr_fail(err, MTR_NO_MEMORY, "libcurl's handles could not be made");
        return NULL;
    }
    return c;
}

void mtr_bench_client_destroy(struct mtr_bench_client *c)
{
    if (!c)
        return;
    curl_multi_cleanup(c->multi);
    curl_slist_free_all(c->headers);
    if (c->signal_fd >= 0)
        close(c->signal_fd);
    sigprocmask(SIG_SETMASK, &c->old_signals, NULL);
    curl_global_cleanup();
    free(c);
}

/* What all requests have in common. */
static CURL *make_handle(struct mtr_bench_client *c, const char *path)
{
    CURL *e = curl_easy_init();
    struct mtr_buf url = {0};
    bool ok = e && mtr_buf_printf(&url, "%s%s", c->target->url, path) &&
              curl_easy_setopt(e, CURLOPT_URL, url.data) == CURLE_OK &&
              curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
              curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers) == CURLE_OK &&
              curl_easy_setopt(e, CURLOPT_PROXY, "") == CURLE_OK;
    mtr_buf_free(&url);
    if (!ok) {
        curl_easy_cleanup(e);
        return NULL;
    }
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "metralectl/" MTR_VERSION);
    return e;
}

/* ---- The model --------------------------------------------------------------------------------
 */

static size_t gather(char *bytes, size_t size, size_t count, void *context)
{
    struct mtr_buf *b = context;
    return mtr_buf_append(b, bytes, size * count) ? size * count : 0;
}

static const char *first_id(struct mtr_arena *arena, struct mtr_str body)
{
    const struct mtr_json *v = mtr_json_parse(arena, body, MTR_JSON_STRICT, NULL);
    const struct mtr_json *data = mtr_json_get(v, "data");
    bool any = data && data->kind == MTR_JSON_ARRAY && data->count;
    const struct mtr_json *id = any ? mtr_json_get(&data->items[0], "id") : NULL;
    return id && id->kind == MTR_JSON_STRING ? mtr_arena_strdup(arena, id->text) : NULL;
}

const char *mtr_bench_first_model(struct mtr_bench_client *c, struct mtr_arena *arena,
                                  struct mtr_error *err)
{
    struct mtr_buf body = {.limit_bytes = MAX_MODELS_BYTES};
    const char *id = NULL;
    long status = 0;
    CURL *e = make_handle(c, "/v1/models");
    if (!e) {
        mtr_fail(err, MTR_INVALID, "%s is no URL that can be asked", c->target->url);
        return NULL;
    }
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, gather);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, MODELS_TIMEOUT_MS);
    CURLcode code = curl_easy_perform(e);
    curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK)
        mtr_fail(err, MTR_IO, "no answer from %s: %s", c->target->url,
                 body.failed ? "its list of models is too large" : curl_easy_strerror(code));
    else if (!(id = first_id(arena, mtr_arena_str(arena, mtr_buf_view(&body)))))
        mtr_fail(err, MTR_NOT_FOUND, "%s/v1/models names no model (status %ld)", c->target->url,
                 status);
    curl_easy_cleanup(e);
    mtr_buf_free(&body);
    return id;
}

/* ---- One request ------------------------------------------------------------------------------
 */

static void put_prompt(struct mtr_json_writer *w, const struct mtr_bench_load *load,
                       uint64_t number)
{
    struct mtr_buf prompt = {0};
    mtr_bench_prompt(&prompt, load->seed, number, load->words);
    if (load->params->api[1] == 'h') { /* chat */
        mtr_json_key(w, "messages");
        mtr_json_begin_array(w);
        mtr_json_begin_object(w);
        mtr_json_key(w, "role");
        mtr_json_put_cstr(w, "user");
        mtr_json_key(w, "content");
        mtr_json_put_str(w, mtr_buf_view(&prompt));
        mtr_json_end_object(w);
        mtr_json_end_array(w);
    } else {
        mtr_json_key(w, "prompt");
        mtr_json_put_str(w, mtr_buf_view(&prompt));
    }
    mtr_buf_free(&prompt);
}

static bool write_request(struct mtr_buf *out, const struct mtr_bench_client *c,
                          const struct mtr_bench_load *load, uint32_t index)
{
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_buf_clear(out);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "model");
    mtr_json_put_cstr(&w, c->target->model);
    put_prompt(&w, load, load->first_number + (load->params->warm ? 0 : index));
    mtr_json_key(&w, "max_tokens");
    mtr_json_put_u64(&w, load->output_tokens);
    mtr_json_key(&w, "temperature");
    mtr_json_put_f64(&w, load->params->temperature);
    mtr_json_key(&w, "seed");
    mtr_json_put_u64(&w, load->seed & INT32_MAX);
    if (load->params->ignore_eos) {
        mtr_json_key(&w, "ignore_eos");
        mtr_json_put_bool(&w, true);
    }
    mtr_json_key(&w, "stream");
    mtr_json_put_bool(&w, true);
    mtr_json_key(&w, "stream_options");
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "include_usage");
    mtr_json_put_bool(&w, true);
    mtr_json_end_object(&w);
    mtr_json_end_object(&w);
    return !out->failed;
}

static size_t receive(char *bytes, size_t size, size_t count, void *context)
{
    struct lane *l = context;
    struct mtr_str piece = {bytes, size * count};
    long status = 0;
    curl_easy_getinfo(l->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) {
        mtr_buf_str(&l->refusal, mtr_str_sub(piece, 0, MAX_ERROR_BODY - l->refusal.len));
        return piece.len;
    }
    return mtr_bench_stream_feed(&l->stream, piece, mtr_now_ns(l->clock)) ? piece.len : 0;
}

static bool begin(struct mtr_bench_client *c, struct mtr_bench_load *load, struct lane *l)
{
    struct mtr_bench_sample *m = &load->samples[load->begun];
    *m = (struct mtr_bench_sample){0};
    if (!write_request(&l->request, c, load, load->begun))
        return false;
    mtr_buf_clear(&l->refusal);
    mtr_bench_stream_begin(&l->stream, m, &load->gaps);
    curl_easy_setopt(l->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)l->request.len);
    curl_easy_setopt(l->easy, CURLOPT_POSTFIELDS, l->request.data);
    m->start_ns = mtr_now_ns(&c->clock);
    if (curl_multi_add_handle(c->multi, l->easy) != CURLM_OK)
        return false;
    l->sample = m;
    load->begun++;
    return true;
}

/* An error of the stream goes before the library's, which it has caused. */
static void finish(struct mtr_bench_client *c, struct lane *l, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(l->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!l->sample->error[0] && code != CURLE_OK)
        snprintf(l->sample->error, sizeof l->sample->error, "%s", curl_easy_strerror(code));
    else if (!l->sample->error[0] && status != 200)
        mtr_bench_http_error(l->sample, status, mtr_buf_view(&l->refusal));
    else
        mtr_bench_stream_end(&l->stream);
    curl_multi_remove_handle(c->multi, l->easy);
    mtr_bench_stream_free(&l->stream);
    l->sample = NULL;
}

/* ---- All of them ------------------------------------------------------------------------------
 */

static bool make_lanes(struct mtr_bench_client *c, const struct mtr_bench_load *load,
                       struct lane *lanes)
{
    const char *path = load->params->api[1] == 'h' ? "/v1/chat/completions" : "/v1/completions";
    for (uint32_t i = 0; i < load->width; i++) {
        struct lane *l = &lanes[i];
        l->clock = &c->clock;
        l->easy = make_handle(c, path);
        if (!l->easy)
            return false;
        curl_easy_setopt(l->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(l->easy, CURLOPT_WRITEFUNCTION, receive);
        curl_easy_setopt(l->easy, CURLOPT_WRITEDATA, l);
        curl_easy_setopt(l->easy, CURLOPT_PRIVATE, l);
        curl_easy_setopt(l->easy, CURLOPT_TIMEOUT_MS, (long)load->params->timeout_s * 1000);
    }
    return true;
}

static void free_lanes(struct mtr_bench_client *c, struct lane *lanes, uint32_t count)
{
    for (uint32_t i = 0; lanes && i < count; i++) {
        if (lanes[i].sample && !lanes[i].sample->error[0])
            snprintf(lanes[i].sample->error, sizeof lanes[i].sample->error, "cancelled");
        if (lanes[i].sample)
            finish(c, &lanes[i], CURLE_ABORTED_BY_CALLBACK);
        curl_easy_cleanup(lanes[i].easy);
        mtr_buf_free(&lanes[i].request);
        mtr_buf_free(&lanes[i].refusal);
    }
    free(lanes);
}

/* The done ones are ended and begin again while there are requests. */
static bool turn_over(struct mtr_bench_client *c, struct mtr_bench_load *load, uint32_t *done)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(c->multi, &left));) {
        struct lane *l = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &l);
        finish(c, l, code);
        ++*done;
        if (load->begun < load->requests && !begin(c, load, l))
            return false;
    }
    return true;
}

static bool was_cancelled(const struct mtr_bench_client *c)
{
    struct signalfd_siginfo info;
    return read(c->signal_fd, &info, sizeof info) == (ssize_t)sizeof info;
}

/* Every request has its deadline, so this ends. */
static bool drive(struct mtr_bench_client *c, struct mtr_bench_load *load, struct lane *lanes,
                  bool *cancelled)
{
    int running;
    uint32_t done = 0;
    struct curl_waitfd signals = {.fd = c->signal_fd, .events = CURL_WAIT_POLLIN};
    for (uint32_t i = 0; i < load->width && load->begun < load->requests; i++)
        if (!begin(c, load, &lanes[i]))
            return false;
    while (done < load->requests) {
        if (curl_multi_perform(c->multi, &running) != CURLM_OK || !turn_over(c, load, &done))
            return false;
        if (done < load->requests &&
            curl_multi_poll(c->multi, &signals, 1, POLL_MS, NULL) != CURLM_OK)
            return false;
        if ((*cancelled = was_cancelled(c)))
            return false;
    }
    return true;
}

static void allow_files(uint32_t width)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)width + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

bool mtr_bench_load_run(struct mtr_bench_client *c, struct mtr_bench_load *load, bool *cancelled,
                        struct mtr_error *err)
{
    struct lane *lanes = calloc(load->width, sizeof *lanes);
    load->begun = 0;
    load->gaps.count = 0;
    *cancelled = false;
    allow_files(load->width);
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)load->width);
    bool ok = lanes && make_lanes(c, load, lanes);
    uint64_t start = mtr_now_ns(&c->clock);
    ok = ok && drive(c, load, lanes, cancelled);
    load->wall_ns = mtr_now_ns(&c->clock) - start;
    free_lanes(c, lanes, load->width);
    if (*cancelled)
        return mtr_fail(err, MTR_TIMEOUT, "cancelled by a signal");
    return ok || mtr_fail(err, MTR_NO_MEMORY, "out of memory for %u streams", load->width);
}
