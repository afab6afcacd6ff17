/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tensors by name: found, missing, misshaped, quantized. */
#include "common/circuit/binding.c"

#include "tests/unit/circuit/model.h"

static struct model m;

static void teardown(void)
{
    model_free(&m);
}

START_TEST(names_of_gguf)
{
    model_smollm2_gguf(&m);
    const struct mtr_plan *p = good_plan(&m);
    ck_assert_str_eq(p->weights[0].name, "token_embd.weight");
    ck_assert(p->weights[0].format == MTR_Q8_0 && p->weights[0].kernel_format == MTR_Q8_0);
    ck_assert_str_eq(p->weights[2].name, "blk.0.attn_q.weight");
    ck_assert(p->weights[2].format == MTR_Q4_1 && p->weights[2].rows == 576);
    const struct mtr_plan_weight *last = &p->weights[p->weight_count - 1];
    ck_assert(last->tied && strcmp(last->name, "token_embd.weight") == 0);
}
END_TEST

START_TEST(missing_tensors_are_named)
{
    model_smollm2_gguf(&m);
    m.absent = "blk.17.ffn_up.weight";
    refused(&m, MTR_NOT_FOUND, "tensor blk.17.ffn_up.weight is missing");
    m.absent = "output_norm.weight";
    refused(&m, MTR_NOT_FOUND, "tensor output_norm.weight is missing");
}
END_TEST

/* One changed tensor among those of a small model. */
static void with_tensor(const char *name, const char *shape)
{
    model_free(&m);
    model_smollm2_gguf(&m);
    m.patterns = changed(&m, m.patterns, name, shape);
}

START_TEST(misshaped_tensors_are_named)
{
    model_start(&m);
    with_tensor("blk.{l}.attn_k.weight", "[\"q4_1\",193,576]");
    refused(&m, MTR_INVALID, "tensor blk.0.attn_k.weight is q4_1 [193, 576], but [192, 576]");
    with_tensor("blk.{l}.attn_k.weight", "[\"q4_1\",3,64,576]");
    refused(&m, MTR_INVALID, "[3, 64, 576], but [192, 576] is expected");
    with_tensor("blk.{l}.attn_norm.weight", "[\"f32\",1,576]");
    refused(&m, MTR_INVALID, "is f32 [1, 576], but [576] is expected");
    with_tensor("blk.{l}.attn_norm.weight", "[\"q4_1\",576]");
    refused(&m, MTR_INVALID, "blk.0.attn_norm.weight is q4_1 [576], but f32, f16 or bf16");
    with_tensor("blk.{l}.attn_k.weight", "[\"i32\",192,576]");
    refused(&m, MTR_INVALID, "but a format that holds weights is expected");
}
END_TEST

START_TEST(plain_vectors_are_converted)
{
    model_start(&m);
    with_tensor("blk.{l}.attn_norm.weight", "[\"bf16\",576]");
    const struct mtr_plan *p = good_plan(&m);
    ck_assert(p->weights[1].format == MTR_BF16 && p->weights[1].kernel_format == MTR_F32);
}
END_TEST

/* The tensors of a block-quantized golden-llama. */
static struct mtr_str fp8_tensors(void)
{
    static const struct {
        const char *name;
        uint32_t rows, cols;
    } linears[] = {{"self_attn.q_proj", 128, 64}, {"self_attn.k_proj", 64, 64},
                   {"self_attn.v_proj", 64, 64},  {"self_attn.o_proj", 64, 128},
                   {"mlp.gate_proj", 96, 64},     {"mlp.up_proj", 96, 64},
                   {"mlp.down_proj", 64, 96}};
    const char *text = "{\"model.embed_tokens.weight\":[\"bf16\",512,64],"
                       "\"lm_head.weight\":[\"bf16\",512,64],\"model.norm.weight\":[\"bf16\",64],"
                       "\"model.layers.{l}.input_layernorm.weight\":[\"bf16\",64]";
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
        text = mtr_arena_printf(&m.arena,
                                "%s,\"model.layers.{l}.%s.weight\":[\"e4m3\",%u,%u],"
                                "\"model.layers.{l}.%s.weight_scale_inv\":[\"bf16\",1,1]",
                                text, linears[i].name, linears[i].rows, linears[i].cols,
                                linears[i].name);
    return mtr_str(mtr_arena_printf(
        &m.arena, "%s,\"model.layers.{l}.post_attention_layernorm.weight\":[\"bf16\",64]}", text));
}

static bool instance_of(struct mtr_instance *in)
{
    struct mtr_settings s;
    struct mtr_plan_options o = {.hardware = "host", .cache = MTR_FORMAT_COUNT};
    ck_assert_msg(mtr_settings_read(&m.arena, &m.source, &s, &m.err), "%s", m.err.message);
    return mtr_instantiate(&m.arena, &m.source, &s, mtr_hardware_find("host"), &o, in, &m.err);
}

