/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finding filters by name and calling them.
 */
#include "broker/text/jinja/run.h"

#define MAX_FILTER_ARGS 8
#define TABLE_STRIDE    64 /* a filter's number is table * stride + position */

typedef const struct mtr_jfilter_entry *(*table_function)(void);

static const table_function tables[] = {mtr_jfilters_text,   mtr_jfilters_sequence,
                                        mtr_jfilters_number, mtr_jfilters_html,
                                        mtr_jfilters_wrap,   mtr_jfilters_pprint};

size_t mtr_jfilter_find(struct mtr_str name)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        const struct mtr_jfilter_entry *f = tables[t]();
        for (size_t i = 0; f[i].name; i++) {
            if (mtr_str_is(name, f[i].name))
                return t * TABLE_STRIDE + i;
        }
    }
    return SIZE_MAX;
}

bool mtr_jfilter_run(struct mtr_jr *r, size_t filter, const struct mtr_jcall *call,
                     struct mtr_jv *out)
{
    const struct mtr_jfilter_entry *f = &tables[filter / TABLE_STRIDE]()[filter % TABLE_STRIDE];
    struct mtr_jv args[MAX_FILTER_ARGS];
    if (f->count == MTR_JRAW)
        return f->raw(r, call, out);
    return mtr_jbind(r, f->name, call, f->params, f->required, args, f->count) &&
           f->run(r, args, out);
}
