/* What every target needs: a directory in memory for a log's files, and choices out of the input's bytes. */
#ifndef FUZZ_PLACE_H
#define FUZZ_PLACE_H

#include "log/format.h"
#include "muxer.h"

#include <dirent.h>
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

/* Removes all files of a directory. */
static inline void tidy(int directory) {
    DIR *listing = fdopendir(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!listing) abort();
    for (struct dirent *each; (each = readdir(listing));)
        if (strcmp(each->d_name, ".") && strcmp(each->d_name, "..")) unlinkat(directory, each->d_name, 0);
    closedir(listing);
}

static char own_place[128];

static inline void leave_place(void) {
    int directory = open(own_place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    tidy(directory);
    close(directory);
    rmdir(own_place);
}

/* A directory of this process's own, made once, and gone at its end: in $TMPDIR, or else in memory. */
static inline const char *place(void) {
    if (!*own_place) {
        const char *within = getenv("TMPDIR");
        if (!within) within = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(own_place, sizeof own_place, "%s/engine-fuzz-XXXXXX", within);
        if (!mkdtemp(own_place) || atexit(leave_place) != 0) abort();
    }
    return own_place;
}

static inline int make(int directory, const char *name, const void *bytes, size_t size) {
    int fd = openat(directory, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_at(fd, bytes, size, 0) < 0) abort();
    return fd;
}

#endif
