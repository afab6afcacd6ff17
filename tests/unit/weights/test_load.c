/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loading onto two kinds of device: one whose memory the host can write, and one that is reached by
 * uploads only. Both are made of host memory here; the second one's memory is checked never to be
 * touched but through the backend's functions only in so far as its content comes from uploads.
 */
#include "worker/weights/load.c"

#include "common/circuit/families.h"
#include "common/numeric/numeric.h"
#include "kernels/host/host_kernel.h"
#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

/* ---- A device ----------------------------------------------------------------------------------
 */

struct device {
    struct mtr_backend backend;
    const char *hardware;
    int allocated, uploads, calls, fail_at; /* fail_at: the call that fails, 0 for none */
};

static bool fails(struct mtr_backend *b, struct mtr_error *e)
{
    struct device *d = (struct device *)b;
    return ++d->calls == d->fail_at ? !mtr_fail(e, MTR_IO, "the device failed") : false;
}

static bool device_info(struct mtr_backend *b, struct mtr_device_info *out, struct mtr_error *e)
{
    snprintf(out->hardware, sizeof out->hardware, "%s", ((struct device *)b)->hardware);
    out->direct = strcmp(out->hardware, "host") == 0;
    return !fails(b, e);
}

static void *device_alloc(struct mtr_backend *b, size_t bytes, struct mtr_error *e)
{
    if (fails(b, e))
        return NULL;
    ((struct device *)b)->allocated++;
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(p, 0xee, bytes);
    return p;
}

static void device_free(struct mtr_backend *b, void *p)
{
    ((struct device *)b)->allocated--;
    free(p);
}

static bool device_upload(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                          size_t bytes, struct mtr_error *e)
{
    (void)s;
    ((struct device *)b)->uploads++;
    memcpy(dst, src, bytes);
    return !fails(b, e);
}

static struct mtr_kernel *device_kernel(struct mtr_backend *b, const char *module,
                                        const char *function, struct mtr_error *e)
{
    static const char reversed_kernel;
    if (fails(b, e))
        return NULL;
    if (strcmp(module, "repack") == 0 && strcmp(function, "reversed") == 0)
        return (struct mtr_kernel *)&reversed_kernel;
    size_t count, i = 0;
    const struct mtr_host_entry *entries = mtr_host_kernels(&count);
    ck_assert_str_eq(module, "dummy");
    while (strcmp(entries[i].function, function) != 0)
        ck_assert_uint_lt(++i, count);
    return (struct mtr_kernel *)&entries[i];
}

/* The layout "reversed": rows of f32 from last to first, padded with zeros in front. */
static void reverse(const struct mtr_repack_args *a, uint32_t tiles)
{
    uint32_t padded = tiles * 4;
    float *dst = a->dst;
    ck_assert_uint_eq(tiles, (a->n + 3) / 4);
    memset(dst, 0, (size_t)padded * a->k * sizeof *dst);
    for (uint32_t i = 0; i < a->n; i++)
        memcpy(dst + (size_t)(padded - 1 - i) * a->k, (const float *)a->src + (size_t)i * a->k,
               a->k * sizeof *dst);
}

static bool device_launch(struct mtr_backend *b, struct mtr_stream *s, struct mtr_kernel *k,
                          const uint32_t grid[3], const uint32_t block[3], uint32_t shared,
                          const void *args, size_t bytes, struct mtr_error *e)
{
    (void)s, (void)block, (void)shared;
    struct mtr_host_block at = {.grid_x = grid[0], .grid_y = 1, .grid_z = 1};
    if (bytes == sizeof(struct mtr_repack_args))
        reverse(args, grid[0]);
    else
        for (; at.x < grid[0]; at.x++)
            mtr_host_variant((const struct mtr_host_entry *)k, MTR_ISA_PORTABLE)(args, &at);
    return !fails(b, e);
}

static struct mtr_stream *device_stream(struct mtr_backend *b, struct mtr_error *e)
{
    if (fails(b, e))
        return NULL;
    ((struct device *)b)->allocated++;
    return malloc(1);
}

static void device_stream_destroy(struct mtr_backend *b, struct mtr_stream *s)
{
    device_free(b, s);
}

static struct mtr_event *device_event(struct mtr_backend *b, struct mtr_error *e)
{
    if (fails(b, e))
        return NULL;
    ((struct device *)b)->allocated++;
    return malloc(1);
}

static void device_event_destroy(struct mtr_backend *b, struct mtr_event *event)
{
    device_free(b, event);
}

static bool device_event_record(struct mtr_backend *b, struct mtr_event *event,
                                struct mtr_stream *s, struct mtr_error *e)
{
    (void)event, (void)s;
    return !fails(b, e);
}

