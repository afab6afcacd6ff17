/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The table of formats. A format names tool parser and reasoning parser together; those without a
 * grammar are reasoning alone.
 */
#include "broker/parse/format.h"

#define CHATML_HIDDEN                                                                              \
    {                                                                                              \
        "<|im_start|>", "<|im_end|>", "<|endoftext|>"                                              \
    }
#define THINK .think_open = "<think>", .think_close = "</think>"
#define QWEN_TAGS                                                                                  \
    .grammar = MTR_CALLS_TAGS, .wrap_open = "<tool_call>", .wrap_close = "</tool_call>",           \
    .call_open = "<function", .call_close = "</function>", .param_open = "<parameter",             \
    .param_close = "</parameter>", .tag_end = ">", .name_attribute = "name",                       \
    .param_attribute = "name"
#define DSML_TAGS                                                                                  \
    .grammar = MTR_CALLS_TAGS, .flags = MTR_FORMAT_ATTRIBUTES, .call_open = "<｜DSML｜invoke",     \
    .call_close = "</｜DSML｜invoke>", .param_open = "<｜DSML｜parameter",                         \
    .param_close = "</｜DSML｜parameter>", .tag_end = ">", .name_attribute = "name",               \
    .param_attribute = "name", .type_attribute = "string"
#define ARG_KEYS                                                                                   \
    .grammar = MTR_CALLS_KEYS, .wrap_open = "<tool_call>", .wrap_close = "</tool_call>",           \
    .call_close = "</tool_call>", .param_open = "<arg_key>", .key_close = "</arg_key>",            \
    .value_open = "<arg_value>", .param_close = "</arg_value>"
#define DEEPSEEK_HIDDEN "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"
#define DEEPSEEK_CALLS                                                                             \
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",                     \
        "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
#define GLM_HIDDEN                                                                                 \
    {                                                                                              \
        "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>", "<|endoftext|>"              \
    }
#define LLAMA_HIDDEN                                                                               \
    {                                                                                              \
        "<|python_tag|>", "<|python_start|>", "<|python_end|>", "<|eot_id|>", "<|eom_id|>",        \
            "<|eot|>"                                                                              \
    }
#define KIMI_HIDDEN                                                                                \
    "<|im_end|>", "<|im_start|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>",              \
        "<|im_middle|>"
#define HARMONY_HIDDEN                                                                             \
    {                                                                                              \
        "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|constrain|>",       \
            "<|call|>", "<|endoftext|>"                                                            \
    }
#define GEMMA_HIDDEN                                                                               \
    {                                                                                              \
        "<|tool_call>", "<tool_call|>", "<|\"|>", "<|channel>", "<channel|>", "<|tool_response>",  \
            "<tool_response|>", "<|tool>", "<tool|>", "<|turn>", "<turn|>", "<|think|>", "<bos>",  \
            "<eos>"                                                                                \
    }
#define GEMMA_THINK                                                                                \
    .think_open = "<|channel>", .think_word = "thought", .think_close = "<channel|>",              \
    .think_token = true, .turns = {"<tool_response|>", "<|turn>"}
