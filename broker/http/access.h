/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who may call, and how often.
 *
 * Without tokens everybody may (the server binds loopback unless told otherwise). With tokens, a
 * request needs "Authorization: Bearer TOKEN"; tokens are held and compared as SHA-256 digests, in
 * constant time. Each key (or, without tokens, the one anonymous key) has a bucket of requests and
 * a bucket of tokens a minute. Thread-safe.
 */
#ifndef MTR_HTTP_ACCESS_H
#define MTR_HTTP_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/str.h"

#define MTR_ACCESS_MAX_KEYS 1024

struct mtr_access;

struct mtr_rate_limits {
    uint32_t requests_per_minute; /* 0: no limit */
    uint32_t request_burst;       /* 0: = requests_per_minute */
    uint32_t tokens_per_minute;   /* 0: no limit */
    uint32_t token_burst;         /* 0: = tokens_per_minute */
};

struct mtr_access *mtr_access_create(const struct mtr_rate_limits *limits);
void mtr_access_free(struct mtr_access *a);

/* Replaces all tokens by those of `single` (or NULL) and of the file (or NULL): one a line, #
 * begins a comment. A file that others can read is refused. On failure nothing changes. */
bool mtr_access_load(struct mtr_access *a, const char *single, const char *file,
                     struct mtr_error *err);

/* Checks the header's value ({NULL, 0}: absent). On success *key names the caller's buckets (it is
 * made of the key, so that it means the same after the keys were read again).
 * MTR_DENIED when it may not call; MTR_BUSY when it calls too often, and *retry_s says when not. */
bool mtr_access_check(struct mtr_access *a, struct mtr_str authorization, uint64_t now_ns,
                      uint64_t *key, uint32_t *retry_s, struct mtr_error *err);

/* Takes what a finished request used from the key's token bucket (which may go below zero: the next
 * request then waits). */
void mtr_access_charge(struct mtr_access *a, uint64_t key, uint64_t tokens, uint64_t now_ns);

#endif