static bool device_event_wait(struct mtr_backend *b, struct mtr_event *event, struct mtr_error *e)
{
    (void)event;
    return !fails(b, e);
}

static bool device_stream_wait(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *e)
{
    (void)s;
    return !fails(b, e);
}

static const struct mtr_backend_ops device_ops = {
    .info = device_info,
    .alloc = device_alloc,
    .free = device_free,
    .alloc_pinned = device_alloc,
    .free_pinned = device_free,
    .upload = device_upload,
    .kernel = device_kernel,
    .launch = device_launch,
    .event_create = device_event,
    .event_destroy = device_event_destroy,
    .event_record = device_event_record,
    .event_wait = device_event_wait,
    .stream_create = device_stream,
    .stream_destroy = device_stream_destroy,
    .stream_wait = device_stream_wait,
};

/* ---- A model -----------------------------------------------------------------------------------
 */

#define ROWS 5
#define COLS 32

static const struct mtr_point plain = {.weight = MTR_F32};
static const struct mtr_point reversed = {
    .weight = MTR_F32, .repack = "reversed", .repack_rows = 4};

static const struct mtr_plan_weight weights[] = {
    {.name = "m",
     .rows = ROWS,
     .cols = COLS,
     .format = MTR_F32,
     .kernel_format = MTR_F32,
     .scale = MTR_NONE,
     .global_scale = MTR_NONE},
    {.name = "n",
     .rows = 1,
     .cols = COLS,
     .format = MTR_BF16,
     .kernel_format = MTR_F32,
     .scale = MTR_NONE,
     .global_scale = MTR_NONE},
    {.name = "r",
     .rows = ROWS,
     .cols = COLS,
     .format = MTR_F32,
     .kernel_format = MTR_F32,
     .scale = MTR_NONE,
     .global_scale = MTR_NONE},
    {.name = "h",
     .rows = ROWS,
     .cols = COLS,
     .format = MTR_BF16,
     .kernel_format = MTR_F32,
     .scale = MTR_NONE,
     .global_scale = MTR_NONE},
    {.name = "m",
     .rows = ROWS,
     .cols = COLS,
     .format = MTR_F32,
     .kernel_format = MTR_F32,
     .scale = MTR_NONE,
     .global_scale = MTR_NONE,
     .tied = true},
};

static const struct mtr_launch launches[] = {
    {.point = &plain, .weight_count = 3, .weights = {4, 1, 0}},
    {.point = &reversed, .weight_count = 3, .weights = {2, MTR_NONE, 3}},
};

static const struct mtr_plan plan = {
    .circuit = "test",
    .weight_count = 5,
    .weights = weights,
    .lists = {[MTR_MODE_MIXED] = {2, launches}},
};

static struct mtr_arena arena;
static struct mtr_error err;
static char *folder;
static struct mtr_checkpoint *ck;
static struct mtr_weights w;

static float value(int weight, int i)
{
    return (float)(weight * 1000 + i % 200); /* exact in bf16 below 256 and when weight is 0 */
}

static void put_values(struct mtr_buf *b, int weight, int count, bool bf16)
{
    for (int i = 0; i < count; i++) {
        uint32_t word = mtr_f32_bits(value(weight, i));
        put_uint(b, bf16 ? word >> 16 : word, bf16 ? 2 : 4);
    }
}

static void setup(void)
{
    struct mtr_buf b = {0};
    folder = make_folder();
    mtr_arena_init(&arena, 0);
    memset(&err, 0, sizeof err);
    put_safetensors(&b,
                    "{\"m\":{\"dtype\":\"F32\",\"shape\":[5,32],\"data_offsets\":[0,640]},"
                    "\"n\":{\"dtype\":\"BF16\",\"shape\":[32],\"data_offsets\":[640,704]},"
                    "\"r\":{\"dtype\":\"F32\",\"shape\":[5,32],\"data_offsets\":[704,1344]},"
                    "\"h\":{\"dtype\":\"BF16\",\"shape\":[5,32],\"data_offsets\":[1344,1664]}}  ",
                    0);
    put_values(&b, 1, ROWS * COLS, false);
    put_values(&b, 0, COLS, true);
    put_values(&b, 2, ROWS * COLS, false);
    put_values(&b, 0, ROWS * COLS, true);
    write_buf(folder, "model.safetensors", &b);
    ck = mtr_checkpoint_open(&arena, folder, NULL, &err);
    ck_assert_msg(ck, "%s", err.message);
}

static void teardown(void)
{
    mtr_checkpoint_close(ck);
    mtr_arena_free(&arena);
    remove_folder(folder);
}

