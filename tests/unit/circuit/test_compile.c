/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whole plans: published sizes, determinism, golden texts, refusals of options. */
#include "common/circuit/compile.c"

#include "tests/unit/circuit/model.h"

#define GOLDEN_DIR "kernels/circuits/plans"

START_TEST(parameter_counts_are_the_published_ones)
{
    static const struct {
        const char *file;
        uint64_t parameters;
    } list[] = {
        {"smollm2-135m.json", 134515008},
        {"qwen2.5-0.5b.json", 494032768},
        {"qwen2.5-7b-yarn.json", 7615616512},
        {"qwen3-8b.json", 8190735360},
        {"llama-3.1-8b.json", 8030261248},
        {"mistral-7b-v0.3.json", 7248023552},
        {"qwen3.5-9b.json", 8953803264},
        {"qwen3.5-27b.json", 26895998464},
        {"qwen3-30b-a3b.json", 30532122624},
        {"qwen3-next-80b-a3b.json", 79674391296},
        {"qwen3.5-35b-a3b.json", 34660610688},
        {"minimax-m2.json", 228689764864},
        {"mistral-small-4-119b.json", 118972826624},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct model m;
        model_config(&m, list[i].file);
        const struct mtr_plan *plan = good_plan(&m);
        ck_assert_msg(plan->parameters == list[i].parameters, "%s: %llu", list[i].file,
                      (unsigned long long)plan->parameters);
        model_free(&m);
    }
    struct model m;
    model_config(&m, "qwen3-30b-a3b.json");
    ck_assert_uint_eq(good_plan(&m)->active, 3353032704);
    model_free(&m);
    model_config(&m, "mistral-small-4-119b.json");
    ck_assert_uint_eq(good_plan(&m)->active, 6632588288);
    model_free(&m);
    model_smollm2_gguf(&m);
    ck_assert_uint_eq(good_plan(&m)->parameters, 134515008);
    model_free(&m);
}
END_TEST

START_TEST(same_input_same_bytes)
{
    struct model m;
    model_config(&m, "qwen3-8b.json");
    const struct mtr_plan *a = good_plan(&m), *b = good_plan(&m);
    ck_assert_mem_eq(a->digest, b->digest, 32);
    model_set(&m, "rms_norm_eps", "1e-5");
    ck_assert_mem_ne(a->digest, good_plan(&m)->digest, 32);
    struct mtr_plan_options options = {.hardware = "host", .cache = MTR_F32};
    ck_assert_mem_ne(b->digest, mtr_plan_build(&m.arena, &m.source, &options, &m.err)->digest, 32);
    model_free(&m);
}
END_TEST

/* With MTR_UPDATE_PLANS set the golden texts are written instead of compared. */
static void check_golden(struct model *m, const char *name)
{
    struct mtr_buf text = {0};
    char hex[65];
    const struct mtr_plan *plan = good_plan(m);
    ck_assert(mtr_plan_text(&text, plan));
    mtr_hex(plan->digest, 32, hex);
    mtr_buf_printf(&text, "digest %s\n", hex);
    const char *path = mtr_arena_printf(&m->arena, "%s/%s.txt", GOLDEN_DIR, name);
    if (getenv("MTR_UPDATE_PLANS")) {
        FILE *f = fopen(source_path(m, path), "wb");
        ck_assert(f && fwrite(text.data, 1, text.len, f) == text.len && fclose(f) == 0);
    }
    struct mtr_str golden = read_source(m, path);
    ck_assert_msg(mtr_str_equal(golden, mtr_buf_view(&text)),
                  "%s differs from the plan built now; if that is meant, write it anew with "
                  "MTR_UPDATE_PLANS=1",
                  path);
    mtr_buf_free(&text);
}

START_TEST(golden_plans)
{
    static const char *const names[] = {"golden-llama", "golden-qwen3", "qwen2.5-0.5b", "qwen3-8b",
                                        "qwen3-30b-a3b"};
    struct model m;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[64];
        snprintf(file, sizeof file, "%s.json", names[i]);
        model_config(&m, file);
        check_golden(&m, names[i]);
        model_free(&m);
    }
    static const char *const scaled[] = {
        "qwen3-nvfp4-ct",   "qwen3-fp8-block", "qwen3_5",
        "qwen3_next-dense", "qwen3_moe",       "qwen3_moe-nvfp4-ct",
        "qwen3_next",       "qwen3_5_moe",     "minimax_m2",
        "mistral",          "mistral4"};
    for (size_t i = 0; i < sizeof scaled / sizeof *scaled; i++) {
        char file[64], name[64];
        snprintf(file, sizeof file, "../../golden/%s/config.json", scaled[i]);
        snprintf(name, sizeof name, "golden-%s", scaled[i]);
        model_config(&m, file);
        check_golden(&m, name);
        model_free(&m);
    }
    model_smollm2_gguf(&m);
    check_golden(&m, "smollm2-135m-q4_1");
    model_free(&m);
}
END_TEST