START_TEST(scales_stand_beside_their_matrix)
{
    struct mtr_instance in;
    model_config(&m, "golden-llama.json");
    model_set(&m, "quantization_config",
              "{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}");
    model_tensors(&m, fp8_tensors(), 4);
    ck_assert_msg(instance_of(&in), "%s", m.err.message);
    const struct mtr_instance_weight *w = &in.weights[2];
    ck_assert_str_eq(w->name, "model.layers.0.self_attn.q_proj.weight");
    ck_assert_str_eq(w->scale_name, "model.layers.0.self_attn.q_proj.weight_scale_inv");
    ck_assert(w->format == MTR_E4M3 && w->scaling == MTR_SCALING_BLOCK && w->scale_rows == 1);
    m.absent = "model.layers.1.mlp.up_proj.weight_scale_inv";
    ck_assert(!instance_of(&in) && m.err.code == MTR_NOT_FOUND);
    ck_assert_msg(strstr(m.err.message, "mlp.up_proj.weight_scale_inv is missing: the scales"),
                  "%s", m.err.message);
}
END_TEST

/* The block-quantized model with the tensors of q_proj of layer 0 replaced. */
static void refused_with(const char *tensor, const char *listed, const char *words)
{
    struct mtr_instance in;
    model_config(&m, "golden-llama.json");
    model_set(&m, "quantization_config",
              "{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}");
    model_tensors(&m, fp8_tensors(), 4);
    m.patterns = changed(&m, m.patterns, tensor, listed);
    ck_assert(!instance_of(&in));
    ck_assert_msg(strstr(m.err.message, words), "%s", m.err.message);
    model_free(&m);
}

START_TEST(scales_that_do_not_fit_are_named)
{
    const char *w = "model.layers.{l}.self_attn.q_proj.weight";
    const char *s = "model.layers.{l}.self_attn.q_proj.weight_scale_inv";
    refused_with(w, "[\"e5m2\",128,64]", "q_proj.weight is e5m2 [128, 64], but e4m3 is expected");
    refused_with(w, "[\"e4m3\",64,128]", "but [128, 64] is expected");
    refused_with(s, "[\"bf16\",2,1]", "weight_scale_inv is bf16 [2, 1], but [1, 1] scales");
    refused_with(s, "[\"e4m3\",1,1]", "but f32, f16 or bf16 is expected");
    model_start(&m);
}
END_TEST

/* Without blocks, scales by tensor have either name. */
START_TEST(scales_by_tensor_have_two_spellings)
{
    struct mtr_instance in;
    const char *s = "model.layers.{l}.self_attn.q_proj.weight_scale";
    model_config(&m, "golden-llama.json");
    model_set(&m, "quantization_config", "{\"quant_method\":\"fp8\"}");
    model_tensors(&m, fp8_tensors(), 4);
    ck_assert_msg(instance_of(&in), "%s", m.err.message);
    ck_assert(in.weights[2].scaling == MTR_SCALING_TENSOR);
    ck_assert_str_eq(in.weights[2].scale_name, "model.layers.0.self_attn.q_proj.weight_scale_inv");
    m.patterns = changed(&m, m.patterns, s, "[\"f32\"]");
    ck_assert_msg(instance_of(&in), "%s", m.err.message);
    ck_assert_str_eq(in.weights[2].scale_name, "model.layers.0.self_attn.q_proj.weight_scale");
    m.absent = "model.layers.0.self_attn.k_proj.weight_scale_inv";
    ck_assert(!instance_of(&in));
    ck_assert_msg(strstr(m.err.message, "k_proj.weight_scale is missing"), "%s", m.err.message);
}
END_TEST

/* Matrices of pairs in bytes, with scales of both levels. */
static struct mtr_str nvfp4_tensors(const char *scale)
{
    static const struct {
        const char *name;
        uint32_t rows, cols;
    } linears[] = {{"self_attn.q_proj", 128, 64}, {"self_attn.k_proj", 64, 64},
                   {"self_attn.v_proj", 64, 64},  {"self_attn.o_proj", 64, 128},
                   {"mlp.gate_proj", 96, 64},     {"mlp.up_proj", 96, 64},
                   {"mlp.down_proj", 64, 96}};
    const char *text = "{\"model.embed_tokens.weight\":[\"bf16\",512,64],"
                       "\"lm_head.weight\":[\"bf16\",512,64],\"model.norm.weight\":[\"bf16\",64],"
                       "\"model.layers.{l}.input_layernorm.weight\":[\"bf16\",64]";
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
        text = mtr_arena_printf(&m.arena,
                                "%s,\"model.layers.{l}.%s.weight\":[\"u8\",%u,%u],"
                                "\"model.layers.{l}.%s.weight_scale\":[\"%s\",%u,%u],"
                                "\"model.layers.{l}.%s.weight_scale_2\":[\"f32\"]",
                                text, linears[i].name, linears[i].rows, linears[i].cols / 2,
                                linears[i].name, scale, linears[i].rows, linears[i].cols / 16,
                                linears[i].name);
    return mtr_str(mtr_arena_printf(
        &m.arena, "%s,\"model.layers.{l}.post_attention_layernorm.weight\":[\"bf16\",64]}", text));
}

