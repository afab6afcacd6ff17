/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A CURVE key pair as two files: NAME.key (secret, mode 0600) and NAME.pub.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/wire/socket.h"
#include "ctl/ctl.h"

/* Never overwrites: a lost key locks every worker out. */
static bool write_key(const char *path, int mode, const char *key, struct mtr_error *err)
{
    char line[48];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return mtr_fail_errno(err, "can't create %s", path);
    int n = snprintf(line, sizeof line, "%s\n", key);
    bool ok = write(fd, line, (size_t)n) == n && fsync(fd) == 0;
    if (close(fd) != 0 || !ok) {
        mtr_fail_errno(err, "can't write %s", path);
        unlink(path);
        return false;
    }
    return true;
}

int mtr_ctl_keygen(int argc, char **argv)
{
    const char *name = NULL;
    bool help = false;
    struct mtr_flag flags[] = {
        {"help", MTR_FLAG_BOOL, &help, NULL, "print this", 0, 0, NULL},
    };
    struct mtr_error error = {0};
    struct mtr_arena arena;
    char public_key[41], secret_key[41];
    size_t positionals;
    if (!mtr_flags_parse(flags, 1, argc, argv, &name, 1, &positionals, &error))
        return mtr_ctl_error(argv[0], &error);
    if (help)
        return mtr_ctl_help(argv[0], flags, 1);
    if (!name) {
        mtr_fail(&error, MTR_INVALID, "which name? The files will be NAME.key and NAME.pub");
        return mtr_ctl_error(argv[0], &error);
    }
    mtr_arena_init(&arena, 1u << 20);
    const char *secret_path = mtr_arena_printf(&arena, "%s.key", name);
    const char *public_path = mtr_arena_printf(&arena, "%s.pub", name);
    bool ok = secret_path && public_path && mtr_wire_keygen(public_key, secret_key, &error) &&
              write_key(secret_path, 0600, secret_key, &error);
    if (ok && !write_key(public_path, 0644, public_key, &error)) {
        unlink(secret_path);
        ok = false;
    }
    if (ok)
        printf("%s\n%s\n", secret_path, public_path);
    explicit_bzero(secret_key, sizeof secret_key);
    mtr_arena_free(&arena);
    return ok ? 0 : mtr_ctl_error(argv[0], &error);
}
