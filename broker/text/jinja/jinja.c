/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Compiling and rendering: the outside of the engine, and the accounts that a rendering keeps.
 */
#include "broker/text/jinja/exec.h"

#include <stdarg.h>
#include <stdio.h>

const struct mtr_jinja *mtr_jinja_compile(struct mtr_arena *arena, struct mtr_str source,
                                          struct mtr_error *err)
{
    struct mtr_jinja *t = mtr_arena_calloc(arena, 1, sizeof *t);
    if (!t) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for a template");
        return NULL;
    }
    return mtr_jparse(arena, source, t, err) && mtr_jresolve(arena, t, err) ? t : NULL;
}

bool mtr_jinja_uses(const struct mtr_jinja *t, struct mtr_str name)
{
    for (uint32_t i = 0; i < t->name_count; i++) {
        if (t->names[i].read && mtr_str_equal(t->names[i].text, name))
            return true;
    }
    return false;
}

/* ---- accounts ---- */

bool mtr_jfail(struct mtr_jr *r, enum mtr_code code, const char *format, ...)
{
    char text[MTR_ERROR_MESSAGE_BYTES];
    va_list ap;
    if (r->failed)
        return false;
    r->failed = true;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return mtr_fail(r->err, code, "line %u: %s", r->line, text);
}

bool mtr_jfail_undefined(struct mtr_jr *r, const struct mtr_jv *u)
{
    return mtr_jfail(r, MTR_INVALID, "'%.*s' is undefined", (int)u->len, u->len ? u->text : "");
}

bool mtr_jstep(struct mtr_jr *r, uint64_t cost)
{
    if (cost <= r->steps) {
        r->steps -= cost;
        return true;
    }
    return mtr_jfail(r, MTR_TOO_LARGE, "the template takes more than %llu steps",
                     (unsigned long long)r->limits.steps);
}

void *mtr_jalloc(struct mtr_jr *r, size_t bytes)
{
    void *m = bytes <= r->memory ? mtr_arena_alloc(r->arena, bytes) : NULL;
    if (!m) {
        if (bytes > r->memory)
            mtr_jfail(r, MTR_TOO_LARGE, "the template takes more than %zu bytes of memory",
                      r->limits.memory_bytes);
        else
            mtr_jfail(r, MTR_NO_MEMORY, "no memory to render the template");
        return NULL;
    }
    r->memory -= bytes;
    return m;
}

bool mtr_jdeeper(struct mtr_jr *r)
{
    if (++r->value_depth <= MTR_JINJA_MAX_VALUE_DEPTH)
        return true;
    return mtr_jfail(r, MTR_TOO_LARGE, "values nested deeper than %d", MTR_JINJA_MAX_VALUE_DEPTH);
}

/* ---- variables ---- */

/* Whether a top-level variable is trusted, and which trusted paths lead into it. */
static uint8_t trust(const struct mtr_jinja_options *o, struct mtr_str name, uint8_t *bits)
{
    uint8_t taint = MTR_JTAINTED;
    unsigned path = 0;
    *bits = 0;
    for (size_t i = 0; i < o->trusted_count; i++) {
        const char *p = o->trusted[i], *mark = strstr(p, "[].");
        if (!mark) {
            if (mtr_str_is(name, p))
                taint = MTR_JTRUSTED;
            continue;
        }
        if (path < MTR_JINJA_MAX_TRUSTED_PATHS &&
            mtr_str_equal(name, (struct mtr_str){p, (size_t)(mark - p)}))
            *bits |= (uint8_t)(1u << path);
        path++;
    }
    return taint;
}

static const struct mtr_json *find_variable(const struct mtr_json *variables, struct mtr_str name)
{
    const struct mtr_json *found = NULL;
    for (uint32_t i = 0; variables && i < variables->count; i++) {
        if (mtr_str_equal(variables->members[i].key, name))
            found = &variables->members[i].value;
    }
    return found;
}

static bool resolve_globals(struct mtr_jr *r, const struct mtr_json *variables)
{
    const struct mtr_jinja *t = r->template;
    r->globals = mtr_jalloc(r, (t->name_count + 1) * sizeof *r->globals);
    if (!r->globals)
        return false;
    for (uint32_t i = 0; i < t->name_count; i++) {
        struct mtr_jv *g = &r->globals[i];
        const struct mtr_json *j = find_variable(variables, t->names[i].text);
        uint8_t bits, taint = trust(r->options, t->names[i].text, &bits);
        *g = (struct mtr_jv){.kind = MTR_JK_MISSING};
        if (!j)
            mtr_jglobal_find(t->names[i].text, g);
        else
            *g = mtr_jfrom_json(j, taint, bits);
        if (g->kind == MTR_JK_JSON && !mtr_jforce(r, g))
            return false;
    }
    return true;
}

/* ---- rendering ---- */

static bool finish(struct mtr_jr *r, struct mtr_jtext *t, struct mtr_jinja_result *result)
{
    uint32_t from = 0;
    result->text = (struct mtr_str){t->len ? t->data : "", t->len};
    result->span_count = t->len ? t->end_count + 1 : 0;
    result->spans = mtr_jalloc(r, (result->span_count + 1) * sizeof *result->spans);
    if (!result->spans)
        return false;
    for (uint32_t i = 0; i < result->span_count; i++) {
        uint32_t to = i < t->end_count ? t->ends[i] : t->len;
        result->spans[i] = (struct mtr_jinja_span){
            .offset = from, .len = to - from, .from_template = !((t->first ^ i) & 1)};
        from = to;
    }
    return true;
}

bool mtr_jinja_render(const struct mtr_jinja *template, const struct mtr_json *variables,
                      const struct mtr_jinja_options *options, struct mtr_arena *arena,
                      struct mtr_jinja_result *result, struct mtr_error *err)
{
    static const struct mtr_jinja_options none;
    struct mtr_jtext text = {0};
    struct mtr_jr r = {.arena = arena,
                       .err = err,
                       .template = template,
                       .options = options ? options : &none,
                       .out = &text,
                       .line = 1};
    r.limits = r.options->limits;
    if (!r.limits.steps)
        r.limits.steps = MTR_JINJA_DEFAULT_STEPS;
    if (!r.limits.output_bytes)
        r.limits.output_bytes = MTR_JINJA_DEFAULT_OUTPUT_BYTES;
    if (!r.limits.memory_bytes)
        r.limits.memory_bytes = MTR_JINJA_DEFAULT_MEMORY_BYTES;
    r.steps = r.limits.steps;
    r.memory = r.limits.memory_bytes;
    *result = (struct mtr_jinja_result){0};
    if (variables && variables->kind != MTR_JSON_OBJECT)
        return mtr_fail(err, MTR_INTERNAL, "the variables of a template must be a JSON object");

    struct mtr_jact *root = mtr_jact_new(&r, NULL, template->slot_count);
    bool ok = root && resolve_globals(&r, variables);
    if (ok && template->self_slot != UINT32_MAX)
        root->slots[template->self_slot] = (struct mtr_jv){.kind = MTR_JK_BLOCKS};
    ok = ok && mtr_jrun_body(&r, root, &template->scope, &template->body) &&
         finish(&r, &text, result);
    if (!ok && r.raised) {
        result->raised = true;
        result->message = mtr_jbytes(&r.message);
    }
    return ok;
}
