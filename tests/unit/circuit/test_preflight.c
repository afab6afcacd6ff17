/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A plan against a checkpoint's tensors. */
#include "common/circuit/preflight.c"

#include "common/checkpoint/listing.h"
#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_error err;

static const struct mtr_plan_weight weights[] = {
    {.name = "embed", .rows = 8, .cols = 32, .format = MTR_Q4_1, .kernel_format = MTR_Q4_1},
    {.name = "norm", .rows = 1, .cols = 32, .format = MTR_F32, .kernel_format = MTR_F32},
    {.name = "qkv", .rows = 4, .cols = 32, .format = MTR_BF16, .first_row = 4, .tensor_rows = 8},
    {.name = "conv", .rows = 6, .cols = 4, .format = MTR_BF16},
    {.name = "embed", .rows = 8, .cols = 32, .format = MTR_Q4_1, .tied = true},
};

static const struct mtr_plan plan = {.circuit = "llama", .weight_count = 5, .weights = weights};

static struct mtr_tensor tensor(const char *name, enum mtr_format format, uint32_t rank, uint64_t a,
                                uint64_t b, uint64_t c)
{
    return (struct mtr_tensor){
        .name = mtr_str(name), .format = format, .rank = rank, .shape = {a, b, c}};
}

static bool check(struct mtr_tensor *t, uint32_t count, struct mtr_buf *report)
{
    struct mtr_checkpoint ck = {.path = "m", .tensors = t, .tensor_count = count};
    memset(&err, 0, sizeof err);
    mtr_arena_free(&arena);
    ck.by_name = mtr_listing_sort(&arena, t, count);
    return mtr_preflight(&plan, &ck, report, &err);
}

START_TEST(fits)
{
    struct mtr_tensor t[] = {
        tensor("norm", MTR_F32, 1, 32, 0, 0),
        tensor("embed", MTR_Q4_1, 2, 8, 32, 0),
        tensor("conv", MTR_BF16, 3, 6, 1, 4),
        tensor("qkv", MTR_BF16, 2, 8, 32, 0),
        tensor("model.layers.0.self_attn.rotary_emb.inv_freq", MTR_F32, 1, 7, 0, 0),
        tensor("model.visual.patch_embed.proj.weight", MTR_BF16, 2, 7, 7, 0),
    };
    ck_assert_msg(check(t, 6, NULL), "%s", err.message);
}
END_TEST

START_TEST(a_tied_head_may_be_stored_too)
{
    static const struct mtr_plan untied = {
        .circuit = "llama", .weight_count = 1, .weights = weights};
    struct mtr_tensor t[] = {
        tensor("embed", MTR_Q4_1, 2, 8, 32, 0), tensor("lm_head.weight", MTR_BF16, 2, 8, 32, 0),
        tensor("norm", MTR_F32, 1, 32, 0, 0), tensor("conv", MTR_BF16, 3, 6, 1, 4),
        tensor("qkv", MTR_BF16, 2, 8, 32, 0)};
    ck_assert_msg(check(t, 5, NULL), "%s", err.message);
    struct mtr_checkpoint ck = {.path = "m", .tensors = t, .tensor_count = 2};
    ck.by_name = mtr_listing_sort(&arena, t, 2);
    ck_assert(!mtr_preflight(&untied, &ck, NULL, &err));
    ck_assert_msg(strstr(err.message, "1 extra (lm_head.weight)"), "%s", err.message);
}
END_TEST

/* Packed pairs are listed as bytes, a column of scales may be a vector, a number has no shape. */
START_TEST(scales)
{
    static const struct mtr_plan_weight packed[] = {
        {.name = "w", .rows = 6, .cols = 32, .format = MTR_E2M1, .scale = 1, .global_scale = 2},
        {.name = "w.s", .rows = 6, .cols = 2, .format = MTR_E4M3, .role = MTR_WEIGHT_SCALES},
        {.name = "w.g", .rows = 1, .cols = 1, .format = MTR_F32, .role = MTR_WEIGHT_GLOBAL},
        {.name = "c.s", .rows = 6, .cols = 1, .format = MTR_BF16, .role = MTR_WEIGHT_SCALES},
    };
    static const struct mtr_plan scaled = {
        .circuit = "llama", .weight_count = 4, .weights = packed};
    struct mtr_tensor t[] = {
        tensor("w", MTR_U8, 2, 6, 16, 0),
        tensor("w.s", MTR_E4M3, 2, 6, 2, 0),
        tensor("w.g", MTR_F32, 0, 0, 0, 0),
        tensor("c.s", MTR_BF16, 2, 6, 1, 0),
    };
    struct mtr_checkpoint ck = {.path = "m", .tensors = t, .tensor_count = 4};
    ck.by_name = mtr_listing_sort(&arena, t, 4);
    ck_assert_msg(mtr_preflight(&scaled, &ck, NULL, &err), "%s", err.message);
    t[2] = tensor("w.g", MTR_F32, 1, 1, 0, 0);
    t[3] = tensor("c.s", MTR_BF16, 1, 6, 0, 0);
    ck_assert_msg(mtr_preflight(&scaled, &ck, NULL, &err), "%s", err.message);
    t[0].shape[1] = 32; /* as if a byte were a weight */
    t[3].shape[0] = 5;
    ck_assert(!mtr_preflight(&scaled, &ck, NULL, &err));
    ck_assert_msg(strstr(err.message, "w is [6, 32], expected [6, 16]"), "%s", err.message);
    ck_assert_msg(strstr(err.message, "c.s is [5]"), "%s", err.message);
}
END_TEST

