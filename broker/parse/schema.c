/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/parse/schema.h"

#include <ctype.h>

#include "broker/parse/value.h"

#define MAX_DEPTH 16

/* ---- Types of a parameter ---------------------------------------------------------------------
 */

const struct mtr_json *mtr_schema_of_tool(const struct mtr_json *tools, struct mtr_str name,
                                          bool *found)
{
    *found = false;
    for (uint32_t i = 0; tools && tools->kind == MTR_JSON_ARRAY && i < tools->count; i++) {
        const struct mtr_json *f = mtr_json_get(&tools->items[i], "function");
        const struct mtr_json *n = mtr_json_get(f, "name");
        if (n && n->kind == MTR_JSON_STRING && mtr_str_equal(n->text, name)) {
            *found = true;
            return mtr_json_get(f, "parameters");
        }
    }
    return NULL;
}

unsigned mtr_schema_type_named(struct mtr_str name)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {
        {"string", MTR_TYPE_STRING},
        {"integer", MTR_TYPE_INTEGER},
        {"number", MTR_TYPE_NUMBER | MTR_TYPE_INTEGER},
        {"boolean", MTR_TYPE_BOOLEAN},
        {"object", MTR_TYPE_OBJECT},
        {"array", MTR_TYPE_ARRAY},
        {"null", MTR_TYPE_NULL},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (mtr_str_is(name, types[i].name))
            return types[i].type;
    return 0;
}

static unsigned type_of_value(const struct mtr_json *v)
{
    static const unsigned types[] = {
        [MTR_JSON_NULL] = MTR_TYPE_NULL,     [MTR_JSON_BOOL] = MTR_TYPE_BOOLEAN,
        [MTR_JSON_INT] = MTR_TYPE_INTEGER,   [MTR_JSON_REAL] = MTR_TYPE_NUMBER | MTR_TYPE_INTEGER,
        [MTR_JSON_STRING] = MTR_TYPE_STRING, [MTR_JSON_ARRAY] = MTR_TYPE_ARRAY,
        [MTR_JSON_OBJECT] = MTR_TYPE_OBJECT,
    };
    return types[v->kind];
}

static unsigned types_of(const struct mtr_json *root, const struct mtr_json *schema, int depth);

/* "#/$defs/Name": the schema there, or NULL. */
static const struct mtr_json *resolve(const struct mtr_json *root, struct mtr_str ref)
{
    if (!mtr_str_starts(ref, MTR_STR("#/")))
        return NULL;
    const struct mtr_json *at = root;
    for (size_t from = 2; at && from <= ref.len;) {
        size_t end = mtr_str_find(ref, MTR_STR("/"), from);
        if (end == SIZE_MAX)
            end = ref.len;
        struct mtr_str part = mtr_str_sub(ref, from, end - from);
        const struct mtr_json *next = NULL;
        for (uint32_t i = 0; at->kind == MTR_JSON_OBJECT && i < at->count; i++)
            if (mtr_str_equal(at->members[i].key, part))
                next = &at->members[i].value;
        at = next;
        from = end + 1;
    }
    return at;
}

static unsigned types_of_list(const struct mtr_json *root, const struct mtr_json *list, bool all,
                              int depth)
{
    unsigned types = all ? MTR_TYPE_ANY : 0;
    for (uint32_t i = 0; i < list->count; i++) {
        unsigned t = types_of(root, &list->items[i], depth + 1);
        types = all ? types & t : types | t;
    }
    return types ? types : MTR_TYPE_ANY;
}

static unsigned types_of_type(const struct mtr_json *type)
{
    unsigned types = 0;
    if (type->kind == MTR_JSON_STRING)
        return mtr_schema_type_named(type->text);
    for (uint32_t i = 0; type->kind == MTR_JSON_ARRAY && i < type->count; i++)
        if (type->items[i].kind == MTR_JSON_STRING)
            types |= mtr_schema_type_named(type->items[i].text);
    return types;
}

/* Keywords restrict each other. */
static unsigned types_of(const struct mtr_json *root, const struct mtr_json *schema, int depth)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    unsigned types = MTR_TYPE_ANY;
    if (schema->kind != MTR_JSON_OBJECT || depth > MAX_DEPTH)
        return MTR_TYPE_ANY;
    const struct mtr_json *type = mtr_json_get(schema, "type");
    if (type && types_of_type(type))
        types &= types_of_type(type);
    for (size_t i = 0; i < 3; i++) {
        const struct mtr_json *list = mtr_json_get(schema, lists[i]);
        if (list && list->kind == MTR_JSON_ARRAY)
            types &= types_of_list(root, list, i == 2, depth);
    }
    const struct mtr_json *values = mtr_json_get(schema, "enum");
    unsigned of_values = 0;
    for (uint32_t i = 0; values && values->kind == MTR_JSON_ARRAY && i < values->count; i++)
        of_values |= type_of_value(&values->items[i]);
    const struct mtr_json *one = mtr_json_get(schema, "const");
    if (one)
        of_values |= type_of_value(one);
    if (of_values)
        types &= of_values;
    const struct mtr_json *ref = mtr_json_get(schema, "$ref");
    const struct mtr_json *target =
        ref && ref->kind == MTR_JSON_STRING ? resolve(root, ref->text) : NULL;
    if (target)
        types &= types_of(root, target, depth + 1);
    return types ? types : MTR_TYPE_ANY;
}

