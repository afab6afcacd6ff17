/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The main of a libcheck program: one suite, one case. Use it at the end of a test file:
 *
 *   MTR_CHECK_MAIN("base/map")
 *   {
 *       tcase_add_test(tc, a_test);
 *   }
 *
 * Exit status 0 when all tests pass, 1 otherwise. Check forks for each test; with CK_FORK=no in the
 * environment (a debugger, a sanitizer, an emulator) they run in one process.
 */
#ifndef MTR_UNIT_CHECK_MAIN_H
#define MTR_UNIT_CHECK_MAIN_H

#include <check.h>
#include <stdlib.h>

/*
 * Check writes each passed assertion to a file, to tell after a crash where it was last. That makes
 * an assertion cost a system call and a test with millions of them a minute; a debugger tells more.
 */
#define _mark_point(file, line) ((void)0)

#define MTR_CHECK_TIMEOUT_S 60

#define MTR_CHECK_MAIN(name)                                                                       \
    static void mtr_add_tests(TCase *tc);                                                          \
    int main(void)                                                                                 \
    {                                                                                              \
        Suite *suite = suite_create(name);                                                         \
        TCase *tc = tcase_create(name);                                                            \
        tcase_set_timeout(tc, MTR_CHECK_TIMEOUT_S);                                                \
        mtr_add_tests(tc);                                                                         \
        suite_add_tcase(suite, tc);                                                                \
        SRunner *runner = srunner_create(suite);                                                   \
        srunner_run_all(runner, CK_ENV);                                                           \
        int failed = srunner_ntests_failed(runner);                                                \
        srunner_free(runner);                                                                      \
        return failed ? 1 : 0;                                                                     \
    }                                                                                              \
    static void mtr_add_tests(TCase *tc)

#endif
