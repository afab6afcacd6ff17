/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calling: spreading arguments over parameters, macros, blocks.
 */
#include "broker/text/jinja/exec.h"

/* ---- parameters ---- */

/* The parameter of this name in "old new /count", or UINT32_MAX. */
static uint32_t find_param(const char *params, struct mtr_str name)
{
    for (uint32_t i = 0; *params; i++) {
        size_t len = strcspn(params, " ");
        if (mtr_str_equal((struct mtr_str){params, len}, name) && *params != '/')
            return i;
        params += len + (params[len] == ' ');
    }
    return UINT32_MAX;
}

bool mtr_jbind(struct mtr_jr *r, const char *what, const struct mtr_jcall *call, const char *params,
               uint32_t required, struct mtr_jv *out, uint32_t count)
{
    if (call->pos_count > count)
        return mtr_jfail(r, MTR_INVALID, "%s takes at most %u arguments, %u given", what, count,
                         call->pos_count);
    for (uint32_t i = 0; i < count; i++)
        out[i] = i < call->pos_count ? call->pos[i] : (struct mtr_jv){.kind = MTR_JK_MISSING};
    for (uint32_t i = 0; i < call->kw_count; i++) {
        uint32_t at = find_param(params, call->kw[i].name);
        if (at >= count)
            return mtr_jfail(r, MTR_INVALID, "%s got an unexpected keyword argument '%.*s'", what,
                             MTR_STR_ARG(call->kw[i].name));
        if (out[at].kind != MTR_JK_MISSING)
            return mtr_jfail(r, MTR_INVALID, "%s got multiple values for argument '%.*s'", what,
                             MTR_STR_ARG(call->kw[i].name));
        out[at] = call->kw[i].value;
    }
    for (uint32_t i = 0; i < required; i++) {
        if (out[i].kind == MTR_JK_MISSING)
            return mtr_jfail(r, MTR_INVALID, "%s lacks its argument %u", what, i + 1);
    }
    return true;
}

bool mtr_jarg_int(struct mtr_jr *r, const char *what, const struct mtr_jv *v, int64_t *out)
{
    if (!mtr_jis_int(v))
        return mtr_jfail(r, MTR_INVALID, "%s: '%s' object cannot be interpreted as an integer",
                         what, mtr_jtype_name(v));
    *out = mtr_jas_int(v);
    return true;
}

bool mtr_jarg_str(struct mtr_jr *r, const char *what, const struct mtr_jv *v, struct mtr_str *out)
{
    if (v->kind != MTR_JK_STR)
        return mtr_jfail(r, MTR_INVALID, "%s: expected str, got %s", what, mtr_jtype_name(v));
    *out = mtr_jbytes(v);
    return true;
}

/* ---- functions of the template ---- */

bool mtr_jrun_body(struct mtr_jr *r, struct mtr_jact *act, const struct mtr_jscope_code *scope,
                   const struct mtr_jnodes *body)
{
    struct mtr_jact *outer = r->act;
    r->act = act;
    mtr_jscope_enter(r, scope);
    bool ok = mtr_jexec_all(r, body) != MTR_JFLOW_FAILED;
    r->act = outer;
    return ok;
}

bool mtr_jmacro_value(struct mtr_jr *r, const struct mtr_jmacro_def *d, struct mtr_jv *out)
{
    struct mtr_jmacro *m = mtr_jalloc(r, sizeof *m);
    if (!m)
        return false;
    *m = (struct mtr_jmacro){d, r->act};
    *out = (struct mtr_jv){.kind = MTR_JK_MACRO, .macro = m};
    return true;
}

/* Arguments on their way into a macro. */
struct incoming {
    const struct mtr_jcall *call;
    bool *used; /* [call->kw_count] */
};

static bool take_keyword(struct incoming *in, struct mtr_str name, struct mtr_jv *out)
{
    for (uint32_t i = 0; i < in->call->kw_count; i++) {
        if (in->used[i] || !mtr_str_equal(in->call->kw[i].name, name))
            continue;
        in->used[i] = true;
        *out = in->call->kw[i].value;
        return true;
    }
    return false;
}

