/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Config maps: what each key of a settings document means, and the values that come of it.
 *
 * A map classifies every key that documents of its family have. Reading a document with it either
 * gives every symbol of the circuit a value or refuses the checkpoint, naming key, value and what
 * is missing: an unknown key may change what the model computes, so it is never skipped.
 *
 *   dim, real     a number between bounds, into a symbol; where the map gives null a value,
 *                 null too
 *   switch        true or false, into a symbol
 *   choice        one of listed values, into a symbol; others are refused with a reason
 *   require       one of listed values, into nothing
 *   ignore        anything; `note` says why it does not matter
 *   token         an id, a list of ids, or null
 *   nested        an object with a map of its own, or ("document") with the document's keys again:
 *                 a language model within a larger one
 *   layers        a list with one of the listed values for each layer: their kinds
 *   members       a list of layers' numbers: the symbol is 1 within those, 0 within others
 *   dtype, quant  the declared precision
 *
 * One circuit may have several maps, and a map has a part for each kind of document: config.json
 * and GGUF metadata. Generated from kernels/circuits/<arch>.config.toml.
 */
#ifndef MTR_CIRCUIT_CONFIG_MAP_H
#define MTR_CIRCUIT_CONFIG_MAP_H

#include "common/circuit/circuit.h"
#include "common/circuit/compile.h"

enum mtr_key_kind {
    MTR_KEY_DIM,
    MTR_KEY_REAL,
    MTR_KEY_SWITCH,
    MTR_KEY_CHOICE,
    MTR_KEY_REQUIRE,
    MTR_KEY_IGNORE,
    MTR_KEY_TOKEN,
    MTR_KEY_NESTED,
    MTR_KEY_LAYERS,
    MTR_KEY_MEMBERS,
    MTR_KEY_DTYPE,
    MTR_KEY_QUANT,
    MTR_KEY_TYPE, /* model_type, general.architecture: chose the map */
};

/* An allowed value: JSON null, true, false, a number or a string, told apart by kind. */
struct mtr_key_value {
    enum mtr_json_kind kind;
    const char *text;    /* STRING */
    double number;       /* INT, REAL; BOOL: 0 or 1 */
    double value;        /* what the symbol gets; LAYERS: the layer kind's index */
    const char *missing; /* not NULL: known, and refused for want of this */
};

struct mtr_key_map;

struct mtr_key {
    const char *name; /* of a "prefix.*", the prefix with its dot, and `prefix` set */
    enum mtr_key_kind kind;
    bool prefix;
    bool required;
    uint16_t symbol;
    double min, max;
    uint32_t value_count;
    const struct mtr_key_value *values;
    const struct mtr_key_map *nested; /* NESTED: NULL: the document's own */
    const char *variant;              /* only for documents of this type, or NULL */
    const char *note; /* IGNORE: why; REQUIRE, CHOICE, LAYERS: what other values would need */
};

/* An object's keys. */
struct mtr_key_map {
    const char *name; /* "rope_parameters" */
    uint32_t key_count;
    const struct mtr_key *keys;
};

/* A symbol computed after all keys were read: a default where the key was absent, or always. */
struct mtr_derived {
    uint16_t symbol;
    bool only_absent;
    const char *variant; /* or NULL */
    struct mtr_expr value;
};

/* A switch that the presence of a tensor decides. */
struct mtr_presence {
    uint16_t symbol;
    bool absent; /* set when the tensor is not there */
    const char *tensor;
};

struct mtr_check {
    struct mtr_expr condition;
    const char *message;
};

/* Layers are of this kind where no key lists kinds, the condition on the symbol `layer` holds, and
 * no rule before it did. */
struct mtr_kind_rule {
    uint8_t kind; /* of the circuit */
    struct mtr_expr when;
};

struct mtr_document_map {
    const char *title; /* "config.json" */
    uint32_t type_count, within_count, architecture_count, derived_count, presence_count;
    uint32_t check_count, kind_count;
    const char *const *types;         /* model_type, or general.architecture */
    const char *const *within;        /* allowed model_type of an object with the document's keys */
    const char *const *architectures; /* allowed in "architectures" */
    struct mtr_key_map keys;
    const struct mtr_derived *derived;
    const struct mtr_presence *presence;
    const struct mtr_check *checks;
    const struct mtr_kind_rule *kinds;
    const char *module; /* {M} */
};

struct mtr_config_map {
    const char *name; /* "llama" */
    const struct mtr_circuit *circuit;
    struct mtr_document_map hf, gguf;
};

/* A family that is known by name and has no circuit yet. */
struct mtr_known_family {
    const char *type; /* model_type or general.architecture */
    const char *title;
    const char *missing;
};

const struct mtr_config_map *mtr_config_maps(uint32_t *count);
const struct mtr_known_family *mtr_known_families(uint32_t *count);

#define MTR_MAX_MEMBERS 4 /* lists of layers in a document */

/* Which layers a list has. */
struct mtr_layer_members {
    uint16_t symbol;
    const uint8_t *has; /* [layers] */
};

/* What reading a document gives. */
struct mtr_settings {
    const struct mtr_config_map *map;
    const struct mtr_document_map *document;
    const char *type; /* the document's, "mistral" */
    struct mtr_symbols symbols;
    uint32_t layers;
    const uint8_t *kinds; /* [layers] of the circuit's kinds */
    uint32_t member_count;
    struct mtr_layer_members members[MTR_MAX_MEMBERS]; /* of lists that the document has */
    enum mtr_format dtype;          /* declared for tensors that are not listed */
    struct mtr_quant_scheme *quant; /* or NULL */
};

bool mtr_settings_read(struct mtr_arena *arena, const struct mtr_model_source *source,
                       struct mtr_settings *out, struct mtr_error *err);

#endif
