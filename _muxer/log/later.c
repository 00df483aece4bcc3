/* The lines of a log of JSON lines that came after a place that a reader has told: the C version of `later` in
 * engine/logs/jsonfiles.py, for a keeper whose client was sent the log up to there. */
#include "log/later.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "\x1f\x8b\x08\x14\0\0\0\0\0\xff" /* how engine/logs/compress.py begins a file */
#define MAGIC_SIZE (sizeof MAGIC - 1)

struct reading {
    const struct mux_log *log;
    struct mux_lines *lines;
    uint64_t inode, offset; /* the place */
    json_unpack *unpack;
    const void *holder;
    bool found; /* the place's file is there */
    bool lost;  /* a compressed file could not be read */
};

struct file {
    int fd;
    bool packed;
    uint64_t inode, size; /* the inode that it had when it was written, 0: unknown */
};

/* The inode of the file of which this one was compressed; 0 where it does not say so. */
static uint64_t origin(int fd) {
    char head[1025], *comment;
    int64_t got = read_at(fd, (uint8_t *)head, sizeof head - 1, 0);
    if (got < (int64_t)MAGIC_SIZE + 2 || memcmp(head, MAGIC, MAGIC_SIZE) != 0) return 0;
    head[got] = 0;
    size_t place = MAGIC_SIZE + 2 + ((size_t)(uint8_t)head[MAGIC_SIZE] | (size_t)(uint8_t)head[MAGIC_SIZE + 1] << 8);
    if (place >= (size_t)got) return 0;
    comment = head + place;
    return strncmp(comment, "inode ", 6) == 0 ? strtoull(comment + 6, NULL, 10) : 0;
}

/* Opens the log's file of this number. */
static bool open_file(const struct mux_log *log, uint32_t number, struct file *file) {
    for (int packed = 0; packed <= (number > 0); packed++) {
        char name[sizeof log->name + 16];
        struct stat found;
        snprintf(name, sizeof name, number ? "%s.%u%s" : "%s", log->name, number, packed ? ".gz" : "");
        int fd = openat(log->directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) continue;
        if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
            *file = (struct file){fd, packed, packed ? origin(fd) : found.st_ino, (uint64_t)found.st_size};
            return true;
        }
        close(fd);
    }
    return false;
}

/* How many files to go back: to that of the place, or to the oldest one. */
static uint32_t oldest_wanted(struct reading *reading) {
    uint32_t oldest = 0;
    struct file file;
    for (uint32_t number = 0, absent = 0; number < reading->log->max_files && absent < 2; number++) {
        absent = open_file(reading->log, number, &file) ? 0 : absent + 1;
        if (absent > 0) continue;
        close(file.fd);
        oldest = number;
        reading->found = reading->inode > 0 && file.inode == reading->inode;
        if (reading->found) break;
    }
    return oldest;
}

/* Makes it a file of what is packed in it. */
static int unpack_file(struct reading *reading, struct file *file) {
    struct stat made;
    int fd = memfd_create("unpacked", MFD_CLOEXEC);
    int failed = fd < 0 ? -errno : reading->unpack(reading->holder, file->fd, fd);
    if (failed == 0 && fstat(fd, &made) < 0) failed = -errno;
    if (failed == 0) {
        close(file->fd);
        file->fd = fd;
        file->size = (uint64_t)made.st_size;
    } else if (fd >= 0) {
        close(fd);
    }
    return failed;
}

static int read_file(struct mux_lines *lines, int fd, uint64_t offset) {
    int result;
    do result = mux_lines_read(lines, fd, &offset);
    while (result == MUX_LINES_OTHER); /* no line of this writer's: it is passed over */
    return result < 0 ? result : 0;
}

static int read_files(struct reading *reading) {
    int failed = 0;
    for (uint32_t left = oldest_wanted(reading) + 1; left > 0 && failed == 0; left--) {
        struct file file;
        if (!open_file(reading->log, left - 1, &file)) continue;
        if (file.packed && unpack_file(reading, &file) < 0) {
            reading->lost = true;
        } else {
            /* A file that is shorter than that was cut, by a rotation of a log with a single file or by hand. */
            bool reads_on = reading->found && file.inode == reading->inode && file.size >= reading->offset;
            failed = read_file(reading->lines, file.fd, reads_on ? reading->offset : 0);
        }
        close(file.fd);
    }
    return failed < 0 ? failed : mux_lines_flush(reading->lines, 0);
}

int json_later(const struct mux_log *log, const struct json *json, const struct mux_query *query, uint64_t inode,
               uint64_t offset, json_unpack *unpack, const void *holder, struct room *to, size_t *size, bool *whole) {
    struct stat made;
    int fd = memfd_create("later", MFD_CLOEXEC), failed = 0;
    struct mux_lines *lines = fd >= 0 ? mux_lines_new(fd, query) : NULL;
    if (lines && json->attributes_size > 0)
        failed = mux_lines_learn(lines, json->attributes, json->attributes_size, NULL, 0);
    struct reading reading = {log, lines, inode, offset, unpack, holder, false, false};
    if (lines && failed == 0) failed = read_files(&reading);
    *whole = (reading.found || inode == 0) && !reading.lost;
    if (!lines || (failed == 0 && fstat(fd, &made) < 0)) failed = -errno;
    *size = failed < 0 ? 0 : (size_t)made.st_size;
    if (failed == 0 && *size > 0 && !room_reserve(to, *size)) failed = -ENOMEM;
    if (failed == 0 && *size > 0 && read_at(fd, to->bytes, *size, 0) != (int64_t)*size) failed = -EIO;
    if (lines) mux_lines_free(lines);
    if (fd >= 0) close(fd);
    return failed;
}
