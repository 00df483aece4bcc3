/* Writes and rotates a log of JSON lines, byte for byte as docker's driver json-file does.
 *
 * engine/logs/jsonwriter.py is the Python version, and explains the format. */
#include "log/jsonwriter.h"

#include "log/lasting.h"
#include "log/order.h"
#include "log/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUT_SIZE (192u * 1024u) /* bytes of lines that are written at once */
#define AROUND 128u /* bytes of a line beside its text and its attributes, at most */

int json_begin(struct json *json, const struct mux_log *log) {
    struct stat attributes;
    if (fstat(log->index_fd, &attributes) < 0) return -errno;
    if (attributes.st_size > 0) {
        void *mapped = mmap(NULL, (size_t)attributes.st_size, PROT_READ, MAP_SHARED, log->index_fd, 0);
        if (mapped == MAP_FAILED) return -errno;
        json->attributes = mapped;
        json->attributes_size = (size_t)attributes.st_size;
    }
    return 0;
}

void json_leave(struct json *json) {
    if (json->attributes) munmap((void *)json->attributes, json->attributes_size);
    for (unsigned stream = 1; stream <= 2; stream++) room_release(&json->lines[stream].held);
    room_release(&json->out);
}

void json_cool(struct json *json) {
    if (!json) return;
    for (unsigned stream = 1; stream <= 2; stream++)
        if (json->lines[stream].size == 0) room_release(&json->lines[stream].held);
    if (json->out_size == 0) room_release(&json->out);
}

/* Writes the waiting lines to the file's end, also when somebody has moved that end with truncate(1). */
static int flush(struct mux_log *log, struct json *json) {
    size_t size = json->out_size, done = 0;
    json->out_size = 0;
    while (done < size) {
        ssize_t put = write(log->log_fd, json->out.bytes + done, size - done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            int failed = -errno;
            struct stat now;
            /* The next line must not follow directly after a torn one. */
            if (done > 0 && fstat(log->log_fd, &now) == 0 && now.st_size >= (off_t)done &&
                ftruncate(log->log_fd, now.st_size - (off_t)done) < 0)
                log->position += done;
            return failed;
        }
        done += (size_t)put;
    }
    log->position += size;
    return 0;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t size) {
    memcpy(to, bytes, size);
    return to + size;
}

#define PUT(to, text) put(to, text, sizeof(text) - 1)

/* What stands behind the text of each line of this stream and time. */
static const struct ending *ending_of(struct json *json, unsigned stream, uint64_t time_ns) {
    struct ending *ending = &json->endings[stream];
    if (ending->size > 0 && ending->time_ns == time_ns) return ending;
    uint8_t time[STAMP_SIZE], *to = ending->bytes;
    size_t digits = STAMP_SIZE - 3;
    stamp(time, time_ns);
    while (time[digits] == '0') digits--; /* of the fraction, and its point if the fraction is zero */
    to = stream == 1 ? PUT(to, "\",\"stream\":\"stdout\",") : PUT(to, "\",\"stream\":\"stderr\",");
    ending->middle = (size_t)(to - ending->bytes);
    to = PUT(to, "\"time\":\"");
    to = put(to, time, time[digits] == '.' ? digits : digits + 1);
    to = PUT(to, "Z\"}\n");
    ending->size = (size_t)(to - ending->bytes);
    ending->time_ns = time_ns;
    return ending;
}

/* Adds one line to the log: a line of the container, or a piece of one that has not ended. */
static int add(struct mux_log *log, struct json *json, unsigned stream, const uint8_t *text, size_t size, bool ended,
               uint64_t time_ns) {
    size_t room = size * LONGEST_ESCAPE + json->attributes_size + AROUND;
    int failed = 0;
    bool full = log->limit > 0 && log->position + json->out_size >= log->limit;
    if (json->out_size > 0 && (full || json->out_size + room > json->out.size)) failed = flush(log, json);
    if (full && !log->busy && failed == 0) failed = json_rotate(log);
    /* If there was no new file, the line goes to the old one. */
    if (!room_reserve(&json->out, json->out_size + room > OUT_SIZE ? json->out_size + room : OUT_SIZE)) return -ENOMEM;
    const struct ending *ending = ending_of(json, stream, time_ns);
    uint8_t *to = json->out.bytes + json->out_size;
    to = PUT(to, "{\"log\":\"");
    to = text_escape(to, text, size);
    if (ended) to = PUT(to, "\\n");
    if (json->attributes_size > 0) {
        to = put(to, ending->bytes, ending->middle);
        to = put(to, json->attributes, json->attributes_size);
        to = put(to, ending->bytes + ending->middle, ending->size - ending->middle);
    } else {
        to = put(to, ending->bytes, ending->size);
    }
    json->out_size = (size_t)(to - json->out.bytes);
    return failed;
}

