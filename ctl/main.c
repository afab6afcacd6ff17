/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/ctl.h"

int main(int argc, char **argv)
{
    return mtr_ctl_run(argc, argv);
}