START_TEST(packed_pairs_have_two_scales)
{
    struct mtr_instance in;
    model_config(&m, "golden-llama.json");
    model_set(&m, "quantization_config",
              "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"ignore\":[\"lm_head\"]}");
    model_tensors(&m, nvfp4_tensors("e4m3"), 4);
    ck_assert_msg(instance_of(&in), "%s", m.err.message);
    const struct mtr_instance_weight *w = &in.weights[2];
    ck_assert(w->format == MTR_E2M1 && w->rows == 128 && w->cols == 64 && !w->global_divides);
    ck_assert(w->scale_format == MTR_E4M3 && w->scale_rows == 128 && w->scale_cols == 4);
    ck_assert_str_eq(w->global_name, "model.layers.0.self_attn.q_proj.weight_scale_2");
    const struct mtr_plan *p = good_plan(&m);
    ck_assert_str_eq(p->lists[0].launches[3].point->function, "linear_e2m1_group16");
    m.absent = "model.layers.3.mlp.up_proj.weight_scale_2";
    ck_assert(!instance_of(&in));
    ck_assert_msg(strstr(m.err.message, "up_proj.weight_scale_2 is missing"), "%s", m.err.message);
    m.absent = NULL;
    m.patterns = parse(&m, nvfp4_tensors("f32"));
    ck_assert(!instance_of(&in));
    ck_assert_msg(strstr(m.err.message, "is f32 [128, 4], but e4m3 is expected"), "%s",
                  m.err.message);
}
END_TEST

START_TEST(groups_must_be_whole)
{
    static const char want[] = "model.layers.0.mlp.down_proj.weight has 104 columns, which are no "
                               "whole number of groups of 16 that share a scale";
    model_config(&m, "golden-llama.json");
    model_set(&m, "quantization_config",
              "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"ignore\":[\"lm_head\"]}");
    model_set(&m, "intermediate_size", "104");
    refused(&m, MTR_UNSUPPORTED, want);
    model_tensors(&m, nvfp4_tensors("e4m3"), 4);
    m.patterns =
        changed(&m, m.patterns, "model.layers.{l}.mlp.gate_proj.weight", "[\"u8\",104,32]");
    m.patterns =
        changed(&m, m.patterns, "model.layers.{l}.mlp.gate_proj.weight_scale", "[\"e4m3\",104,4]");
    m.patterns = changed(&m, m.patterns, "model.layers.{l}.mlp.up_proj.weight", "[\"u8\",104,32]");
    m.patterns =
        changed(&m, m.patterns, "model.layers.{l}.mlp.up_proj.weight_scale", "[\"e4m3\",104,4]");
    m.patterns = changed(&m, m.patterns, "model.layers.{l}.mlp.down_proj.weight", "[\"u8\",64,52]");
    refused(&m, MTR_UNSUPPORTED, want);
}
END_TEST

START_TEST(a_bare_config_declares_formats)
{
    struct mtr_instance in;
    model_config(&m, "golden-llama.json");
    model_set(&m, "quantization_config",
              "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"ignore\":[\"lm_head\"]}");
    ck_assert_msg(instance_of(&in), "%s", m.err.message);
    ck_assert(in.weights[0].format == MTR_BF16 && in.weights[2].format == MTR_E2M1);
    ck_assert(in.weights[2].scaling == MTR_SCALING_GROUP16 && in.weights[2].scale_cols == 4);
    ck_assert(in.weights[in.weight_count - 1].format == MTR_BF16);
    model_set(&m, "dtype", "\"float16\"");
    model_set(&m, "quantization_config", NULL);
    ck_assert(instance_of(&in) && in.weights[2].format == MTR_F16);
}
END_TEST

/* Llama 3.1's rotary scaling in GGUF: bound to the table's launch, no parameter. */
START_TEST(rotary_factors_are_bound)
{
    model_start(&m);
    with_tensor("rope_freqs.weight", "[\"f32\",32]");
    const struct mtr_plan *p = good_plan(&m);
    const struct mtr_launch *rotary = &p->lists[0].launches[1];
    ck_assert_str_eq(rotary->point->function, "rotary");
    ck_assert_uint_eq(rotary->weight_count, 1);
    ck_assert_str_eq(p->weights[rotary->weights[0]].name, "rope_freqs.weight");
    ck_assert_uint_eq(p->parameters, 134515008);
    with_tensor("rope_freqs.weight", "[\"f32\",31]");
    refused(&m, MTR_INVALID, "tensor rope_freqs.weight is f32 [31], but [32] is expected");
}
END_TEST

MTR_CHECK_MAIN("circuit/binding")
{
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, names_of_gguf);
    tcase_add_test(tc, missing_tensors_are_named);
    tcase_add_test(tc, misshaped_tensors_are_named);
    tcase_add_test(tc, rotary_factors_are_bound);
    tcase_add_test(tc, plain_vectors_are_converted);
    tcase_add_test(tc, scales_stand_beside_their_matrix);
    tcase_add_test(tc, scales_that_do_not_fit_are_named);
    tcase_add_test(tc, scales_by_tensor_have_two_spellings);
    tcase_add_test(tc, packed_pairs_have_two_scales);
    tcase_add_test(tc, groups_must_be_whole);
    tcase_add_test(tc, a_bare_config_declares_formats);
}