int json_append(struct mux_log *log, struct json *json, unsigned stream, const uint8_t *bytes, size_t size,
                uint64_t now) {
    struct unfinished *line = &json->lines[stream];
    const uint8_t *end = bytes + size;
    int failed = 0, failure;
    while (bytes < end) {
        size_t room = LINE_LIMIT - line->size, left = (size_t)(end - bytes), most = left < room ? left : room;
        const uint8_t *newline = memchr(bytes, '\n', most);
        size_t taken = newline ? (size_t)(newline - bytes) : most;
        bool whole = newline || taken == room;
        const uint8_t *text = bytes;
        size_t length = line->size + taken;
        if (taken > 0 && (line->size > 0 || !whole)) {
            if (!room_reserve(&line->held, LINE_LIMIT)) return -ENOMEM;
            memcpy(line->held.bytes + line->size, bytes, taken);
        }
        if (line->size > 0) text = line->held.bytes;
        bytes += taken + (newline != NULL);
        line->size = length;
        if (!whole) break;
        if (!line->partial) line->first_ns = now;
        failure = add(log, json, stream, text, length, newline != NULL, line->first_ns);
        if (failed == 0) failed = failure;
        line->size = 0;
        line->partial = newline == NULL;
    }
    failure = flush(log, json);
    return failed == 0 ? failure : failed;
}

int json_end(struct mux_log *log, struct json *json, unsigned stream) {
    struct unfinished *line = &json->lines[stream];
    int failed = 0, failure;
    if (line->size > 0) {
        uint64_t now = order_clock(log);
        if (!line->partial) line->first_ns = now;
        failed = add(log, json, stream, line->held.bytes, line->size, false, line->first_ns);
        failure = flush(log, json);
        if (failed == 0) failed = failure;
    }
    line->size = 0;
    line->partial = false;
    return failed;
}

/* The name of the n-th file before the present one. */
static const char *old_name(char *to, size_t size, const struct mux_log *log, uint32_t number, const char *suffix) {
    snprintf(to, size, "%.*s.%lu%s", (int)sizeof log->name, log->name, (unsigned long)number, suffix);
    return to;
}

static const char *const SUFFIXES[] = {"", ".gz"};

/* The first number that no older file has, or else the last one, whose file is removed. Up to there the files are
 * renamed: the number of files that a client asked for may be a billion. */
static uint32_t first_free(const struct mux_log *log) {
    char name[128];
    struct stat found;
    uint32_t number = 1;
    for (; number < log->max_files - 1; number++) {
        bool is_free = true;
        for (unsigned i = 0; i < 2 && is_free; i++) {
            old_name(name, sizeof name, log, number, SUFFIXES[i]);
            is_free = fstatat(log->directory_fd, name, &found, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
        }
        if (is_free) break;
    }
    return number;
}

/* Writes the files that stay, those before number `last`, to the disk. */
static int sync_kept(const struct mux_log *log, uint32_t last) {
    char name[128];
    for (uint32_t number = last - 1; number > 0; number--) {
        for (unsigned i = 0; i < 2; i++) {
            int failed = log_sync(log, old_name(name, sizeof name, log, number, SUFFIXES[i]));
            if (failed < 0) return failed;
        }
    }
    return fdatasync(log->log_fd) < 0 || fsync(log->directory_fd) < 0 ? -errno : 0;
}

static int push_back(const struct mux_log *log) {
    char from[128], to[128];
    int directory = log->directory_fd;
    uint32_t last = first_free(log);
    bool old = false;
    for (unsigned i = 0; i < 2; i++)
        old = old || log_is_old(log, old_name(to, sizeof to, log, last, SUFFIXES[i]));
    int failed = old ? sync_kept(log, last) : 0;
    if (failed < 0) return failed;
    for (unsigned i = 0; i < 2; i++) {
        old_name(to, sizeof to, log, last, SUFFIXES[i]);
        if (unlinkat(directory, to, 0) < 0 && errno != ENOENT) return -errno;
    }
    for (uint32_t number = last; number > 1; number--) {
        for (unsigned i = 0; i < 2; i++) {
            old_name(from, sizeof from, log, number - 1, SUFFIXES[i]);
            old_name(to, sizeof to, log, number, SUFFIXES[i]);
            if (renameat(directory, from, directory, to) < 0 && errno != ENOENT) return -errno;
        }
    }
    old_name(to, sizeof to, log, 1, "");
    return renameat(directory, log->name, directory, to) < 0 && errno != ENOENT ? -errno : 0;
}

int json_rotate(struct mux_log *log) {
    char fresh[128];
    int failed = 0;
    if (log->max_files < 2) {
        if (ftruncate(log->log_fd, 0) < 0) failed = -errno;
        if (failed == 0) order_begin(log->log_fd, log->last_ns);
    } else {
        /* Made first, so that a host without room for it leaves all as it is. */
        snprintf(fresh, sizeof fresh, "%.*s.new", (int)sizeof log->name, log->name);
        int fd = openat(log->directory_fd, fresh, O_WRONLY | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
        failed = fd < 0 ? -errno : push_back(log);
        if (failed == 0) order_begin(fd, log->last_ns);
        if (failed == 0 && renameat(log->directory_fd, fresh, log->directory_fd, log->name) < 0) failed = -errno;
        if (failed < 0 && fd >= 0) close(fd);
        if (failed == 0) {
            close(log->log_fd);
            log->log_fd = fd;
            log->busy = log->compress ? MUX_UNTOLD : MUX_IDLE;
        }
    }
    if (failed == 0) {
        log->position = log->late = 0;
        log->limit = log->max_size;
    } else if (log_full(log)) {
        log->limit = log->position + log->max_size;
    }
    return failed;
}
