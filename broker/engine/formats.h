/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which wire format a model writes reasoning and tool calls in.
 *
 * The chat template shows it: it renders earlier calls and thoughts the way that the model was
 * trained to write them. Flags name one where the template leaves it open or misleads.
 */
#ifndef MTR_ENGINE_FORMATS_H
#define MTR_ENGINE_FORMATS_H

#include "broker/parse/format.h"
#include "broker/text/template.h"
#include "common/base/error.h"

struct mtr_formats {
    const struct mtr_parse_format *tools;     /* NULL: the model can't be offered tools */
    const struct mtr_parse_format *reasoning; /* NULL: what it writes is all content */
};

/* tool_parser, reasoning_parser: a format's name, "auto" or NULL, or "none". source: the template's
 * text, {NULL, 0} for none. MTR_INVALID: there is no format of that name. */
bool mtr_formats_choose(const struct mtr_template *t, struct mtr_str source,
                        const char *tool_parser, const char *reasoning_parser,
                        struct mtr_formats *out, struct mtr_error *err);

/* What is forced into the text to end reasoning at its budget; "" where the format has no end. */
void mtr_formats_think_end(const struct mtr_parse_format *f, struct mtr_buf *out);

#endif
