/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The methods of strings. On markup the results are markup, and what is put in is escaped.
 */
#include "broker/text/jinja/run.h"

#define SELF struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *a, struct mtr_jv *out

static bool given(const struct mtr_jv *v)
{
    return v->kind != MTR_JK_MISSING;
}

static bool is_none(const struct mtr_jv *v)
{
    return v->kind == MTR_JK_MISSING || v->kind == MTR_JK_NONE;
}

/* The argument, escaped if self is markup. */
static bool inserted(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *arg,
                     const char *what, struct mtr_jv *out)
{
    if (mtr_jis_markup(self))
        return mtr_jescape(r, arg, out);
    struct mtr_str s;
    if (!mtr_jarg_str(r, what, arg, &s))
        return false;
    *out = *arg;
    return true;
}

/* ---- case ---- */

static bool m_upper(SELF)
{
    (void)a;
    return mtr_jcase(r, self, MTR_JCASE_UPPER, out);
}

static bool m_lower(SELF)
{
    (void)a;
    return mtr_jcase(r, self, MTR_JCASE_LOWER, out);
}

static bool m_title(SELF)
{
    (void)a;
    return mtr_jcase(r, self, MTR_JCASE_TITLE, out);
}

static bool m_capitalize(SELF)
{
    (void)a;
    return mtr_jcase(r, self, MTR_JCASE_CAPITALIZE, out);
}

static bool m_swapcase(SELF)
{
    (void)a;
    return mtr_jcase(r, self, MTR_JCASE_SWAP, out);
}

static bool m_casefold(SELF)
{
    (void)a;
    return mtr_jcase(r, self, MTR_JCASE_FOLD, out);
}

/* ---- strip, split, replace ---- */

static bool strip(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *a, int sides,
                  struct mtr_jv *out)
{
    struct mtr_str s;
    if (is_none(&a[0]))
        return mtr_jstrip(r, self, NULL, sides, out);
    return mtr_jarg_str(r, "strip", &a[0], &s) && mtr_jstrip(r, self, &a[0], sides, out);
}

static bool m_strip(SELF)
{
    return strip(r, self, a, 3, out);
}

static bool m_lstrip(SELF)
{
    return strip(r, self, a, 1, out);
}

static bool m_rstrip(SELF)
{
    return strip(r, self, a, 2, out);
}

static bool split(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *a, bool right,
                  struct mtr_jv *out)
{
    struct mtr_str sep;
    int64_t max = -1;
    if (given(&a[1]) && !mtr_jarg_int(r, "split", &a[1], &max))
        return false;
    if (is_none(&a[0]))
        return mtr_jsplit(r, self, NULL, max, right, out);
    return mtr_jarg_str(r, "split", &a[0], &sep) && mtr_jsplit(r, self, &sep, max, right, out);
}

static bool m_split(SELF)
{
    return split(r, self, a, false, out);
}

static bool m_rsplit(SELF)
{
    return split(r, self, a, true, out);
}

static bool m_splitlines(SELF)
{
    return mtr_jsplitlines(r, self, given(&a[0]) && mtr_jtruth(&a[0]), out);
}

static bool m_replace(SELF)
{
    struct mtr_str old;
    struct mtr_jv new;
    int64_t count = -1;
    if (given(&a[2]) && !mtr_jarg_int(r, "replace", &a[2], &count))
        return false;
    return mtr_jarg_str(r, "replace", &a[0], &old) && inserted(r, self, &a[1], "replace", &new) &&
           mtr_jreplace(r, self, old, &new, count, out);
}

static bool triple(struct mtr_jr *r, const struct mtr_jv *self, size_t at, size_t len,
                   struct mtr_jv *out)
{
    struct mtr_jlist *l = mtr_jlist_new(r, 3);
    if (!l || !mtr_jsub(r, self, 0, (uint32_t)at, &l->items[0]) ||
        !mtr_jsub(r, self, (uint32_t)at, (uint32_t)len, &l->items[1]) ||
        !mtr_jsub(r, self, (uint32_t)(at + len), (uint32_t)(self->len - at - len), &l->items[2]))
        return false;
    l->count = 3;
    *out = mtr_jtuple_value(l);
    return true;
}

/* Place by place: the cost goes with both lengths. */
static bool find_last(struct mtr_jr *r, struct mtr_str s, struct mtr_str what, size_t *out)
{
    *out = SIZE_MAX;
    if (!mtr_jstep(r, s.len / 64 * (1 + what.len / 64)))
        return false;
    for (size_t at = s.len + 1; at-- > 0;) {
        if (s.len - at < what.len || (what.len && memcmp(s.ptr + at, what.ptr, what.len) != 0))
            continue;
        *out = at;
        break;
    }
    return true;
}

