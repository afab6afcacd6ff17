/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/options.h"

#include <stdlib.h>
#include <string.h>

#include "broker/http/server.h"
#include "common/base/flags.h"

void mtr_broker_options_init(struct mtr_broker_options *o)
{
    *o = (struct mtr_broker_options){
        .hardware = "auto",
        .load_format = "auto",
        .precision = "declared",
        .bind = "127.0.0.1",
        .port = 8888,
        .http_threads = 1,
        .text_threads = 2,
        .max_body_bytes = 32u << 20,
        .max_request_mb = 1024,
        .request_timeout_s = 300,
        .client_timeout_s = 60,
        .keepalive_s = 10,
        .store_max_mb = 1024,
        .store_max_days = 30,
        .scheduler = "fifo",
        .tbt_deadline_ms = 100,
        .max_num_seqs = 128,
        .prefix_caching = true,
        .ssm_cache_slots = 16,
        .ssm_checkpoint_interval = 256,
        .kv_cache_dtype = "bf16",
        .memory_utilization = 0.9,
        .oom_guard_mb = 1024,
        .world_size = 1,
        .worker_grace_s = 60,
        .drain_timeout_s = 30,
        .log_level = "info",
    };
}

#define MAX_FLAGS 96

/* Of what clients see, and what is kept for them. The tables point into o, so they are made for
 * each use. */
static size_t make_http_table(struct mtr_broker_options *o, struct mtr_flag *flags)
{
    const struct mtr_flag table[] = {
        {.kind = MTR_FLAG_SECTION, .help = "HTTP"},
        {"bind", MTR_FLAG_STRING, &o->bind, "ADDRESS", "IP address to listen on"},
        {"port", MTR_FLAG_U32, &o->port, "N", "TCP port; 0: any free one", 0, 65535},
        {"tls-cert", MTR_FLAG_STRING, &o->tls_cert, "FILE",
         "serve HTTPS with this certificate chain (PEM)"},
        {"tls-key", MTR_FLAG_STRING, &o->tls_key, "FILE", "its private key (PEM)"},
        {"cors-origin", MTR_FLAG_STRING, &o->cors_origin, "ORIGIN",
         "let web pages of this origin call the server; *: of any"},
        {"http-threads", MTR_FLAG_U32, &o->http_threads, "N", "threads that serve HTTP", 1, 64},
        {"text-threads", MTR_FLAG_U32, &o->text_threads, "N",
         "threads for templates and tokenizing", 1, 64},
        {"max-body-bytes", MTR_FLAG_U64, &o->max_body_bytes, "N", "largest request body", 1024,
         1ull << 32},
        {"max-request-mb", MTR_FLAG_U32, &o->max_request_mb, "N",
         "memory of all requests that come or are being answered; more get 429", 1, 1 << 20},
        {"strict-model", MTR_FLAG_BOOL, &o->strict_model, NULL,
         "refuse requests that name another model"},
        {"auth-token", MTR_FLAG_STRING, &o->auth_token, "KEY",
         "API key that requests must carry; visible in the process list"},
        {"auth-tokens-file", MTR_FLAG_STRING, &o->auth_tokens_file, "FILE",
         "file of API keys, one a line; reread on SIGHUP"},
        {"rate-limit-rpm", MTR_FLAG_U32, &o->rate_limit_rpm, "N",
         "requests a minute and key; 0: no limit", 0, 1e9},
        {"rate-limit-tpm", MTR_FLAG_U32, &o->rate_limit_tpm, "N",
         "tokens a minute and key; 0: no limit", 0, 4e9},
        {"rate-burst-rpm", MTR_FLAG_U32, &o->rate_burst_rpm, "N",
         "requests at once; 0: as many as a minute's", 0, 1e9},
        {"rate-burst-tpm", MTR_FLAG_U32, &o->rate_burst_tpm, "N",
         "tokens at once; 0: as many as a minute's", 0, 4e9},
        {"client-timeout", MTR_FLAG_U32, &o->client_timeout_s, "SECONDS",
         "longest time for a client to send a request, or to read what was sent", 1, 86400},
        {"keepalive", MTR_FLAG_U32, &o->keepalive_s, "SECONDS",
         "a stream that is silent for so long sends a sign of life; 0: none", 0, 3600},
        {"request-timeout", MTR_FLAG_U32, &o->request_timeout_s, "SECONDS",
         "longest time for a request; 0: none", 0, 86400},

        {.kind = MTR_FLAG_SECTION, .help = "Stored responses and conversations"},
        {"store", MTR_FLAG_STRING, &o->store, "FILE",
         "where they are kept; none: nowhere (default: a file in the user's state directory, "
         "named after the port)"},
        {"store-max-mb", MTR_FLAG_U32, &o->store_max_mb, "N",
         "beyond it the oldest go; 0: no limit", 0, 1 << 24},
        {"store-max-days", MTR_FLAG_U32, &o->store_max_days, "N",
         "what was not touched for so long goes; 0: no limit", 0, 36500},
    };
    memcpy(flags, table, sizeof table);
    return sizeof table / sizeof table[0];
}

