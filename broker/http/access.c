/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Token buckets with lazy refill: a bucket holds units and the time of its last look.
 */
#include "broker/http/access.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/hash.h"

#define MAX_TOKEN_FILE_BYTES (1u << 20)

struct bucket {
    double level;
    uint64_t seen_ns;
};

struct access_key {
    uint8_t digest[32];
    struct bucket requests, tokens;
};

struct mtr_access {
    pthread_mutex_t lock;
    struct mtr_rate_limits limits;
    uint32_t count;          /* of keys; 0: open to all, keys[0] is the anonymous one */
    struct access_key *keys; /* [max(count, 1)] */
};

struct mtr_access *mtr_access_create(const struct mtr_rate_limits *limits)
{
    struct mtr_access *a = calloc(1, sizeof *a);
    if (!a || !(a->keys = calloc(1, sizeof *a->keys))) {
        free(a);
        return NULL;
    }
    a->limits = *limits;
    if (!a->limits.request_burst)
        a->limits.request_burst = a->limits.requests_per_minute;
    if (!a->limits.token_burst)
        a->limits.token_burst = a->limits.tokens_per_minute;
    a->keys[0].requests.level = a->limits.request_burst;
    a->keys[0].tokens.level = a->limits.token_burst;
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void mtr_access_free(struct mtr_access *a)
{
    if (!a)
        return;
    pthread_mutex_destroy(&a->lock);
    free(a->keys);
    free(a);
}

/* ---- Loading ----------------------------------------------------------------------------------
 */

struct key_list {
    struct access_key *keys;
    size_t cap;
    uint32_t count;
};

static bool add_key(struct key_list *list, struct mtr_str token, struct mtr_error *err)
{
    if (list->count == MTR_ACCESS_MAX_KEYS)
        return mtr_fail(err, MTR_TOO_LARGE, "more than %d tokens", MTR_ACCESS_MAX_KEYS);
    if (!mtr_grow((void **)&list->keys, &list->cap, list->count + 1u, sizeof *list->keys))
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory loading tokens");
    struct access_key *k = &list->keys[list->count++];
    *k = (struct access_key){0};
    mtr_sha256(token.ptr, token.len, k->digest);
    return true;
}

static struct mtr_str trim(struct mtr_str s)
{
    while (s.len && strchr(" \t\r", s.ptr[s.len - 1]))
        s.len--;
    while (s.len && strchr(" \t", s.ptr[0]))
        s = mtr_str_sub(s, 1, s.len);
    return s;
}

static bool add_file(struct key_list *list, const char *path, struct mtr_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return mtr_fail_errno(err, "can't read the token file %s", path);
    if (st.st_mode & 077)
        return mtr_fail(err, MTR_DENIED,
                        "the token file %s can be read by others (mode %03o): "
                        "chmod 600 it",
                        path, (unsigned)st.st_mode & 0777);
    struct mtr_arena arena;
    mtr_arena_init(&arena, 2 * MAX_TOKEN_FILE_BYTES);
    struct mtr_str text;
    bool ok = mtr_file_read(&arena, path, MAX_TOKEN_FILE_BYTES, &text, err);
    for (size_t at = 0; ok && at < text.len;) {
        size_t end = mtr_str_find(text, MTR_STR("\n"), at);
        if (end == SIZE_MAX)
            end = text.len;
        struct mtr_str line = trim(mtr_str_sub(text, at, end - at));
        if (line.len && line.ptr[0] != '#')
            ok = add_key(list, line, err);
        at = end + 1;
    }
    mtr_arena_free(&arena);
    return ok;
}

/* A key that stays keeps its buckets. */
static void carry_over(struct mtr_access *a, struct key_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        list->keys[i].requests.level = a->limits.request_burst;
        list->keys[i].tokens.level = a->limits.token_burst;
        for (uint32_t k = 0; k < a->count; k++)
            if (sodium_memcmp(a->keys[k].digest, list->keys[i].digest, 32) == 0)
                list->keys[i] = a->keys[k];
    }
}

bool mtr_access_load(struct mtr_access *a, const char *single, const char *file,
                     struct mtr_error *err)
{
    struct key_list list = {0};
    if (!single && !file)
        return true;
    if ((single && !add_key(&list, mtr_str(single), err)) || (file && !add_file(&list, file, err)))
        goto fail;
    if (list.count == 0) {
        mtr_fail(err, MTR_INVALID, "the token file %s holds no token", file);
        goto fail;
    }
    pthread_mutex_lock(&a->lock);
    carry_over(a, &list);
    free(a->keys);
    a->keys = list.keys;
    a->count = list.count;
    pthread_mutex_unlock(&a->lock);
    return true;
fail:
    free(list.keys);
    return false;
}

