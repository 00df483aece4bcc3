/* Sends the lines of a log of JSON lines to a client, in a thread of the daemon: the C part of
 * engine/logs/jsonreader.py, which opens the log's files and judges lines that docker does not write.
 *
 * It uses pread(2), never a mapping, because people truncate these files by hand (see segment.c). A line's text is
 * unescaped from the window into the sink, in its one pass. */
#include "log/jsonlines.h"
#include "log/room.h"
#include "log/sink.h"
#include "log/together.h"
#include "log/waiting.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_SIZE 262144u /* bytes of the file read at a time */
#define LONGEST 1048576u  /* bytes of a line; a longer one is passed over in pieces (engine/logs/jsonlines.py) */
#define LARGEST_READ 131072u /* a longer line is the caller's: it is certain that a shorter one fits into the sink */

struct mux_lines {
    struct mux_query query;
    struct jsonlines known;
    struct room learnt; /* the known attributes, and behind them: */
    uint8_t *prefix;    /* of lines that have these */
    size_t prefix_size;
    const uint8_t *other;
    size_t other_size;
    bool sifts;       /* see mux_lines_sift */
    bool stamped;     /* stamp_bytes is the text of stamp_ns */
    uint64_t stamp_ns;
    uint8_t stamp_bytes[STAMP_SIZE];
    /* What is left in the window, window_size bytes of it from window_offset on, when a line was the caller's. */
    int window_fd;
    uint64_t window_offset;
    size_t window_start, window_size;
    uint64_t limit;          /* of the file, for the reading under way */
    struct company *company; /* the followers that this one leads, or NULL */
    struct guest guest;      /* its place among others, after MUX_LINES_TOGETHER */
    struct wish wish;
    struct sink sink;
    uint8_t window[LONGEST];
};

struct mux_lines *mux_lines_new(int sink_fd, const struct mux_query *query) {
    /* Not from malloc, see mux_send. */
    struct mux_lines *lines = mmap(NULL, sizeof *lines, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED) return NULL;
    lines->query = *query;
    lines->window_fd = -1;
    lines->limit = UINT64_MAX;
    sink_begin(&lines->sink, sink_fd, query->chunked != 0);
    return lines;
}

void mux_lines_free(struct mux_lines *lines) {
    sink_end(&lines->sink);
    room_release(&lines->learnt);
    munmap(lines, sizeof *lines);
}

int mux_lines_learn(struct mux_lines *lines, const uint8_t *attributes, size_t size, const uint8_t *prefix,
                    size_t prefix_size) {
    if (size > LARGEST_READ || prefix_size > LARGEST_READ / 2) return 0; /* such lines stay the caller's */
    if (!room_reserve(&lines->learnt, size + prefix_size + 1)) return -ENOMEM;
    lines->known.attributes = lines->learnt.bytes;
    lines->prefix = lines->learnt.bytes + size;
    memcpy(lines->known.attributes, attributes, size);
    if (prefix_size > 0) memcpy(lines->prefix, prefix, prefix_size);
    lines->known.attributes_size = size;
    lines->prefix_size = prefix_size;
    return 0;
}

static bool wanted(const struct mux_lines *lines, unsigned stream, uint64_t time_ns) {
    return (stream == 1 ? lines->query.want_stdout : lines->query.want_stderr) && time_ns >= lines->query.first_ns &&
           time_ns <= lines->query.last_ns;
}

static uint8_t *put_stamp(struct mux_lines *lines, uint8_t *to, uint64_t time_ns) {
    if (!lines->query.timestamps) return to;
    if (!lines->stamped || lines->stamp_ns != time_ns) stamp(lines->stamp_bytes, time_ns);
    lines->stamped = true;
    lines->stamp_ns = time_ns;
    memcpy(to, lines->stamp_bytes, STAMP_SIZE);
    return to + STAMP_SIZE;
}