static size_t make_model_table(struct mtr_broker_options *o, struct mtr_flag *flags)
{
    const struct mtr_flag table[] = {
        {.kind = MTR_FLAG_SECTION, .help = "Model"},
        {"model-name", MTR_FLAG_STRING, &o->model_name, "NAME",
         "name that /v1/models reports (default: the checkpoint's)"},
        {"cache-dir", MTR_FLAG_STRING, &o->cache_dir, "PATH", "Hugging Face cache to look in"},
        {"chat-template", MTR_FLAG_STRING, &o->chat_template, "FILE",
         "Jinja template instead of the checkpoint's"},
        {"tool-call-parser", MTR_FLAG_STRING, &o->tool_parser, "NAME",
         "format of tool calls, or none (default: as the template shows)"},
        {"tool-parser", MTR_FLAG_STRING, &o->tool_parser, "NAME", "the same"},
        {"reasoning-parser", MTR_FLAG_STRING, &o->reasoning_parser, "NAME",
         "format of reasoning, or none (default: as the template shows)"},
        {"disable-thinking", MTR_FLAG_BOOL, &o->disable_thinking, NULL,
         "no request may think: templates are told so, and reasoning is shown to nobody"},
        {"max-thinking-budget", MTR_FLAG_U32, &o->max_thinking_budget, "N",
         "tokens of reasoning after which its end is forced; 0: no limit", 0, 1 << 24},
        {"hardware", MTR_FLAG_CHOICE, &o->hardware, NULL,
         "kernel class of the workers; auto: the device's, or host without one", 0, 0,
         "auto|host|gb10|hopper|b200"},
        {"device", MTR_FLAG_U32, &o->device, "N", "the worker's CUDA device", 0, 63},
        {"load-format", MTR_FLAG_CHOICE, &o->load_format, NULL,
         "dummy: random weights of the model's shape, to measure without a checkpoint's tensors; "
         "its config.json and tokenizer are needed still",
         0, 0, "auto|dummy"},
        {"dummy-seed", MTR_FLAG_U64, &o->dummy_seed, "N", "of --load-format dummy", 0, INT64_MAX},
        {"precision", MTR_FLAG_CHOICE, &o->precision, NULL, "precision policy", 0, 0, "declared"},
    };
    memcpy(flags, table, sizeof table);
    return sizeof table / sizeof table[0];
}