/* The keywords that no parameter took: into kwargs, or an error. */
static bool rest_keywords(struct mtr_jr *r, const struct mtr_jmacro_def *d, struct incoming *in,
                          struct mtr_jact *act)
{
    bool catch = d->kwargs_slot != UINT32_MAX;
    struct mtr_jdict *rest = catch ? mtr_jdict_new(r, in->call->kw_count) : NULL;
    if (catch && !rest)
        return false;
    for (uint32_t i = 0; i < in->call->kw_count; i++) {
        struct mtr_jkeyword *k = &in->call->kw[i];
        if (in->used[i])
            continue;
        if (!catch)
            return mtr_jfail(r, MTR_INVALID, "macro '%.*s' takes no keyword argument '%.*s'",
                             MTR_STR_ARG(d->name), MTR_STR_ARG(k->name));
        if (!mtr_jdict_put(r, rest, mtr_jstr(k->name, MTR_JTRUSTED), k->value))
            return false;
    }
    if (catch)
        act->slots[d->kwargs_slot] = mtr_jdict_value_of(rest);
    return true;
}

static bool rest_positions(struct mtr_jr *r, const struct mtr_jmacro_def *d,
                           const struct mtr_jcall *call, struct mtr_jact *act)
{
    uint32_t more = call->pos_count > d->arg_count ? call->pos_count - d->arg_count : 0;
    if (d->varargs_slot == UINT32_MAX)
        return !more || mtr_jfail(r, MTR_INVALID, "macro '%.*s' takes not more than %u argument(s)",
                                  MTR_STR_ARG(d->name), d->arg_count);
    struct mtr_jlist *l = mtr_jlist_new(r, more);
    if (!l)
        return false;
    for (; l->count < more; l->count++)
        l->items[l->count] = call->pos[d->arg_count + l->count];
    act->slots[d->varargs_slot] = mtr_jtuple_value(l);
    return true;
}

/* Fills the parameters' slots from a call, as jinja2's Macro does. */
static bool fill_slots(struct mtr_jr *r, const struct mtr_jmacro_def *d,
                       const struct mtr_jcall *call, struct mtr_jact *act)
{
    bool used[MTR_JINJA_MAX_ARGUMENTS + 1] = {0};
    struct incoming in = {call, used};
    bool found_caller = call->pos_count >= d->arg_count && d->explicit_caller;
    if (call->kw_count > MTR_JINJA_MAX_ARGUMENTS)
        return mtr_jfail(r, MTR_TOO_LARGE, "more than %d keyword arguments",
                         MTR_JINJA_MAX_ARGUMENTS);
    for (uint32_t i = 0; i < d->arg_count; i++) {
        struct mtr_jv *slot = &act->slots[d->args[i]->name.place.slot];
        if (i < call->pos_count) {
            *slot = call->pos[i];
            continue;
        }
        found_caller |= mtr_str_is(d->args[i]->name.id, "caller");
        take_keyword(&in, d->args[i]->name.id, slot);
    }
    if (d->caller_slot != UINT32_MAX && !found_caller) {
        struct mtr_jv *slot = &act->slots[d->caller_slot];
        if (!take_keyword(&in, MTR_STR("caller"), slot) || slot->kind == MTR_JK_NONE)
            *slot = mtr_jundefined(MTR_STR("caller"));
    }
    return rest_keywords(r, d, &in, act) && rest_positions(r, d, call, act);
}

/* Parameters that are still missing take their defaults, or an undefined. */
static bool fill_defaults(struct mtr_jr *r, const struct mtr_jmacro_def *d)
{
    uint32_t without = d->arg_count - d->default_count;
    for (uint32_t i = 0; i < d->arg_count; i++) {
        struct mtr_jv *slot = &r->act->slots[d->args[i]->name.place.slot];
        if (slot->kind != MTR_JK_MISSING)
            continue;
        if (i < without)
            *slot = mtr_jundefined(d->args[i]->name.id);
        else if (!mtr_jeval(r, d->defaults[i - without], slot))
            return false;
    }
    return true;
}

