/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which MODEL.toml a checkpoint is taken for, and what its matrices are kept in. */
#include "common/circuit/target.h"

#include <string.h>

#include "common/circuit/rules.h"
#include "tests/unit/check_main.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const small_names[] = {"qwen3-8b"}, *const base_names[] = {"base", "raw"};
static const struct mtr_target_match exact[] = {{"qwen3", 4096, 1, small_names}},
                                     any_size[] = {{"qwen3", 0, 0, NULL}},
                                     any[] = {{NULL, 0, 0, NULL}},
                                     twin[] = {{"llama", 2048, 0, NULL},
                                               {"qwen3", 4096, 2, base_names}};
static const struct mtr_target_model models[] = {
    {.hardware = "gb10", .model = "any", .match_count = 1, .matches = any},
    {.hardware = "gb10", .model = "qwen3-8b", .match_count = 1, .matches = exact},
    {.hardware = "gb10", .model = "qwen3", .match_count = 1, .matches = any_size},
    {.hardware = "gb10", .model = "base", .match_count = 2, .matches = twin},
    {.hardware = "hopper", .model = "else", .match_count = 1, .matches = any},
};
static struct mtr_error err;

/* The model's name, "" for none; the test ends on a refusal. */
static const char *chosen(const char *hardware, const char *type, uint32_t size, const char *name)
{
    const struct mtr_target_model *out;
    const struct mtr_target_subject s = {hardware, mtr_str(type), size, mtr_str(name)};
    ck_assert_msg(mtr_target_choose(models, COUNT(models), &s, &out, &err), "%s", err.message);
    return out ? out->model : "";
}

START_TEST(exact_goes_before_less_exact)
{
    ck_assert_str_eq(chosen("gb10", "qwen3", 4096, "Qwen3-8B-Q4_0.gguf"), "qwen3-8b");
    ck_assert_str_eq(chosen("gb10", "qwen3", 1024, "Qwen3-0.6B"), "qwen3");
    ck_assert_str_eq(chosen("gb10", "phi", 1024, "x"), "any");
    ck_assert_str_eq(chosen("gb10", "llama", 2048, "x"), "base");
    ck_assert_str_eq(chosen("hopper", "qwen3", 4096, "Qwen3-8B"), "else");
    ck_assert_str_eq(chosen("host", "qwen3", 4096, "Qwen3-8B"), "");
}
END_TEST

START_TEST(a_name_breaks_a_tie_and_an_unbroken_one_is_refused)
{
    const struct mtr_target_model *out;
    const struct mtr_target_subject s = {"gb10", mtr_str("qwen3"), 4096, mtr_str("my-finetune")};
    ck_assert_str_eq(chosen("gb10", "qwen3", 4096, "Qwen3-9B-RAW"), "base");
    ck_assert(!mtr_target_choose(models, COUNT(models), &s, &out, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_str_eq(err.message, "my-finetune is as much qwen3-8b as base for class gb10: their "
                                  "MODEL.toml must tell them apart");
}
END_TEST

START_TEST(a_tie_among_worse_ones_does_not_matter)
{
    const struct mtr_target_model more[] = {models[2], models[2], models[1]};
    const struct mtr_target_subject s = {"gb10", mtr_str("qwen3"), 4096, mtr_str("x")};
    const struct mtr_target_model *out;
    ck_assert(mtr_target_choose(more, COUNT(more), &s, &out, &err));
    ck_assert_str_eq(out->model, "qwen3-8b");
}
END_TEST

START_TEST(the_tables_tell_their_models_apart)
{
    uint32_t count, classes;
    const struct mtr_target_model *all = mtr_target_models(&count), *out;
    const struct mtr_hardware *hardware = mtr_hardware_classes(&classes);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t m = 0; m < all[i].match_count; m++) {
            const struct mtr_target_match *match = &all[i].matches[m];
            const struct mtr_target_subject s = {
                all[i].hardware, mtr_str(match->model_type ? match->model_type : ""),
                match->hidden_size, mtr_str(match->name_count ? match->names[0] : "")};
            ck_assert_msg(mtr_target_choose(all, count, &s, &out, &err), "%s", err.message);
            ck_assert_ptr_eq(out, &all[i]);
        }
    for (uint32_t c = 0; c < classes; c++) {
        const struct mtr_target_subject s = {hardware[c].name, mtr_str("llama"), 576,
                                             mtr_str("SmolLM2-135M-Instruct.Q4_1.gguf")};
        ck_assert(mtr_target_choose(all, count, &s, &out, &err) && out);
        ck_assert_str_eq(out->model, "smollm2-135m");
        ck_assert(out->temperature == 0.2 && out->top_k < 0);
    }
}
END_TEST

START_TEST(quant_is_what_most_is_kept_in)
{
    const struct mtr_plan_weight weights[] = {
        {.rows = 100, .cols = 100, .format = MTR_BF16},
        {.rows = 1, .cols = 1000000, .format = MTR_F32},
        {.rows = 100, .cols = 90, .format = MTR_Q4_1},
        {.rows = 100, .cols = 90, .format = MTR_Q4_1},
        {.rows = 100, .cols = 900, .format = MTR_F16, .tied = true},
    };
    struct mtr_plan plan = {.weights = weights, .weight_count = 5};
    ck_assert_str_eq(mtr_target_quant(&plan), "q4_1");
    plan.weight_count = 2;
    ck_assert_str_eq(mtr_target_quant(&plan), "bf16");
}
END_TEST

MTR_CHECK_MAIN("circuit/target")
{
    tcase_add_test(tc, exact_goes_before_less_exact);
    tcase_add_test(tc, a_name_breaks_a_tie_and_an_unbroken_one_is_refused);
    tcase_add_test(tc, a_tie_among_worse_ones_does_not_matter);
    tcase_add_test(tc, the_tables_tell_their_models_apart);
    tcase_add_test(tc, quant_is_what_most_is_kept_in);
}
