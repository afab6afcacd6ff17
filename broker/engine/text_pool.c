/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/engine/text_pool.h"

#include <pthread.h>
#include <stdlib.h>

struct mtr_text_pool {
    const struct mtr_tokenizer *tokenizer;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct mtr_task *first, *last;
    bool stopping;
    uint32_t count;
    struct pool_thread {
        struct mtr_text_pool *pool;
        struct mtr_encoder *encoder;
        pthread_t thread;
    } * threads; /* [count] */
};

static struct mtr_task *next_task(struct mtr_text_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->first && !pool->stopping)
        pthread_cond_wait(&pool->wake, &pool->lock);
    struct mtr_task *task = pool->first;
    if (task) {
        pool->first = task->next;
        if (!pool->first)
            pool->last = NULL;
    }
    pthread_mutex_unlock(&pool->lock);
    return task;
}

static void *thread_main(void *argument)
{
    struct pool_thread *self = argument;
    struct mtr_task *task;
    while ((task = next_task(self->pool)))
        task->run(task, self->encoder);
    return NULL;
}

struct mtr_text_pool *mtr_text_pool_create(const struct mtr_tokenizer *tokenizer, uint32_t threads,
                                           struct mtr_error *err)
{
    struct mtr_text_pool *pool = calloc(1, sizeof *pool);
    if (!pool || !(pool->threads = calloc(threads, sizeof *pool->threads))) {
        free(pool);
        mtr_fail(err, MTR_NO_MEMORY, "out of memory starting the text threads");
        return NULL;
    }
    pool->tokenizer = tokenizer;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (uint32_t i = 0; i < threads; i++) {
        struct pool_thread *t = &pool->threads[i];
        t->pool = pool;
        t->encoder = mtr_encoder_new(tokenizer);
        if (!t->encoder || pthread_create(&t->thread, NULL, thread_main, t) != 0) {
            mtr_encoder_free(t->encoder);
            mtr_text_pool_destroy(pool);
            mtr_fail(err, MTR_NO_MEMORY, "can't start a text thread");
            return NULL;
        }
        pool->count++;
    }
    return pool;
}

void mtr_text_pool_destroy(struct mtr_text_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->count; i++) {
        pthread_join(pool->threads[i].thread, NULL);
        mtr_encoder_free(pool->threads[i].encoder);
    }
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool);
}

void mtr_text_pool_submit(struct mtr_text_pool *pool, struct mtr_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->last)
        pool->last->next = task;
    else
        pool->first = task;
    pool->last = task;
    pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}
