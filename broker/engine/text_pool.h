/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A few threads for long text work: templates, tokenizing, grammar compilation. HTTP threads hand
 * them tasks, so that a 200,000-token prompt delays nobody's stream.
 *
 * Each thread has its own tokenizer scratch, given to the task. A task says in its last act where
 * its result goes; the pool does not touch it afterwards.
 */
#ifndef MTR_ENGINE_TEXT_POOL_H
#define MTR_ENGINE_TEXT_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/text/tokenizer.h"
#include "common/base/error.h"

struct mtr_text_pool;

struct mtr_task {
    struct mtr_task *next;
    void (*run)(struct mtr_task *task, struct mtr_encoder *encoder);
};

struct mtr_text_pool *mtr_text_pool_create(const struct mtr_tokenizer *tokenizer, uint32_t threads,
                                           struct mtr_error *err);

/* Runs what is queued, then ends the threads. */
void mtr_text_pool_destroy(struct mtr_text_pool *pool);

void mtr_text_pool_submit(struct mtr_text_pool *pool, struct mtr_task *task);

#endif
