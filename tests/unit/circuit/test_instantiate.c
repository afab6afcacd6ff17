/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Nodes, edges and memory of an instance. */
#include "common/circuit/instantiate.c"

#include "tests/unit/circuit/model.h"

static struct model m;
static struct mtr_instance in;

static bool make(void)
{
    struct mtr_settings s;
    struct mtr_plan_options o = {.hardware = "host", .cache = MTR_FORMAT_COUNT};
    return mtr_settings_read(&m.arena, &m.source, &s, &m.err) &&
           mtr_instantiate(&m.arena, &m.source, &s, mtr_hardware_find("host"), &o, &in, &m.err);
}

static const struct mtr_node *node(const char *name)
{
    for (uint32_t i = 0; i < in.node_count; i++)
        if (strcmp(in.nodes[i].name, name) == 0)
            return &in.nodes[i];
    return NULL;
}

START_TEST(switches_add_and_leave_out_nodes)
{
    model_config(&m, "golden-llama.json");
    ck_assert(make() && !node("L0.q_norm") && node("L3.mlp_add"));
    ck_assert_uint_eq(in.node_count, 2 + 4 * 16 + 3);
    ck_assert_uint_eq(node("L0.rope_q")->in[0], node("L0.attn_q")->out[0]);
    model_free(&m);
    model_config(&m, "golden-qwen3.json");
    ck_assert(make() && node("L0.q_norm"));
    ck_assert_uint_eq(in.node_count, 2 + 4 * 18 + 3);
    ck_assert_uint_eq(node("L0.rope_q")->in[0], node("L0.q_norm")->out[0]);
    model_free(&m);
}
END_TEST

START_TEST(edges_are_written_once_before_they_are_read)
{
    model_config(&m, "golden-qwen3.json");
    ck_assert(make());
    bool *written = mtr_arena_calloc(&m.arena, in.edge_count, 1);
    for (uint32_t i = 0; i < in.node_count; i++) {
        for (uint32_t k = 0; k < in.nodes[i].in_count; k++)
            ck_assert(written[in.nodes[i].in[k]]);
        for (uint32_t k = 0; k < in.nodes[i].out_count; k++) {
            ck_assert(!written[in.nodes[i].out[k]]);
            written[in.nodes[i].out[k]] = true;
        }
    }
    ck_assert(written[in.logits] && in.edges[in.logits].cols == 512);
    ck_assert(in.edges[in.logits].rows == MTR_ROWS_OUTPUTS);
    model_free(&m);
}
END_TEST

START_TEST(biases_follow_their_switch)
{
    model_config(&m, "qwen2.5-0.5b.json");
    ck_assert(make());
    const struct mtr_node *q = node("L0.attn_q"), *o = node("L0.attn_o");
    ck_assert(q->weights[1] != MTR_NONE && o->weights[1] == MTR_NONE);
    const struct mtr_instance_weight *bias = &in.weights[q->weights[1]];
    ck_assert_str_eq(bias->name, "model.layers.0.self_attn.q_proj.bias");
    ck_assert(bias->vector && bias->rows == 1 && bias->cols == 896);
    model_free(&m);
}
END_TEST

START_TEST(a_tied_head_is_the_embedding)
{
    model_config(&m, "smollm2-135m.json");
    ck_assert(make());
    ck_assert_uint_eq(node("lm_head")->weights[0], node("embed")->weights[0]);
    model_free(&m);
    model_config(&m, "golden-llama.json");
    ck_assert(make());
    ck_assert_uint_ne(node("lm_head")->weights[0], node("embed")->weights[0]);
    model_free(&m);
}
END_TEST

START_TEST(cache_groups)
{
    model_config(&m, "golden-llama.json");
    ck_assert(make());
    ck_assert(in.group_count == 1 && in.cache_count == 4 && in.state_count == 0);
    ck_assert(in.groups[0].layers == 4 && in.groups[0].block_bytes == 16 * 2 * 32 * 2 * 2);
    ck_assert(node("L2.attention")->cache == 2 && in.caches[2].index == 2);
    ck_assert(node("L2.kv_append")->cache == 2);
    ck_assert(in.constant_count == 1 && in.constants[0].count == 16);
    model_free(&m);
}
END_TEST

/* Numbers within their bounds whose products are not. */
START_TEST(large_products_are_refused)
{
    model_config(&m, "golden-llama.json");
    model_set(&m, "num_attention_heads", "4096");
    model_set(&m, "num_key_value_heads", "4096");
    model_set(&m, "head_dim", "4096");
    model_set(&m, "intermediate_size", "16777216");
    ck_assert_msg(make(), "%s", m.err.message);
    model_set(&m, "num_hidden_layers", "1024");
    ck_assert_msg(make(), "%s", m.err.message);
    model_free(&m);
}
END_TEST

/* The feed-forward block where a list of layers has the layer, and in the last one. */
START_TEST(blocks_by_layer)
{
    static const uint8_t has[4] = {0, 1, 0, 0};
    struct mtr_settings s;
    struct mtr_plan_options o = {.hardware = "host", .cache = MTR_FORMAT_COUNT};
    model_config(&m, "golden-llama.json");
    ck_assert(mtr_settings_read(&m.arena, &m.source, &s, &m.err));
    uint16_t listed = (uint16_t)mtr_symbol_find("mlp_bias"); /* any symbol */
    const struct mtr_expr_step steps[] = {
        {MTR_EXPR_SYMBOL, listed, 0}, {MTR_EXPR_SYMBOL, (uint16_t)mtr_symbol_find("layer"), 0},
        {MTR_EXPR_CONST, 0, 3},       {MTR_EXPR_EQ, 0, 0},
        {MTR_EXPR_OR, 0, 0},
    };
    struct mtr_config_map map = *s.map;
    struct mtr_circuit circuit = *map.circuit;
    struct mtr_kind_def kind = circuit.kinds[0];
    const struct mtr_kind_block blocks[] = {
        kind.blocks[0], {kind.blocks[1].block, {"listed or layer == 3", 5, steps}}};
    kind.blocks = blocks;
    circuit.kinds = &kind;
    map.circuit = &circuit;
    s.map = &map;
    s.member_count = 1;
    s.members[0] = (struct mtr_layer_members){listed, has};
    ck_assert_msg(
        mtr_instantiate(&m.arena, &m.source, &s, mtr_hardware_find("host"), &o, &in, &m.err), "%s",
        m.err.message);
    ck_assert(!node("L0.mlp_add") && node("L1.mlp_add") && !node("L2.mlp_add"));
    ck_assert(node("L3.mlp_add") && node("L0.attn_add"));
    ck_assert_uint_eq(in.nodes[in.node_count - 1].in[0], node("final_norm")->out[0]);
    model_free(&m);
}
END_TEST

MTR_CHECK_MAIN("circuit/instantiate")
{
    tcase_add_test(tc, blocks_by_layer);
    tcase_add_test(tc, switches_add_and_leave_out_nodes);
    tcase_add_test(tc, edges_are_written_once_before_they_are_read);
    tcase_add_test(tc, biases_follow_their_switch);
    tcase_add_test(tc, a_tied_head_is_the_embedding);
    tcase_add_test(tc, cache_groups);
    tcase_add_test(tc, large_products_are_refused);
}