/* ---- Checking ---------------------------------------------------------------------------------
 */

/* Looks at every key, so that the time says nothing about which one matched. */
static bool find_key(const struct mtr_access *a, struct mtr_str token, uint32_t *index)
{
    uint8_t digest[32];
    bool found = false;
    mtr_sha256(token.ptr, token.len, digest);
    for (uint32_t i = 0; i < a->count; i++)
        if (sodium_memcmp(digest, a->keys[i].digest, sizeof digest) == 0) {
            *index = i;
            found = true;
        }
    return found;
}

static void refill(struct bucket *b, uint32_t per_minute, uint32_t burst, uint64_t now_ns)
{
    if (b->seen_ns && now_ns > b->seen_ns)
        b->level += (double)(now_ns - b->seen_ns) / 60e9 * per_minute;
    if (b->level > burst)
        b->level = burst;
    b->seen_ns = now_ns;
}

/* Seconds until the bucket has `need` units, at least 1. */
static uint32_t wait_s(const struct bucket *b, double need, uint32_t per_minute)
{
    double s = (need - b->level) / per_minute * 60;
    return s < 1 ? 1 : s > 3600 ? 3600 : (uint32_t)s + 1;
}

/* Tells keys apart for as long as a request lives; no secret, and none can be found from it. */
static uint64_t name_of(const struct access_key *k)
{
    uint64_t name;
    memcpy(&name, k->digest, sizeof name);
    return name;
}

static bool take(struct mtr_access *a, uint32_t key, uint64_t now_ns, uint32_t *retry_s,
                 struct mtr_error *err)
{
    const struct mtr_rate_limits *l = &a->limits;
    struct access_key *k = &a->keys[key];
    if (l->tokens_per_minute) {
        refill(&k->tokens, l->tokens_per_minute, l->token_burst, now_ns);
        if (k->tokens.level <= 0) {
            *retry_s = wait_s(&k->tokens, 1, l->tokens_per_minute);
            return mtr_fail(err, MTR_BUSY,
                            "over the limit of %u tokens a minute; try again in %u s",
                            l->tokens_per_minute, *retry_s);
        }
    }
    if (l->requests_per_minute) {
        refill(&k->requests, l->requests_per_minute, l->request_burst, now_ns);
        if (k->requests.level < 1) {
            *retry_s = wait_s(&k->requests, 1, l->requests_per_minute);
            return mtr_fail(err, MTR_BUSY,
                            "over the limit of %u requests a minute; try again in %u s",
                            l->requests_per_minute, *retry_s);
        }
        k->requests.level -= 1;
    }
    return true;
}

bool mtr_access_check(struct mtr_access *a, struct mtr_str authorization, uint64_t now_ns,
                      uint64_t *key, uint32_t *retry_s, struct mtr_error *err)
{
    bool ok = true;
    uint32_t index = 0;
    *retry_s = 0;
    pthread_mutex_lock(&a->lock);
    if (a->count) {
        bool bearer = authorization.len > 7 && strncasecmp(authorization.ptr, "Bearer ", 7) == 0;
        if (!bearer)
            ok = mtr_fail(err, MTR_DENIED,
                          "this server needs an API key: send 'Authorization: Bearer KEY'");
        else if (!find_key(a, trim(mtr_str_sub(authorization, 7, authorization.len)), &index))
            ok = mtr_fail(err, MTR_DENIED, "the API key is not valid");
    }
    ok = ok && take(a, index, now_ns, retry_s, err);
    *key = name_of(&a->keys[index]);
    pthread_mutex_unlock(&a->lock);
    return ok;
}

void mtr_access_charge(struct mtr_access *a, uint64_t key, uint64_t tokens, uint64_t now_ns)
{
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; a->limits.tokens_per_minute && i < (a->count ? a->count : 1); i++) {
        struct bucket *b = &a->keys[i].tokens;
        if (name_of(&a->keys[i]) != key)
            continue;
        refill(b, a->limits.tokens_per_minute, a->limits.token_burst, now_ns);
        b->level -= (double)tokens;
        break;
    }
    pthread_mutex_unlock(&a->lock);
}
