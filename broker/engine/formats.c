/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A table of what templates contain, most telling first. The last rows are formats that others
 * resemble.
 */
#include "broker/engine/formats.h"

#include <string.h>

static const struct {
    const char *has, *too; /* both must be there; too may be NULL */
    const char *format;    /* NULL: a format of calls that is not read */
} signs[] = {
    {"｜DSML｜", "function_calls", "deepseek_v32"},
    {"｜DSML｜", NULL, "deepseek_v4"},
    {"<｜tool▁sep｜>", "function<｜tool▁sep｜>", NULL},
    {"<｜tool▁sep｜>", "tool['type'] + '<｜tool▁sep｜>", NULL},
    {"<|tools_prefix|>", NULL, NULL},
    {"<|START_ACTION|>", NULL, NULL},
    {">>>${recipient}", NULL, NULL},
    {"<｜tool▁calls▁begin｜>", NULL, "deepseek_v31"},
    {"<|tool_calls_section_begin|>", NULL, "kimi_k2"},
    {"<|open|>", "<|sep|>", "kimi_k3"},
    {"<|tool_call>", NULL, "gemma4"},
    {"minimax:tool_call", NULL, "minimax_xml"},
    {"]~b]", "<invoke", "minimax_xml"},
    {"[TOOL_CALLS]", NULL, "mistral"},
    {"<TOOLCALL>", NULL, "nemotron_v2"},
    {"longcat_tool_call", NULL, "longcat"},
    {"<|channel|>", "<|message|>", "gpt_oss"},
    {"<arg_key>", "<assistant>", "poolside_v1"},
    {"<arg_key>", NULL, "glm45"},
    {"<function=", "<｜end▁of▁sentence｜>", "step3"},
    {"<function=", NULL, "qwen3_coder"},
    {"<tool_call>", NULL, "hermes"},
    {"[func_name1(", NULL, "llama3_pythonic"},
    {"<|python_tag|>", NULL, "llama3"},
    {"<|start_header_id|>", NULL, "llama3"},
    {"<|header_start|>", NULL, "llama3"},
};

static bool has(struct mtr_str source, const char *word)
{
    return word && source.ptr && mtr_str_find(source, mtr_str(word), 0) != SIZE_MAX;
}

/* A model that is offered tools but shows no format of its own writes plain JSON. */
static const struct mtr_parse_format *calls_of(const struct mtr_template *t, struct mtr_str source)
{
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (has(source, signs[i].has) && (!signs[i].too || has(source, signs[i].too)))
            return signs[i].format ? mtr_parse_format_find(mtr_str(signs[i].format)) : NULL;
    return t && mtr_template_uses(t, "tools") ? mtr_parse_format_find(MTR_STR("bare_json")) : NULL;
}

static bool channels(const struct mtr_parse_format *f)
{
    return f && (f->grammar == MTR_CALLS_HARMONY || f->grammar == MTR_CALLS_KIMI3);
}

/* Reasoning is marked as the format of calls says, if the template knows the mark. */
static const struct mtr_parse_format *reasoning_of(const struct mtr_parse_format *calls,
                                                   struct mtr_str source)
{
    static const char *const others[] = {"qwen3", "gemma4_thought", "mistral_think"};
    if (channels(calls) || (calls && has(source, calls->think_open)))
        return calls;
    if (has(source, "longcat_think"))
        return mtr_parse_format_find(MTR_STR("longcat"));
    if (has(source, "<｜Assistant｜>") && has(source, "</think>"))
        return mtr_parse_format_find(MTR_STR("deepseek_r1"));
    for (size_t i = 0; i < 3; i++) {
        const struct mtr_parse_format *f = mtr_parse_format_find(mtr_str(others[i]));
        if (has(source, f->think_open) || has(source, f->think_close))
            return f;
    }
    return NULL;
}

static bool choose(const char *flag, const char *name, const struct mtr_parse_format *found,
                   const struct mtr_parse_format **out, struct mtr_error *err)
{
    size_t count;
    const struct mtr_parse_format *all = mtr_parse_formats(&count);
    char names[768];
    size_t len = 0;
    *out = found;
    if (!name || strcmp(name, "auto") == 0)
        return true;
    *out = strcmp(name, "none") == 0 ? NULL : mtr_parse_format_find(mtr_str(name));
    if (*out || strcmp(name, "none") == 0)
        return true;
    names[0] = '\0';
    for (size_t i = 0; i < count && len + 40 < sizeof names; i++) {
        size_t n = strlen(all[i].name);
        memcpy(names + len, all[i].name, n);
        len += n;
        memcpy(names + len, ", ", 3);
        len += 2;
    }
    return mtr_fail(err, MTR_INVALID, "--%s: there is no format '%s'; there are %sauto and none",
                    flag, name, names);
}

bool mtr_formats_choose(const struct mtr_template *t, struct mtr_str source,
                        const char *tool_parser, const char *reasoning_parser,
                        struct mtr_formats *out, struct mtr_error *err)
{
    if (!choose("tool-call-parser", tool_parser, calls_of(t, source), &out->tools, err))
        return false;
    if (out->tools && out->tools->grammar == MTR_CALLS_NONE)
        return mtr_fail(err, MTR_INVALID, "--tool-call-parser: '%s' is a format of reasoning only",
                        tool_parser);
    if (!choose("reasoning-parser", reasoning_parser, reasoning_of(out->tools, source),
                &out->reasoning, err))
        return false;
    if (out->reasoning && !out->reasoning->think_open)
        return mtr_fail(err, MTR_INVALID, "--reasoning-parser: '%s' has no marks of reasoning",
                        reasoning_parser);
    return true;
}

void mtr_formats_think_end(const struct mtr_parse_format *f, struct mtr_buf *out)
{
    if (!f || !f->think_open)
        return;
    mtr_buf_puts(out, "\n\nThe time is up, so I answer now.\n");
    if (f->grammar == MTR_CALLS_HARMONY)
        mtr_buf_puts(out, "<|end|><|start|>assistant<|channel|>final<|message|>");
    else if (f->grammar == MTR_CALLS_KIMI3)
        mtr_buf_puts(out, "<|close|>think<|sep|><|open|>response<|sep|>");
    else if (f->think_token)
        mtr_buf_puts(out, f->think_close);
    else
        mtr_buf_printf(out, "%s\n\n", f->think_close);
}
