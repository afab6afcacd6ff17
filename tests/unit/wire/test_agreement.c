/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/wire/agreement.h"

#include <string.h>

#include "tests/unit/check_main.h"

static const uint8_t digest[32] = {0xab, [31] = 1};
static struct mtr_agreement ours, theirs;
static struct mtr_error err;

static struct mtr_agreement_facts facts(void)
{
    return (struct mtr_agreement_facts){.build = "1",
                                        .hardware = "host",
                                        .precision = "declared",
                                        .cache_format = "bf16",
                                        .plan_digest = digest,
                                        .block_tokens = 16,
                                        .max_slots = 8,
                                        .world_size = 2};
}

static void setup(void)
{
    struct mtr_agreement_facts f = facts();
    mtr_agreement_make(&ours, &f);
    mtr_agreement_make(&theirs, &f);
    err = (struct mtr_error){0};
}

static bool compare(void)
{
    return mtr_agreement_compare(&ours, "the broker", &theirs, "rank 1", &err);
}

START_TEST(the_same_facts_agree)
{
    ck_assert_msg(compare(), "%s", err.message);
    ck_assert_uint_le(ours.count, MTR_AGREEMENT_ENTRIES);
    char *entries[MTR_AGREEMENT_ENTRIES];
    for (uint32_t i = 0; i < ours.count; i++) /* the order says nothing */
        entries[i] = ours.entries[ours.count - 1 - i];
    ck_assert(mtr_agreement_read(&theirs, entries, ours.count, &err));
    ck_assert_msg(compare(), "%s", err.message);
}
END_TEST

START_TEST(each_difference_is_named)
{
    struct mtr_agreement_facts f = facts();
    uint8_t other[32] = {0xcd};
    f.cache_format = "f32";
    f.max_slots = 4;
    f.plan_digest = other;
    mtr_agreement_make(&theirs, &f);
    ck_assert(!compare());
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_ptr_nonnull(
        strstr(err.message, "cache_format is bf16 for the broker, f32 for rank 1"));
    ck_assert_ptr_nonnull(strstr(err.message, "max_slots is 8 for the broker, 4 for rank 1"));
    ck_assert_ptr_nonnull(strstr(err.message, "plan is ab"));
    ck_assert_ptr_null(strstr(err.message, "hardware"));
}
END_TEST

START_TEST(what_one_does_not_say_differs)
{
    char *short_list[] = {"build=1"}, *more[MTR_AGREEMENT_ENTRIES];
    ck_assert(mtr_agreement_read(&theirs, short_list, 1, &err));
    ck_assert(!compare());
    ck_assert_ptr_nonnull(strstr(err.message, "hardware is host for the broker, missing for rank"));
    for (uint32_t i = 0; i < ours.count; i++)
        more[i] = ours.entries[i];
    more[ours.count] = "kernels=x=y";
    ck_assert(mtr_agreement_read(&theirs, more, ours.count + 1, &err));
    ck_assert(!compare());
    ck_assert_str_eq(err.message, "kernels is missing for the broker, x=y for rank 1");
}
END_TEST

/* More than a message has room for is cut, not overrun. */
START_TEST(many_long_differences)
{
    char text[MTR_AGREEMENT_ENTRIES][MTR_AGREEMENT_ENTRY_BYTES], *entries[MTR_AGREEMENT_ENTRIES];
    for (int i = 0; i < MTR_AGREEMENT_ENTRIES; i++) {
        memset(text[i], 'x', sizeof text[i] - 1);
        text[i][sizeof text[i] - 1] = '\0';
        text[i][0] = (char)('a' + i);
        text[i][1] = '=';
        entries[i] = text[i];
    }
    ck_assert(mtr_agreement_read(&theirs, entries, MTR_AGREEMENT_ENTRIES, &err));
    ck_assert(!compare());
    ck_assert_uint_eq(strlen(err.message), MTR_ERROR_MESSAGE_BYTES - 1);
}
END_TEST

START_TEST(hostile_lists_are_refused)
{
    char *many[MTR_AGREEMENT_ENTRIES + 1], text[MTR_AGREEMENT_ENTRY_BYTES + 1], *one = text;
    for (int i = 0; i <= MTR_AGREEMENT_ENTRIES; i++)
        many[i] = "a=b";
    ck_assert(!mtr_agreement_read(&theirs, many, MTR_AGREEMENT_ENTRIES + 1, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "17 entries"));
    memset(text, '=', sizeof text - 1);
    text[0] = 'a';
    text[sizeof text - 1] = '\0';
    ck_assert(!mtr_agreement_read(&theirs, &one, 1, &err));
    char *bad[] = {"noequals", "=value", ""};
    for (size_t i = 0; i < 3; i++)
        ck_assert(!mtr_agreement_read(&theirs, &bad[i], 1, &err));
}
END_TEST

MTR_CHECK_MAIN("wire/agreement")
{
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, the_same_facts_agree);
    tcase_add_test(tc, each_difference_is_named);
    tcase_add_test(tc, what_one_does_not_say_differs);
    tcase_add_test(tc, many_long_differences);
    tcase_add_test(tc, hostile_lists_are_refused);
}