/* Sends one whole line of the file, or leaves it to the caller. */
static int take(struct mux_lines *lines, const uint8_t *line, const uint8_t *end) {
    struct sink *sink = &lines->sink;
    size_t size = (size_t)(end - line), before = lines->query.tty ? 0 : FRAME_SIZE;
    size_t stamped = lines->query.timestamps ? STAMP_SIZE : 0;
    size_t most = lines->query.prefix_size > lines->prefix_size ? lines->query.prefix_size : lines->prefix_size;
    struct message message;
    int failed = size > LARGEST_READ ? 0 : sink_reserve(sink, 1, before + stamped + most + size);
    if (failed < 0) return failed;
    uint8_t *first = sink->dress + sink->dressed, *text = first + before + stamped + most;
    if (size > LARGEST_READ || most > LARGEST_READ / 2 || !jsonline_read(&lines->known, line, end, text, &message)) {
        lines->other = line;
        lines->other_size = size;
        return MUX_LINES_OTHER;
    }
    if (message.time_ns > lines->query.last_ns && !lines->sifts) return MUX_LINES_PAST;
    if (!wanted(lines, message.stream, message.time_ns)) return MUX_LINES_READ;
    const uint8_t *prefix = message.attributes ? lines->prefix : lines->query.prefix;
    size_t prefix_size = message.attributes ? lines->prefix_size : lines->query.prefix_size;
    size_t length = (size_t)(message.end - text);
    uint8_t *to = put_stamp(lines, first + before, message.time_ns);
    if (prefix_size > 0) memcpy(to, prefix, prefix_size);
    to += prefix_size;
    if (to != text) memmove(to, text, length);
    to += length;
    if (before > 0) frame_pack(first, message.stream, (uint32_t)(to - first - FRAME_SIZE));
    sink->dressed += (size_t)(to - first);
    if (to > first) sink_lend(sink, first, (size_t)(to - first));
    return MUX_LINES_READ;
}

int mux_lines_feed(struct mux_lines *lines, const uint8_t *bytes, size_t size, size_t *done) {
    const uint8_t *place = bytes, *end = bytes + size, *newline;
    int result = MUX_LINES_READ;
    while (result == MUX_LINES_READ && (newline = memchr(place, '\n', (size_t)(end - place)))) {
        result = take(lines, place, newline);
        place = newline + 1;
    }
    *done = (size_t)(place - bytes);
    return result;
}

int mux_lines_read(struct mux_lines *lines, int fd, uint64_t *offset) {
    size_t want = READ_SIZE, done;
    for (;;) {
        const uint8_t *bytes = lines->window;
        size_t size;
        if (lines->window_fd == fd && lines->window_offset == *offset && fd >= 0) {
            bytes += lines->window_start;
            size = lines->window_size;
        } else {
            uint64_t most = lines->limit > *offset ? lines->limit - *offset : 0;
            int64_t got = read_at(fd, lines->window, want < most ? want : (size_t)most, *offset);
            if (got <= 0) return (int)got;
            size = (size_t)got;
        }
        lines->window_fd = -1;
        int result = mux_lines_feed(lines, bytes, size, &done);
        *offset += done;
        if (result == MUX_LINES_OTHER && done < size) {
            lines->window_fd = fd;
            lines->window_offset = *offset;
            lines->window_start = (size_t)(bytes - lines->window) + done;
            lines->window_size = size - done;
        }
        if (result != MUX_LINES_READ) return result;
        if (done == 0) {
            if (bytes != lines->window) continue; /* the rest of an earlier window */
            if (size < want) return MUX_LINES_READ; /* the beginning of a line */
            if (want == LONGEST) *offset += size;
        }
        want = done == 0 ? LONGEST : READ_SIZE;
    }
}

const uint8_t *mux_lines_other(const struct mux_lines *lines, size_t *size) {
    *size = lines->other_size;
    return lines->other;
}

int mux_lines_put(struct mux_lines *lines, int stream, uint64_t time_ns, const uint8_t *prefix, size_t prefix_size,
                  const uint8_t *text, size_t size) {
    struct sink *sink = &lines->sink;
    if (time_ns > lines->query.last_ns && !lines->sifts) return MUX_LINES_PAST;
    if (!wanted(lines, (unsigned)stream, time_ns)) return MUX_LINES_READ;
    int failed = sink_reserve(sink, 3, FRAME_SIZE + STAMP_SIZE);
    if (failed < 0) return failed;
    uint8_t *first = sink->dress + sink->dressed, *to = first + (lines->query.tty ? 0 : FRAME_SIZE);
    to = put_stamp(lines, to, time_ns);
    if (!lines->query.tty) frame_pack(first, (unsigned)stream, (uint32_t)((size_t)(to - first) - FRAME_SIZE + prefix_size + size));
    sink->dressed += (size_t)(to - first);
    if (to > first) sink_lend(sink, first, (size_t)(to - first));
    if (prefix_size > 0) sink_lend(sink, prefix, prefix_size);
    if (size > 0) sink_lend(sink, text, size);
    return sink_flush(sink, false); /* before the caller's bytes change */
}

void mux_lines_sift(struct mux_lines *lines, int sifts) { lines->sifts = sifts != 0; }

void mux_lines_limit(struct mux_lines *lines, uint64_t limit) { lines->limit = limit; }

int mux_lines_flush(struct mux_lines *lines, int finish) { return sink_flush(&lines->sink, finish != 0); }

