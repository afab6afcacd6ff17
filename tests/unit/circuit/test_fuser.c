/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Covers: which rule takes what, on whole models and on instances made by hand. */
#include "common/circuit/fuser.c"

#include "tests/unit/circuit/model.h"

static struct model m;

static void teardown(void)
{
    model_free(&m);
}

/* The rules of layer 0, in order, as words. */
static const char *layer_rules(const struct mtr_plan *p)
{
    const char *words = "";
    for (uint32_t i = 0; i < p->lists[0].count; i++)
        if (p->lists[0].launches[i].layer == 0)
            words = mtr_arena_printf(&m.arena, "%s%s%s", words, *words ? " " : "",
                                     p->lists[0].launches[i].rule->name);
    return words;
}

START_TEST(a_layer_is_eight_launches)
{
    model_smollm2_gguf(&m);
    ck_assert_str_eq(layer_rules(good_plan(&m)), "norm qkv rope_append attention linear_add norm "
                                                 "gate_up_glu linear_add");
    model_free(&m);
    model_config(&m, "qwen3-8b.json");
    ck_assert_str_eq(layer_rules(good_plan(&m)), "norm qkv norm_rope_append attention linear_add "
                                                 "norm gate_up_glu linear_add");
}
END_TEST

/* Mixed quantizations, as Q4_K_M files have them. */
START_TEST(matrices_of_one_launch_have_one_format)
{
    model_smollm2_gguf(&m);
    m.patterns = changed(&m, m.patterns, "blk.{l}.attn_v.weight", "[\"q8_0\",192,576]");
    ck_assert_str_eq(layer_rules(good_plan(&m)), "norm qk linear rope_append attention linear_add "
                                                 "norm gate_up_glu linear_add");
    m.patterns = changed(&m, m.patterns, "blk.{l}.attn_k.weight", "[\"q5_0\",192,576]");
    m.patterns = changed(&m, m.patterns, "blk.{l}.ffn_up.weight", "[\"q5_0\",1536,576]");
    ck_assert_str_eq(layer_rules(good_plan(&m)),
                     "norm linear linear linear rope_append attention linear_add norm linear "
                     "linear glu linear_add");
}
END_TEST

START_TEST(slots_are_filled_as_families_say)
{
    model_config(&m, "qwen2.5-0.5b.json");
    const struct mtr_plan *p = good_plan(&m);
    const struct mtr_launch *qkv = &p->lists[0].launches[3], *o = &p->lists[0].launches[6];
    ck_assert_str_eq(qkv->point->function, "linear_bf16");
    ck_assert(qkv->in_count == 1 && qkv->out_count == 3 && qkv->weight_count == 6);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(p->buffers[qkv->out[i]].cols, p->weights[qkv->weights[2 * i]].rows);
        ck_assert_uint_eq(p->weights[qkv->weights[2 * i + 1]].rows, 1);
        ck_assert(p->weights[qkv->weights[2 * i + 1]].kernel_format == MTR_F32);
    }
    ck_assert_str_eq(o->rule->name, "linear_add");
    ck_assert(o->out_count == 1 && o->weight_count == 1);
    ck_assert_uint_eq(o->out[0], p->lists[0].launches[2].in[0]); /* the residual, in place */
    ck_assert_uint_eq(mtr_launch_u32(o, MTR_P_EPILOGUE, 0), 1);
    const struct mtr_launch *rope = &p->lists[0].launches[4];
    ck_assert(rope->in_count == 4 && rope->out[0] == rope->in[0] && rope->cache == 0);
    ck_assert_uint_eq(rope->weight_count, 0);
    const struct mtr_launch *last = &p->lists[0].launches[p->lists[0].count - 2];
    ck_assert_str_eq(last->rule->name, "gather_norm");
    ck_assert(last->rows == MTR_ROWS_OUTPUTS && p->buffers[last->in[0]].rows == MTR_ROWS_TOKENS);
}
END_TEST

