/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Steps over a list of pieces. Most steps only cut: they walk over each piece, find matches and
 * gaps, and a behavior decides which of those become pieces, vanish, or grow together. The few that
 * change the text (a prefix, Metaspace, the byte alphabet) write it anew, piece by piece, before
 * they cut.
 */
#include "broker/text/pretokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "broker/text/byte_alphabet.h"

enum behavior { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };

enum rewriting {
    KEEP,
    PREFIX_SPACE, /* before a piece that does not begin with one */
    METASPACE,    /* spaces become `content` */
    TO_BYTE_ALPHABET,
};

enum cutting { NO_CUT, BY_PATTERN, BY_SCRIPT, BY_LENGTH };

enum prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct mtr_pretokenizer_step {
    enum rewriting rewriting;
    enum cutting cutting;
    struct mtr_pattern pattern;
    enum behavior behavior;
    bool invert;
    struct mtr_buf content; /* METASPACE: what replaces a space */
    enum prepend prepend;
    uint32_t length; /* BY_LENGTH: characters */
};

static const char gpt2_split[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                                 "|\\s+(?!\\S)|\\s+";

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "pre-tokenizer: out of memory");
}

/* ------------------------------------------------------------------------------------- cutting */

static bool emit(struct mtr_pieces *p, size_t start, size_t end)
{
    if (start == end)
        return true;
    if (p->other_count == p->other_cap &&
        !mtr_grow((void **)&p->other, &p->other_cap, p->other_count + 1, sizeof *p->other))
        return false;
    p->other[p->other_count++] = (struct mtr_piece){(uint32_t)start, (uint32_t)(end - start)};
    return true;
}

/* What of a piece's matches and gaps has not become a piece yet. */
struct joiner {
    const struct mtr_pretokenizer_step *step;
    struct mtr_pieces *pieces;
    bool open, open_match; /* a stretch waits to be continued; the last one was a match */
    size_t start, end;
};

static bool close_stretch(struct joiner *j)
{
    bool ok = !j->open || emit(j->pieces, j->start, j->end);
    j->open = false;
    return ok;
}

/* The next match or gap. The stretch that is open may take it in, by the step's behavior. */
static bool add_stretch(struct joiner *j, size_t start, size_t end, bool match)
{
    bool join = false;
    match = match != j->step->invert;
    switch (j->step->behavior) {
    case REMOVED:
        return match || emit(j->pieces, start, end);
    case ISOLATED:
        return emit(j->pieces, start, end);
    case MERGED_WITH_PREVIOUS:
        join = match && !j->open_match;
        break;
    case MERGED_WITH_NEXT:
        join = !match && j->open_match;
        break;
    case CONTIGUOUS:
        join = match == j->open_match;
        break;
    }
    j->open_match = match;
    if (j->open && join) {
        j->end = end;
        return true;
    }
    if (!close_stretch(j))
        return false;
    j->open = true;
    j->start = start;
    j->end = end;
    return true;
}

static bool cut_by_pattern(const struct mtr_pretokenizer_step *s, struct mtr_pieces *p,
                           struct mtr_piece piece, struct mtr_error *err)
{
    struct mtr_str text = mtr_str_sub(p->text, piece.at, piece.len);
    struct joiner j = {.step = s, .pieces = p};
    size_t done = 0, from = 0, start, end;
    bool ok = true, any = false;
    while (ok && from <= text.len &&
           mtr_pattern_next(&s->pattern, &p->scanner, text, from, true, &start, &end)) {
        from = end;
        if (end == start) { /* an empty match cuts, but not right behind another match */
            if (start < text.len)
                from += (size_t)mtr_utf8_length(text.ptr[start]);
            else
                from++;
            if (any && start == done)
                continue;
        }
        any = true;
        if (done < start)
            ok = add_stretch(&j, piece.at + done, piece.at + start, false);
        ok = ok && add_stretch(&j, piece.at + start, piece.at + end, true);
        done = end;
    }
    if (p->scanner.failed)
        return mtr_pattern_gave_up(err);
    if (ok && done < text.len)
        ok = add_stretch(&j, piece.at + done, piece.at + text.len, false);
    return (ok && close_stretch(&j)) || no_memory(err);
}

