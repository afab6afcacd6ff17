/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/session/load.c"

#include <stdio.h>

#include "tests/unit/check_main.h"
#include "worker/backend/host/host.h"

static struct mtr_backend *b;
static struct mtr_loaded m;
static struct mtr_error err;
static Mtr__LoadModel load;
static char model[512];
static uint32_t reports;
static bool cancel;

static bool report(void *context, const char *phase, uint64_t done, uint64_t total)
{
    reports++;
    return !cancel && done <= total;
}

static const struct mtr_load_progress progress = {report, NULL};

static void setup(void)
{
    b = mtr_host_backend_create(&(struct mtr_host_options){.threads = 1}, NULL);
    snprintf(model, sizeof model, "%s/tests/golden/llama", getenv("MTR_SOURCE_ROOT"));
    mtr__load_model__init(&load);
    load.checkpoint = model;
    load.cache_format = "bf16";
    load.block_tokens = 16;
    load.cache_bytes = 4u << 20;
    load.max_slots = 4;
    load.max_step_tokens = 64;
    load.max_step_outputs = 8;
    load.max_sequence_tokens = 128;
    m = (struct mtr_loaded){0};
    reports = 0;
    cancel = false;
    err = (struct mtr_error){0};
}

static void teardown(void)
{
    mtr_unload_model(&m);
    b->ops->destroy(b);
}

static void ck_refused(enum mtr_code code, const char *words)
{
    ck_assert(!mtr_load_model(&m, &load, b, &progress, &err));
    ck_assert_int_eq(err.code, code);
    ck_assert_msg(strstr(err.message, words) != NULL, "\"%s\" is not in \"%s\"", words,
                  err.message);
    ck_assert_ptr_null(m.exec);
}

START_TEST(loads)
{
    ck_assert_msg(mtr_load_model(&m, &load, b, &progress, &err), "%s", err.message);
    ck_assert_ptr_nonnull(m.exec);
    ck_assert_uint_gt(reports, 1);
    ck_assert_uint_gt(m.weights.total_bytes, 400000);
    ck_assert_uint_gt(m.budget.fixed, m.plan->arena_bytes);
    ck_assert_uint_le(m.budget.cache, 4u << 20);
    ck_assert_uint_eq(m.plan->limits.max_lanes, 4);
    /* Twice four sequences of 128 tokens are all that this many slots can use. */
    ck_assert_uint_eq(m.budget.group_blocks[0], 4 * 2 * 8);
}
END_TEST

START_TEST(dummy_weights_need_no_tensors)
{
    load.dummy_weights = true;
    ck_assert_msg(mtr_load_model(&m, &load, b, &progress, &err), "%s", err.message);
    ck_assert_ptr_nonnull(m.exec);
}
END_TEST

START_TEST(a_cache_of_free_memory)
{
    load.cache_bytes = 0;
    load.memory_percent = 50;
    ck_assert_msg(mtr_load_model(&m, &load, b, &progress, &err), "%s", err.message);
    ck_assert_uint_le(m.budget.usable, m.budget.device_total / 2);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_with_figures)
{
    load.cache_bytes = 1ull << 50;
    ck_refused(MTR_NO_MEMORY, "MB of cache do not fit");
    load.cache_bytes = 0;
    load.reserve_bytes = 1ull << 50;
    ck_refused(MTR_NO_MEMORY, "reserved");
    load.cache_bytes = 1000;
    load.reserve_bytes = 0;
    ck_refused(MTR_NO_MEMORY, "at least 16 are needed");
}
END_TEST

START_TEST(settings_that_are_not_served)
{
    load.tensor_parallel = 2;
    ck_refused(MTR_UNSUPPORTED, "tensor_parallel 2");
    load.tensor_parallel = 1;
    load.cache_format = "turbo9";
    ck_refused(MTR_UNSUPPORTED, "turbo9");
    load.cache_format = "";
    load.max_slots = 0;
    ck_refused(MTR_INVALID, "0 slots");
    load.max_slots = 4;
    load.top_logprobs_max = 1000;
    ck_refused(MTR_UNSUPPORTED, "1000 log-probabilities");
    load.top_logprobs_max = 20;
    load.precision = "int1";
    ck_assert(!mtr_load_model(&m, &load, b, &progress, &err));
    load.precision = "";
    load.plan_digest = (ProtobufCBinaryData){3, (uint8_t *)"abc"};
    ck_refused(MTR_INVALID, "the broker's is 616263");
}
END_TEST

START_TEST(it_can_be_cancelled)
{
    cancel = true;
    ck_refused(MTR_BUSY, "");
}
END_TEST

MTR_CHECK_MAIN("session/load")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, loads);
    tcase_add_test(tc, dummy_weights_need_no_tensors);
    tcase_add_test(tc, a_cache_of_free_memory);
    tcase_add_test(tc, what_does_not_fit_is_refused_with_figures);
    tcase_add_test(tc, settings_that_are_not_served);
    tcase_add_test(tc, it_can_be_cancelled);
}