START_TEST(a_matrix_is_read_as_it_stands_or_as_what_it_can_become)
{
    struct mtr_point points[] = {
        {.function = "linear_bf16", .weight = MTR_BF16, .by_default = true},
        {.function = "linear_q8_0", .weight = MTR_Q8_0, .by_default = true},
        {.function = "linear_f32", .weight = MTR_F32, .by_default = true},
    };
    struct mtr_family family = {.name = "linear", .points = points, .point_count = 2};
    static const struct {
        enum mtr_format own, without, with; /* an f32 point */
    } cases[] = {{MTR_BF16, MTR_BF16, MTR_BF16}, {MTR_Q8_0, MTR_Q8_0, MTR_Q8_0},
                 {MTR_F16, MTR_BF16, MTR_F32},   {MTR_F32, MTR_BF16, MTR_F32},
                 {MTR_Q4_1, MTR_BF16, MTR_BF16}, {MTR_Q6_K, MTR_BF16, MTR_BF16}};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        points[i].cache = MTR_FORMAT_COUNT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mtr_instance_weight w = {.format = cases[i].own};
        enum mtr_format format;
        family.point_count = 2;
        ck_assert(mtr_kernel_format(&family, "linear", &w, &format));
        ck_assert_int_eq(format, cases[i].without);
        family.point_count = 3;
        ck_assert(mtr_kernel_format(&family, "linear", &w, &format));
        ck_assert_int_eq(format, cases[i].with);
        w.scaling = MTR_SCALING_TENSOR;
        ck_assert(!mtr_kernel_format(&family, "linear", &w, &format) ||
                  format == MTR_F32); /* plain ones have no scales to lose */
    }
}
END_TEST

/* A few nodes by hand: x -> linear p; add r p -> s; and who else reads. */
struct hand {
    struct mtr_node nodes[8];
    struct mtr_edge edges[8];
    struct mtr_instance_weight weights[2];
    struct mtr_instance in;
};

static void edge(struct hand *h, uint32_t i, uint32_t cols)
{
    h->edges[i] = (struct mtr_edge){"e", MTR_ROWS_TOKENS, cols, MTR_F32};
}

static struct mtr_node *add(struct hand *h, enum mtr_op op, const char *role)
{
    struct mtr_node *n = &h->nodes[h->in.node_count++];
    *n = (struct mtr_node){.op = op, .name = "n", .role = role, .layer = MTR_NONE};
    n->cache = n->state = n->constant = MTR_NONE;
    return n;
}

static void wire(struct mtr_node *n, uint32_t ins, uint16_t a, uint16_t b, uint16_t out)
{
    n->in_count = (uint8_t)ins;
    n->in[0] = a;
    n->in[1] = b;
    n->out_count = 1;
    n->out[0] = out;
}

/* embed -> 0, embed -> 1 (the residual), linear 0 -> 2, add 1 2 -> 3 */
static void residual(struct hand *h)
{
    memset(h, 0, sizeof *h);
    h->in = (struct mtr_instance){.nodes = h->nodes, .edges = h->edges, .weights = h->weights};
    h->in.edge_count = 6;
    h->in.weight_count = 2;
    for (uint32_t i = 0; i < 6; i++)
        edge(h, i, 64);
    h->weights[0] = (struct mtr_instance_weight){.name = "w", .rows = 64, .cols = 64};
    for (uint16_t i = 0; i < 2; i++) {
        struct mtr_node *e = add(h, MTR_OP_EMBED, NULL);
        wire(e, 0, 0, 0, i);
        e->weight_count = 1;
        e->weights[0] = 0;
    }
    struct mtr_node *p = add(h, MTR_OP_LINEAR, "o");
    wire(p, 1, 0, 0, 2);
    p->weight_count = 1;
    p->weights[0] = 0;
    wire(add(h, MTR_OP_ADD, NULL), 2, 1, 2, 3);
    h->in.logits = 3;
}

static bool cover(struct hand *h, struct mtr_cover *out)
{
    return mtr_fuse(&m.arena, &h->in, mtr_hardware_find("host"), MTR_BF16, MTR_MODE_MIXED, out,
                    &m.err);
}

START_TEST(a_residual_is_overwritten_only_when_nobody_reads_it_later)
{
    struct hand h;
    struct mtr_cover c;
    model_start(&m);
    residual(&h);
    ck_assert(cover(&h, &c) && c.count == 3);
    ck_assert_str_eq(c.groups[2].rule->name, "linear_add");
    residual(&h);
    wire(add(&h, MTR_OP_ADD, NULL), 2, 3, 1, 4); /* reads the residual once more */
    h.in.logits = 4;
    ck_assert(cover(&h, &c) && c.count == 5);
    ck_assert_str_eq(c.groups[3].rule->name, "add");
}
END_TEST