bool mtr_jcall_macro(struct mtr_jr *r, const struct mtr_jmacro *m, const struct mtr_jcall *call,
                     struct mtr_jv *out)
{
    const struct mtr_jmacro_def *d = m->def;
    struct mtr_jtext text = {0}, *outer_out = r->out;
    struct mtr_jact *outer = r->act, *act = mtr_jact_new(r, m->act, d->slot_count);
    if (!act || !fill_slots(r, d, call, act))
        return false;
    if (++r->macro_depth > MTR_JINJA_MAX_CALLS)
        return mtr_jfail(r, MTR_INVALID, "calls nested deeper than %d", MTR_JINJA_MAX_CALLS);
    r->act = act;
    r->out = &text;
    mtr_jscope_enter(r, &d->scope);
    bool ok = fill_defaults(r, d) && mtr_jexec_all(r, &d->body) != MTR_JFLOW_FAILED;
    r->out = outer_out;
    r->act = outer;
    r->macro_depth--;
    return ok && mtr_jtext_finish(r, &text, 0, out);
}

bool mtr_jcall_block(struct mtr_jr *r, const struct mtr_jblock *b, struct mtr_jv *out)
{
    const struct mtr_jblock_def *d = b->def;
    struct mtr_jtext text = {0}, *outer = r->out;
    if (d->required)
        return mtr_jfail(r, MTR_INVALID, "Required block '%.*s' not found", MTR_STR_ARG(d->name));
    struct mtr_jact *act = mtr_jact_new(r, r->act, d->slot_count);
    if (!act)
        return false;
    if (++r->macro_depth > MTR_JINJA_MAX_CALLS)
        return mtr_jfail(r, MTR_INVALID, "calls nested deeper than %d", MTR_JINJA_MAX_CALLS);
    if (d->self_slot != UINT32_MAX)
        act->slots[d->self_slot] = (struct mtr_jv){.kind = MTR_JK_BLOCKS};
    if (d->super_slot != UINT32_MAX)
        act->slots[d->super_slot] = mtr_jundefined(MTR_STR("super"));
    r->out = &text;
    bool ok = mtr_jrun_body(r, act, &d->scope, &d->body);
    r->out = outer;
    r->macro_depth--;
    return ok && mtr_jtext_finish(r, &text, 0, out);
}

static bool call_joiner(struct mtr_jr *r, struct mtr_jjoiner *j, const struct mtr_jcall *call,
                        struct mtr_jv *out)
{
    if (!mtr_jbind(r, "joiner", call, "", 0, NULL, 0))
        return false;
    *out = j->used ? j->sep : mtr_jcstr("");
    j->used = true;
    return true;
}

bool mtr_jcall_value(struct mtr_jr *r, const struct mtr_jv *f, struct mtr_jcall *call,
                     struct mtr_jv *out)
{
    switch (f->kind) {
    case MTR_JK_MACRO:
        return mtr_jcall_macro(r, f->macro, call, out);
    case MTR_JK_FUNCTION:
        return mtr_jglobal_call(r, f->sub, call, out);
    case MTR_JK_METHOD:
        return mtr_jcall_method(r, &f->method->self, f->method->entry, call, out);
    case MTR_JK_LOOP:
        return mtr_jcall_loop(r, f->loop, call, out);
    case MTR_JK_JOINER:
        return call_joiner(r, f->joiner, call, out);
    case MTR_JK_BLOCK:
        /* Its names are places in the frame around it, which is not the caller's. */
        if (f->block->def->scoped)
            return mtr_jfail(r, MTR_UNSUPPORTED, "a scoped block can't be called through self");
        return mtr_jbind(r, "a block", call, "", 0, NULL, 0) && mtr_jcall_block(r, f->block, out);
    case MTR_JK_UNDEFINED:
        return mtr_jfail_undefined(r, f);
    default:
        return mtr_jfail(r, MTR_INVALID, "'%s' object is not callable", mtr_jtype_name(f));
    }
}
