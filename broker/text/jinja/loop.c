/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The variable `loop`. It reads one item ahead when it is asked whether there is one (last,
 * nextitem), and everything when it is asked how many there are and its source can't say: so that a
 * loop over a generator runs the generator as late as jinja2 does.
 */
#include "broker/text/jinja/exec.h"

#include <inttypes.h>
#include <stdio.h>

struct mtr_jloop *mtr_jloop_new(struct mtr_jr *r, const struct mtr_jfor *def,
                                const struct mtr_jv *iterable, struct mtr_jact *home,
                                int64_t depth0)
{
    struct mtr_jloop *l = mtr_jalloc(r, sizeof *l);
    if (!l)
        return NULL;
    *l = (struct mtr_jloop){.iterable = *iterable,
                            .def = def,
                            .act = home,
                            .index0 = -1,
                            .length = -1,
                            .depth0 = depth0};
    return mtr_jiter_of(r, iterable, &l->iter) ? l : NULL;
}

bool mtr_jloop_next(struct mtr_jr *r, struct mtr_jloop *l, struct mtr_jv *item, bool *end)
{
    *end = false;
    if (l->after.kind != MTR_JK_MISSING) {
        *item = l->after;
        l->after.kind = MTR_JK_MISSING;
    } else if (!mtr_jnext(r, l->iter, item, end)) {
        return false;
    }
    if (*end)
        return true;
    l->index0++;
    l->before = l->current;
    l->current = *item;
    return true;
}

static bool peek(struct mtr_jr *r, struct mtr_jloop *l, bool *end)
{
    *end = false;
    if (l->after.kind != MTR_JK_MISSING)
        return true;
    if (!mtr_jnext(r, l->iter, &l->after, end))
        return false;
    if (*end)
        l->after.kind = MTR_JK_MISSING;
    return true;
}

bool mtr_jloop_len(struct mtr_jr *r, struct mtr_jloop *l, int64_t *len)
{
    if (l->length < 0 && !mtr_jlen(&l->iterable, &l->length)) {
        struct mtr_jv rest = mtr_jiter_value(l->iter);
        struct mtr_jlist *items;
        if (!mtr_jcollect(r, &rest, &items))
            return false;
        rest = mtr_jlist_value(items);
        if (!mtr_jiter_of(r, &rest, &l->iter))
            return false;
        l->length = items->count + l->index0 + 1 + (l->after.kind != MTR_JK_MISSING);
    }
    *len = l->length;
    return true;
}

static bool length_attr(struct mtr_jr *r, struct mtr_jloop *l, int64_t minus, struct mtr_jv *out)
{
    int64_t len;
    if (!mtr_jloop_len(r, l, &len))
        return false;
    *out = mtr_jint(len - minus);
    return true;
}

static bool last(struct mtr_jr *r, struct mtr_jloop *l, struct mtr_jv *out)
{
    bool end;
    if (!peek(r, l, &end))
        return false;
    *out = mtr_jbool(end);
    return true;
}

static bool nextitem(struct mtr_jr *r, struct mtr_jloop *l, struct mtr_jv *out)
{
    bool end;
    if (!peek(r, l, &end))
        return false;
    *out = end ? mtr_jundefined(MTR_STR("the next item")) : l->after;
    return true;
}