START_TEST(an_inner_edge_is_read_inside_only)
{
    struct hand h;
    struct mtr_cover c;
    model_start(&m);
    residual(&h);
    wire(add(&h, MTR_OP_ADD, NULL), 2, 3, 2, 4); /* the product is wanted elsewhere */
    h.in.logits = 4;
    ck_assert(cover(&h, &c));
    ck_assert_uint_eq(c.count, 5);
    residual(&h);
    h.in.logits = 2; /* or is what the model is for */
    ck_assert(cover(&h, &c));
    ck_assert_uint_eq(c.count, 4);
}
END_TEST

START_TEST(what_no_rule_covers_is_named)
{
    struct hand h;
    struct mtr_cover c;
    model_start(&m);
    residual(&h);
    wire(add(&h, MTR_OP_ALL_REDUCE, NULL), 1, 3, 0, 4);
    ck_assert(!cover(&h, &c) && m.err.code == MTR_UNSUPPORTED);
    ck_assert_str_eq(m.err.message, "class host has no rule for the operation all_reduce of n");
    residual(&h);
    h.weights[0].cols = h.edges[0].cols = 100000;
    ck_assert(!cover(&h, &c));
    ck_assert_str_eq(m.err.message,
                     "class host computes linear for up to 61440 columns of a matrix, not 100000 "
                     "(n)");
    residual(&h);
    h.weights[0].format = MTR_E5M2;
    ck_assert(!cover(&h, &c) && strstr(m.err.message, "no kernel point of embed for e5m2"));
    residual(&h);
    h.nodes[2].weights[0] = 1;
    h.weights[1] = h.weights[0];
    h.weights[1].format = MTR_E4M3;
    h.weights[1].scaling = MTR_SCALING_GROUP32;
    ck_assert(!cover(&h, &c));
    ck_assert_msg(strstr(m.err.message, "class host has no kernel point of linear for e4m3 weights "
                                        "with scales by group32"),
                  "%s", m.err.message);
    h.weights[1].scaling = MTR_SCALING_NONE; /* a value needs its scale */
    ck_assert(!cover(&h, &c) && strstr(m.err.message, "of linear for e4m3"));
    h.weights[1].scaling = MTR_SCALING_CHANNEL;
    ck_assert_msg(cover(&h, &c), "%s", m.err.message);
}
END_TEST

START_TEST(every_node_is_in_one_group)
{
    model_config(&m, "golden-qwen3.json");
    struct mtr_settings s;
    struct mtr_instance in;
    struct mtr_cover c;
    struct mtr_plan_options o = {.hardware = "host", .cache = MTR_FORMAT_COUNT};
    const struct mtr_hardware *host = mtr_hardware_find("host");
    ck_assert(mtr_settings_read(&m.arena, &m.source, &s, &m.err));
    ck_assert(mtr_instantiate(&m.arena, &m.source, &s, host, &o, &in, &m.err));
    ck_assert(mtr_fuse(&m.arena, &in, host, MTR_F32, MTR_MODE_DECODE, &c, &m.err));
    uint32_t *seen = mtr_arena_calloc(&m.arena, in.node_count, sizeof *seen);
    for (uint32_t g = 0; g < c.count; g++) {
        ck_assert(g == 0 || c.groups[g].last > c.groups[g - 1].last);
        for (uint32_t n = 0; n < c.groups[g].rule->node_count; n++)
            seen[c.groups[g].nodes[n]]++;
    }
    for (uint32_t n = 0; n < in.node_count; n++)
        ck_assert_uint_eq(seen[n], 1);
}
END_TEST

START_TEST(bounds_of_attention_are_named)
{
    model_config(&m, "golden-llama.json");
    model_set(&m, "head_dim", "1024");
    refused(&m, MTR_UNSUPPORTED, "attention for up to 512 columns of a head, not 1024 (L0.att");
    model_set(&m, "head_dim", "4");
    model_set(&m, "num_attention_heads", "1024");
    refused(&m, MTR_UNSUPPORTED, "up to 256 query heads of one key/value head, not 512");
}
END_TEST

MTR_CHECK_MAIN("circuit/fuser")
{
    tcase_add_test(tc, a_matrix_is_read_as_it_stands_or_as_what_it_can_become);
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, a_layer_is_eight_launches);
    tcase_add_test(tc, matrices_of_one_launch_have_one_format);
    tcase_add_test(tc, slots_are_filled_as_families_say);
    tcase_add_test(tc, a_residual_is_overwritten_only_when_nobody_reads_it_later);
    tcase_add_test(tc, an_inner_edge_is_read_inside_only);
    tcase_add_test(tc, what_no_rule_covers_is_named);
    tcase_add_test(tc, bounds_of_attention_are_named);
    tcase_add_test(tc, every_node_is_in_one_group);
}
