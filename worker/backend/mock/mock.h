/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The mock backend: host memory, real copies and fills, and a record of these and of every launch,
 * which has no other effect. Tests ask what was launched, in which order, with which grid and
 * arguments; they can declare kernels absent, make all calls after the n-th fail, and let copies
 * and fills wait, as a device does, until somebody waits for a stream or an event behind them. A
 * graph that is launched is recorded as its launches.
 */
#ifndef MTR_BACKEND_MOCK_H
#define MTR_BACKEND_MOCK_H

#include "worker/backend/backend.h"

enum mtr_mock_kind {
    MTR_MOCK_LAUNCH,
    MTR_MOCK_UPLOAD,
    MTR_MOCK_DOWNLOAD,
    MTR_MOCK_COPY,
    MTR_MOCK_FILL,
};

struct mtr_mock_call {
    enum mtr_mock_kind kind;
    const char *module, *function; /* LAUNCH */
    uint32_t grid[3];
    const void *args; /* LAUNCH: a copy, owned by the mock */
    size_t bytes;     /* of args, or of the copy */
    void *dst;
    const void *src;
    uint8_t value; /* FILL */
};

struct mtr_backend *mtr_mock_backend_create(void); /* NULL: no memory */
uint32_t mtr_mock_call_count(const struct mtr_backend *b);
const struct mtr_mock_call *mtr_mock_call(const struct mtr_backend *b, uint32_t index);
void mtr_mock_forget(struct mtr_backend *b);
void mtr_mock_deny(struct mtr_backend *b, const char *module, const char *function);
void mtr_mock_defer(struct mtr_backend *b, bool deferred);
void mtr_mock_be(struct mtr_backend *b, bool direct, bool graphs); /* what info() says */
/* Gives launches an effect, at the time when copies have theirs. */
void mtr_mock_on_launch(struct mtr_backend *b,
                        void (*run)(void *context, const struct mtr_mock_call *launch),
                        void *context);
void mtr_mock_fail_after(struct mtr_backend *b, uint32_t calls); /* the device is lost then */

#endif
