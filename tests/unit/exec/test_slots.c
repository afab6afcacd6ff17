/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/exec/slots.c"

#include "tests/unit/check_main.h"
#include "worker/backend/mock/mock.h"

static struct mtr_backend *b;
static struct mtr_slots s;
static struct mtr_staging staging;
static struct mtr_cache_group group = {.name = "full", .block_tokens = 16};
static struct mtr_plan plan = {
    .group_count = 1, .groups = &group, .limits = {.max_sequence_tokens = 100}};
static const uint32_t tokens[] = {10, 11, 12, 13, 14, 15};

static void setup(void)
{
    b = mtr_mock_backend_create();
    ck_assert(mtr_slots_init(&s, b, &plan, 3, NULL));
    ck_assert(mtr_staging_init(&staging, b, NULL));
}

static void teardown(void)
{
    mtr_staging_free(&staging, b);
    mtr_slots_free(&s, b);
    b->ops->destroy(b);
}

static struct mtr_span change(struct mtr_span old, uint32_t first, uint32_t count)
{
    return mtr_span_after(old, &(struct mtr_table_change){.first = first, .count = count});
}

START_TEST(spans_grow_where_they_touch)
{
    struct mtr_span span = {0, 0};
    span = change(span, 4, 2);
    ck_assert(span.from == 4 && span.to == 6);
    span = change(span, 6, 3);
    ck_assert(span.from == 4 && span.to == 9);
    span = change(span, 2, 2);
    ck_assert(span.from == 2 && span.to == 9);
    span = change(span, 3, 1);
    ck_assert(span.from == 2 && span.to == 9);
    span = change(span, 0, 0);
    ck_assert(span.from == 2 && span.to == 9);
    span = change(span, 12, 1); /* a gap: what lay before it can't be relied on */
    ck_assert(span.from == 12 && span.to == 13);
}
END_TEST

START_TEST(tables_are_uploaded_where_they_changed)
{
    const uint32_t blocks[] = {7, 8};
    const struct mtr_table_change c = {.first = 3, .count = 2, .blocks = blocks};
    const struct mtr_lane lane = {
        .slot = 1, .open = true, .count = 1, .tokens = tokens, .table_count = 1, .tables = &c};
    ck_assert_uint_eq(s.stride[0], 7);
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    ck_assert_uint_eq(mtr_mock_call_count(b), 1);
    ck_assert_ptr_eq(mtr_mock_call(b, 0)->dst, (int32_t *)s.device[0] + 7 + 3);
    ck_assert_uint_eq(mtr_mock_call(b, 0)->bytes, 8);
    ck_assert_int_eq(s.host[0][7 + 3], 7);
    ck_assert_int_eq(s.host[0][7 + 4], 8);
}
END_TEST

/* A copy under way reads the staging buffer, whatever becomes of the table meanwhile. */
START_TEST(uploads_under_way_keep_their_content)
{
    uint32_t blocks[] = {7, 8};
    const struct mtr_table_change c = {.first = 3, .count = 2, .blocks = blocks};
    const struct mtr_lane lane = {
        .slot = 1, .open = true, .count = 1, .tokens = tokens, .table_count = 1, .tables = &c};
    struct mtr_staging other = {0};
    const int32_t *device = (const int32_t *)s.device[0] + 7 + 3;
    struct mtr_event *first = b->ops->event_create(b, NULL);
    ck_assert(mtr_staging_init(&other, b, NULL));
    mtr_mock_defer(b, true);
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    ck_assert(b->ops->event_record(b, first, NULL, NULL));
    blocks[0] = 9;
    ck_assert(mtr_slots_apply(&s, b, NULL, &other, &lane, NULL));
    ck_assert(b->ops->event_wait(b, first, NULL));
    ck_assert_int_eq(device[0], 7);
    ck_assert(b->ops->stream_wait(b, NULL, NULL));
    ck_assert_int_eq(device[0], 9);
    b->ops->event_destroy(b, first);
    mtr_staging_free(&other, b);
}
END_TEST

START_TEST(a_full_staging_buffer_is_waited_for)
{
    const uint32_t blocks[] = {1, 2, 3, 4, 5, 6, 7};
    const struct mtr_table_change c = {.count = 7, .blocks = blocks};
    const struct mtr_lane lane = {
        .slot = 1, .open = true, .count = 1, .tokens = tokens, .table_count = 1, .tables = &c};
    mtr_mock_defer(b, true);
    staging.used = MTR_STAGING_ENTRIES - 3;
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    ck_assert_uint_eq(staging.used, 4);
    ck_assert(b->ops->stream_wait(b, NULL, NULL));
    ck_assert_mem_eq((int32_t *)s.device[0] + 7, blocks, sizeof blocks);
}
END_TEST