#define MISTRAL_HIDDEN                                                                             \
    {                                                                                              \
        "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "<s>", "</s>"                \
    }
#define MISTRAL_THINK                                                                              \
    .think_open = "[THINK]", .think_close = "[/THINK]", .think_token = true, .turns = {"[/INST]"}

static const struct mtr_parse_format formats[] = {
    {.name = "hermes",
     .grammar = MTR_CALLS_ENVELOPE,
     .wrap_open = "<tool_call>",
     .wrap_close = "</tool_call>",
     THINK,
     .hidden = CHATML_HIDDEN},
    {.name = "qwen3_coder",
     QWEN_TAGS,
     .flags = MTR_FORMAT_EQUALS | MTR_FORMAT_NEWLINES,
     THINK,
     .hidden = CHATML_HIDDEN},
    {.name = "qwen3_xml",
     QWEN_TAGS,
     .flags = MTR_FORMAT_EQUALS | MTR_FORMAT_ATTRIBUTES | MTR_FORMAT_NEWLINES,
     THINK,
     .hidden = CHATML_HIDDEN},
    {.name = "step3",
     QWEN_TAGS,
     .flags = MTR_FORMAT_EQUALS | MTR_FORMAT_NEWLINES,
     THINK,
     .hidden = {"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<｜end▁of▁sentence｜>"}},
    {.name = "nemotron_v3",
     QWEN_TAGS,
     .flags = MTR_FORMAT_EQUALS | MTR_FORMAT_NEWLINES,
     THINK,
     .hidden = CHATML_HIDDEN},
    {.name = "nemotron_v2",
     .grammar = MTR_CALLS_ENVELOPE,
     .wrap_open = "<TOOLCALL>",
     .wrap_close = "</TOOLCALL>",
     THINK,
     .hidden = {"<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>"}},
    {.name = "gemma4",
     .grammar = MTR_CALLS_GEMMA,
     .wrap_open = "<|tool_call>",
     .wrap_close = "<tool_call|>",
     GEMMA_THINK,
     .hidden = GEMMA_HIDDEN},
    {.name = "mistral",
     .grammar = MTR_CALLS_MISTRAL,
     .wrap_open = "[TOOL_CALLS]",
     .separator = "[ARGS]",
     .call_open = "[CALL_ID]",
     MISTRAL_THINK,
     .hidden = MISTRAL_HIDDEN},
    {.name = "minimax_xml",
     .grammar = MTR_CALLS_TAGS,
     .flags = MTR_FORMAT_ATTRIBUTES,
     .wrap_open = "<minimax:tool_call>",
     .wrap_close = "</minimax:tool_call>",
     .call_open = "<invoke",
     .call_close = "</invoke>",
     .param_open = "<parameter",
     .param_close = "</parameter>",
     .tag_end = ">",
     .name_attribute = "name",
     .param_attribute = "name",
     THINK,
     .hidden = {"]~!b[", "]~b]", "[e~["}},
    {.name = "bare_json", .grammar = MTR_CALLS_BARE, THINK, .hidden = CHATML_HIDDEN},
    {.name = "poolside_v1",
     ARG_KEYS,
     THINK,
     .hidden = {"〈|EOS|〉", "</assistant>"},
     .turns = {"<assistant>", "</user>"}},
    {.name = "glm45", ARG_KEYS, THINK, .hidden = GLM_HIDDEN},
    {.name = "glm5", ARG_KEYS, THINK, .hidden = GLM_HIDDEN},
    {.name = "deepseek_v31",
     .grammar = MTR_CALLS_NAMED,
     .wrap_open = "<｜tool▁calls▁begin｜>",
     .wrap_close = "<｜tool▁calls▁end｜>",
     .call_open = "<｜tool▁call▁begin｜>",
     .separator = "<｜tool▁sep｜>",
     .call_close = "<｜tool▁call▁end｜>",
     THINK,
     .hidden = {DEEPSEEK_CALLS, DEEPSEEK_HIDDEN}},
    {.name = "deepseek_v32",
     DSML_TAGS,
     .wrap_open = "<｜DSML｜function_calls>",
     .wrap_close = "</｜DSML｜function_calls>",
     THINK,
     .hidden = {DEEPSEEK_CALLS, DEEPSEEK_HIDDEN}},
    {.name = "deepseek_v4",
     DSML_TAGS,
     .wrap_open = "<｜DSML｜tool_calls>",
     .wrap_close = "</｜DSML｜tool_calls>",
     THINK,
     .hidden = {DEEPSEEK_CALLS, DEEPSEEK_HIDDEN}},
    {.name = "kimi_k2",
     .grammar = MTR_CALLS_NAMED,
     .flags = MTR_FORMAT_FUNCTIONS | MTR_FORMAT_INDEX,
     .wrap_open = "<|tool_calls_section_begin|>",
     .wrap_close = "<|tool_calls_section_end|>",
     .call_open = "<|tool_call_begin|>",
     .separator = "<|tool_call_argument_begin|>",
     .call_close = "<|tool_call_end|>",
     THINK,
     .hidden = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
                "<|tool_call_argument_begin|>", "<|tool_call_end|>", KIMI_HIDDEN}},
    {.name = "kimi_k3",
     .grammar = MTR_CALLS_KIMI3,
     .think_open = "<|open|>think<|sep|>",
     .think_close = "<|open|>response<|sep|>",
     .think_token = true,
     .call_open = "<|open|>call",
     .call_close = "<|close|>call<|sep|>",
     .wrap_close = "<|close|>tools<|sep|>",
     .param_open = "<|open|>argument",
     .param_close = "<|close|>argument<|sep|>",
     .tag_end = "<|sep|>",
     .name_attribute = "tool",
     .param_attribute = "key",
     .type_attribute = "type",
     .hidden = {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"}},
    {.name = "llama3",
     .grammar = MTR_CALLS_BARE,
     .flags = MTR_FORMAT_BUILTIN,
     .hidden = LLAMA_HIDDEN},
    {.name = "llama3_pythonic", .grammar = MTR_CALLS_PYTHON, .hidden = LLAMA_HIDDEN},
    {.name = "longcat",
     .grammar = MTR_CALLS_KEYS,
     .flags = MTR_FORMAT_FUNCTIONS | MTR_FORMAT_JSON_TOO,
     .wrap_open = "<longcat_tool_call>",
     .wrap_close = "</longcat_tool_call>",
     .call_close = "</longcat_tool_call>",
     .param_open = "<longcat_arg_key>",
     .key_close = "</longcat_arg_key>",
     .value_open = "<longcat_arg_value>",
     .param_close = "</longcat_arg_value>",
     .think_open = "<longcat_think>",
     .think_close = "</longcat_think>",
     .hidden = {"</longcat_s>"},
     .turns = {" ASSISTANT:"}},
    {.name = "gpt_oss",
     .grammar = MTR_CALLS_HARMONY,
     .flags = MTR_FORMAT_FUNCTIONS,
     .think_open = "<|channel|>analysis<|message|>",
     .think_close = "<|end|>",
     .think_token = true,
     .hidden = HARMONY_HIDDEN},

    {.name = "qwen3", THINK, .hidden = CHATML_HIDDEN},
    {.name = "deepseek_r1", THINK, .hidden = {DEEPSEEK_CALLS, DEEPSEEK_HIDDEN}},
    {.name = "kimi", THINK, .hidden = {KIMI_HIDDEN}},
    {.name = "glm", THINK, .hidden = GLM_HIDDEN},
    {.name = "minimax", THINK, .hidden = {"]~!b[", "]~b]", "[e~["}},
    {.name = "nemotron",
     THINK,
     .hidden = {"<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<|im_start|>", "<|im_end|>"}},
    {.name = "gemma4_thought", GEMMA_THINK, .hidden = GEMMA_HIDDEN},
    {.name = "gpt_oss_analysis",
     .grammar = MTR_CALLS_HARMONY,
     .flags = MTR_FORMAT_FUNCTIONS,
     .think_open = "<|channel|>analysis<|message|>",
     .think_close = "<|end|>",
     .think_token = true,
     .hidden = HARMONY_HIDDEN},
    {.name = "mistral_think", MISTRAL_THINK, .hidden = MISTRAL_HIDDEN},
};

const struct mtr_parse_format *mtr_parse_format_find(struct mtr_str name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (mtr_str_is(name, formats[i].name))
            return &formats[i];
    return NULL;
}

const struct mtr_parse_format *mtr_parse_formats(size_t *count)
{
    *count = sizeof formats / sizeof formats[0];
    return formats;
}
