/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/circuit/source.h"

static bool find(const void *tensors, struct mtr_str name, struct mtr_model_tensor *out)
{
    const struct mtr_tensor *t = mtr_checkpoint_find(tensors, name);
    if (!t)
        return false;
    *out = (struct mtr_model_tensor){.name = t->name, .format = t->format, .rank = t->rank};
    for (uint32_t i = 0; i < t->rank && i < MTR_MODEL_MAX_RANK; i++)
        out->shape[i] = t->shape[i];
    return true;
}

struct mtr_model_source mtr_model_source_of(const struct mtr_checkpoint *ck,
                                            const struct mtr_config *config)
{
    return (struct mtr_model_source){
        .config = config->root,
        .quant = config->quant,
        .gguf = config->gguf,
        .vocab_tokens = config->vocab_tokens,
        .find = ck->kind == MTR_CHECKPOINT_CONFIG ? NULL : find,
        .tensors = ck,
    };
}