static size_t make_table(struct mtr_broker_options *o, struct mtr_flag flags[MAX_FLAGS])
{
    const struct mtr_flag table[] = {
        {.kind = MTR_FLAG_SECTION, .help = "Scheduling"},
        {"scheduler", MTR_FLAG_CHOICE, &o->scheduler, NULL, "policy", 0, 0, "fifo|slai"},
        {"tbt-deadline-ms", MTR_FLAG_U32, &o->tbt_deadline_ms, "MS",
         "slai: time between two tokens of a stream", 1, 60000},
        {"max-seq-len", MTR_FLAG_U32, &o->max_seq_len, "N",
         "tokens of prompt and answer; 0: the model's context", 0, 1 << 24},
        {"max-batch-size", MTR_FLAG_U32, &o->max_batch_size, "N",
         "sequences that run at once; 0: what suits the class", 0, 1024},
        {"max-num-seqs", MTR_FLAG_U32, &o->max_num_seqs, "N",
         "sequences that may wait; more get 429", 1, 1000000},
        {"max-prefill-tokens", MTR_FLAG_U32, &o->max_prefill_tokens, "N",
         "prompt tokens computed in one step; 0: what suits the class", 0, 65536},
        {"auto-compact", MTR_FLAG_REAL, &o->auto_compact, "FRACTION",
         "conversations longer than this part of --max-seq-len lose their oldest turns; 0: never",
         0, 1},
        {"no-prefix-caching", MTR_FLAG_NOT, &o->prefix_caching, NULL,
         "compute every prompt from its beginning"},
        {"ssm-cache-slots", MTR_FLAG_U32, &o->ssm_cache_slots, "N",
         "recurrent models: snapshots of states that the prefix cache keeps", 0, 65536},
        {"ssm-checkpoint-interval", MTR_FLAG_U32, &o->ssm_checkpoint_interval, "BLOCKS",
         "recurrent models: cache blocks between two snapshots within a prompt; 0: only the one "
         "near its end",
         0, 1 << 20},

        {.kind = MTR_FLAG_SECTION, .help = "Memory"},
        {"kv-cache-dtype", MTR_FLAG_CHOICE, &o->kv_cache_dtype, NULL, "format of the KV cache", 0,
         0, "bf16|f32"},
        {"kv-cache-mb", MTR_FLAG_U32, &o->kv_cache_mb, "N",
         "size of the KV cache; 0: what the flags below leave", 0, 1 << 24},
        {"memory-utilization", MTR_FLAG_REAL, &o->memory_utilization, "FRACTION",
         "of the device's memory that may be used", 0.01, 0.99},
        {"oom-guard-mb", MTR_FLAG_U32, &o->oom_guard_mb, "N", "memory that is never touched", 0,
         1 << 24},

        {.kind = MTR_FLAG_SECTION, .help = "Workers"},
        {"threads", MTR_FLAG_U32, &o->threads, "N",
         "threads of a host worker; 0: one for each core", 0, 1024},
        {"run-dir", MTR_FLAG_STRING, &o->run_dir, "PATH",
         "directory of the sockets (default: named after the port)"},
        {"plan-address", MTR_FLAG_STRING, &o->plan_address, "ADDRESS",
         "where workers connect (default: ipc://RUN_DIR/plan.sock)"},
        {"admin-socket", MTR_FLAG_STRING, &o->admin_socket, "ADDRESS",
         "where metralectl connects (default: ipc://RUN_DIR/admin.sock)"},
        {"curve-key", MTR_FLAG_STRING, &o->curve_key, "FILE",
         "secret key for a tcp plan address; FILE less .key plus .pub is the public one"},
        {"curve-allow", MTR_FLAG_STRING, &o->curve_allow, "FILE",
         "public keys of the workers that may connect, one a line"},
        {"world-size", MTR_FLAG_U32, &o->world_size, "N", "worker ranks", 1, 1},
        {"worker-grace", MTR_FLAG_U32, &o->worker_grace_s, "SECONDS",
         "how long streams wait for a lost worker", 1, 3600},
        {"drain-timeout", MTR_FLAG_U32, &o->drain_timeout_s, "SECONDS",
         "how long running requests may take after SIGTERM", 0, 3600},

        {.kind = MTR_FLAG_SECTION, .help = "Other"},
        {"log-level", MTR_FLAG_CHOICE, &o->log_level, NULL, "what to log", 0, 0,
         "error|warn|info|debug"},
        {"log-level-file", MTR_FLAG_STRING, &o->log_level_file, "FILE",
         "file that holds the log level; reread on SIGHUP"},
        {"started-fd", MTR_FLAG_U32, &o->started_fd, "N",
         "descriptor that gets a byte once the flags are found right; 0: none", 0, 1 << 20},
        {"die-with-parent", MTR_FLAG_BOOL, &o->die_with_parent, NULL,
         "end when the process that started this one does"},
        {"help", MTR_FLAG_BOOL, &o->help, NULL, "print this"},
        {"version", MTR_FLAG_BOOL, &o->version, NULL, "print the version"},
    };
    size_t before = make_model_table(o, flags);
    before += make_http_table(o, flags + before);
    memcpy(flags + before, table, sizeof table);
    return before + sizeof table / sizeof table[0];
}

bool mtr_broker_options_parse(struct mtr_broker_options *o, int argc, char **argv,
                              struct mtr_error *err)
{
    struct mtr_flag flags[MAX_FLAGS];
    size_t count = make_table(o, flags), positionals;
    if (!mtr_flags_parse(flags, count, argc, argv, &o->model, 1, &positionals, err))
        return false;
    if (o->help || o->version)
        return true;
    if (!o->model)
        return mtr_fail(err, MTR_INVALID, "which model? Give a GGUF file, a folder or a hub id");
    uint64_t largest = mtr_budget_of_body(o->max_body_bytes);
    if ((uint64_t)o->max_request_mb << 20 < largest)
        return mtr_fail(err, MTR_INVALID,
                        "--max-request-mb %u has no room for one body of --max-body-bytes %llu, "
                        "which takes %llu MB",
                        o->max_request_mb, (unsigned long long)o->max_body_bytes,
                        (unsigned long long)((largest >> 20) + 1));
    if (!o->tls_cert != !o->tls_key)
        return mtr_fail(err, MTR_INVALID, "--tls-cert and --tls-key belong together");
    if (!o->curve_allow != !o->curve_key)
        return mtr_fail(err, MTR_INVALID,
                        "--curve-key and --curve-allow belong together: only workers whose public "
                        "key is listed may connect");
    return true;
}

bool mtr_broker_options_help(struct mtr_broker_options *o, struct mtr_buf *out)
{
    struct mtr_flag flags[MAX_FLAGS];
    size_t count = make_table(o, flags);
    mtr_buf_puts(out, "usage: metrale-broker MODEL [flags]     the broker alone\n"
                      "       metralectl serve MODEL [flags]   the broker with a worker\n\n"
                      "MODEL is a GGUF file, a checkpoint folder, or a hub id in the cache.\n"
                      "Serves it over HTTP; workers (metrale-worker) do the computing.\n");
    return mtr_flags_help(flags, count, out);
}