#define SCRIPT_ANY 0 /* the space, and what has no script: goes with anything */

static uint8_t script_of(uint32_t cp)
{
    uint8_t script = mtr_unicode_old_script(cp);
    if (cp == ' ')
        return SCRIPT_ANY;
    if (cp == 0x30fc || script == mtr_unicode_script_id("Hiragana", 8) ||
        script == mtr_unicode_script_id("Katakana", 8))
        return mtr_unicode_script_id("Han", 3); /* Japanese is written in all three */
    return script;
}

/* What goes with anything at the start of a piece goes with nothing, and is dropped. */
static bool cut_by_script(struct mtr_pieces *p, struct mtr_piece piece)
{
    uint8_t last = SCRIPT_ANY;
    size_t start = piece.at, end = (size_t)piece.at + piece.len;
    for (size_t at = start; at < end;) {
        uint32_t cp;
        size_t n = (size_t)mtr_utf8_next(p->text.ptr + at, &cp);
        uint8_t script = script_of(cp);
        if (script != SCRIPT_ANY && script != last) {
            if (last != SCRIPT_ANY && !emit(p, start, at))
                return false;
            start = at;
        }
        if (script != SCRIPT_ANY)
            last = script;
        at += n;
    }
    return last == SCRIPT_ANY || emit(p, start, end);
}

static bool cut_by_length(struct mtr_pieces *p, struct mtr_piece piece, uint32_t length)
{
    size_t start = piece.at, end = (size_t)piece.at + piece.len;
    while (start < end) {
        size_t at = start;
        for (uint32_t i = 0; i < length && at < end; i++)
            at += (size_t)mtr_utf8_length(p->text.ptr[at]);
        if (!emit(p, start, at))
            return false;
        start = at;
    }
    return true;
}

static bool cut(const struct mtr_pretokenizer_step *s, struct mtr_pieces *p, struct mtr_error *err)
{
    p->other_count = 0;
    mtr_regex_begin(&p->scanner, p->text.len);
    for (size_t i = 0; i < p->count; i++) {
        bool ok = true;
        if (s->cutting == BY_PATTERN) {
            if (!cut_by_pattern(s, p, p->items[i], err))
                return false;
        } else if (s->cutting == BY_SCRIPT) {
            ok = cut_by_script(p, p->items[i]);
        } else {
            ok = cut_by_length(p, p->items[i], s->length);
        }
        if (!ok)
            return no_memory(err);
    }
    struct mtr_piece *items = p->items;
    size_t cap = p->cap;
    p->items = p->other;
    p->count = p->other_count;
    p->cap = p->other_cap;
    p->other = items;
    p->other_cap = cap;
    return true;
}

/* ----------------------------------------------------------------------------------- rewriting */

static void write_metaspace(const struct mtr_pretokenizer_step *s, struct mtr_str piece, bool first,
                            struct mtr_buf *out)
{
    struct mtr_str content = mtr_buf_view(&s->content);
    bool has = mtr_str_starts(piece, content) || mtr_str_starts(piece, MTR_STR(" "));
    if (!has && (s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && first)))
        mtr_buf_str(out, content);
    for (size_t at = 0; at < piece.len && !out->failed;) {
        const char *space = memchr(piece.ptr + at, ' ', piece.len - at);
        size_t end = space != NULL ? (size_t)(space - piece.ptr) : piece.len;
        mtr_buf_append(out, piece.ptr + at, end - at);
        if (space != NULL)
            mtr_buf_str(out, content);
        at = end + 1;
    }
}