bool mtr_jloop_attr(struct mtr_jr *r, struct mtr_jloop *l, struct mtr_str name, struct mtr_jv *out,
                    bool *found)
{
    *found = true;
    if (mtr_str_is(name, "index0"))
        *out = mtr_jint(l->index0);
    else if (mtr_str_is(name, "index"))
        *out = mtr_jint(l->index0 + 1);
    else if (mtr_str_is(name, "first"))
        *out = mtr_jbool(l->index0 == 0);
    else if (mtr_str_is(name, "last"))
        return last(r, l, out);
    else if (mtr_str_is(name, "length"))
        return length_attr(r, l, 0, out);
    else if (mtr_str_is(name, "revindex"))
        return length_attr(r, l, l->index0, out);
    else if (mtr_str_is(name, "revindex0"))
        return length_attr(r, l, l->index0 + 1, out);
    else if (mtr_str_is(name, "previtem"))
        *out = l->index0 == 0 ? mtr_jundefined(MTR_STR("the previous item")) : l->before;
    else if (mtr_str_is(name, "nextitem"))
        return nextitem(r, l, out);
    else if (mtr_str_is(name, "depth"))
        *out = mtr_jint(l->depth0 + 1);
    else if (mtr_str_is(name, "depth0"))
        *out = mtr_jint(l->depth0);
    else
        *found = false;
    return true;
}

static bool cycle(struct mtr_jr *r, struct mtr_jloop *l, const struct mtr_jcall *call,
                  struct mtr_jv *out)
{
    if (call->kw_count || !call->pos_count)
        return mtr_jfail(r, MTR_INVALID, "no items for cycling given");
    *out = call->pos[l->index0 % call->pos_count];
    return true;
}

static bool changed(struct mtr_jr *r, struct mtr_jloop *l, const struct mtr_jcall *call,
                    struct mtr_jv *out)
{
    struct mtr_jlist *now = mtr_jlist_new(r, call->pos_count);
    bool same = false;
    if (call->kw_count)
        return mtr_jfail(r, MTR_INVALID, "changed() takes no keyword arguments");
    if (!now)
        return false;
    for (; now->count < call->pos_count; now->count++)
        now->items[now->count] = call->pos[now->count];
    struct mtr_jv v = mtr_jtuple_value(now);
    if (l->changed.kind != MTR_JK_MISSING && !mtr_jequal(r, &l->changed, &v, &same))
        return false;
    if (!same)
        l->changed = v;
    *out = mtr_jbool(!same);
    return true;
}

bool mtr_jloop_method(struct mtr_jr *r, struct mtr_jloop *l, const char *name,
                      const struct mtr_jcall *call, struct mtr_jv *out)
{
    return strcmp(name, "cycle") == 0 ? cycle(r, l, call, out) : changed(r, l, call, out);
}

bool mtr_jloop_repr(struct mtr_jr *r, struct mtr_jtext *t, struct mtr_jloop *l)
{
    char text[80];
    int64_t len;
    if (!mtr_jloop_len(r, l, &len))
        return false;
    snprintf(text, sizeof text, "<LoopContext %" PRId64 "/%" PRId64 ">", l->index0 + 1, len);
    return mtr_jtext_puts(r, t, text);
}

/* loop(items) inside a recursive loop: the loop again, over other items. */
bool mtr_jcall_loop(struct mtr_jr *r, struct mtr_jloop *l, const struct mtr_jcall *call,
                    struct mtr_jv *out)
{
    struct mtr_jv items;
    struct mtr_jtext text = {0}, *outer_out = r->out;
    struct mtr_jact *outer = r->act;
    if (!mtr_jbind(r, "loop", call, "iterable", 1, &items, 1))
        return false;
    if (!l->def->recursive)
        return mtr_jfail(r, MTR_INVALID,
                         "The loop must have the 'recursive' marker to be called recursively.");
    if (++r->macro_depth > MTR_JINJA_MAX_CALLS)
        return mtr_jfail(r, MTR_INVALID, "calls nested deeper than %d", MTR_JINJA_MAX_CALLS);
    r->act = mtr_jact_new(r, l->act, l->def->slot_count);
    if (!r->act)
        return false;
    r->out = &text;
    enum mtr_jflow f = mtr_jrun_loop(r, l->def, &items, l->act, l->depth0 + 1);
    r->out = outer_out;
    r->act = outer;
    r->macro_depth--;
    return f != MTR_JFLOW_FAILED && mtr_jtext_finish(r, &text, 0, out);
}
