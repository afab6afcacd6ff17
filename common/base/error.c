/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages are composed in the caller's struct. What they quote comes from files and clients, so
 * the last step of each composition makes the text safe to print: one line, valid UTF-8, cut at a
 * character boundary.
 */
#include "common/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

/* Control characters and bytes that are no UTF-8 become '?'; a character cut by the end goes. */
static void make_printable(char *text)
{
    size_t len = strlen(text), i = 0;
    while (i < len) {
        uint32_t cp;
        int n = mtr_utf8_decode(text + i, len - i, &cp);
        if (n == -2) {
            text[i] = 0;
            return;
        }
        if (n < 0 || cp < 0x20 || cp == 0x7f) {
            text[i] = '?';
            n = 1;
        }
        i += (size_t)n;
    }
}

static void compose(struct mtr_error *err, enum mtr_code code, const char *field,
                    const char *format, va_list args)
{
    /* Arguments may point into *err itself, so it is overwritten only when all is formatted. */
    char message[MTR_ERROR_MESSAGE_BYTES];
    char name[sizeof err->field];
    vsnprintf(message, sizeof message, format, args);
    snprintf(name, sizeof name, "%s", field);
    make_printable(message);
    make_printable(name);
    err->code = code;
    memcpy(err->message, message, sizeof message);
    memcpy(err->field, name, sizeof name);
}

bool mtr_fail(struct mtr_error *err, enum mtr_code code, const char *format, ...)
{
    if (!err)
        return false;
    va_list args;
    va_start(args, format);
    compose(err, code, "", format, args);
    va_end(args);
    return false;
}

bool mtr_fail_field(struct mtr_error *err, enum mtr_code code, const char *field,
                    const char *format, ...)
{
    if (!err)
        return false;
    va_list args;
    va_start(args, format);
    compose(err, code, field, format, args);
    va_end(args);
    return false;
}

bool mtr_fail_errno(struct mtr_error *err, const char *format, ...)
{
    int reason = errno;
    if (!err)
        return false;
    va_list args;
    va_start(args, format);
    compose(err, MTR_IO, "", format, args);
    va_end(args);
    char text[MTR_ERROR_MESSAGE_BYTES];
    memcpy(text, err->message, sizeof text);
    return mtr_fail(err, MTR_IO, "%s: %s", text, strerror(reason));
}

bool mtr_error_prefix(struct mtr_error *err, const char *format, ...)
{
    if (!err)
        return false;
    char prefix[MTR_ERROR_MESSAGE_BYTES];
    char text[2 * MTR_ERROR_MESSAGE_BYTES + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    snprintf(text, sizeof text, "%s: %s", prefix, err->message);
    memcpy(err->message, text, sizeof err->message);
    err->message[sizeof err->message - 1] = 0;
    make_printable(err->message);
    return false;
}

const char *mtr_code_name(enum mtr_code code)
{
    static const char *const names[] = {
        [MTR_OK] = "ok",
        [MTR_INVALID] = "invalid",
        [MTR_NOT_FOUND] = "not_found",
        [MTR_UNSUPPORTED] = "unsupported",
        [MTR_TOO_LARGE] = "too_large",
        [MTR_BUSY] = "busy",
        [MTR_DENIED] = "denied",
        [MTR_TIMEOUT] = "timeout",
        [MTR_NO_MEMORY] = "no_memory",
        [MTR_IO] = "io",
        [MTR_INTERNAL] = "internal",
    };
    size_t i = (size_t)code;
    return i < sizeof names / sizeof *names ? names[i] : "unknown";
}
