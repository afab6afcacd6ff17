/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/wire/agreement.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"

__attribute__((format(printf, 2, 3))) static void add(struct mtr_agreement *a, const char *format,
                                                      ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(a->entries[a->count++], MTR_AGREEMENT_ENTRY_BYTES, format, args);
    va_end(args);
}

void mtr_agreement_make(struct mtr_agreement *a, const struct mtr_agreement_facts *f)
{
    char digest[65];
    mtr_hex(f->plan_digest, 32, digest);
    a->count = 0;
    add(a, "build=%s", f->build);
    add(a, "hardware=%s", f->hardware);
    add(a, "plan=%s", digest);
    add(a, "precision=%s", f->precision);
    add(a, "cache_format=%s", f->cache_format);
    add(a, "block_tokens=%u", f->block_tokens);
    add(a, "max_slots=%u", f->max_slots);
    add(a, "max_step_tokens=%u", f->max_step_tokens);
    add(a, "max_step_outputs=%u", f->max_step_outputs);
    add(a, "max_sequence_tokens=%u", f->max_sequence_tokens);
    add(a, "world_size=%u", f->world_size);
}

bool mtr_agreement_read(struct mtr_agreement *a, char *const *entries, size_t count,
                        struct mtr_error *err)
{
    if (count > MTR_AGREEMENT_ENTRIES)
        return mtr_fail(err, MTR_INVALID, "%zu entries to agree on, at most %d are expected", count,
                        MTR_AGREEMENT_ENTRIES);
    a->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(entries[i]);
        const char *equals = strchr(entries[i], '=');
        if (len >= MTR_AGREEMENT_ENTRY_BYTES || !equals || equals == entries[i])
            return mtr_fail(err, MTR_INVALID,
                            "'%.40s' is not name=value of less than %d bytes to agree on",
                            entries[i], MTR_AGREEMENT_ENTRY_BYTES);
        memcpy(a->entries[i], entries[i], len + 1);
    }
    return true;
}

/* The value of the entry with the same name as this one, or NULL. */
static const char *value_of(const struct mtr_agreement *a, const char *entry)
{
    size_t name = strcspn(entry, "=") + 1;
    for (uint32_t i = 0; i < a->count; i++)
        if (strncmp(a->entries[i], entry, name) == 0)
            return a->entries[i] + name;
    return NULL;
}

/* What differences are said in: the message of an error, as far as it goes. */
struct sentence {
    char text[MTR_ERROR_MESSAGE_BYTES];
    size_t len;
};

static void say(struct sentence *s, const char *entry, const char *mine, const char *my_value,
                const char *theirs, const char *their_value)
{
    int n = snprintf(s->text + s->len, sizeof s->text - s->len, "%s%.*s is %s for %s, %s for %s",
                     s->len ? "; " : "", (int)strcspn(entry, "="), entry,
                     my_value ? my_value : "missing", mine, their_value ? their_value : "missing",
                     theirs);
    s->len += n < 0 ? 0 : (size_t)n;
    if (s->len >= sizeof s->text)
        s->len = sizeof s->text - 1;
}

bool mtr_agreement_compare(const struct mtr_agreement *a, const char *mine,
                           const struct mtr_agreement *b, const char *theirs, struct mtr_error *err)
{
    struct sentence s = {.len = 0};
    for (uint32_t i = 0; i < a->count; i++) {
        const char *ours = value_of(a, a->entries[i]), *other = value_of(b, a->entries[i]);
        if (!other || strcmp(ours, other) != 0)
            say(&s, a->entries[i], mine, ours, theirs, other);
    }
    for (uint32_t i = 0; i < b->count; i++)
        if (!value_of(a, b->entries[i]))
            say(&s, b->entries[i], mine, NULL, theirs, value_of(b, b->entries[i]));
    return s.len == 0 || mtr_fail(err, MTR_INVALID, "%s", s.text);
}
