/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every class of key: what it takes, what it refuses and how it says so. */
#include "common/circuit/config_map.c"

#include "tests/unit/circuit/model.h"

static struct model m;

static void setup(void)
{
    model_config(&m, "smollm2-135m.json");
}

static void teardown(void)
{
    model_free(&m);
}

static struct mtr_settings read_good(void)
{
    struct mtr_settings s;
    ck_assert_msg(mtr_settings_read(&m.arena, &m.source, &s, &m.err), "%s", m.err.message);
    return s;
}

static double value(const struct mtr_settings *s, const char *name)
{
    return mtr_symbol_get(&s->symbols, name, -1);
}

/* One changed member, the code and the words of the refusal. */
struct refusal {
    const char *key, *json;
    enum mtr_code code;
    const char *words;
};

static void check_refusals(const char *file, const struct refusal *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        model_free(&m);
        model_config(&m, file);
        model_set(&m, list[i].key, list[i].json);
        refused(&m, list[i].code, list[i].words);
    }
}

#define CHECK_REFUSALS(file, list) check_refusals(file, list, sizeof list / sizeof *list)

START_TEST(values)
{
    struct mtr_settings s = read_good();
    ck_assert_str_eq(s.map->name, "llama");
    ck_assert_str_eq(s.type, "llama");
    ck_assert(value(&s, "hidden") == 576 && value(&s, "layers") == 30 && value(&s, "tied") == 1);
    ck_assert(value(&s, "head_dim") == 64 && value(&s, "kv_heads") == 3);
    ck_assert(value(&s, "rope_theta") == 100000 && value(&s, "rope_interleaved") == 0);
    ck_assert(value(&s, "attn_scale") == 0.125 && value(&s, "activation") == MTR_ACT_SILU);
    ck_assert(s.layers == 30 && s.kinds[29] == 0 && s.dtype == MTR_BF16 && !s.quant);
}
END_TEST

START_TEST(defaults_are_those_of_the_family)
{
    model_set(&m, "num_key_value_heads", NULL);
    model_set(&m, "rms_norm_eps", NULL);
    model_set(&m, "rope_theta", NULL);
    model_set(&m, "tie_word_embeddings", NULL);
    struct mtr_settings s = read_good();
    ck_assert(value(&s, "kv_heads") == 9 && value(&s, "norm_eps") == 1e-6);
    ck_assert(value(&s, "rope_theta") == 10000 && value(&s, "tied") == 0);
    model_free(&m);
    model_config(&m, "qwen3-8b.json");
    model_set(&m, "head_dim", "null");
    s = read_good();
    ck_assert(value(&s, "head_dim") == 128);
}
END_TEST

START_TEST(switches_of_each_family)
{
    model_set(&m, "attention_bias", "true");
    model_set(&m, "mlp_bias", "true");
    struct mtr_settings s = read_good();
    ck_assert(value(&s, "qkv_bias") == 1 && value(&s, "o_bias") == 1 && value(&s, "mlp_bias") == 1);
    model_free(&m);
    model_config(&m, "qwen2.5-0.5b.json");
    s = read_good();
    ck_assert(value(&s, "qkv_bias") == 1 && value(&s, "o_bias") == 0 && value(&s, "qk_norm") == 0);
    model_free(&m);
    model_config(&m, "qwen3-8b.json");
    s = read_good();
    ck_assert(value(&s, "qkv_bias") == 0 && value(&s, "qk_norm") == 1);
}
END_TEST

START_TEST(unknown_keys_are_refused_by_name)
{
    static const struct refusal list[] = {
        {"num_hiden_layers", "30", MTR_UNSUPPORTED, "did you mean \"num_hidden_layers\"?"},
        {"hidden_scale", "2", MTR_UNSUPPORTED, "config.json: key \"hidden_scale\" is unknown"},
        {"xyzzy", "null", MTR_UNSUPPORTED, "key \"xyzzy\" is unknown for llama and may change"},
        {"rope_scaling", "{\"type\":\"linear\",\"factr\":2}", MTR_UNSUPPORTED,
         "rope_scaling: key \"factr\" is unknown for llama"},
    };
    CHECK_REFUSALS("smollm2-135m.json", list);
}
END_TEST

