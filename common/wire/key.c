/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CURVE keys: 32 bytes, written as 40 characters of Z85 (rfc.zeromq.org/spec/32) on one line.
 */
#include "common/wire/socket.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#define KEY_CHARS 40

bool mtr_wire_keygen(char public_key[41], char secret_key[41], struct mtr_error *err)
{
    if (zmq_curve_keypair(public_key, secret_key) == 0)
        return true;
    return mtr_fail(err, MTR_UNSUPPORTED, "key pair: %s (is libzmq built with CURVE?)",
                    zmq_strerror(zmq_errno()));
}

bool mtr_wire_check_key(const char *key)
{
    uint8_t raw[32];
    if (strlen(key) != KEY_CHARS)
        return false;
    return zmq_z85_decode(raw, key) != NULL;
}

/* Reads up to `size` bytes of an open key file and checks who else may read it. */
static bool read_text(int fd, const char *path, bool secret, char *text, size_t size, size_t *len,
                      struct mtr_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return mtr_fail_errno(err, "%s", path);
    if (!S_ISREG(st.st_mode))
        return mtr_fail(err, MTR_INVALID, "%s: not a file", path);
    if (secret && (st.st_mode & S_IRWXO) != 0)
        return mtr_fail(err, MTR_DENIED,
                        "%s: a secret key that everyone can open (mode %04o); chmod 600 it", path,
                        st.st_mode & 07777u);
    ssize_t n = read(fd, text, size);
    if (n < 0)
        return mtr_fail_errno(err, "%s", path);
    *len = (size_t)n;
    return true;
}

bool mtr_wire_read_key(const char *path, bool secret, char key[41], struct mtr_error *err)
{
    char text[KEY_CHARS + 8];
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return mtr_fail_errno(err, "%s", path);
    bool ok = read_text(fd, path, secret, text, sizeof(text), &len, err);
    close(fd);
    if (!ok)
        return false;
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    if (len != KEY_CHARS)
        return mtr_fail(err, MTR_INVALID, "%s: not a key: expected %d characters of Z85", path,
                        KEY_CHARS);
    memcpy(key, text, KEY_CHARS);
    key[KEY_CHARS] = 0;
    if (!mtr_wire_check_key(key))
        return mtr_fail(err, MTR_INVALID, "%s: not a key: characters outside of Z85", path);
    return true;
}