static bool m_partition(SELF)
{
    struct mtr_str sep;
    if (!mtr_jarg_str(r, "partition", &a[0], &sep))
        return false;
    if (!sep.len)
        return mtr_jfail(r, MTR_INVALID, "empty separator");
    size_t at = mtr_str_find(mtr_jbytes(self), sep, 0);
    return at == SIZE_MAX ? triple(r, self, self->len, 0, out) : triple(r, self, at, sep.len, out);
}

static bool m_rpartition(SELF)
{
    struct mtr_str sep;
    if (!mtr_jarg_str(r, "rpartition", &a[0], &sep))
        return false;
    if (!sep.len)
        return mtr_jfail(r, MTR_INVALID, "empty separator");
    size_t at;
    if (!find_last(r, mtr_jbytes(self), sep, &at))
        return false;
    return at == SIZE_MAX ? triple(r, self, 0, 0, out) : triple(r, self, at, sep.len, out);
}

static bool m_removeprefix(SELF)
{
    struct mtr_str s;
    if (!mtr_jarg_str(r, "removeprefix", &a[0], &s))
        return false;
    uint32_t n = mtr_str_starts(mtr_jbytes(self), s) ? (uint32_t)s.len : 0;
    return mtr_jsub(r, self, n, self->len - n, out);
}

static bool m_removesuffix(SELF)
{
    struct mtr_str s;
    if (!mtr_jarg_str(r, "removesuffix", &a[0], &s))
        return false;
    uint32_t n = s.len && mtr_str_ends(mtr_jbytes(self), s) ? (uint32_t)s.len : 0;
    return mtr_jsub(r, self, 0, self->len - n, out);
}

static bool m_join(SELF)
{
    struct mtr_jtext t = {0};
    struct mtr_jiter *it;
    struct mtr_jv item;
    bool markup = mtr_jis_markup(self);
    if (!mtr_jiter_of(r, &a[0], &it))
        return false;
    for (bool first = true;; first = false) {
        bool end;
        if (!mtr_jnext(r, it, &item, &end))
            return false;
        if (end)
            break;
        if (markup && !mtr_jescape(r, &item, &item))
            return false;
        if (item.kind != MTR_JK_STR)
            return mtr_jfail(r, MTR_INVALID, "join: expected str instance, %s found",
                             mtr_jtype_name(&item));
        if ((!first && !mtr_jtext_value(r, &t, self)) || !mtr_jtext_value(r, &t, &item))
            return false;
    }
    return mtr_jtext_finish(r, &t, markup ? MTR_JF_MARKUP : 0, out);
}

/* ---- looking for ---- */

/* The part of self between the optional character indices a[0] and a[1]. */
static bool window(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *a,
                   struct mtr_str *out, int64_t *first, bool *beyond)
{
    struct mtr_str s = mtr_jbytes(self);
    *first = 0;
    *beyond = false;
    *out = s;
    if (is_none(&a[0]) && is_none(&a[1]))
        return true;
    int64_t len = mtr_jchars(s), from = 0, to = len;
    if ((!is_none(&a[0]) && !mtr_jarg_int(r, "start", &a[0], &from)) ||
        (!is_none(&a[1]) && !mtr_jarg_int(r, "end", &a[1], &to)))
        return false;
    from += from < 0 ? len : 0;
    to += to < 0 ? len : 0;
    from = from < 0 ? 0 : from;
    to = to < 0 ? 0 : to > len ? len : to;
    *first = from;
    *beyond = from > to;
    if (from > len || *beyond) {
        *out = mtr_str_sub(s, s.len, 0);
        return true;
    }
    uint32_t start = mtr_joffset(s, from);
    *out = mtr_str_sub(s, start, mtr_joffset(s, to) - start);
    return true;
}

static bool find(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *a, bool last,
                 bool must, struct mtr_jv *out)
{
    struct mtr_str what, where;
    int64_t first;
    bool beyond;
    if (!mtr_jarg_str(r, "find", &a[0], &what) ||
        !window(r, self, a + 1, &where, &first, &beyond) || !mtr_jstep(r, 1 + where.len / 64))
        return false;
    size_t at = beyond || last ? SIZE_MAX : mtr_str_find(where, what, 0);
    if (last && !beyond && !find_last(r, where, what, &at))
        return false;
    if (at == SIZE_MAX && must)
        return mtr_jfail(r, MTR_INVALID, "substring not found");
    *out = mtr_jint(at == SIZE_MAX ? -1 : first + mtr_jchars(mtr_str_sub(where, 0, at)));
    return true;
}

