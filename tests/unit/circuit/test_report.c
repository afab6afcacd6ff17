/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reports say what plans hold. */
#include "common/circuit/report.c"

#include "tests/unit/circuit/model.h"

static struct model m;
static struct mtr_buf out;

static void teardown(void)
{
    mtr_buf_free(&out);
    model_free(&m);
}

static void has(const char *words)
{
    ck_assert_msg(strstr(out.data, words) != NULL, "no \"%s\" in:\n%s", words, out.data);
}

static void has_not(const char *words)
{
    ck_assert_msg(strstr(out.data, words) == NULL, "\"%s\" in:\n%s", words, out.data);
}

START_TEST(show)
{
    model_smollm2_gguf(&m);
    ck_assert(mtr_report_show(&out, good_plan(&m)));
    has("134515008 parameters, 30 layers, hidden 576, vocabulary 49152, context 8192 tokens\n");
    has("244 launches in every step\n");
    has("layers 0 to 29\n");
    has("x -> q[576] k[192] v[192] | qkv, bit_identical by kernels/linear | cpu: ");
    has("linear_q8_0          outputs final -> logits[49152]");
    has_not("layer 0\n");
}
END_TEST

static bool find_other(const void *tensors, struct mtr_str name, struct mtr_model_tensor *t)
{
    bool found = find_tensor(tensors, name, t);
    if (found && mtr_str_is(name, "blk.7.ffn_down.weight"))
        t->format = MTR_Q8_0;
    return found;
}

/* A layer with another format stands apart. */
START_TEST(unlike_layers_are_shown_apart)
{
    model_smollm2_gguf(&m);
    m.source.find = find_other;
    ck_assert(mtr_report_show(&out, good_plan(&m)));
    has("layers 0 to 6\n");
    has("layer 7\n");
    has("layers 8 to 29\n");
}
END_TEST

START_TEST(memory)
{
    model_config(&m, "qwen3-8b.json");
    const struct mtr_plan *plan = good_plan(&m);
    ck_assert(mtr_report_memory(&out, plan, mtr_device_find("gb10")));
    has("cache for each token                  147456");
    has("cache group full: 36 layers, 8 heads of 128, bf16, blocks of 16 tokens, 2359296 bytes");
    has("fits; ");
    struct mtr_device small = *mtr_device_find("gb10");
    small.memory_bytes = 12e9;
    mtr_buf_clear(&out);
    ck_assert(mtr_report_memory(&out, plan, &small));
    has("does not fit: ");
}
END_TEST

START_TEST(plan_on_a_device)
{
    model_config(&m, "qwen3-8b.json");
    ck_assert(mtr_report_plan(&out, good_plan(&m), mtr_device_find("gb10"), 0));
    has("on gb10 (DGX Spark (GB10))");
    has("bounds with 4096 tokens of history");
    has("launches of class host, on a device of class gb10");
    has("decode, 8 lanes");
    has("prefill, 512 tokens");
    mtr_buf_clear(&out);
    ck_assert(mtr_report_plan(&out, good_plan(&m), mtr_device_find("host"), 100));
    has("bounds with 100 tokens of history; measured");
}
END_TEST

START_TEST(precision)
{
    model_smollm2_gguf(&m);
    ck_assert(mtr_report_precision(&out, good_plan(&m)));
    has("106168320 elements in q4_1\n");
    has("28311552 elements in q8_0\n");
    has("| weights q4_1, q4_1, q4_1 | q f32 k f32 v f32 |");
    mtr_buf_clear(&out);
    model_free(&m);
    model_config(&m, "golden-llama.json");
    ck_assert(mtr_report_precision(&out, good_plan(&m)));
    has("| weights bf16 as f32 |");
}
END_TEST

START_TEST(precision_of_scales)
{
    model_config(&m, "../../golden/qwen3-nvfp4-ct/config.json");
    ck_assert(mtr_report_precision(&out, good_plan(&m)));
    has("\n245760 elements in e2m1\n14 scales in f32\n15360 scales in e4m3\n");
    has("linear_e2m1_group16  act f32 | weights e2m1 by e4m3 by f32 inverted | h f32");
    mtr_buf_clear(&out);
    model_free(&m);
    model_config(&m, "../../golden/qwen3-fp8-channel/config.json");
    ck_assert(mtr_report_precision(&out, good_plan(&m)));
    has("\n245760 elements in e4m3\n1792 scales in bf16\n");
    has("linear_e4m3_channel  act f32 | weights e4m3 by bf16 as f32 | h f32");
}
END_TEST

START_TEST(a_full_buffer_is_noticed)
{
    model_config(&m, "golden-llama.json");
    out.limit_bytes = 100;
    ck_assert(!mtr_report_show(&out, good_plan(&m)));
}
END_TEST

MTR_CHECK_MAIN("circuit/report")
{
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, show);
    tcase_add_test(tc, unlike_layers_are_shown_apart);
    tcase_add_test(tc, memory);
    tcase_add_test(tc, plan_on_a_device);
    tcase_add_test(tc, precision);
    tcase_add_test(tc, precision_of_scales);
    tcase_add_test(tc, a_full_buffer_is_noticed);
}
