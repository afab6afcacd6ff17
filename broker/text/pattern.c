/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Strings, expressions and sets behind one question: where is the next match?
 */
#include "broker/text/pattern.h"

#include <stdlib.h>
#include <string.h>

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "pattern: out of memory");
}

bool mtr_pattern_from_string(struct mtr_pattern *p, struct mtr_str string, struct mtr_error *err)
{
    memset(p, 0, sizeof *p);
    p->string = malloc(string.len + 1);
    if (p->string == NULL)
        return no_memory(err);
    if (string.len > 0)
        memcpy(p->string, string.ptr, string.len);
    p->string_len = string.len;
    return true;
}

bool mtr_pattern_from_regex(struct mtr_pattern *p, struct mtr_str regex, struct mtr_error *err)
{
    memset(p, 0, sizeof *p);
    p->regex = mtr_regex_compile(regex, err);
    return p->regex != NULL;
}

bool mtr_pattern_from_ranges(struct mtr_pattern *p, struct mtr_ranges *set, struct mtr_error *err)
{
    memset(p, 0, sizeof *p);
    p->set = calloc(1, sizeof *p->set);
    bool ok = p->set != NULL && mtr_charset_init(p->set, set);
    mtr_ranges_free(set);
    if (ok)
        return true;
    mtr_pattern_free(p);
    return no_memory(err);
}

bool mtr_pattern_from_json(struct mtr_pattern *p, const struct mtr_json *owner,
                           struct mtr_error *err)
{
    const struct mtr_json *v = mtr_json_get(owner, "pattern");
    const struct mtr_json *string = mtr_json_get(v, "String"), *regex = mtr_json_get(v, "Regex");
    if (regex != NULL && regex->kind == MTR_JSON_STRING)
        return mtr_pattern_from_regex(p, regex->text, err);
    if (string != NULL && string->kind == MTR_JSON_STRING)
        return mtr_pattern_from_string(p, string->text, err);
    return mtr_fail(err, MTR_INVALID, "pattern: neither {\"String\": ..} nor {\"Regex\": ..}");
}

void mtr_pattern_free(struct mtr_pattern *p)
{
    free(p->string);
    mtr_regex_free(p->regex);
    if (p->set != NULL)
        mtr_charset_free(p->set);
    free(p->set);
    memset(p, 0, sizeof *p);
}

static bool next_in_set(const struct mtr_charset *set, struct mtr_str text, size_t from,
                        size_t *start, size_t *end)
{
    for (size_t at = from; at < text.len;) {
        size_t n = (size_t)mtr_utf8_length(text.ptr[at]);
        if (mtr_charset_one(set, text.ptr + at, n) > 0) {
            *start = at;
            *end = at + n;
            return true;
        }
        at += n;
    }
    return false;
}

static bool next_string(const struct mtr_pattern *p, struct mtr_str text, size_t from,
                        size_t *start, size_t *end)
{
    if (p->string_len == 0 || from >= text.len)
        return false;
    const char *at = memmem(text.ptr + from, text.len - from, p->string, p->string_len);
    if (at == NULL)
        return false;
    *start = (size_t)(at - text.ptr);
    *end = *start + p->string_len;
    return true;
}

bool mtr_pattern_next(const struct mtr_pattern *p, struct mtr_regex_scanner *s, struct mtr_str text,
                      size_t from, bool empties, size_t *start, size_t *end)
{
    if (p->set != NULL)
        return next_in_set(p->set, text, from, start, end);
    if (p->regex == NULL)
        return next_string(p, text, from, start, end);
    while (mtr_regex_find(p->regex, s, text, from, start, end)) {
        if (empties || *end > *start)
            return true;
        if (*end >= text.len)
            break;
        from = *end + (size_t)mtr_utf8_length(text.ptr[*end]);
    }
    return false;
}

bool mtr_pattern_gave_up(struct mtr_error *err)
{
    return mtr_fail(err, MTR_TOO_LARGE,
                    "the tokenizer's split pattern needs more than %d steps a byte on this text",
                    MTR_REGEX_STEPS_PER_BYTE);
}