static bool m_find(SELF)
{
    return find(r, self, a, false, false, out);
}

static bool m_rfind(SELF)
{
    return find(r, self, a, true, false, out);
}

static bool m_index(SELF)
{
    return find(r, self, a, false, true, out);
}

static bool m_rindex(SELF)
{
    return find(r, self, a, true, true, out);
}

static bool m_count(SELF)
{
    struct mtr_str what, where;
    int64_t first, n = 0;
    bool beyond;
    if (!mtr_jarg_str(r, "count", &a[0], &what) ||
        !window(r, self, a + 1, &where, &first, &beyond) || !mtr_jstep(r, 1 + where.len / 64))
        return false;
    if (!what.len) {
        *out = mtr_jint(beyond ? 0 : mtr_jchars(where) + 1);
        return true;
    }
    for (size_t at = 0; (at = mtr_str_find(where, what, at)) != SIZE_MAX; at += what.len)
        n++;
    *out = mtr_jint(n);
    return true;
}

static bool fits(struct mtr_str where, struct mtr_str what, bool end)
{
    return end ? mtr_str_ends(where, what) : mtr_str_starts(where, what);
}

static bool starts_or_ends(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *a,
                           bool end, struct mtr_jv *out)
{
    struct mtr_str what, where;
    int64_t first;
    bool beyond, hit = false;
    const char *name = end ? "endswith" : "startswith";
    if (!window(r, self, a + 1, &where, &first, &beyond))
        return false;
    if (a[0].kind != MTR_JK_TUPLE) {
        if (!mtr_jarg_str(r, name, &a[0], &what))
            return false;
        *out = mtr_jbool(!beyond && fits(where, what, end));
        return true;
    }
    for (uint32_t i = 0; i < a[0].list->count && !hit; i++) {
        struct mtr_jv item;
        if (!mtr_jlist_at(r, a[0].list, i, &item) || !mtr_jarg_str(r, name, &item, &what))
            return false;
        hit = !beyond && fits(where, what, end);
    }
    *out = mtr_jbool(hit);
    return true;
}

static bool m_startswith(SELF)
{
    return starts_or_ends(r, self, a, false, out);
}

static bool m_endswith(SELF)
{
    return starts_or_ends(r, self, a, true, out);
}

/* ---- filling ---- */

static bool pad(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *a, char how,
                struct mtr_jv *out)
{
    int64_t width, len = mtr_jchars(mtr_jbytes(self));
    struct mtr_jv fill = mtr_jcstr(" ");
    struct mtr_jtext t = {0};
    if (!mtr_jarg_int(r, "width", &a[0], &width) ||
        (given(&a[1]) && !inserted(r, self, &a[1], "fillchar", &fill)))
        return false;
    if (mtr_jchars(mtr_jbytes(&fill)) != 1)
        return mtr_jfail(r, MTR_INVALID, "The fill character must be exactly one character long");
    int64_t room = width > len ? width - len : 0;
    int64_t left = how == '^' ? room / 2 + (room & width & 1) : how == '>' ? room : 0;
    return mtr_jtext_fill(r, &t, &fill, left) && mtr_jtext_value(r, &t, self) &&
           mtr_jtext_fill(r, &t, &fill, room - left) &&
           mtr_jtext_finish(r, &t, self->flags & MTR_JF_MARKUP, out);
}

static bool m_center(SELF)
{
    return pad(r, self, a, '^', out);
}

static bool m_ljust(SELF)
{
    return pad(r, self, a, '<', out);
}

static bool m_rjust(SELF)
{
    return pad(r, self, a, '>', out);
}

static bool m_zfill(SELF)
{
    int64_t width, len = mtr_jchars(mtr_jbytes(self));
    struct mtr_jtext t = {0};
    struct mtr_jv zero = mtr_jcstr("0");
    struct mtr_str s = mtr_jbytes(self);
    if (!mtr_jarg_int(r, "width", &a[0], &width))
        return false;
    uint32_t sign = s.len && (s.ptr[0] == '+' || s.ptr[0] == '-');
    return mtr_jtext_slice(r, &t, self, 0, sign) && mtr_jtext_fill(r, &t, &zero, width - len) &&
           mtr_jtext_slice(r, &t, self, sign, self->len - sign) &&
           mtr_jtext_finish(r, &t, self->flags & MTR_JF_MARKUP, out);
}