static bool rewrite(const struct mtr_pretokenizer_step *s, struct mtr_pieces *p, bool first,
                    struct mtr_error *err)
{
    struct mtr_buf *out = &p->buffers[p->side];
    mtr_buf_clear(out);
    out->limit_bytes = MTR_PRETOKENIZER_MAX_BYTES;
    for (size_t i = 0; i < p->count; i++) {
        struct mtr_str piece = mtr_str_sub(p->text, p->items[i].at, p->items[i].len);
        size_t start = out->len;
        if (s->rewriting == METASPACE)
            write_metaspace(s, piece, first && p->items[i].at == 0, out);
        else if (s->rewriting == TO_BYTE_ALPHABET)
            mtr_bytes_to_alphabet(piece, out);
        else {
            if (piece.ptr[0] != ' ')
                mtr_buf_byte(out, ' ');
            mtr_buf_str(out, piece);
        }
        if (out->failed)
            return mtr_fail(err, MTR_TOO_LARGE, "pre-tokenizer: no memory for the rewritten text");
        p->items[i] = (struct mtr_piece){(uint32_t)start, (uint32_t)(out->len - start)};
    }
    p->text = mtr_buf_view(out);
    p->side = 1 - p->side;
    return true;
}

bool mtr_pretokenize(const struct mtr_pretokenizer *p, struct mtr_pieces *pieces,
                     struct mtr_str text, bool first, struct mtr_error *err)
{
    pieces->text = text;
    pieces->count = 0;
    if (text.len > MTR_PRETOKENIZER_MAX_BYTES)
        return mtr_fail(err, MTR_TOO_LARGE, "text: more than %u bytes", MTR_PRETOKENIZER_MAX_BYTES);
    if (text.len == 0)
        return true;
    if (!mtr_grow((void **)&pieces->items, &pieces->cap, 1, sizeof *pieces->items))
        return no_memory(err);
    pieces->items[pieces->count++] = (struct mtr_piece){0, (uint32_t)text.len};
    for (size_t i = 0; i < p->count; i++) {
        const struct mtr_pretokenizer_step *s = &p->steps[i];
        if (s->rewriting != KEEP && !rewrite(s, pieces, first, err))
            return false;
        if (s->cutting != NO_CUT && !cut(s, pieces, err))
            return false;
    }
    return true;
}

void mtr_pieces_free(struct mtr_pieces *p)
{
    free(p->items);
    free(p->other);
    mtr_buf_free(&p->buffers[0]);
    mtr_buf_free(&p->buffers[1]);
    mtr_regex_scanner_free(&p->scanner);
    memset(p, 0, sizeof *p);
}

/* ------------------------------------------------------------------------------------- reading */

static struct mtr_pretokenizer_step *new_step(struct mtr_pretokenizer *p, struct mtr_error *err)
{
    if (p->count == MTR_PRETOKENIZER_MAX_STEPS) {
        mtr_fail(err, MTR_TOO_LARGE, "pre-tokenizer: more than %d steps",
                 MTR_PRETOKENIZER_MAX_STEPS);
        return NULL;
    }
    if (!mtr_grow((void **)&p->steps, &p->cap, p->count + 1, sizeof *p->steps)) {
        no_memory(err);
        return NULL;
    }
    struct mtr_pretokenizer_step *s = &p->steps[p->count++];
    memset(s, 0, sizeof *s);
    return s;
}

static bool add_regex(struct mtr_pretokenizer *p, const char *regex, enum behavior behavior,
                      bool invert, struct mtr_error *err)
{
    struct mtr_pretokenizer_step *s = new_step(p, err);
    if (s == NULL)
        return false;
    s->cutting = BY_PATTERN;
    s->behavior = behavior;
    s->invert = invert;
    return mtr_pattern_from_regex(&s->pattern, mtr_str(regex), err);
}

static bool add_set(struct mtr_pretokenizer *p, struct mtr_ranges *set, enum behavior behavior,
                    struct mtr_error *err)
{
    struct mtr_pretokenizer_step *s = new_step(p, err);
    if (s == NULL)
        return mtr_ranges_free(set), false;
    s->cutting = BY_PATTERN;
    s->behavior = behavior;
    return mtr_pattern_from_ranges(&s->pattern, set, err);
}

static const struct {
    const char *name;
    enum behavior behavior;
} behaviors[] = {
    {"Removed", REMOVED},
    {"Isolated", ISOLATED},
    {"MergedWithPrevious", MERGED_WITH_PREVIOUS},
    {"MergedWithNext", MERGED_WITH_NEXT},
    {"Contiguous", CONTIGUOUS},
};

