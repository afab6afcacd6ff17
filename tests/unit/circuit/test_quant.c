/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Quantization schemes as published checkpoints declare them, and what is refused. */
#include "common/circuit/quant.c"

#include "tests/unit/circuit/model.h"

static struct model m;

static void setup(void)
{
    model_start(&m);
}

static void teardown(void)
{
    model_free(&m);
}

static struct mtr_quant_scheme *read_text(const char *text)
{
    memset(&m.err, 0, sizeof m.err);
    return mtr_quant_read(&m.arena, parse(&m, mtr_str(text)), NULL, &m.err);
}

static const char *compressed(const char *format, const char *weights)
{
    return mtr_arena_printf(&m.arena,
                            "{\"quant_method\":\"compressed-tensors\",\"format\":\"%s\","
                            "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],"
                            "\"weights\":{\"type\":\"float\",%s}}},\"ignore\":[\"lm_head\"],"
                            "\"kv_cache_scheme\":null,\"sparsity_config\":{}}",
                            format, weights);
}

#define FP8    "{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\",\"weight_block_size\":"
#define TENSOR "\"num_bits\":8,\"strategy\":\"tensor\""

START_TEST(schemes_of_published_checkpoints)
{
    const struct {
        const char *text;
        enum mtr_format format;
        enum mtr_scaling scaling;
    } list[] = {
        {FP8 "[128,128]}", MTR_E4M3, MTR_SCALING_BLOCK},
        {FP8 "null}", MTR_E4M3, MTR_SCALING_TENSOR},
        {compressed("float-quantized", TENSOR), MTR_E4M3, MTR_SCALING_TENSOR},
        {compressed("float-quantized", "\"num_bits\":8,\"strategy\":\"channel\""), MTR_E4M3,
         MTR_SCALING_CHANNEL},
        {compressed("nvfp4-pack-quantized", "\"num_bits\":4,\"group_size\":16"), MTR_E2M1,
         MTR_SCALING_GROUP16},
        {"{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}", MTR_E2M1, MTR_SCALING_GROUP16},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct mtr_quant_scheme *q = read_text(list[i].text);
        ck_assert_msg(q != NULL, "%s: %s", list[i].text, m.err.message);
        ck_assert(q->format == list[i].format && q->scaling == list[i].scaling);
    }
    const struct mtr_json *file = parse(
        &m, MTR_STR("{\"quantization\":{\"quant_algo\":\"FP8\",\"exclude_modules\":[\"a\"]}}"));
    struct mtr_quant_scheme *q = mtr_quant_read(&m.arena, NULL, file, &m.err);
    ck_assert(q && q->scaling == MTR_SCALING_TENSOR && q->except_count == 1);
}
END_TEST

START_TEST(others_are_refused_by_name)
{
    const char *list[][2] = {
        {"{\"quant_method\":\"gptq\"}", "quant_method \"gptq\" is not read here"},
        {"{}", "quant_method (absent)"},
        {"[]", "quantization_config is array, not an object"},
        {FP8 "[64,64]}", "weight_block_size"},
        {"{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}", "fmt \"e5m2\""},
        {compressed("pack-quantized", TENSOR), "format \"pack-quantized\""},
        {compressed("float-quantized", "\"num_bits\":8,\"strategy\":\"group\""), "strategy"},
        {compressed("float-quantized", "\"num_bits\":4,\"strategy\":\"tensor\""), "num_bits"},
        {compressed("nvfp4-pack-quantized", "\"group_size\":32"), "group_size"},
        {"{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"group_size\":32}",
         "group_size (integer)"},
        {"{\"quant_method\":\"modelopt\",\"quant_algo\":\"W4A8\"}", "quant_algo \"W4A8\""},
        {"{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\",\"quantized_layers\":{}}",
         "unknown key \"quantized_layers\""},
        {"{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\",\"kv_cache_quant_algo\":\"FP8\"}",
         "kv_cache_quant_algo \"FP8\""},
        {FP8 "null,\"activation_scheme\":\"weekly\"}", "activation_scheme \"weekly\""},
        {FP8 "null,\"rotation\":null}", "unknown key \"rotation\""},
        {FP8 "null,\"ignored_layers\":[\"\"]}", "exception 0 is empty"},
        {compressed("float-quantized", TENSOR ",\"symmetric\":false"), "this symmetric (boolean)"},
        {compressed("float-quantized", TENSOR ",\"actorder\":\"group\""), "actorder \"group\""},
        {"{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\"}", "one group"},
        {"{\"quant_method\":\"fp8\",\"ignore\":[3]}", "exception 0 is integer"},
        {"{\"quant_method\":\"fp8\",\"ignore\":\"x\"}", "the list of exceptions is string"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        ck_assert_msg(!read_text(list[i][0]), "%s", list[i][0]);
        ck_assert_msg(strstr(m.err.message, list[i][1]), "%s: %s", list[i][0], m.err.message);
        ck_assert(m.err.code == MTR_INVALID || m.err.code == MTR_UNSUPPORTED);
    }
}
END_TEST

START_TEST(exceptions)
{
    struct mtr_quant_scheme *q = read_text(
        "{\"quant_method\":\"fp8\",\"ignore\":[\"lm_head\",\"re:.*mlp.gate$\",\"layers.0.mlp\","
        "\"model.layers.7*\"]}");
    ck_assert(mtr_quant_excepts(q, "lm_head"));
    ck_assert(mtr_quant_excepts(q, "model.layers.3.mlp.gate"));
    ck_assert(mtr_quant_excepts(q, "model.layers.0.mlp.down_proj"));
    ck_assert(mtr_quant_excepts(q, "model.layers.7.mlp.down_proj"));
    ck_assert(!mtr_quant_excepts(q, "model.layers.3.mlp.down_proj"));
}
END_TEST

MTR_CHECK_MAIN("circuit/quant")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, schemes_of_published_checkpoints);
    tcase_add_test(tc, others_are_refused_by_name);
    tcase_add_test(tc, exceptions);
}