static bool m_expandtabs(SELF)
{
    int64_t size = 8, column = 0;
    struct mtr_str s = mtr_jbytes(self);
    struct mtr_jtext t = {0};
    if (given(&a[0]) && !mtr_jarg_int(r, "tabsize", &a[0], &size))
        return false;
    for (size_t at = 0; at < s.len;) {
        uint32_t cp;
        uint32_t n = mtr_jdecode(s.ptr + at, &cp);
        if (cp == '\t') {
            struct mtr_jv space = mtr_jstr(MTR_STR(" "), mtr_jtaint_at(self, (uint32_t)at));
            int64_t fill = size > 0 ? size - column % size : 0;
            column += fill;
            if (!mtr_jtext_fill(r, &t, &space, fill))
                return false;
        } else {
            column = cp == '\n' || cp == '\r' ? 0 : column + 1;
            if (!mtr_jtext_slice(r, &t, self, (uint32_t)at, n))
                return false;
        }
        at += n;
    }
    return mtr_jtext_finish(r, &t, self->flags & MTR_JF_MARKUP, out);
}

/* ---- questions ---- */

static bool all(struct mtr_jr *r, const struct mtr_jv *self, bool (*ask)(uint32_t), bool empty,
                struct mtr_jv *out)
{
    struct mtr_str s = mtr_jbytes(self);
    bool yes = s.len || empty;
    for (size_t at = 0; yes && at < s.len;) {
        uint32_t cp;
        at += mtr_jdecode(s.ptr + at, &cp);
        yes = ask(cp);
    }
    *out = mtr_jbool(yes);
    return mtr_jstep(r, s.len / 64);
}

static bool m_isalnum(SELF)
{
    (void)a;
    return all(r, self, mtr_jalnum, false, out);
}

static bool m_isalpha(SELF)
{
    (void)a;
    return all(r, self, mtr_jalpha, false, out);
}

static bool m_isdecimal(SELF)
{
    (void)a;
    return all(r, self, mtr_jdecimal, false, out);
}

static bool m_isdigit(SELF)
{
    (void)a;
    return all(r, self, mtr_jdigit, false, out);
}

static bool m_isnumeric(SELF)
{
    (void)a;
    return all(r, self, mtr_jnumeric, false, out);
}

static bool m_isspace(SELF)
{
    (void)a;
    return all(r, self, mtr_jspace, false, out);
}

static bool m_isprintable(SELF)
{
    (void)a;
    return all(r, self, mtr_jprintable, true, out);
}

static bool ascii(uint32_t cp)
{
    return cp < 0x80;
}

static bool m_isascii(SELF)
{
    (void)a;
    return all(r, self, ascii, true, out);
}

static bool m_isidentifier(SELF)
{
    struct mtr_str s = mtr_jbytes(self);
    uint32_t cp = 0;
    (void)a;
    if (s.len)
        mtr_jdecode(s.ptr, &cp);
    if (!s.len || !mtr_jident_start(cp)) {
        *out = mtr_jbool(false);
        return true;
    }
    return all(r, self, mtr_jident_part, false, out);
}

/* islower, isupper, istitle: at least one cased character and none against it. */
static bool cased(const struct mtr_jv *self, char how, struct mtr_jv *out)
{
    struct mtr_str s = mtr_jbytes(self);
    bool any = false, before = false, yes = true;
    for (size_t at = 0; yes && at < s.len;) {
        uint32_t cp;
        at += mtr_jdecode(s.ptr + at, &cp);
        bool up = mtr_jupper(cp) || mtr_jtitlecase(cp), low = mtr_jlower(cp);
        any |= up || low;
        if (how == 'l')
            yes = !up;
        else if (how == 'u')
            yes = !low && !mtr_jtitlecase(cp);
        else
            yes = up ? !before : !low || before;
        before = up || low;
    }
    *out = mtr_jbool(any && yes);
    return true;
}

static bool m_islower(SELF)
{
    (void)a;
    return cased(self, 'l', out) && mtr_jstep(r, self->len / 64);
}

static bool m_isupper(SELF)
{
    (void)a;
    return cased(self, 'u', out) && mtr_jstep(r, self->len / 64);
}

static bool m_istitle(SELF)
{
    (void)a;
    return cased(self, 't', out) && mtr_jstep(r, self->len / 64);
}

/* ---- formatting ---- */

static bool m_format(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jcall *call,
                     struct mtr_jv *out)
{
    return mtr_jformat(r, self, call, out);
}

