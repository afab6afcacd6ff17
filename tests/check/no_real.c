/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Stands in for real.c in a build without tokenizer. */
#include "tests/check/check.h"

bool check_real(const char *model, const char *json, const struct check_options *o,
                struct mtr_error *err)
{
    return mtr_fail(err, MTR_UNSUPPORTED, "%s: this build has no tokenizer", json);
}