/* behavior is left as it is where the member is absent. */
static bool read_behavior(const struct mtr_json *v, enum behavior *behavior, struct mtr_error *err)
{
    struct mtr_str name = {NULL, 0};
    if (!mtr_json_opt_str(v, "behavior", &name, err))
        return false;
    for (size_t i = 0; name.ptr != NULL && i < sizeof behaviors / sizeof behaviors[0]; i++) {
        if (mtr_str_is(name, behaviors[i].name)) {
            *behavior = behaviors[i].behavior;
            return true;
        }
    }
    return name.ptr == NULL ||
           mtr_fail(err, MTR_INVALID, "behavior: \"%.*s\" is not known", MTR_STR_ARG(name));
}

static bool read_split(struct mtr_pretokenizer *p, const struct mtr_json *v, struct mtr_error *err)
{
    struct mtr_pretokenizer_step *s = new_step(p, err);
    if (s == NULL)
        return false;
    s->cutting = BY_PATTERN;
    if (mtr_json_get(v, "behavior") == NULL)
        return mtr_fail(err, MTR_INVALID, "behavior: missing");
    return mtr_pattern_from_json(&s->pattern, v, err) && read_behavior(v, &s->behavior, err) &&
           mtr_json_opt_bool(v, "invert", &s->invert, err);
}

static bool read_byte_level(struct mtr_pretokenizer *p, const struct mtr_json *v,
                            struct mtr_error *err)
{
    bool prefix = true, regex = true;
    if (!mtr_json_opt_bool(v, "add_prefix_space", &prefix, err) ||
        !mtr_json_opt_bool(v, "use_regex", &regex, err))
        return false;
    struct mtr_pretokenizer_step *s;
    if (prefix) {
        if ((s = new_step(p, err)) == NULL)
            return false;
        s->rewriting = PREFIX_SPACE;
    }
    if (regex && !add_regex(p, gpt2_split, ISOLATED, false, err))
        return false;
    if ((s = new_step(p, err)) == NULL)
        return false;
    s->rewriting = TO_BYTE_ALPHABET;
    return true;
}

static bool read_prepend(const struct mtr_json *v, enum prepend *out, struct mtr_error *err)
{
    struct mtr_str scheme = {NULL, 0};
    bool prefix = true;
    if (!mtr_json_opt_str(v, "prepend_scheme", &scheme, err) ||
        !mtr_json_opt_bool(v, "add_prefix_space", &prefix, err))
        return false;
    *out = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (mtr_str_is(scheme, "first"))
        *out = PREPEND_FIRST;
    else if (mtr_str_is(scheme, "never"))
        *out = PREPEND_NEVER;
    else if (scheme.ptr != NULL && !mtr_str_is(scheme, "always"))
        return mtr_fail(err, MTR_INVALID, "prepend_scheme: \"%.*s\" is not known",
                        MTR_STR_ARG(scheme));
    return true;
}

static bool read_metaspace(struct mtr_pretokenizer *p, const struct mtr_json *v,
                           struct mtr_error *err)
{
    struct mtr_str replacement = MTR_STR("\xe2\x96\x81");
    bool split = true;
    struct mtr_pretokenizer_step *s = new_step(p, err);
    if (s == NULL || !mtr_json_opt_str(v, "replacement", &replacement, err) ||
        !mtr_json_opt_bool(v, "split", &split, err) || !read_prepend(v, &s->prepend, err))
        return false;
    s->rewriting = METASPACE;
    if (!mtr_buf_str(&s->content, replacement))
        return no_memory(err);
    s->cutting = split ? BY_PATTERN : NO_CUT;
    s->behavior = MERGED_WITH_NEXT;
    return mtr_pattern_from_string(&s->pattern, replacement, err);
}

static bool read_digits(struct mtr_pretokenizer *p, const struct mtr_json *v, struct mtr_error *err)
{
    struct mtr_ranges set = {0};
    bool individual = false;
    if (!mtr_json_opt_bool(v, "individual_digits", &individual, err))
        return false;
    mtr_ranges_add_categories(&set, MTR_MASK_N);
    return add_set(p, &set, individual ? ISOLATED : CONTIGUOUS, err);
}

