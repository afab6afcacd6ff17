/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lines where nobody watches, a bar on a terminal, and not too many of either. */
#include "worker/weights/progress.c"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>

#include "tests/unit/check_main.h"

#define S       1000000000ull
#define WAIT_MS 10000

/* Adds to out what comes until `wanted` is in it; a terminal hands its text on when it likes. */
static void read_until(int fd, char *out, size_t size, const char *wanted)
{
    size_t len = 0;
    out[0] = 0;
    for (int i = 0; i < WAIT_MS && !strstr(out, wanted); i++) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, 1) != 1)
            continue;
        ssize_t n = read(fd, out + len, size - 1 - len);
        len += n > 0 ? (size_t)n : 0;
        out[len] = 0;
    }
    ck_assert_msg(strstr(out, wanted), "no \"%s\" in: %s", wanted, out);
}

START_TEST(lines)
{
    int fds[2];
    char text[4096];
    struct mtr_log log;
    struct mtr_progress p;
    ck_assert_int_eq(pipe2(fds, O_NONBLOCK), 0);
    mtr_log_init(&log, "test");
    log.fd = fds[1];
    mtr_progress_begin(&p, &log, "weights", 10 * S);
    mtr_progress_end(&p, 1000, 10 * S + 5); /* over before anybody could look */
    mtr_progress_begin(&p, &log, "weights", 10 * S);
    ck_assert(!p.terminal);
    for (uint64_t i = 1; i <= 50; i++)
        mtr_progress_update(&p, i * 1000000, 100000000, 10 * S + i * S / 10);
    mtr_progress_update(&p, 1, 0, 100 * S); /* nothing to load */
    mtr_progress_end(&p, 100000000, 20 * S);
    read_until(fds[0], text, sizeof text, "weights: 100.0 MB in 10.00 s (0.0 GB/s)\n");
    ck_assert_msg(strstr(text, "weights: 20.0 of 100.0 MB (20%)\n"), "%s", text);
    ck_assert(strstr(text, "weights: 40.0 of 100.0 MB (40%)\n"));
    unsigned count = 0;
    for (char *c = text; *c; c++)
        count += *c == '\n';
    ck_assert_uint_eq(count, 3);
    ck_assert_ptr_null(strchr(text, '\r'));
    close(fds[0]), close(fds[1]);
}
END_TEST

START_TEST(bar)
{
    int master, slave;
    char text[8192];
    struct mtr_log log;
    struct mtr_progress p;
    ck_assert_int_eq(openpty(&master, &slave, NULL, NULL, NULL), 0);
    fcntl(master, F_SETFL, O_NONBLOCK);
    mtr_log_init(&log, "test");
    log.fd = slave;
    mtr_progress_begin(&p, &log, "weights", S);
    ck_assert(p.terminal);
    mtr_progress_update(&p, 1, 100, S + 1000); /* too soon to be seen */
    ck_assert(!p.drawn);
    mtr_progress_update(&p, 50000000, 100000000, 2 * S);
    read_until(master, text, sizeof text,
               "\rweights  #############.............   50%  50.0 / 100.0 MB  0.1 GB/s");
    mtr_progress_update(&p, 200000000, 100000000, 3 * S); /* more than all is all */
    mtr_progress_end(&p, 100000000, 3 * S);
    read_until(master, text, sizeof text, "weights: 100.0 MB in 2.00 s");
    ck_assert(strstr(text, "100%"));
    ck_assert(strstr(text, "\r\x1b[K"));
    close(master), close(slave);
}
END_TEST

MTR_CHECK_MAIN("weights/progress")
{
    tcase_add_test(tc, lines);
    tcase_add_test(tc, bar);
}
