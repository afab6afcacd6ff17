/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/sched/sequence.h"

#include <string.h>

#include "tests/unit/check_main.h"

static const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

START_TEST(a_request_is_copied)
{
    uint32_t prompt[] = {1, 2, 3}, stops[] = {9}, ids[] = {4};
    float values[] = {2.5f};
    struct mtr_sched_params p = {.tokens = prompt,
                                 .token_count = 3,
                                 .max_tokens = 5,
                                 .stop_ids = stops,
                                 .stop_count = 1,
                                 .sampling = mtr_sampling_greedy()};
    p.sampling.bias_count = 1;
    p.sampling.bias_ids = ids;
    p.sampling.bias_values = values;
    struct mtr_seq *q = mtr_seq_create(&p, 77);
    memset(prompt, 0xff, sizeof(prompt));
    stops[0] = ids[0] = 0;
    values[0] = 0;
    ck_assert_uint_eq(q->tokens[2], 3);
    ck_assert(mtr_seq_is_stop(q, 9) && !mtr_seq_is_stop(q, 0));
    ck_assert(q->sampling.bias_ids[0] == 4 && q->sampling.bias_values[0] == 2.5f);
    ck_assert_uint_eq(q->sampling.output_start, 3);
    ck_assert_uint_eq(q->submitted_ns, 77);
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert(mtr_seq_append(q, i));
    ck_assert_uint_eq(mtr_seq_outputs(q), 1000);
    ck_assert_uint_eq(q->tokens[1002], 999);
    mtr_seq_destroy(q);
}
END_TEST

/* Keys of all three blocks of four tokens, with one image. */
static void keys(uint32_t first, uint32_t count, uint8_t digest, struct mtr_radix_key out[3])
{
    struct mtr_sched_image image = {.first = first, .count = count, .digest = {digest}};
    struct mtr_sched_params p = {.tokens = tokens,
                                 .token_count = 12,
                                 .images = &image,
                                 .image_count = count > 0,
                                 .sampling = mtr_sampling_greedy()};
    struct mtr_seq *q = mtr_seq_create(&p, 0);
    for (uint32_t i = 0; i < 3; i++)
        out[i] = mtr_seq_key(q, i, 4);
    ck_assert_ptr_eq(out[1].tokens, q->tokens + 4);
    mtr_seq_destroy(q);
}

START_TEST(an_image_colours_the_blocks_that_it_reaches_into)
{
    static const uint8_t none[MTR_RADIX_IMAGE_BYTES];
    struct mtr_radix_key a[3], b[3], moved[3], plain[3];
    keys(3, 2, 1, a);
    keys(3, 2, 2, b);
    keys(2, 3, 1, moved);
    keys(0, 0, 0, plain);
    ck_assert_mem_eq(plain[0].image, none, sizeof(none));
    ck_assert_mem_eq(a[2].image, none, sizeof(none));
    for (int i = 0; i < 2; i++) {
        ck_assert_mem_ne(a[i].image, none, sizeof(none));
        ck_assert_mem_ne(a[i].image, b[i].image, sizeof(none));
        ck_assert_mem_ne(a[i].image, moved[i].image, sizeof(none));
    }
    ck_assert_mem_ne(a[0].image, a[1].image, sizeof(none)); /* other parts of it */
}
END_TEST

START_TEST(lists_stay_in_order_of_arrival)
{
    static const uint64_t order[] = {5, 2, 9, 1, 7};
    static const uint64_t sorted[] = {1, 2, 5, 7, 9};
    struct mtr_seq seqs[5] = {0};
    struct mtr_seq_list l = {0};
    for (int i = 0; i < 5; i++) {
        seqs[i].id = order[i];
        mtr_seq_list_insert(&l, &seqs[i]);
    }
    int n = 0;
    for (struct mtr_seq *q = l.first; q; q = q->next, n++)
        ck_assert_uint_eq(q->id, sorted[n]);
    ck_assert_int_eq(n, 5);
    mtr_seq_list_remove(&l, &seqs[3]); /* first */
    mtr_seq_list_remove(&l, &seqs[2]); /* last */
    mtr_seq_list_remove(&l, &seqs[0]); /* middle */
    ck_assert_uint_eq(l.count, 2);
    ck_assert_uint_eq(l.first->id, 2);
    ck_assert_uint_eq(l.last->id, 7);
    ck_assert_ptr_eq(l.last->prev, l.first);
}
END_TEST

MTR_CHECK_MAIN("sched/sequence")
{
    tcase_add_test(tc, a_request_is_copied);
    tcase_add_test(tc, an_image_colours_the_blocks_that_it_reaches_into);
    tcase_add_test(tc, lists_stay_in_order_of_arrival);
}