/* Punctuation newer than the library's table for it (Unicode 8), which is not that of its regular
 * expressions. */
static const struct mtr_range no_punctuation[] = {
    {0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},
    {0xc84, 0xc84},     {0x1b4e, 0x1b4f},   {0x1b7d, 0x1b7f},   {0x2e43, 0x2e4f},
    {0x2e52, 0x2e5d},   {0x10d6e, 0x10d6e}, {0x10ead, 0x10ead}, {0x10f55, 0x10f59},
    {0x10f86, 0x10f89}, {0x113d4, 0x113d8}, {0x1144b, 0x1144f}, {0x1145a, 0x1145d},
    {0x11660, 0x1166c}, {0x116b9, 0x116b9}, {0x1183b, 0x1183b}, {0x11944, 0x11946},
    {0x119e2, 0x119e2}, {0x11a3f, 0x11a46}, {0x11a9a, 0x11a9c}, {0x11a9e, 0x11aa2},
    {0x11b00, 0x11b09}, {0x11be1, 0x11be1}, {0x11c41, 0x11c45}, {0x11c70, 0x11c71},
    {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff}, {0x12ff1, 0x12ff2},
    {0x16d6d, 0x16d6f}, {0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2}, {0x1e5ff, 0x1e5ff},
    {0x1e95e, 0x1e95f},
};

static void add_punctuation(struct mtr_ranges *set)
{
    static const struct mtr_range more[] = {
        {'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}, {0x166d, 0x166d}, {0x111c9, 0x111c9},
    };
    struct mtr_ranges not = {0};
    for (size_t i = 0; i < sizeof no_punctuation / sizeof no_punctuation[0]; i++)
        mtr_ranges_add(&not, no_punctuation[i].first, no_punctuation[i].last);
    mtr_ranges_complement(&not );
    mtr_ranges_add_categories(set, MTR_MASK_P);
    mtr_ranges_intersect(set, &not );
    mtr_ranges_free(&not );
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        mtr_ranges_add(set, more[i].first, more[i].last);
}

static bool read_punctuation(struct mtr_pretokenizer *p, const struct mtr_json *v,
                             struct mtr_error *err)
{
    struct mtr_ranges set = {0};
    enum behavior behavior = ISOLATED;
    if (!read_behavior(v, &behavior, err))
        return false;
    add_punctuation(&set);
    return add_set(p, &set, behavior, err);
}

static bool read_whitespace(struct mtr_pretokenizer *p, const struct mtr_json *v,
                            struct mtr_error *err)
{
    /* Here the library asks another engine, whose words take in joiners. */
    return add_regex(p, "[[:word:]\\x{200c}\\x{200d}]+|[^[:word:]\\x{200c}\\x{200d}\\s]+", REMOVED,
                     true, err);
}

static bool read_whitespace_split(struct mtr_pretokenizer *p, const struct mtr_json *v,
                                  struct mtr_error *err)
{
    struct mtr_ranges set = {0};
    mtr_ranges_add_space(&set);
    return add_set(p, &set, REMOVED, err);
}

static bool read_bert(struct mtr_pretokenizer *p, const struct mtr_json *v, struct mtr_error *err)
{
    struct mtr_ranges set = {0};
    if (!read_whitespace_split(p, v, err))
        return false;
    add_punctuation(&set);
    return add_set(p, &set, ISOLATED, err);
}

static bool read_delimiter(struct mtr_pretokenizer *p, const struct mtr_json *v,
                           struct mtr_error *err)
{
    struct mtr_str delimiter = {NULL, 0};
    struct mtr_pretokenizer_step *s = new_step(p, err);
    if (s == NULL || !mtr_json_opt_str(v, "delimiter", &delimiter, err))
        return false;
    s->cutting = BY_PATTERN;
    s->behavior = REMOVED;
    return mtr_pattern_from_string(&s->pattern, delimiter, err);
}

static bool read_scripts(struct mtr_pretokenizer *p, const struct mtr_json *v,
                         struct mtr_error *err)
{
    struct mtr_pretokenizer_step *s = new_step(p, err);
    if (s != NULL)
        s->cutting = BY_SCRIPT;
    return s != NULL;
}

static bool read_fixed_length(struct mtr_pretokenizer *p, const struct mtr_json *v,
                              struct mtr_error *err)
{
    int64_t length = 5;
    struct mtr_pretokenizer_step *s = new_step(p, err);
    if (s == NULL || !mtr_json_opt_i64(v, "length", 1, 1 << 20, &length, err))
        return false;
    s->cutting = BY_LENGTH;
    s->length = (uint32_t)length;
    return true;
}

static const struct {
    const char *name;
    bool (*parse)(struct mtr_pretokenizer *p, const struct mtr_json *v, struct mtr_error *err);
} types[] = {
    {"Split", read_split},
    {"ByteLevel", read_byte_level},
    {"Metaspace", read_metaspace},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"BertPreTokenizer", read_bert},
    {"CharDelimiterSplit", read_delimiter},
    {"UnicodeScripts", read_scripts},
    {"FixedLength", read_fixed_length},
};