static bool m_format_map(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jcall *call,
                         struct mtr_jv *out)
{
    struct mtr_jcall spread = {0};
    if (call->kw_count || call->pos_count != 1)
        return mtr_jfail(r, MTR_INVALID, "format_map() takes exactly one argument");
    const struct mtr_jv *map = &call->pos[0];
    if (map->kind != MTR_JK_DICT)
        return mtr_jfail(r, MTR_INVALID, "format_map() needs a mapping");
    spread.kw = mtr_jalloc(r, (map->dict->count + 1) * sizeof *spread.kw);
    if (!spread.kw)
        return false;
    for (uint32_t i = 0; i < map->dict->count; i++) {
        if (map->dict->keys[i].kind != MTR_JK_STR)
            continue;
        struct mtr_jkeyword *k = &spread.kw[spread.kw_count++];
        k->name = mtr_jbytes(&map->dict->keys[i]);
        if (!mtr_jdict_value(r, map->dict, i, &k->value))
            return false;
    }
    return mtr_jformat(r, self, &spread, out);
}

static bool m_refused(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jcall *call,
                      struct mtr_jv *out)
{
    (void)self, (void)call, (void)out;
    return mtr_jfail(r, MTR_UNSUPPORTED, "this string method is not available in templates");
}

static const struct mtr_jmethod_entry methods[] = {
    {"strip", "/chars", 0, 1, m_strip, NULL},
    {"split", "sep maxsplit", 0, 2, m_split, NULL},
    {"startswith", "/prefix /start /end", 1, 3, m_startswith, NULL},
    {"endswith", "/suffix /start /end", 1, 3, m_endswith, NULL},
    {"lstrip", "/chars", 0, 1, m_lstrip, NULL},
    {"rstrip", "/chars", 0, 1, m_rstrip, NULL},
    {"replace", "/old /new /count", 2, 3, m_replace, NULL},
    {"join", "/iterable", 1, 1, m_join, NULL},
    {"lower", "", 0, 0, m_lower, NULL},
    {"upper", "", 0, 0, m_upper, NULL},
    {"title", "", 0, 0, m_title, NULL},
    {"capitalize", "", 0, 0, m_capitalize, NULL},
    {"swapcase", "", 0, 0, m_swapcase, NULL},
    {"casefold", "", 0, 0, m_casefold, NULL},
    {"find", "/sub /start /end", 1, 3, m_find, NULL},
    {"rfind", "/sub /start /end", 1, 3, m_rfind, NULL},
    {"index", "/sub /start /end", 1, 3, m_index, NULL},
    {"rindex", "/sub /start /end", 1, 3, m_rindex, NULL},
    {"count", "/sub /start /end", 1, 3, m_count, NULL},
    {"rsplit", "sep maxsplit", 0, 2, m_rsplit, NULL},
    {"splitlines", "keepends", 0, 1, m_splitlines, NULL},
    {"partition", "/sep", 1, 1, m_partition, NULL},
    {"rpartition", "/sep", 1, 1, m_rpartition, NULL},
    {"removeprefix", "/prefix", 1, 1, m_removeprefix, NULL},
    {"removesuffix", "/suffix", 1, 1, m_removesuffix, NULL},
    {"center", "/width /fillchar", 1, 2, m_center, NULL},
    {"ljust", "/width /fillchar", 1, 2, m_ljust, NULL},
    {"rjust", "/width /fillchar", 1, 2, m_rjust, NULL},
    {"zfill", "/width", 1, 1, m_zfill, NULL},
    {"expandtabs", "tabsize", 0, 1, m_expandtabs, NULL},
    {"isalnum", "", 0, 0, m_isalnum, NULL},
    {"isalpha", "", 0, 0, m_isalpha, NULL},
    {"isascii", "", 0, 0, m_isascii, NULL},
    {"isdecimal", "", 0, 0, m_isdecimal, NULL},
    {"isdigit", "", 0, 0, m_isdigit, NULL},
    {"isidentifier", "", 0, 0, m_isidentifier, NULL},
    {"islower", "", 0, 0, m_islower, NULL},
    {"isnumeric", "", 0, 0, m_isnumeric, NULL},
    {"isprintable", "", 0, 0, m_isprintable, NULL},
    {"isspace", "", 0, 0, m_isspace, NULL},
    {"istitle", "", 0, 0, m_istitle, NULL},
    {"isupper", "", 0, 0, m_isupper, NULL},
    {"format", NULL, 0, MTR_JRAW, NULL, m_format},
    {"format_map", NULL, 0, MTR_JRAW, NULL, m_format_map},
    {"encode", NULL, 0, MTR_JRAW, NULL, m_refused},
    {"maketrans", NULL, 0, MTR_JRAW, NULL, m_refused},
    {"translate", NULL, 0, MTR_JRAW, NULL, m_refused},
};

const struct mtr_jmethod_entry *mtr_jstr_method(struct mtr_str name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (mtr_str_is(name, methods[i].name))
            return &methods[i];
    }
    return NULL;
}
