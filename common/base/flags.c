/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/flags.h"

#include <stdio.h>
#include <string.h>

#include "common/base/str.h"

#define HELP_COLUMN 34

/* ---- Suggestions ------------------------------------------------------------------------------
 */

#define MAX_NAME 48

/* Edit distance (Wagner, Fischer 1974), for names shorter than MAX_NAME. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[MAX_NAME + 1];
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t cost = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < cost)
                cost = row[j] + 1;
            if (row[j - 1] + 1 < cost)
                cost = row[j - 1] + 1;
            row[j] = cost;
        }
    }
    return row[b_len];
}

static const char *nearest(const struct mtr_flag *flags, size_t count, struct mtr_str name)
{
    const char *best = NULL;
    size_t best_distance = 4;
    if (name.len > MAX_NAME)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (flags[i].kind == MTR_FLAG_SECTION || strlen(flags[i].name) > MAX_NAME)
            continue;
        size_t d = distance(name.ptr, name.len, flags[i].name, strlen(flags[i].name));
        if (d < best_distance) {
            best_distance = d;
            best = flags[i].name;
        }
    }
    return best;
}

/* ---- Values -----------------------------------------------------------------------------------
 */

static bool is_choice(const char *choices, const char *value)
{
    size_t len = strlen(value);
    if (strchr(value, '|'))
        return false;
    for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
        if (len && strncmp(c, value, len) == 0 && (c[len] == '|' || c[len] == '\0'))
            return true;
    return false;
}

static bool set_integer(const struct mtr_flag *f, const char *value, struct mtr_error *err)
{
    uint64_t n;
    if (!mtr_str_to_u64(mtr_str(value), &n) || (double)n < f->min || (double)n > f->max)
        return mtr_fail(err, MTR_INVALID, "--%s takes an integer from %.0f to %.0f, not '%s'",
                        f->name, f->min, f->max, value);
    if (f->kind == MTR_FLAG_U32)
        *(uint32_t *)f->target = (uint32_t)n;
    else
        *(uint64_t *)f->target = n;
    return true;
}

static bool set_value(const struct mtr_flag *f, const char *value, struct mtr_error *err)
{
    double d;
    switch (f->kind) {
    case MTR_FLAG_U32:
    case MTR_FLAG_U64:
        return set_integer(f, value, err);
    case MTR_FLAG_REAL:
        if (!mtr_str_to_f64(mtr_str(value), &d) || d < f->min || d > f->max)
            return mtr_fail(err, MTR_INVALID, "--%s takes a number from %g to %g, not '%s'",
                            f->name, f->min, f->max, value);
        *(double *)f->target = d;
        return true;
    case MTR_FLAG_CHOICE:
        if (!is_choice(f->choices, value))
            return mtr_fail(err, MTR_INVALID, "--%s takes one of %s, not '%s'", f->name, f->choices,
                            value);
        *(const char **)f->target = value;
        return true;
    default:
        if (!value[0])
            return mtr_fail(err, MTR_INVALID, "--%s takes a value, not an empty one", f->name);
        *(const char **)f->target = value;
        return true;
    }
}

/* ---- Parsing ----------------------------------------------------------------------------------
 */

static const struct mtr_flag *find(const struct mtr_flag *flags, size_t count, struct mtr_str name)
{
    for (size_t i = 0; i < count; i++)
        if (flags[i].kind != MTR_FLAG_SECTION && mtr_str_is(name, flags[i].name))
            return &flags[i];
    return NULL;
}

/* One flag at argv[*i]; moves *i past a value that is an argument of its own. */
static bool parse_flag(const struct mtr_flag *flags, size_t count, int argc, char **argv, int *i,
                       struct mtr_error *err)
{
    struct mtr_str name = mtr_str(argv[*i] + 2);
    const char *value = memchr(name.ptr, '=', name.len);
    if (value)
        name.len = (size_t)(value++ - name.ptr);
    const struct mtr_flag *f = find(flags, count, name);
    if (!f) {
        const char *near = nearest(flags, count, name);
        return mtr_fail(err, MTR_INVALID, "there is no flag --%.*s%s%s%s", MTR_STR_ARG(name),
                        near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
    }
    if (f->kind == MTR_FLAG_BOOL || f->kind == MTR_FLAG_NOT) {
        if (value)
            return mtr_fail(err, MTR_INVALID, "--%s takes no value", f->name);
        *(bool *)f->target = f->kind == MTR_FLAG_BOOL;
        return true;
    }
    if (!value && *i + 1 >= argc)
        return mtr_fail(err, MTR_INVALID, "--%s needs a value", f->name);
    return set_value(f, value ? value : argv[++*i], err);
}

bool mtr_flags_parse(const struct mtr_flag *flags, size_t count, int argc, char **argv,
                     const char **positionals, size_t max_positionals, size_t *positional_count,
                     struct mtr_error *err)
{
    bool only_positionals = false;
    *positional_count = 0;
    for (int i = 1; i < argc; i++) {
        if (!only_positionals && strcmp(argv[i], "--") == 0) {
            only_positionals = true;
        } else if (!only_positionals && strncmp(argv[i], "--", 2) == 0) {
            if (!parse_flag(flags, count, argc, argv, &i, err))
                return false;
        } else if (!only_positionals && argv[i][0] == '-' && argv[i][1]) {
            return mtr_fail(err, MTR_INVALID, "'%s' is no flag: flags begin with two dashes",
                            argv[i]);
        } else if (*positional_count == max_positionals) {
            return mtr_fail(err, MTR_INVALID, "'%s' is one argument too many", argv[i]);
        } else {
            positionals[(*positional_count)++] = argv[i];
        }
    }
    return true;
}

/* ---- Help -------------------------------------------------------------------------------------
 */

static void put_default(struct mtr_buf *out, const struct mtr_flag *f)
{
    const char *text;
    switch (f->kind) {
    case MTR_FLAG_U32:
        mtr_buf_printf(out, " [%u]", *(uint32_t *)f->target);
        break;
    case MTR_FLAG_U64:
        mtr_buf_printf(out, " [%llu]", (unsigned long long)*(uint64_t *)f->target);
        break;
    case MTR_FLAG_REAL:
        mtr_buf_printf(out, " [%g]", *(double *)f->target);
        break;
    case MTR_FLAG_STRING:
    case MTR_FLAG_CHOICE:
        text = *(const char **)f->target;
        if (text)
            mtr_buf_printf(out, " [%s]", text);
        break;
    default:
        break;
    }
}

bool mtr_flags_help(const struct mtr_flag *flags, size_t count, struct mtr_buf *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct mtr_flag *f = &flags[i];
        if (f->kind == MTR_FLAG_SECTION) {
            mtr_buf_printf(out, "\n%s:\n", f->help);
            continue;
        }
        const char *value = f->kind == MTR_FLAG_CHOICE ? f->choices : f->value ? f->value : "";
        size_t start = out->len;
        mtr_buf_printf(out, "  --%s %s", f->name, value);
        size_t used = out->len - start;
        mtr_buf_printf(out, "%*s%s", used < HELP_COLUMN ? (int)(HELP_COLUMN - used) : 2, "",
                       f->help);
        put_default(out, f);
        mtr_buf_byte(out, '\n');
    }
    return !out->failed;
}