static bool read_pretokenizer(struct mtr_pretokenizer *p, const struct mtr_json *v,
                              struct mtr_error *err)
{
    struct mtr_str type = {NULL, 0};
    if (!mtr_json_opt_str(v, "type", &type, err))
        return mtr_error_prefix(err, "pre_tokenizer");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (mtr_str_is(type, types[i].name))
            return types[i].parse(p, v, err) ||
                   mtr_error_prefix(err, "pre_tokenizer %s", types[i].name);
    if (!mtr_str_is(type, "Sequence"))
        return mtr_fail(err, MTR_UNSUPPORTED, "pre_tokenizer: type \"%.*s\" is not known",
                        MTR_STR_ARG(type));
    const struct mtr_json *list = mtr_json_get(v, "pretokenizers");
    if (list == NULL || list->kind != MTR_JSON_ARRAY)
        return mtr_fail(err, MTR_INVALID, "pre_tokenizer Sequence: pretokenizers is not an array");
    for (uint32_t i = 0; i < list->count; i++)
        if (!read_pretokenizer(p, &list->items[i], err))
            return false;
    return true;
}

/* A last step that maps bytes to the alphabet need not be done: the model takes bytes. */
static void leave_bytes_raw(struct mtr_pretokenizer *p)
{
    size_t mappings = 0;
    for (size_t i = 0; i < p->count; i++)
        mappings += p->steps[i].rewriting == TO_BYTE_ALPHABET;
    p->raw_bytes = mappings == 1 && p->steps[p->count - 1].rewriting == TO_BYTE_ALPHABET;
    if (p->raw_bytes)
        p->count--;
}

bool mtr_pretokenizer_from_json(struct mtr_pretokenizer *p, const struct mtr_json *v,
                                struct mtr_error *err)
{
    memset(p, 0, sizeof *p);
    if (v == NULL || v->kind == MTR_JSON_NULL)
        return true;
    if (!read_pretokenizer(p, v, err)) {
        mtr_pretokenizer_free(p);
        return false;
    }
    leave_bytes_raw(p);
    return true;
}

bool mtr_pretokenizer_from_regexes(struct mtr_pretokenizer *p, const char *const *regexes,
                                   size_t count, struct mtr_error *err)
{
    memset(p, 0, sizeof *p);
    for (size_t i = 0; i < count; i++) {
        if (!add_regex(p, regexes[i], ISOLATED, false, err)) {
            mtr_pretokenizer_free(p);
            return false;
        }
    }
    p->raw_bytes = true;
    return true;
}

void mtr_pretokenizer_free(struct mtr_pretokenizer *p)
{
    for (size_t i = 0; i < p->count; i++) {
        mtr_pattern_free(&p->steps[i].pattern);
        mtr_buf_free(&p->steps[i].content);
    }
    free(p->steps);
    memset(p, 0, sizeof *p);
}
