/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The map against a plain array that does the same. */
#include "common/base/map.c"

#include "common/base/philox.h"
#include "tests/unit/check_main.h"

enum { KEYS = 512, STEPS = 200000 };

struct model {
    bool has[KEYS];
    uint64_t value[KEYS];
    size_t count;
};

/* Keys that share few home slots, so that runs are long and wrap around. */
static uint64_t key_of(uint32_t i)
{
    return i == 0 ? 0 : i == 1 ? UINT64_MAX : (uint64_t)i << 54 | (i & 7);
}

static void compare(const struct mtr_map *m, const struct model *model)
{
    uint64_t value;
    ck_assert_uint_eq(m->count, model->count);
    for (uint32_t i = 0; i < KEYS; i++) {
        ck_assert(mtr_map_get(m, key_of(i), &value) == model->has[i]);
        if (model->has[i])
            ck_assert_uint_eq(value, model->value[i]);
    }
}

START_TEST(behaves_like_an_array)
{
    struct mtr_map m = {0};
    struct model model = {0};
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t r[4];
        mtr_philox(7, step, 0, r);
        uint32_t i = r[0] % KEYS;
        /* phases of growth and of decay */
        bool put = r[1] % 8 < (step / 10000 % 2 ? 2u : 6u);
        if (put) {
            ck_assert(mtr_map_put(&m, key_of(i), r[2]));
            model.count += !model.has[i];
            model.has[i] = true;
            model.value[i] = r[2];
        } else {
            uint64_t old = 0;
            ck_assert(mtr_map_remove(&m, key_of(i), &old) == model.has[i]);
            if (model.has[i])
                ck_assert_uint_eq(old, model.value[i]);
            model.count -= model.has[i];
            model.has[i] = false;
        }
        if (step % 997 == 0)
            compare(&m, &model);
    }
    compare(&m, &model);
    mtr_map_free(&m);
    ck_assert_uint_eq(m.count, 0);
}
END_TEST

START_TEST(empty)
{
    struct mtr_map m = {0};
    uint64_t value = 9;
    ck_assert(!mtr_map_get(&m, 0, &value));
    ck_assert(!mtr_map_get(&m, 5, &value));
    ck_assert(!mtr_map_remove(&m, 5, NULL));
    ck_assert_uint_eq(value, 9);
    mtr_map_free(&m);
}
END_TEST

START_TEST(key_zero_is_a_key)
{
    struct mtr_map m = {0};
    uint64_t value = 9;
    ck_assert(mtr_map_put(&m, 0, 11));
    ck_assert(mtr_map_put(&m, 0, 12));
    ck_assert_uint_eq(m.count, 1);
    ck_assert(mtr_map_get(&m, 0, &value));
    ck_assert_uint_eq(value, 12);
    ck_assert(mtr_map_remove(&m, 0, NULL));
    ck_assert(!mtr_map_get(&m, 0, &value));
    mtr_map_free(&m);
}
END_TEST

MTR_CHECK_MAIN("base/map")
{
    tcase_add_test(tc, behaves_like_an_array);
    tcase_add_test(tc, empty);
    tcase_add_test(tc, key_zero_is_a_key);
}
