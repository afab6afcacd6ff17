/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What went wrong, said once.
 *
 * A function that can fail returns bool (or a pointer) and takes a `struct mtr_error *` as its last
 * argument. On failure it fills it; on success it leaves it alone. The caller owns the struct,
 * usually on its stack, and may pass NULL when the reason does not matter.
 *
 * A message is one sentence for a person who did not write the code: it names the thing (file,
 * field, tensor, peer), what was found and what was expected. Context is added on the way up with
 * mtr_error_prefix(), so that the outermost words come first: "model.gguf: tensor 3: ...".
 */
#ifndef MTR_BASE_ERROR_H
#define MTR_BASE_ERROR_H

#include <stdbool.h>
#include <stdarg.h>

enum mtr_code {
    MTR_OK = 0,
    MTR_INVALID,     /* the input can't be right: HTTP 400, exit status 2 */
    MTR_NOT_FOUND,   /* a named thing does not exist: HTTP 404 */
    MTR_UNSUPPORTED, /* well-formed, but not implemented here; the message says what is missing */
    MTR_TOO_LARGE,   /* a documented limit was exceeded; the message has both numbers */
    MTR_BUSY,        /* try again later: HTTP 429 or 503 */
    MTR_DENIED,      /* not allowed: HTTP 401 or 403 */
    MTR_TIMEOUT,     /* a deadline passed; the message names the peer */
    MTR_NO_MEMORY,   /* an allocation or a memory budget failed */
    MTR_IO,          /* the operating system or a device said no */
    MTR_INTERNAL,    /* our own mistake */
};

#define MTR_ERROR_MESSAGE_BYTES 512

struct mtr_error {
    enum mtr_code code;
    char message[MTR_ERROR_MESSAGE_BYTES]; /* UTF-8, NUL-terminated, cut at a character boundary */
    char field[64]; /* the request field at fault ("messages[2].content"), or "" */
};

/* Fills *err (if not NULL) and returns false, so that `return mtr_fail(err, ...)` reads well. */
bool mtr_fail(struct mtr_error *err, enum mtr_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As mtr_fail, and names the request field at fault. */
bool mtr_fail_field(struct mtr_error *err, enum mtr_code code, const char *field,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* As mtr_fail with code MTR_IO, and appends strerror(errno). */
bool mtr_fail_errno(struct mtr_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the message. Returns false. */
bool mtr_error_prefix(struct mtr_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "invalid", "not_found", ...: stable, for logs and the wire. */
const char *mtr_code_name(enum mtr_code code);

#endif
