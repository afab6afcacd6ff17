/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A streamed answer as metralectl bench reads it. The first byte is how it is cut; every cut must
 * give the same counts and the same error. Of the same bytes an HTTP error's text is made.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "ctl/bench.h"

static void read_cut(struct mtr_str body, size_t cut, struct mtr_bench_sample *m, size_t *gaps)
{
    struct mtr_bench_gaps g = {0};
    struct mtr_bench_stream s;
    *m = (struct mtr_bench_sample){0};
    mtr_bench_stream_begin(&s, m, &g);
    for (size_t i = 0; i < body.len; i += cut)
        if (!mtr_bench_stream_feed(&s, mtr_str_sub(body, i, cut), 1))
            break;
    mtr_bench_stream_end(&s);
    mtr_bench_stream_free(&s);
    *gaps = g.count;
    free(g.ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct mtr_str body = {(const char *)data + 1, size - 1};
    struct mtr_bench_sample whole, cut;
    size_t whole_gaps, cut_gaps;
    read_cut(body, size, &whole, &whole_gaps);
    read_cut(body, 1 + data[0] % 16, &cut, &cut_gaps);
    MTR_FUZZ_CHECK(whole_gaps == cut_gaps && whole.pieces == cut.pieces);
    MTR_FUZZ_CHECK(whole_gaps == (whole.pieces ? whole.pieces - 1 : 0));
    MTR_FUZZ_CHECK(whole.output_tokens == cut.output_tokens && whole.has_usage == cut.has_usage);
    MTR_FUZZ_CHECK(strcmp(whole.error, cut.error) == 0);
    cut = (struct mtr_bench_sample){0};
    mtr_bench_http_error(&cut, 500, body);
    MTR_FUZZ_CHECK(strncmp(cut.error, "status 500", 10) == 0 && !strchr(cut.error, '\n'));
    return 0;
}