/* Whether the open file is no longer the one with this path, or has become shorter than what was read of it. *size
 * becomes its size. */
static bool another(int fd, uint64_t offset, const char *path, uint64_t *size) {
    struct stat named, opened;
    if (fd < 0 || stat(path, &named) < 0 || fstat(fd, &opened) < 0) return true;
    *size = (uint64_t)opened.st_size;
    return named.st_ino != opened.st_ino || named.st_dev != opened.st_dev || *size < offset;
}

static struct standing place_of(const struct stat *file, uint64_t offset) {
    return (struct standing){{file->st_dev, file->st_ino}, {offset}};
}

/* Looks for followers at the same place. */
static enum meeting meet(struct mux_lines *lines, int fd, uint64_t offset) {
    struct stat file;
    if (lines->company) return LEADS;
    if (fd < 0 || lines->window_fd >= 0 || fstat(fd, &file) < 0) return MEETS_NOBODY;
    struct standing place = place_of(&file, offset);
    lines->wish = (struct wish){&lines->query, lines->known.attributes, lines->prefix, lines->known.attributes_size,
                                lines->prefix_size};
    return together_meet(&lines->company, &lines->guest, &lines->sink, &lines->wish, &place);
}

/* Sends what the file has up to `size`, also to the guests. The same as mux_lines_read. */
static int read_together(struct mux_lines *lines, int fd, uint64_t *offset, uint64_t size, bool little) {
    struct stat file;
    if (lines->company && (!little || !together_any(lines->company) || fstat(fd, &file) < 0))
        together_part(&lines->company);
    if (!lines->company) return mux_lines_read(lines, fd, offset);
    together_keep(&lines->company, &lines->sink);
    lines->limit = size;
    int result = mux_lines_read(lines, fd, offset), failed = sink_flush(&lines->sink, false);
    lines->limit = UINT64_MAX;
    if (failed < 0 && result >= 0) result = failed;
    if (!lines->company) return result; /* it was too much */
    /* A line that is the caller's is each guest's own caller's. */
    uint64_t end = result == MUX_LINES_OTHER ? *offset - lines->other_size - 1 : *offset;
    struct standing place = place_of(&file, end);
    if (result == MUX_LINES_READ || result == MUX_LINES_OTHER) together_send(lines->company, &lines->sink, &place);
    if (result != MUX_LINES_READ) together_part(&lines->company);
    failed = together_send_own(&lines->company, &lines->sink);
    return failed < 0 ? failed : result;
}

/* The same as mux_lines_wait, but for the company, which has not ended. */
static int wait_and_read(struct mux_lines *lines, int fd, uint64_t *offset, const char *path, int changes,
                         int ended_fd) {
    int64_t most_ms = -1;
    bool little = true; /* the last reading found little that was new */
    for (;;) {
        bool made = false;
        uint64_t size;
        int result = sink_flush(&lines->sink, false);
        if (result == 0) {
            enum meeting met = little && changes >= 0 ? meet(lines, fd, *offset) : MEETS_NOBODY;
            if (met == JOINS) return MUX_LINES_TOGETHER;
            most_ms = met == MEETS_OTHERS ? together_patience(most_ms) : -1;
            result = wait_for_change(&lines->query, lines->sink.fd, changes, ended_fd, most_ms, &made);
            if (result == 0) return MUX_LINES_LEFT;
        }
        if (result < 0) return client_has_left(-result) ? MUX_LINES_LEFT : result;
        if (made || changes < 0 || log_over(&lines->query, ended_fd)) return MUX_LINES_LOOK;
        /* Of a file that was shortened, the offset is no place to read from. */
        if (another(fd, *offset, path, &size)) return MUX_LINES_LOOK;
        little = size - *offset <= TOGETHER_MOST;
        result = read_together(lines, fd, offset, size, little);
        if (result != MUX_LINES_READ) return result < 0 && client_has_left(-result) ? MUX_LINES_LEFT : result;
    }
}

int mux_lines_wait(struct mux_lines *lines, int fd, uint64_t *offset, const char *path, int changes, int ended_fd) {
    int result = wait_and_read(lines, fd, offset, path, changes, ended_fd);
    together_part(&lines->company);
    return result;
}

int mux_lines_together(struct mux_lines *lines, uint64_t *offset, int ended_fd) {
    struct standing place;
    int result = together_wait(&lines->guest, &lines->sink, ended_fd, &place);
    *offset = place.at[0];
    if (result > 0) return MUX_LINES_LOOK;
    return result == 0 || client_has_left(-result) ? MUX_LINES_LEFT : result;
}