static void refuse_options(struct model *m, struct mtr_plan_options o, enum mtr_code code,
                           const char *words)
{
    memset(&m->err, 0, sizeof m->err);
    ck_assert(!mtr_plan_build(&m->arena, &m->source, &o, &m->err));
    ck_assert_msg(m->err.code == code && strstr(m->err.message, words), "%s", m->err.message);
}

START_TEST(options_are_checked)
{
    struct model m;
    model_config(&m, "golden-llama.json");
    struct mtr_plan_options good = {.hardware = "host", .cache = MTR_F32}, o = good;
    o.hardware = "abacus";
    refuse_options(&m, o, MTR_UNSUPPORTED,
                   "no hardware class \"abacus\"; there are: b200, gb10, hopper, host");
    o = good;
    o.precision = "int3";
    refuse_options(&m, o, MTR_UNSUPPORTED, "precision \"int3\"");
    o = good;
    o.cache = MTR_E4M3;
    refuse_options(&m, o, MTR_UNSUPPORTED, "class host keeps no cache in e4m3; it has: f32, bf16");
    o = good;
    o.block_tokens = 24;
    refuse_options(&m, o, MTR_INVALID, "blocks of 24 tokens; a multiple of 16 up to 1024");
    o.block_tokens = 1u << 31;
    refuse_options(&m, o, MTR_INVALID, "blocks of 2147483648 tokens");
    o = good;
    o.limits.max_sequence_tokens = 513;
    refuse_options(&m, o, MTR_INVALID, "513 tokens are asked for, but the model was made for 512");
    o = good;
    o.limits.max_step_tokens = 1u << 30;
    refuse_options(&m, o, MTR_TOO_LARGE, "a step of 1073741824 tokens");
    o = good;
    o.limits.max_lanes = 1u << 30;
    o.limits.max_step_outputs = 1;
    refuse_options(&m, o, MTR_TOO_LARGE, "1073741824 lanes");
    model_free(&m);
}
END_TEST

/* A class without a kernel for an operation says which. */
START_TEST(operations_that_a_class_lacks)
{
    static const char *const classes[] = {"gb10", "hopper", "b200"};
    static const struct {
        const char *family, *node;
    } list[] = {{"qwen3_5", "conv1d of L0.lin_conv"},
                {"qwen3_moe", "route of L0.route"},
                {"mistral4", "latent_append of L0.latent_append"}};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        struct model m;
        char file[64], words[96];
        snprintf(file, sizeof file, "../../golden/%s/config.json", list[k].family);
        model_config(&m, file);
        for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
            struct mtr_plan_options o = {.hardware = classes[i], .cache = MTR_BF16};
            snprintf(words, sizeof words, "class %s has no rule for the operation %s", classes[i],
                     list[k].node);
            refuse_options(&m, o, MTR_UNSUPPORTED, words);
        }
        model_free(&m);
    }
}
END_TEST

/* Too little memory is an error like others. */
START_TEST(memory_runs_out)
{
    for (size_t limit = 1000; limit < 4000000; limit += limit / 3) {
        struct model m;
        model_smollm2_gguf(&m);
        struct mtr_arena small;
        mtr_arena_init(&small, limit);
        struct mtr_plan_options o = {.hardware = "host", .cache = MTR_F32};
        if (!mtr_plan_build(&small, &m.source, &o, &m.err))
            ck_assert_msg(m.err.code == MTR_NO_MEMORY, "%zu: %s", limit, m.err.message);
        mtr_arena_free(&small);
        model_free(&m);
    }
}
END_TEST

MTR_CHECK_MAIN("circuit/compile")
{
    tcase_add_test(tc, parameter_counts_are_the_published_ones);
    tcase_add_test(tc, same_input_same_bytes);
    tcase_add_test(tc, golden_plans);
    tcase_add_test(tc, options_are_checked);
    tcase_add_test(tc, operations_that_a_class_lacks);
    tcase_add_test(tc, memory_runs_out);
}
