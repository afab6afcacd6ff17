/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A checkpoint: what a model's publisher put into one GGUF file or one folder, found, mapped,
 * checked and listed. Nothing here knows what a model computes.
 *
 *   MODEL may be            what is opened
 *   file.gguf               that file; of a split file (-00001-of-00004.gguf) all parts
 *   folder                  model.safetensors, or model.safetensors.index.json and its shards, or
 *                           the only *.safetensors or *.gguf in it, or config.json alone
 *   file.safetensors        that file, with the texts of its folder
 *   config.json             no tensors: enough for reports
 *   org/name[@revision]     the folder that a Hugging Face cache holds for it (locate.h)
 *
 * Files stay mapped until mtr_checkpoint_close(); tensors' data and GGUF strings point into the
 * mappings, everything else lives in the arena given to open. Opening reads headers only.
 *
 * Every header is hostile until checked. What open guarantees of each tensor that it lists: the
 * name is unique, not empty, and valid UTF-8; rank, shape, format and bytes agree (the innermost
 * dimension is a whole number of blocks); the bytes lie inside the file and belong to no other
 * tensor. Memory and time are bounded by the limits named below, whatever the file says.
 */
#ifndef MTR_CHECKPOINT_CHECKPOINT_H
#define MTR_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/numeric/format.h"

#define MTR_TENSOR_MAX_RANK           6       /* patch embeddings of vision towers have 5 */
#define MTR_CHECKPOINT_MAX_TENSORS    1048576 /* of all files together */
#define MTR_CHECKPOINT_MAX_FILES      1024
#define MTR_CHECKPOINT_MAX_TEXT_BYTES (64u << 20) /* config.json, tokenizer.json, ... */

struct mtr_gguf;

enum mtr_checkpoint_kind {
    MTR_CHECKPOINT_CONFIG, /* texts only */
    MTR_CHECKPOINT_SAFETENSORS,
    MTR_CHECKPOINT_GGUF,
};

struct mtr_tensor {
    struct mtr_str name;
    enum mtr_format format;
    uint32_t rank;
    uint64_t shape[MTR_TENSOR_MAX_RANK]; /* row-major: outermost first, in elements, in both kinds
                                            of file (GGUF writes them the other way round) */
    uint32_t file;                       /* index into files */
    uint64_t offset;                     /* from the start of that file */
    uint64_t bytes;                      /* 0 only when a dimension is 0 (safetensors) */
};

struct mtr_checkpoint_file {
    const char *path;
    struct mtr_file map;
};

struct mtr_checkpoint {
    enum mtr_checkpoint_kind kind;
    const char *path;   /* what was opened: a file or a folder, after resolving a hub id */
    const char *folder; /* where the texts are; NULL for a GGUF file */
    const char *name; /* the model's name for people: hub id, folder or file name without suffix */
    const struct mtr_checkpoint_file *files; /* [file_count] */
    uint32_t file_count;
    const struct mtr_tensor *tensors; /* [tensor_count], by file, then in the order of the header */
    uint32_t tensor_count;
    uint64_t tensor_bytes;       /* sum over tensors */
    const uint32_t *by_name;     /* [tensor_count] indices of tensors, sorted by name */
    const struct mtr_gguf *gguf; /* metadata of a GGUF file (of its first part), or NULL */
    const char *config_path;     /* of a folder: its config.json, or the bare file given */
};

struct mtr_checkpoint_options {
    const char *cache_dir; /* hub cache to look in first; NULL: the environment's, see locate.h */
};

/* Opens what `model` names; NULL options are the defaults. NULL on failure, and then nothing is
 * left open. Errors name file, tensor, what was found and what was expected: MTR_NOT_FOUND,
 * MTR_INVALID for a header that can't be right, MTR_UNSUPPORTED for types and versions that exist
 * but are not read here, MTR_TOO_LARGE, MTR_IO. */
struct mtr_checkpoint *mtr_checkpoint_open(struct mtr_arena *arena, const char *model,
                                           const struct mtr_checkpoint_options *options,
                                           struct mtr_error *err);

/* Unmaps the files; the struct itself goes with its arena. NULL is fine. */
void mtr_checkpoint_close(struct mtr_checkpoint *ck);

/* The tensor of that name, or NULL. Logarithmic; no hash that a file could be built against. */
const struct mtr_tensor *mtr_checkpoint_find(const struct mtr_checkpoint *ck, struct mtr_str name);

/* [tensor->bytes] in the mapping, aligned to whatever the file gave (GGUF: 32 mostly; safetensors:
 * possibly 1). Valid until close. */
const void *mtr_checkpoint_data(const struct mtr_checkpoint *ck, const struct mtr_tensor *t);

/* Product of the dimensions; 1 for rank 0. Never overflows for a listed tensor. */
uint64_t mtr_tensor_elements(const struct mtr_tensor *t);

/* "[49152, 576]" into out, cut if too long; returns out. */
#define MTR_SHAPE_BYTES 128
const char *mtr_tensor_shape(const struct mtr_tensor *t, char out[MTR_SHAPE_BYTES]);

/* Texts that stand beside the tensors of a folder. */
enum mtr_checkpoint_text {
    MTR_TEXT_CONFIG,              /* config.json */
    MTR_TEXT_GENERATION_CONFIG,   /* generation_config.json */
    MTR_TEXT_TOKENIZER,           /* tokenizer.json */
    MTR_TEXT_TOKENIZER_CONFIG,    /* tokenizer_config.json */
    MTR_TEXT_CHAT_TEMPLATE,       /* chat_template.jinja */
    MTR_TEXT_CHAT_TEMPLATE_JSON,  /* chat_template.json */
    MTR_TEXT_QUANT_CONFIG,        /* hf_quant_config.json */
    MTR_TEXT_PREPROCESSOR_CONFIG, /* preprocessor_config.json */
    MTR_TEXT_SPECIAL_TOKENS_MAP,  /* special_tokens_map.json */
    MTR_TEXT_COUNT,
};

/* Reads the text into the arena. True with out->ptr NULL when there is no such file (always so for
 * GGUF). A NUL stands behind it. */
bool mtr_checkpoint_text(const struct mtr_checkpoint *ck, struct mtr_arena *arena,
                         enum mtr_checkpoint_text which, struct mtr_str *out,
                         struct mtr_error *err);

/* The file name of a text: "tokenizer.json". */
const char *mtr_checkpoint_text_name(enum mtr_checkpoint_text which);

/*
 * The chat template, valid UTF-8; true with out->ptr NULL when the model has none. `variant` is
 * NULL or "default" for the main one, or a name such as "tool_use" or "rag". Looked for, in this
 * order: chat_template.jinja (variants: additional_chat_templates/NAME.jinja), chat_template.json,
 * tokenizer_config.json (a string, or a list of {name, template}); in GGUF
 * tokenizer.chat_template, and tokenizer.chat_template.NAME.
 */
bool mtr_checkpoint_chat_template(const struct mtr_checkpoint *ck, struct mtr_arena *arena,
                                  const char *variant, struct mtr_str *out, struct mtr_error *err);

#endif