START_TEST(unknown_values_are_refused_by_name)
{
    static const struct refusal list[] = {
        {"hidden_act", "\"swish2\"", MTR_UNSUPPORTED,
         "hidden_act is \"swish2\", but only \"silu\""},
        {"rope_scaling", "{\"type\":\"dynamic\",\"factor\":2}", MTR_UNSUPPORTED, "\"dynamic\""},
        {"rope_scaling", "{\"rope_type\":\"longrope\"}", MTR_UNSUPPORTED, "\"longrope\""},
        {"rope_interleaved", "true", MTR_UNSUPPORTED, "rope_interleaved is true"},
        {"sliding_window", "4096", MTR_UNSUPPORTED, "missing: sliding-window attention"},
        {"torch_dtype", "\"float8\"", MTR_UNSUPPORTED, "torch_dtype is \"float8\""},
        {"architectures", "[\"LlamaForSequenceClassification\"]", MTR_UNSUPPORTED, "architectures"},
        {"is_encoder_decoder", "true", MTR_UNSUPPORTED, "missing: encoders"},
        {"layer_types", "[1]", MTR_INVALID, "layer_types must be a list of 30"},
        {"model_type", "\"mamba\"", MTR_UNSUPPORTED,
         "no circuit computes models of type \"mamba\""},
        {"model_type", "\"gemma3_text\"", MTR_UNSUPPORTED,
         "Gemma 3 (\"gemma3_text\") has no circuit"},
    };
    CHECK_REFUSALS("smollm2-135m.json", list);
}
END_TEST

START_TEST(wrong_types_are_refused_by_name)
{
    static const struct refusal list[] = {
        {"hidden_size", "\"576\"", MTR_INVALID, "hidden_size is \"576\", but a whole number"},
        {"hidden_size", "576.5", MTR_INVALID, "hidden_size is 576.5"},
        {"hidden_size", "[576]", MTR_INVALID, "hidden_size is [576]"},
        {"hidden_size", "true", MTR_INVALID, "hidden_size is true"},
        {"rms_norm_eps", "\"1e-5\"", MTR_INVALID, "a number is expected"},
        {"rms_norm_eps", "NaN", MTR_INVALID, "rms_norm_eps"},
        {"tie_word_embeddings", "1", MTR_INVALID, "true or false is expected"},
        {"rope_scaling", "3", MTR_INVALID, "rope_scaling is 3, but an object is expected"},
        {"bos_token_id", "\"<s>\"", MTR_INVALID, "bos_token_id is \"<s>\""},
        {"eos_token_id", "[2, null]", MTR_INVALID, "eos_token_id is [2,null]"},
        {"architectures", "\"LlamaForCausalLM\"", MTR_INVALID, "a list of names is expected"},
        {"model_type", "7", MTR_INVALID, "model_type is integer"},
        {"quantization_config", "\"fp8\"", MTR_INVALID, "quantization_config is \"fp8\""},
    };
    CHECK_REFUSALS("smollm2-135m.json", list);
}
END_TEST

START_TEST(missing_keys_are_refused_by_name)
{
    static const struct refusal list[] = {
        {"model_type", NULL, MTR_INVALID, "model_type is missing"},
        {"vocab_size", NULL, MTR_INVALID, "key \"vocab_size\" is missing"},
        {"hidden_size", "null", MTR_INVALID, "hidden_size is null, but a value is needed"},
        {"intermediate_size", NULL, MTR_INVALID, "key \"intermediate_size\" is missing"},
        {"num_attention_heads", NULL, MTR_INVALID, "\"num_attention_heads\" is missing"},
    };
    CHECK_REFUSALS("smollm2-135m.json", list);
    static const struct refusal mistral[] = {
        {"sliding_window", "0", MTR_INVALID, "sliding_window is 0, but only values from 1"},
        {"sliding_window", "true", MTR_INVALID, "a whole number is expected"},
        {"layer_types", "[]", MTR_UNSUPPORTED, "missing: kinds of layers in Mistral"},
        {"num_key_value_heads", NULL, MTR_INVALID, "\"num_key_value_heads\" is missing"},
        {"attention_bias", "true", MTR_UNSUPPORTED, "attention_bias is true"},
    };
    CHECK_REFUSALS("mistral-7b-v0.3.json", mistral);
    static const struct refusal gguf[] = {
        {"llama.block_count", NULL, MTR_INVALID, "key \"llama.block_count\" is missing"},
        {"llama.block_cout", "1", MTR_UNSUPPORTED, "did you mean \"block_count\"?"},
        {"llama.expert_count", "8", MTR_UNSUPPORTED, "missing: mixture of experts"},
        {"qwen2.block_count", "3", MTR_UNSUPPORTED, "\"qwen2.block_count\" is unknown"},
        {"general.architecture", "\"gemma3\"", MTR_UNSUPPORTED, "GGUF metadata: Gemma 3"},
    };
    CHECK_REFUSALS("smollm2-135m.gguf.json", gguf);
}
END_TEST