START_TEST(tokens_of_the_device_are_pending_until_they_are_known)
{
    struct mtr_lane lane = {
        .slot = 2, .sequence = 5, .open = true, .count = 4, .tokens = tokens, .outputs = 1};
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    mtr_slots_advance(&s, &lane);
    struct mtr_lane next = {.slot = 2, .sequence = 5, .start = 4, .count = 1, .outputs = 1};
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &next, NULL));
    mtr_slots_advance(&s, &next);
    const struct mtr_slot *slot = &s.slots[2];
    ck_assert_uint_eq(slot->computed, 5);
    ck_assert_uint_eq(slot->length, 6);
    ck_assert_uint_eq(slot->pending, 2);
    mtr_slots_settle(&s, &lane, 77);
    mtr_slots_settle(&s, &next, 78);
    ck_assert_uint_eq(slot->pending, 0);
    ck_assert_uint_eq(slot->tokens[4], 77);
    ck_assert_uint_eq(slot->tokens[5], 78);
    next.outputs = 0;
    next.start = 5;
    mtr_slots_advance(&s, &next); /* a chunk of a prompt gives nothing */
    ck_assert_uint_eq(slot->pending, 0);
    ck_assert_uint_eq(slot->computed, 6);
}
END_TEST

START_TEST(histories_grow_with_lanes_and_results)
{
    struct mtr_lane lane = {
        .slot = 2, .sequence = 5, .open = true, .count = 4, .tokens = tokens, .outputs = 1};
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    mtr_slots_finish(&s, &lane, 0, tokens + 5, 1);
    struct mtr_slot *slot = &s.slots[2];
    ck_assert_uint_eq(slot->sequence, 5);
    ck_assert_uint_eq(slot->known, 0);
    ck_assert_uint_eq(slot->computed, 4);
    ck_assert_uint_eq(slot->length, 5);
    ck_assert_uint_eq(slot->tokens[4], 15);
    /* Three rows of which two are drafts; one is accepted. */
    lane = (struct mtr_lane){.slot = 2,
                             .sequence = 5,
                             .start = 4,
                             .count = 3,
                             .tokens = tokens,
                             .outputs = 3,
                             .drafts = 2};
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    ck_assert_uint_eq(slot->length, 7);
    const uint32_t sampled[] = {11, 77};
    mtr_slots_finish(&s, &lane, 1, sampled, 2);
    ck_assert_uint_eq(slot->computed, 6);
    ck_assert_uint_eq(slot->length, 7);
    ck_assert_uint_eq(slot->tokens[5], 11);
    ck_assert_uint_eq(slot->tokens[6], 77);
}
END_TEST

START_TEST(opening_forgets)
{
    const struct mtr_sampling sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    struct mtr_lane lane = {.slot = 0,
                            .sequence = 1,
                            .open = true,
                            .count = 6,
                            .tokens = tokens,
                            .sampling = &sampling};
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    mtr_slots_finish(&s, &lane, 0, NULL, 0);
    lane = (struct mtr_lane){
        .slot = 0, .sequence = 2, .open = true, .start = 3, .count = 2, .tokens = tokens};
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    struct mtr_slot *slot = &s.slots[0];
    ck_assert_uint_eq(slot->sequence, 2);
    ck_assert_uint_eq(slot->known, 3); /* no history was given */
    ck_assert_uint_eq(slot->length, 5);
    ck_assert_float_eq(slot->sampling.temperature, 0);
    lane.history = tokens;
    lane.history_count = 3;
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    ck_assert_uint_eq(slot->known, 0);
    ck_assert_uint_eq(slot->tokens[2], 12);
}
END_TEST

START_TEST(biases_are_copied)
{
    uint32_t ids[] = {1, 2, 3};
    float values[] = {0.5f, 1, 2};
    const struct mtr_sampling sampling = {.bias_count = 3, .bias_ids = ids, .bias_values = values};
    const struct mtr_lane lane = {
        .slot = 0, .open = true, .count = 1, .tokens = tokens, .sampling = &sampling};
    ck_assert(mtr_slots_apply(&s, b, NULL, &staging, &lane, NULL));
    ids[2] = 99;
    values[2] = 99;
    ck_assert_uint_eq(s.slots[0].sampling.bias_ids[2], 3);
    ck_assert_float_eq(s.slots[0].sampling.bias_values[2], 2);
}
END_TEST

MTR_CHECK_MAIN("exec/slots")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, spans_grow_where_they_touch);
    tcase_add_test(tc, tables_are_uploaded_where_they_changed);
    tcase_add_test(tc, uploads_under_way_keep_their_content);
    tcase_add_test(tc, a_full_staging_buffer_is_waited_for);
    tcase_add_test(tc, tokens_of_the_device_are_pending_until_they_are_known);
    tcase_add_test(tc, histories_grow_with_lanes_and_results);
    tcase_add_test(tc, opening_forgets);
    tcase_add_test(tc, biases_are_copied);
}