static void check_values(void)
{
    const float *m = w.device[0], *n = w.device[1], *r = w.device[2], *h = w.device[3];
    ck_assert_ptr_eq(w.device[4], m);
    for (int i = 0; i < ROWS * COLS; i++) {
        int from_end = (7 - i / COLS) * COLS + i % COLS;
        ck_assert(m[i] == value(1, i));
        ck_assert(r[from_end] == value(2, i) && h[from_end] == value(0, i));
    }
    for (int i = 0; i < COLS; i++)
        ck_assert(n[i] == value(0, i));
    for (int i = 0; i < 3 * COLS; i++)
        ck_assert(r[i] == 0 && h[i] == 0);
}

static bool count_progress(void *context, uint64_t done, uint64_t total)
{
    uint64_t *last = context;
    ck_assert(done >= *last && done <= total);
    *last = done;
    return true;
}

static bool cancel(void *context, uint64_t done, uint64_t total)
{
    (void)context, (void)done, (void)total;
    return false;
}

static void load_on(const char *hardware, uint64_t mapped)
{
    struct device d = {.backend = {.ops = &device_ops}, .hardware = hardware};
    uint64_t done = 0, map, copy;
    bool host = strcmp(hardware, "host") == 0;
    const struct mtr_weights_options o = {.backend = &d.backend,
                                          .plan = &plan,
                                          .checkpoint = ck,
                                          .progress = count_progress,
                                          .context = &done};
    ck_assert_msg(mtr_weights_load(&w, &o, &err), "%s", err.message);
    check_values();
    ck_assert_uint_eq(w.mapped_bytes, mapped);
    ck_assert_uint_eq(w.total_bytes, 640 + 128 + 1024 + 1024);
    ck_assert_uint_eq(done, w.copied_bytes);
    ck_assert(mtr_weights_bytes(&plan, ck, host, &map, &copy, &err) && map == mapped);
    ck_assert(host ==
              (w.device[0] == mtr_checkpoint_data(ck, mtr_checkpoint_find(ck, MTR_STR("m")))));
    ck_assert_int_eq(d.uploads, host ? 0 : 4);
    ck_assert_uint_le(mtr_weights_resident(&w), mapped);
    mtr_weights_free(&w);
    mtr_weights_free(&w);
    ck_assert_int_eq(d.allocated, 0);
}

START_TEST(host_memory)
{
    load_on("host", 640);
}
END_TEST

START_TEST(other_memory)
{
    load_on("hopper", 0);
}
END_TEST

/* Whichever call fails, the load fails, and nothing stays allocated. */
START_TEST(failures)
{
    static const char *const hardware[] = {"host", "hopper"};
    for (int h = 0; h < 2; h++) {
        bool loaded = false;
        for (int n = 1; !loaded && n < 100; n++) {
            struct device d = {
                .backend = {.ops = &device_ops}, .hardware = hardware[h], .fail_at = n};
            const struct mtr_weights_options o = {
                .backend = &d.backend, .plan = &plan, .checkpoint = ck};
            loaded = mtr_weights_load(&w, &o, &err);
            ck_assert(loaded || strstr(err.message, "the device failed"));
            mtr_weights_free(&w);
            ck_assert_int_eq(d.allocated, 0);
        }
        ck_assert(loaded);
    }
}
END_TEST

START_TEST(cancelled)
{
    struct device d = {.backend = {.ops = &device_ops}, .hardware = "host"};
    struct mtr_weights_options o = {
        .backend = &d.backend, .plan = &plan, .checkpoint = ck, .progress = cancel};
    ck_assert(!mtr_weights_load(&w, &o, &err) && err.code == MTR_BUSY);
    ck_assert_int_eq(d.allocated, 0);
    o.checkpoint = NULL;
    ck_assert(!mtr_weights_load(&w, &o, &err) && strstr(err.message, "no tensors"));
}
END_TEST

START_TEST(unfit)
{
    struct device d = {.backend = {.ops = &device_ops}, .hardware = "host"};
    struct mtr_plan other = plan;
    other.weight_count = 2;
    const struct mtr_weights_options o = {.backend = &d.backend, .plan = &other, .checkpoint = ck};
    ck_assert(!mtr_weights_load(&w, &o, &err));
    ck_assert_msg(strstr(err.message, "2 extra (r, h)"), "%s", err.message);
}
END_TEST