unsigned mtr_schema_types(const struct mtr_json *parameters, struct mtr_str key)
{
    const struct mtr_json *properties = mtr_json_get(parameters, "properties");
    for (uint32_t i = 0; properties && properties->kind == MTR_JSON_OBJECT && i < properties->count;
         i++)
        if (mtr_str_equal(properties->members[i].key, key))
            return types_of(parameters, &properties->members[i].value, 0);
    return 0;
}

/* ---- Text as a type ---------------------------------------------------------------------------
 */

static size_t digits(struct mtr_str s, size_t at)
{
    while (at < s.len && s.ptr[at] >= '0' && s.ptr[at] <= '9')
        at++;
    return at;
}

bool mtr_is_json_number(struct mtr_str s, bool *integer)
{
    size_t at = s.len && s.ptr[0] == '-', from = at;
    *integer = true;
    at = digits(s, at);
    if (at == from || (s.ptr[from] == '0' && at > from + 1))
        return false;
    if (at < s.len && s.ptr[at] == '.') {
        *integer = false;
        from = ++at;
        at = digits(s, at);
        if (at == from)
            return false;
    }
    if (at < s.len && (s.ptr[at] == 'e' || s.ptr[at] == 'E')) {
        *integer = false;
        at++;
        at += at < s.len && (s.ptr[at] == '+' || s.ptr[at] == '-');
        from = at;
        at = digits(s, at);
        if (at == from)
            return false;
    }
    return at == s.len;
}

static struct mtr_str trim(struct mtr_str s)
{
    size_t from = 0, end = s.len;
    while (from < end && mtr_is_space(s.ptr[from]))
        from++;
    while (end > from && mtr_is_space(s.ptr[end - 1]))
        end--;
    return mtr_str_sub(s, from, end - from);
}

static bool is_word(struct mtr_str s, const char *word)
{
    size_t i = 0;
    for (; i < s.len && word[i]; i++)
        if (tolower((unsigned char)s.ptr[i]) != word[i])
            return false;
    return i == s.len && !word[i];
}

/* May the text, without its end, still become a number or a literal of the types? */
static bool is_piece(struct mtr_str t, unsigned types)
{
    static const struct {
        const char *word;
        unsigned types;
    } words[] = {{"true", MTR_TYPE_BOOLEAN},
                 {"false", MTR_TYPE_BOOLEAN},
                 {"null", MTR_TYPE_NULL},
                 {"none", MTR_TYPE_NULL}};
    if (t.len == 0)
        return true;
    for (size_t i = 0; i < 4; i++) {
        struct mtr_str word = mtr_str(words[i].word);
        if ((types & words[i].types) && t.len < word.len) {
            size_t k = 0;
            while (k < t.len && tolower((unsigned char)t.ptr[k]) == word.ptr[k])
                k++;
            if (k == t.len)
                return true;
        }
    }
    if (types & (MTR_TYPE_INTEGER | MTR_TYPE_NUMBER)) {
        char last = t.ptr[t.len - 1];
        bool integer;
        if (strchr("-+.eE", last)) {
            char longer[64];
            if (t.len + 1 >= sizeof longer)
                return false;
            memcpy(longer, t.ptr, t.len);
            longer[t.len] = '0';
            return mtr_is_json_number((struct mtr_str){longer, t.len + 1}, &integer);
        }
    }
    return false;
}

static bool write_scalar(struct mtr_str t, unsigned types, struct mtr_buf *out)
{
    bool integer;
    if ((types & MTR_TYPE_NULL) && (mtr_str_is(t, "null") || mtr_str_is(t, "None")))
        return mtr_buf_puts(out, "null");
    if ((types & (MTR_TYPE_INTEGER | MTR_TYPE_NUMBER)) && mtr_is_json_number(t, &integer) &&
        (integer || (types & MTR_TYPE_NUMBER)))
        return mtr_buf_str(out, t);
    if ((types & MTR_TYPE_BOOLEAN) && is_word(t, "true"))
        return mtr_buf_puts(out, "true");
    if ((types & MTR_TYPE_BOOLEAN) && is_word(t, "false"))
        return mtr_buf_puts(out, "false");
    return false;
}

static bool write_container(struct mtr_str t, unsigned types, bool cut, struct mtr_buf *out)
{
    size_t before = out->len, end;
    if (!((t.ptr[0] == '{' && (types & MTR_TYPE_OBJECT)) ||
          (t.ptr[0] == '[' && (types & MTR_TYPE_ARRAY)) ||
          (t.ptr[0] == '(' && (types & MTR_TYPE_ARRAY))))
        return false;
    if (mtr_value_write(t, 0, MTR_DIALECT_PYTHON, cut, out, &end) && end == t.len)
        return true;
    out->len = before;
    return false;
}

bool mtr_schema_write(struct mtr_str text, unsigned types, bool cut, struct mtr_buf *out)
{
    struct mtr_str t = trim(text);
    if (types != MTR_TYPE_STRING) {
        if (t.len && (write_scalar(t, types, out) || write_container(t, types, cut, out)))
            return true;
        if (cut && !(types & MTR_TYPE_STRING) && is_piece(t, types))
            return false;
    }
    mtr_buf_byte(out, '"');
    mtr_string_escape(out, text);
    mtr_buf_byte(out, '"');
    return true;
}
