/* What every target needs: a directory in memory for a log's files, and choices out of the input's bytes. */
#ifndef FUZZ_PLACE_H
#define FUZZ_PLACE_H

#include "log/format.h"
#include "muxer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As the muxer wants it of its process. */
__attribute__((constructor)) static void ignore_pipes(void) { signal(SIGPIPE, SIG_IGN); }

/* The bytes that decide; zeros when they are used up. */
struct choices {
    const uint8_t *bytes;
    size_t left;
};

static inline unsigned number(struct choices *choices, unsigned most) {
    unsigned value = 0;
    for (unsigned reach = most; reach > 0 && choices->left > 0; reach >>= 8) {
        value = value << 8 | *choices->bytes++;
        choices->left--;
    }
    return most == UINT32_MAX ? value : value % (most + 1);
}

/* A directory of this process's own, made once. */
static inline const char *place(void) {
    static char path[64];
    if (!*path) {
        snprintf(path, sizeof path, "%s/engine-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(path)) abort();
    }
    return path;
}

static inline int make(int directory, const char *name, const void *bytes, size_t size) {
    int fd = openat(directory, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_at(fd, bytes, size, 0) < 0) abort();
    return fd;
}

static inline void tidy(int directory) {
    char name[NAME_SIZE];
    for (uint32_t segment = 1; segment < 8; segment++) {
        log_name(name, segment);
        unlinkat(directory, name, 0);
        index_name(name, segment);
        unlinkat(directory, name, 0);
    }
    unlinkat(directory, "json", 0);
    unlinkat(directory, "json.1", 0);
}

#endif