/* The same values on both kinds of device, and where they are reversed behind the kernel. */
START_TEST(dummies)
{
    struct device d = {.backend = {.ops = &device_ops}, .hardware = _i ? "hopper" : "host"};
    struct mtr_plan_weight own[5];
    struct mtr_plan bare = plan;
    struct mtr_dummy_launch l;
    float want[ROWS * COLS];
    memcpy(own, weights, sizeof own);
    bare.weights = own;
    const struct mtr_weights_options o = {
        .backend = &d.backend, .plan = &bare, .dummy = true, .dummy_seed = 4};
    ck_assert_msg(mtr_weights_load(&w, &o, &err), "%s", err.message);
    ck_assert_int_eq(d.uploads, 0);
    for (uint32_t i = 0; i < 4; i += 2) {
        ck_assert(mtr_dummy_launch(MTR_F32, MTR_DUMMY_MATRIX, 4, i, 0, ROWS * COLS, want, &l));
        struct mtr_kernel *k = device_kernel(&d.backend, "dummy", l.function, NULL);
        ck_assert(device_launch(&d.backend, NULL, k, (uint32_t[3]){l.grid, 1, 1}, NULL, 0, &l.args,
                                sizeof l.args, NULL));
        const float *got = w.device[i];
        for (int r = 0; r < ROWS; r++)
            ck_assert_mem_eq(got + (i ? 7 - r : r) * COLS, want + r * COLS, COLS * sizeof *got);
    }
    ck_assert(((float *)w.device[1])[5] > 0.5f && w.device[4] == w.device[0]);
    mtr_weights_free(&w);
    own[1].role = MTR_WEIGHT_SCALES;
    ck_assert_msg(mtr_weights_load(&w, &o, &err), "%s", err.message);
    ck_assert(((float *)w.device[1])[5] == ((float *)w.device[1])[6]);
    ck_assert(((float *)w.device[1])[5] < 0.001f);
    mtr_weights_free(&w);
    own[0].kernel_format = own[0].format = MTR_I64;
    ck_assert(!mtr_weights_load(&w, &o, &err));
    ck_assert_msg(strstr(err.message, "no random values in format i64"), "%s", err.message);
    ck_assert_int_eq(d.allocated, 0);
}
END_TEST

/* A matrix and its scales are read together, each once, and what is copied not at all. */
START_TEST(scales_are_read_ahead_with_their_matrix)
{
    static const struct mtr_plan_weight own[] = {
        {.name = "m", .scale = 2, .global_scale = 1},
        {.name = "g", .scale = MTR_NONE, .global_scale = MTR_NONE},
        {.name = "s", .scale = MTR_NONE, .global_scale = MTR_NONE},
        {.name = "c", .scale = 2, .global_scale = MTR_NONE},
    };
    static uint8_t file[100];
    const struct mtr_plan scaled = {.weight_count = 4, .weights = own};
    const struct mtr_weights_options o = {.plan = &scaled};
    struct mtr_place places[4] = {{.src = file, .bytes = 10},
                                  {.kind = MTR_PLACE_COPIED},
                                  {.src = file + 10, .bytes = 20},
                                  {.src = file + 30, .bytes = 30}};
    const struct loading l = {.o = &o, .placement = {.places = places}};
    bool listed[4] = {false};
    struct mtr_stretch stretches[4];
    ck_assert_uint_eq(list_mapped(&l, 0, listed, stretches, 0), 2);
    ck_assert_uint_eq(list_mapped(&l, 3, listed, stretches, 2), 3);
    for (uint16_t i = 0; i < 4; i++)
        ck_assert_uint_eq(list_mapped(&l, i, listed, stretches, 3), 3);
    ck_assert(stretches[0].bytes == 10 && stretches[1].bytes == 20 && stretches[2].bytes == 30);
}
END_TEST

/* Divisors become factors on both kinds of device. */
START_TEST(divisors)
{
    struct device d = {.backend = {.ops = &device_ops}, .hardware = _i ? "hopper" : "host"};
    struct mtr_plan_weight own[5];
    struct mtr_plan inverse = plan;
    memcpy(own, weights, sizeof own);
    own[0].inverted = own[3].inverted = true;
    own[4].name = "n";
    own[4].format = MTR_BF16;
    own[4].rows = 1;
    inverse.weights = own;
    inverse.lists[MTR_MODE_MIXED].count = 0;
    const struct mtr_weights_options o = {
        .backend = &d.backend, .plan = &inverse, .checkpoint = ck};
    ck_assert_msg(mtr_weights_load(&w, &o, &err), "%s", err.message);
    for (int i = 0; i < ROWS * COLS; i++) {
        ck_assert(((float *)w.device[0])[i] == 1 / value(1, i));
        ck_assert(((float *)w.device[2])[i] == value(2, i));
        ck_assert(((float *)w.device[3])[i] == 1 / value(0, i));
    }
    mtr_weights_free(&w);
    ck_assert_int_eq(d.allocated, 0);
}
END_TEST

MTR_CHECK_MAIN("weights/load")
{
    tcase_add_loop_test(tc, divisors, 0, 2);
    tcase_add_test(tc, scales_are_read_ahead_with_their_matrix);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, host_memory);
    tcase_add_test(tc, other_memory);
    tcase_add_test(tc, failures);
    tcase_add_test(tc, cancelled);
    tcase_add_test(tc, unfit);
    tcase_add_loop_test(tc, dummies, 0, 2);
}