START_TEST(does_not_fit)
{
    struct mtr_buf report = {0};
    struct mtr_tensor t[] = {
        tensor("norm", MTR_F32, 1, 31, 0, 0),
        tensor("conv", MTR_F32, 3, 6, 1, 4),
        tensor("qkv", MTR_BF16, 2, 7, 32, 0),
        tensor("norm.bias", MTR_F32, 1, 32, 0, 0),
    };
    ck_assert(!check(t, 4, &report));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_msg(strstr(err.message, "m: its tensors do not fit circuit llama: 1 missing (embed); "
                                      "2 misshaped (norm is [31], expected [32], "
                                      "qkv is [7, 32], expected [8, 32]); "
                                      "1 of another format (conv is f32, expected bf16); "
                                      "1 extra (norm.bias)"),
                  "%s", err.message);
    ck_assert_str_eq(report.data, "missing: embed\nmisshaped: norm is [31], expected [32]\n"
                                  "misshaped: qkv is [7, 32], expected [8, 32]\n"
                                  "of another format: conv is f32, expected bf16\n"
                                  "extra: norm.bias\n");
    mtr_buf_free(&report);
    t[0] = tensor("norm", MTR_F32, 2, 32, 1, 0); /* a column is no vector of 32 */
    ck_assert(!check(t, 4, NULL) && strstr(err.message, "norm is [32, 1]"));
}
END_TEST

START_TEST(many_extra)
{
    enum { N = 3000 };
    static struct mtr_tensor t[N];
    static char names[N][16];
    struct mtr_buf report = {0};
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "extra.%04d", i);
        t[i] = tensor(names[i], MTR_F32, 1, 1, 0, 0);
    }
    ck_assert(!check(t, N, &report));
    ck_assert_msg(strstr(err.message, "3000 extra (extra.0000, extra.0001, extra.0002, ...)"), "%s",
                  err.message);
    unsigned lines = 0;
    for (size_t i = 0; i < report.len; i++)
        lines += report.data[i] == '\n';
    ck_assert_uint_eq(lines, MTR_PREFLIGHT_MAX_LINES + 1);
    ck_assert(strstr(report.data, "and 2004 more\n"));
    mtr_buf_free(&report);
}
END_TEST

START_TEST(patterns)
{
    ck_assert_str_eq(mtr_preflight_ignored(MTR_STR("visual.a")), "vision tower");
    ck_assert_ptr_nonnull(mtr_preflight_ignored(MTR_STR("model.layers.3.mlp.up_proj.input_scale")));
    ck_assert_ptr_nonnull(mtr_preflight_ignored(MTR_STR("model.layers.3.activation_scale")));
    ck_assert_ptr_null(mtr_preflight_ignored(MTR_STR("model.layers.3.visual.a")));
    ck_assert_ptr_null(mtr_preflight_ignored(MTR_STR("model.layers.0.self_attn.q_proj.bias")));
    ck_assert_ptr_null(mtr_preflight_ignored(MTR_STR("")));
    ck_assert(matches(MTR_STR("abc"), "abc") && !matches(MTR_STR("abcd"), "abc"));
}
END_TEST

MTR_CHECK_MAIN("circuit/preflight")
{
    mtr_arena_init(&arena, 0);
    tcase_add_test(tc, fits);
    tcase_add_test(tc, a_tied_head_may_be_stored_too);
    tcase_add_test(tc, scales);
    tcase_add_test(tc, does_not_fit);
    tcase_add_test(tc, many_extra);
    tcase_add_test(tc, patterns);
}