START_TEST(absurd_numbers_are_refused)
{
    static const struct refusal list[] = {
        {"hidden_size", "0", MTR_INVALID, "hidden_size is 0, but only values from 1 to 1048576 "},
        {"hidden_size", "-576", MTR_INVALID, "hidden_size is -576"},
        {"hidden_size", "9223372036854775807", MTR_INVALID, "hidden_size is 9223372036854775807"},
        {"hidden_size", "99999999999999999999999", MTR_INVALID, "hidden_size"},
        {"num_hidden_layers", "1000000000", MTR_INVALID, "num_hidden_layers"},
        {"num_attention_heads", "7", MTR_UNSUPPORTED, "heads can't be divided"},
        {"num_attention_heads", "4002", MTR_UNSUPPORTED, "rotary pairs do not fit into a head"},
        {"head_dim", "33", MTR_UNSUPPORTED, "an even number of columns"},
        {"vocab_size", "1e9", MTR_INVALID, "vocab_size"},
        {"rope_theta", "0", MTR_INVALID, "rope_theta is 0"},
        {"rope_theta", "Infinity", MTR_INVALID, "rope_theta"},
        {"rms_norm_eps", "-1e-5", MTR_INVALID, "rms_norm_eps"},
    };
    CHECK_REFUSALS("smollm2-135m.json", list);
}
END_TEST

START_TEST(contradictions_are_refused)
{
    static const struct refusal list[] = {
        {"rope_parameters", "{\"rope_theta\":5000.0,\"rope_type\":\"default\"}", MTR_INVALID,
         "rope_theta and rope_theta contradict each other"},
        {"rope_scaling", "{\"type\":\"linear\",\"rope_type\":\"llama3\",\"factor\":2}", MTR_INVALID,
         "type and rope_type contradict each other"},
    };
    CHECK_REFUSALS("smollm2-135m.json", list);
    model_free(&m);
    model_config(&m, "smollm2-135m.json");
    model_set(&m, "rope_parameters", "{\"rope_theta\":100000,\"rope_type\":\"default\"}");
    read_good();
}
END_TEST

START_TEST(presence_of_tensors_decides_switches)
{
    model_free(&m);
    model_smollm2_gguf(&m);
    struct mtr_settings s = read_good();
    ck_assert(value(&s, "tied") == 1 && value(&s, "qkv_bias") == 0);
    ck_assert(value(&s, "rope_interleaved") == 1 && value(&s, "vocab") == 49152);
    model_tensors(
        &m, MTR_STR("{\"output.weight\":[\"f16\",2,2],\"blk.0.attn_q.bias\":[\"f32\",2]}"), 30);
    s = read_good();
    ck_assert(value(&s, "tied") == 0 && value(&s, "qkv_bias") == 1 && value(&s, "o_bias") == 0);
    ck_assert(value(&s, "factors") == 0);
    model_tensors(&m, MTR_STR("{\"rope_freqs.weight\":[\"f32\",32]}"), 30);
    s = read_good();
    ck_assert(value(&s, "factors") == 1);
}
END_TEST

