/* The lines of a log of JSON lines that came after a place that a reader has told: the C version of `later` in
 * engine/logs/jsonfiles.py, for a keeper whose client was sent the log up to there. */
#include "log/later.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens the log's file of this number; one that is compressed cannot be read here. */
static int open_file(const struct mux_log *log, uint32_t number, struct stat *file) {
    char name[sizeof log->name + 16];
    snprintf(name, sizeof name, number ? "%s.%u" : "%s", log->name, number);
    int fd = openat(log->directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, file) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* How many files to go back: to that of the inode, or to the oldest one. found: whether it is that */
static uint32_t oldest_wanted(const struct mux_log *log, uint64_t inode, bool *found) {
    uint32_t oldest = 0;
    *found = false;
    struct stat file;
    for (uint32_t number = 0, absent = 0; number < log->max_files && absent < 2; number++) {
        int fd = open_file(log, number, &file);
        absent = fd < 0 ? absent + 1 : 0;
        if (fd < 0) continue;
        close(fd);
        oldest = number;
        *found = file.st_ino == inode;
        if (*found) break;
    }
    return oldest;
}

static int read_file(struct mux_lines *lines, int fd, uint64_t offset) {
    int result;
    do result = mux_lines_read(lines, fd, &offset);
    while (result == MUX_LINES_OTHER); /* no line of this writer's: it is passed over */
    return result < 0 ? result : 0;
}

static int read_files(const struct mux_log *log, struct mux_lines *lines, uint64_t inode, uint64_t offset,
                      bool *found) {
    int failed = 0;
    for (uint32_t left = oldest_wanted(log, inode, found) + 1; left > 0 && failed == 0; left--) {
        struct stat file;
        int fd = open_file(log, left - 1, &file);
        if (fd < 0) continue;
        /* A file that is shorter than that was cut, by a rotation of a log with a single file or by hand. */
        bool reads_on = file.st_ino == inode && (uint64_t)file.st_size >= offset;
        failed = read_file(lines, fd, reads_on ? offset : 0);
        close(fd);
    }
    return failed < 0 ? failed : mux_lines_flush(lines, 0);
}

int json_later(const struct mux_log *log, const struct json *json, const struct mux_query *query, uint64_t inode,
               uint64_t offset, struct room *to, size_t *size, bool *whole) {
    struct stat made;
    bool found = false;
    int fd = memfd_create("later", MFD_CLOEXEC), failed = 0;
    struct mux_lines *lines = fd >= 0 ? mux_lines_new(fd, query) : NULL;
    if (lines && json->attributes_size > 0)
        failed = mux_lines_learn(lines, json->attributes, json->attributes_size, NULL, 0);
    if (lines && failed == 0) failed = read_files(log, lines, inode, offset, &found);
    *whole = found || inode == 0;
    if (!lines || (failed == 0 && fstat(fd, &made) < 0)) failed = -errno;
    *size = failed < 0 ? 0 : (size_t)made.st_size;
    if (failed == 0 && *size > 0 && !room_reserve(to, *size)) failed = -ENOMEM;
    if (failed == 0 && *size > 0 && read_at(fd, to->bytes, *size, 0) != (int64_t)*size) failed = -EIO;
    if (lines) mux_lines_free(lines);
    if (fd >= 0) close(fd);
    return failed;
}
