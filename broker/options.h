/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The broker's flags. One place for all settings of a server: workers are told by the broker.
 */
#ifndef MTR_BROKER_OPTIONS_H
#define MTR_BROKER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"

struct mtr_broker_options {
    const char *model; /* positional */
    const char *model_name, *cache_dir, *chat_template, *hardware, *precision, *load_format;
    uint64_t dummy_seed;
    const char *tool_parser, *reasoning_parser; /* NULL: by the template */
    bool disable_thinking;
    uint32_t max_thinking_budget;

    const char *bind;
    uint32_t port, http_threads, text_threads;
    uint64_t max_body_bytes;
    uint32_t max_request_mb;
    bool strict_model;
    const char *tls_cert, *tls_key, *cors_origin;
    const char *auth_token, *auth_tokens_file;
    uint32_t rate_limit_rpm, rate_limit_tpm, rate_burst_rpm, rate_burst_tpm;
    uint32_t request_timeout_s;
    uint32_t client_timeout_s, keepalive_s;
    const char *store; /* NULL: where the system keeps such things; "none" */
    uint32_t store_max_mb, store_max_days;

    const char *scheduler;
    uint32_t tbt_deadline_ms;
    uint32_t max_seq_len, max_batch_size, max_prefill_tokens, max_num_seqs;
    bool prefix_caching;
    double auto_compact;
    uint32_t ssm_cache_slots, ssm_checkpoint_interval;

    const char *kv_cache_dtype;
    uint32_t kv_cache_mb;
    double memory_utilization;
    uint32_t oom_guard_mb;
    uint32_t threads, device;

    const char *run_dir, *plan_address, *admin_socket;
    const char *curve_key, *curve_allow;
    uint32_t world_size;
    uint32_t worker_grace_s, drain_timeout_s;
    const char *log_level, *log_level_file;
    uint32_t started_fd; /* 0: none */
    bool die_with_parent, help, version;
};

void mtr_broker_options_init(struct mtr_broker_options *o);

/* Fills o from the command line. A bad one is MTR_INVALID. */
bool mtr_broker_options_parse(struct mtr_broker_options *o, int argc, char **argv,
                              struct mtr_error *err);
bool mtr_broker_options_help(struct mtr_broker_options *o, struct mtr_buf *out);

#endif