/* Qwen2 has biases in any file; one without them is broken. */
START_TEST(a_qwen2_file_needs_its_biases)
{
    static const char *const keys[] = {"block_count",
                                       "context_length",
                                       "embedding_length",
                                       "feed_forward_length",
                                       "attention.head_count",
                                       "attention.head_count_kv",
                                       "attention.layer_norm_rms_epsilon",
                                       "vocab_size"};
    model_free(&m);
    model_smollm2_gguf(&m);
    const struct mtr_json *llama = m.source.config;
    m.source.config = parse(&m, MTR_STR("{\"general.architecture\":\"qwen2\"}"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct mtr_json *v =
            mtr_json_get(llama, mtr_arena_printf(&m.arena, "llama.%s", keys[i]));
        model_set(&m, mtr_arena_printf(&m.arena, "qwen2.%s", keys[i]),
                  mtr_arena_str(&m.arena, v->text).ptr);
    }
    struct mtr_settings s = read_good();
    ck_assert_str_eq(s.map->name, "qwen2");
    ck_assert(value(&s, "rope_interleaved") == 0 && value(&s, "qkv_bias") == 1);
    refused(&m, MTR_NOT_FOUND, "tensor blk.0.attn_q.bias is missing");
}
END_TEST

START_TEST(vocabulary_of_a_gguf_file)
{
    model_free(&m);
    model_smollm2_gguf(&m);
    model_set(&m, "llama.vocab_size", NULL);
    struct mtr_settings s;
    ck_assert(!mtr_settings_read(&m.arena, &m.source, &s, &m.err));
    ck_assert_msg(strstr(m.err.message, "vocab_tokens is not known"), "%s", m.err.message);
    m.source.vocab_tokens = 49152;
    s = read_good();
    ck_assert(value(&s, "vocab") == 49152);
}
END_TEST

/* The older spelling says the same. */
START_TEST(both_spellings_give_one_plan)
{
    static const char *const names[][2] = {
        {"golden-llama.json", "golden-llama.hub.json"},
        {"golden-qwen3.json", "golden-qwen3.hub.json"},
        {"golden-mistral.json", "golden-mistral.hub.json"},
        {"../../golden/mistral4/config.json", "../../golden/mistral4/config.hub.json"},
        {"../../golden/qwen3_5/config.json", "../../golden/qwen3_5/config.hub.json"},
        {"../../golden/qwen3_5_moe/config.json", "../../golden/qwen3_5_moe/config.hub.json"},
        {"../../golden/qwen3_moe/config.json", "../../golden/qwen3_moe/config.hub.json"},
        {"../../golden/qwen3_next/config.json", "../../golden/qwen3_next/config.hub.json"},
        {"../../golden/minimax_m2/config.json", "../../golden/minimax_m2/config.hub.json"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model a, b;
        model_config(&a, names[i][0]);
        model_config(&b, names[i][1]);
        ck_assert_mem_eq(good_plan(&a)->digest, good_plan(&b)->digest, 32);
        model_free(&a);
        model_free(&b);
    }
}
END_TEST

/* All layers of Mistral see a window: the document's, 4096 tokens where it says nothing, or none.
 */
START_TEST(windows)
{
    static const struct {
        const char *value;
        double window;
        const char *kind;
    } list[] = {{"24", 24, "sliding"}, {NULL, 4096, "sliding"}, {"null", 0, "full"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        model_free(&m);
        model_config(&m, "mistral-7b-v0.3.json");
        model_set(&m, "sliding_window", list[i].value);
        struct mtr_settings s = read_good();
        ck_assert(value(&s, "window") == list[i].window);
        const struct mtr_plan *plan = good_plan(&m);
        ck_assert_uint_eq(plan->group_count, 1);
        ck_assert_str_eq(plan->groups[0].name, list[i].kind);
        ck_assert(plan->groups[0].window == (uint32_t)list[i].window);
    }
}
END_TEST

START_TEST(latent_attention)
{
    static const struct refusal refusals[] = {
        {"num_key_value_heads", "2", MTR_UNSUPPORTED, "as many key/value heads as heads"},
        {"head_dim", "64", MTR_INVALID, "contradict each other"},
        {"qk_nope_head_dim", "24", MTR_UNSUPPORTED, "columns without and with rotation"},
        {"kv_lora_rank", NULL, MTR_INVALID, "key \"kv_lora_rank\" is missing"},
        {"q_lora_rank", NULL, MTR_INVALID, "key \"q_lora_rank\" is missing"},
        {"sliding_window", "32", MTR_UNSUPPORTED, "missing: latent attention through a window"},
        {"num_experts_per_tok", "9", MTR_UNSUPPORTED, "more experts (num_experts_per_tok)"},
        {"n_group", "3", MTR_UNSUPPORTED, "divided among the groups"},
        {"rope_parameters", "{\"rope_type\":\"default\"}", MTR_INVALID,
         "rope_original is not known"},
        {"model_type", "\"mistral\"", MTR_UNSUPPORTED, "another kind of model is expected here"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        model_free(&m);
        model_config(&m, "../../golden/mistral4/config.json");
        const struct mtr_json *text = mtr_json_get(m.source.config, "text_config");
        struct mtr_buf b = {0};
        struct mtr_json_writer w = mtr_json_writer(&b);
        mtr_json_put_value(&w, changed(&m, text, refusals[i].key, refusals[i].json));
        mtr_buf_byte(&b, 0);
        model_set(&m, "text_config", (const char *)b.data);
        refused(&m, refusals[i].code, refusals[i].words);
        mtr_buf_free(&b);
    }
    model_free(&m);
    model_config(&m, "../../golden/mistral4/config.json");
    const struct mtr_plan *plan = good_plan(&m);
    ck_assert(plan->group_count == 1 && plan->groups[0].kind == MTR_CACHE_LATENT);
    /* Of a layer: 16 tokens of 32 + 16 numbers, bf16. */
    ck_assert(plan->groups[0].block_bytes == 16 * 48 * 2 && plan->groups[0].layers == 4);
}
END_TEST

/* A language model within a larger one: its keys stand in an object of their own, or outside. */
START_TEST(a_document_within)
{
    static const struct refusal refusals[] = {
        {"text_config", NULL, MTR_INVALID, "key \"vocab_size\" is missing"},
        {"text_config", "[]", MTR_INVALID, "text_config is [], but an object is expected"},
        {"text_config", "{\"model_type\": \"llama\"}", MTR_UNSUPPORTED,
         "text_config: model_type is \"llama\", but another kind of model is expected here"},
        {"text_config", "{\"text_config\": {}}", MTR_INVALID,
         "text_config is {}, but it stands within one already"},
        {"text_config", "{\"vocab_size\": 512}", MTR_INVALID, "key \"hidden_size\" is missing"},
        {"text_config", "{\"vocabulary\": 512}", MTR_UNSUPPORTED,
         "text_config: key \"vocabulary\""},
        {"vocab_size", "511", MTR_INVALID, "vocab_size contradict each other (512 and 511)"},
        {"attn_output_gate", "false", MTR_UNSUPPORTED, "attn_output_gate is false"},
    };
    CHECK_REFUSALS("../../golden/qwen3_5/config.json", refusals);
    model_free(&m);
    model_config(&m, "../../golden/qwen3_5/config.json");
    model_set(&m, "vocab_size", "512");
    ck_assert(value(&(struct mtr_settings[]){read_good()}[0], "vocab") == 512);
}
END_TEST

/* A list of layers' numbers, of which some are of no layer. */
START_TEST(lists_of_layers)
{
    static const struct {
        const char *json, *words;
    } wrong[] = {
        {"3", "lonely is 3, but a list of layers' numbers is expected"},
        {"[1, \"2\"]", "a list of layers' numbers is expected"},
        {"[1.5]", "a list of layers' numbers is expected"},
    };
    static const uint8_t has[] = {0, 1, 0, 1};
    struct mtr_settings out = {0};
    struct reader r = {.arena = &m.arena, .out = &out, .err = &m.err};
    const struct mtr_key key = {.name = "lonely", .kind = MTR_KEY_MEMBERS, .symbol = 7};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert(!read_key(&r, &key, parse(&m, mtr_str(wrong[i].json))));
        ck_assert_msg(strstr(m.err.message, wrong[i].words), "%s", m.err.message);
    }
    const char *list = "[3, 1, 4, -1, 99999999999999999999]";
    ck_assert(read_key(&r, &key, parse(&m, mtr_str(list))) && fill_members(&r, 4));
    ck_assert(out.member_count == 1 && out.members[0].symbol == 7);
    ck_assert_mem_eq(out.members[0].has, has, 4);
    ck_assert(!read_key(&r, &key, parse(&m, mtr_str("[]"))));
    ck_assert_msg(strstr(m.err.message, "it is there twice"), "%s", m.err.message);
}
END_TEST

START_TEST(hybrid_numbers)
{
    static const struct refusal refusals[] = {
        {"linear_num_value_heads", "3", MTR_UNSUPPORTED, "divided among the key heads"},
        {"linear_conv_kernel_dim", "17", MTR_INVALID, "linear_conv_kernel_dim is 17"},
    };
    CHECK_REFUSALS("../../golden/qwen3_next-dense/config.json", refusals);
}
END_TEST

START_TEST(experts_are_counted)
{
    static const struct refusal qwen[] = {
        {"num_experts_per_tok", "9", MTR_UNSUPPORTED, "(num_experts_per_tok) than there are"},
        {"num_experts_per_tok", "0", MTR_INVALID, "num_experts_per_tok is 0"},
        {"num_local_experts", "0", MTR_INVALID, "num_local_experts is 0"},
        {"num_local_experts", "5000", MTR_INVALID, "num_local_experts is 5000"},
        {"moe_intermediate_size", "\"x\"", MTR_INVALID, "moe_intermediate_size"},
        {"decoder_sparse_step", "0", MTR_INVALID, "decoder_sparse_step is 0"},
        {"mlp_only_layers", "{}", MTR_INVALID, "mlp_only_layers"},
        {"n_group", "2", MTR_UNSUPPORTED, "n_group"},
        {"use_sliding_window", "true", MTR_UNSUPPORTED, "sliding-window attention"},
    };
    static const struct refusal minimax[] = {
        {"num_experts_per_tok", "9", MTR_UNSUPPORTED, "(num_experts_per_tok) than there are"},
        {"scoring_func", "\"softmax\"", MTR_UNSUPPORTED, "scoring_func"},
        {"use_routing_bias", "false", MTR_UNSUPPORTED, "use_routing_bias"},
        {"shared_intermediate_size", "32", MTR_UNSUPPORTED, "shared_intermediate_size is 32"},
        {"attn_type_list", "[1, 0, 1, 1]", MTR_UNSUPPORTED, "attn_type_list"},
        {"rotary_dim", "8", MTR_UNSUPPORTED, "rotary_dim and partial_rotary_factor differ"},
        {"qk_norm_type", "\"per_head\"", MTR_UNSUPPORTED, "qk_norm_type"},
    };
    CHECK_REFUSALS("../../golden/qwen3_moe/config.json", qwen);
    CHECK_REFUSALS("../../golden/minimax_m2/config.json", minimax);
}
END_TEST

/* Kinds of layers by number, where no list says them. */
START_TEST(kinds_by_number)
{
    static const uint8_t third[] = {0, 0, 1, 0}, second[] = {0, 1, 0, 1};
    model_free(&m);
    model_config(&m, "../../golden/qwen3_5/config.json");
    struct mtr_settings s = read_good();
    ck_assert_mem_eq(s.kinds, second, 4);
    const struct mtr_json *text = mtr_json_get(m.source.config, "text_config");
    text = changed(&m, text, "layer_types", NULL);
    text = changed(&m, text, "full_attention_interval", "3");
    struct mtr_buf b = {0};
    struct mtr_json_writer w = mtr_json_writer(&b);
    mtr_json_put_value(&w, text);
    mtr_buf_byte(&b, 0);
    model_set(&m, "text_config", (const char *)b.data);
    s = read_good();
    ck_assert_mem_eq(s.kinds, third, 4);
    mtr_buf_free(&b);
}
END_TEST

/* Whatever is cut out of or put into a document, reading it ends with a value or a message. */
START_TEST(any_mutation_is_read_or_refused)
{
    static const char *const texts[] = {"null",       "true",       "-1",      "0",  "1",
                                        "4294967296", "1e308",      "\"\"",    "[]", "{}",
                                        "[[[]]]",     "{\"a\":{}}", "\"silu\""};
    const struct mtr_json *original = m.source.config;
    for (uint32_t i = 0; i < original->count; i++)
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            char key[64];
            snprintf(key, sizeof key, "%.*s", MTR_STR_ARG(original->members[i].key));
            m.source.config = changed(&m, original, key, texts[k]);
            memset(&m.err, 0, sizeof m.err);
            struct mtr_settings s;
            if (!mtr_settings_read(&m.arena, &m.source, &s, &m.err))
                ck_assert_msg(m.err.code != MTR_OK && m.err.code != MTR_INTERNAL &&
                                  m.err.message[0],
                              "%s = %s", key, texts[k]);
        }
}
END_TEST

MTR_CHECK_MAIN("circuit/config_map")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, values);
    tcase_add_test(tc, defaults_are_those_of_the_family);
    tcase_add_test(tc, switches_of_each_family);
    tcase_add_test(tc, unknown_keys_are_refused_by_name);
    tcase_add_test(tc, unknown_values_are_refused_by_name);
    tcase_add_test(tc, wrong_types_are_refused_by_name);
    tcase_add_test(tc, missing_keys_are_refused_by_name);
    tcase_add_test(tc, absurd_numbers_are_refused);
    tcase_add_test(tc, contradictions_are_refused);
    tcase_add_test(tc, presence_of_tensors_decides_switches);
    tcase_add_test(tc, a_qwen2_file_needs_its_biases);
    tcase_add_test(tc, vocabulary_of_a_gguf_file);
    tcase_add_test(tc, windows);
    tcase_add_test(tc, latent_attention);
    tcase_add_test(tc, a_document_within);
    tcase_add_test(tc, hybrid_numbers);
    tcase_add_test(tc, experts_are_counted);
    tcase_add_test(tc, kinds_by_number);
    tcase_add_test(tc, lists_of_layers);
    tcase_add_test(tc, both_spellings_give_one_plan);
    tcase_add_test(tc, any_mutation_is_read_or_refused);
}
