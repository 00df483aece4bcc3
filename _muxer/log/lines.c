/* Cuts chunks into lines, and lends each line to the sink's gathered write: a segment for its header, its time and a
 * small prefix, and a segment for its bytes where they lie in the view's window.
 *
 * The bytes of a line are not copied, except in two cases. A short line goes behind its header, so that any number
 * of short lines is one segment. And what has been read of an unfinished line when the window moves on is held in
 * `bytes` (the same when it came in more than LINE_PARTS parts). A chunk that is just one line has its frame in the
 * log already: one segment covers any number of such chunks. One segment also covers a terminal's chunk, whose lines
 * have no header between them.
 *
 * Measured (2026-11-20, 192 MB of log in the page cache to another process by a Unix socket, two shared cores, best
 * of twelve), in GB/s of log, against an earlier version that copied each line behind its header with memcpy(3):
 *
 *     bytes a line    20     100    1000   8000   100, one a chunk
 *     gathered        0.6    2.0    4.5    5.5    2.7
 *     copied          1.4    3.6    4.6    4.9    2.8
 *
 * The kernel takes some 25 ns for each line's two segments, so lines up to SHORT_LINE bytes are copied (2026-11-22,
 * 128 MB of 100-byte lines, the two in turn: 1.6 GB/s for 1.0, and 0.08 s of processor time for 0.13), longer ones
 * never. */
#include "log/lines.h"

#include <string.h>

#define SMALL_PREFIX 64u /* is copied behind the header; a larger one is a segment of its own */
#define SHORT_LINE 512u  /* is copied behind its header: two more segments would cost the kernel more */

bool stream_wanted(const struct mux_query *query, unsigned stream) {
    return stream == 1 ? query->want_stdout : stream == 2 && query->want_stderr;
}

bool lines_owing(const struct lines *lines) {
    return (lines->streams[1].inside && lines->streams[1].wanted) ||
           (lines->streams[2].inside && lines->streams[2].wanted);
}

bool lines_inside(const struct lines *lines) { return lines->streams[1].inside || lines->streams[2].inside; }

void lines_pass_over(struct lines *lines, unsigned stream) {
    lines->streams[stream].inside = true;
    lines->streams[stream].wanted = false;
}

static const uint8_t *stamp_of(struct lines *lines, uint64_t time_ns) {
    if (!lines->stamped || lines->stamp_ns != time_ns) stamp(lines->stamp_bytes, time_ns);
    lines->stamped = true;
    lines->stamp_ns = time_ns;
    return lines->stamp_bytes;
}

/* Puts header, time and prefix before the stream's piece of `total` bytes. */
static void dress(struct lines *lines, unsigned stream, size_t total, size_t stamp_size, size_t prefix_size) {
    struct sink *sink = lines->sink;
    uint8_t *first = sink->dress + sink->dressed, *to = first;
    bool small = prefix_size <= SMALL_PREFIX;
    if (!lines->query->tty) {
        frame_pack(to, stream, (uint32_t)total);
        to += FRAME_SIZE;
    }
    if (stamp_size) memcpy(to, stamp_of(lines, lines->streams[stream].time_ns), stamp_size);
    to += stamp_size;
    if (prefix_size && small) {
        memcpy(to, lines->query->prefix, prefix_size);
        to += prefix_size;
    }
    sink->dressed += (size_t)(to - first);
    if (to > first) sink_lend(sink, first, (size_t)(to - first));
    if (!small) sink_lend(sink, lines->query->prefix, prefix_size);
}

/* Sends one piece of a line: header, on the first piece the time and the prefix, the held bytes of the piece, and these
 * bytes. `framed`: these bytes are all of the piece, and the log's own header is before them. */
static int piece(struct lines *lines, unsigned stream, const uint8_t *bytes, size_t size, bool framed) {
    const struct mux_query *query = lines->query;
    struct line *line = &lines->streams[stream];
    size_t stamp_size = query->timestamps && !line->bare ? STAMP_SIZE : 0;
    size_t prefix_size = line->bare ? 0 : query->prefix_size;
    struct sink *sink = lines->sink;
    int failed = sink_reserve(sink, LINE_PARTS + 4, FRAME_SIZE + STAMP_SIZE + SMALL_PREFIX + SHORT_LINE);
    if (failed < 0) return failed;
    line->bare = true;
    if (framed && !query->tty && stamp_size + prefix_size == 0) {
        sink_lend(sink, bytes - FRAME_SIZE, FRAME_SIZE + size);
        return 0;
    }
    dress(lines, stream, stamp_size + prefix_size + line->size + size, stamp_size, prefix_size);
    if (line->held > 0) sink_lend(sink, line->bytes, line->held);
    for (unsigned i = 0; i < line->part_count; i++) sink_lend(sink, line->parts[i].iov_base, line->parts[i].iov_len);
    if (line->size == 0 && size <= SHORT_LINE && !query->tty) {
        memcpy(sink->dress + sink->dressed, bytes, size);
        bytes = sink->dress + sink->dressed;
        sink->dressed += size;
    }
    if (size > 0) sink_lend(sink, bytes, size);
    line->size = line->held = line->part_count = 0;
    return 0;
}

static void begin(struct lines *lines, struct line *line, uint64_t time_ns) {
    line->inside = true;
    line->wanted = lines->query->first_ns <= time_ns && time_ns <= lines->query->last_ns;
    line->bare = false;
    line->time_ns = time_ns;
}

/* Copies whole short lines behind their headers, as many as come in a row and as there is room for; returns where the
 * others begin. All of them have the line's time. */
static const uint8_t *short_lines(struct lines *lines, unsigned stream, const uint8_t *bytes, const uint8_t *last) {
    const struct mux_query *query = lines->query;
    struct sink *sink = lines->sink;
    size_t stamp_size = query->timestamps ? STAMP_SIZE : 0, before = stamp_size + query->prefix_size;
    if (query->tty || query->prefix_size > SMALL_PREFIX) return bytes;
    if (sink->count == SINK_SEGMENTS - 1) return bytes; /* one is kept for the chunk's end */
    uint8_t *first = sink->dress + sink->dressed, *to = first;
    const uint8_t *end = sink->dress + SINK_DRESS - (FRAME_SIZE + STAMP_SIZE + SMALL_PREFIX + SHORT_LINE);
    const uint8_t *text = stamp_size > 0 ? stamp_of(lines, lines->streams[stream].time_ns) : NULL;
    while (bytes < last && to <= end) {
        size_t most = (size_t)(last - bytes) < SHORT_LINE ? (size_t)(last - bytes) : SHORT_LINE;
        const uint8_t *newline = memchr(bytes, '\n', most);
        if (!newline) break;
        size_t size = (size_t)(newline - bytes) + 1;
        frame_pack(to, stream, (uint32_t)(before + size));
        to += FRAME_SIZE;
        if (before > 0) {
            if (stamp_size > 0) memcpy(to, text, STAMP_SIZE);
            if (query->prefix_size > 0) memcpy(to + stamp_size, query->prefix, query->prefix_size);
            to += before;
        }
        memcpy(to, bytes, size);
        to += size;
        bytes += size;
    }
    sink->dressed += (size_t)(to - first);
    if (to > first) sink_lend(sink, first, (size_t)(to - first));
    return bytes;
}

/* Keeps bytes of an unfinished piece where they lie. */
static int hold(struct lines *lines, struct line *line, const uint8_t *bytes, size_t size) {
    int failed = line->part_count == LINE_PARTS ? lines_let_go(lines) : 0;
    if (failed < 0) return failed;
    line->parts[line->part_count++] = (struct iovec){(void *)bytes, size};
    line->size += size;
    return 0;
}

/* Takes the part [bytes, end) of one wanted line; `ended`: its last byte is the line's last. */
static int feed_line(struct lines *lines, unsigned stream, const uint8_t *bytes, const uint8_t *end, bool ended,
                     bool framed) {
    struct line *line = &lines->streams[stream];
    while (bytes < end) {
        size_t taken = (size_t)(end - bytes), room = LINE_LIMIT - line->size;
        if (taken > room) taken = room;
        bool all = bytes + taken == end, complete = taken == room || (ended && all);
        int failed = complete ? piece(lines, stream, bytes, taken, framed && all && line->size == 0)
                              : hold(lines, line, bytes, taken);
        if (failed < 0) return failed;
        framed = false; /* a header before the first piece only, and only for all of the bytes */
        bytes += taken;
    }
    return 0;
}

int lines_feed(struct lines *lines, unsigned stream, uint64_t time_ns, const uint8_t *bytes, size_t size, bool framed) {
    if (!stream_wanted(lines->query, stream)) return 0;
    struct line *line = &lines->streams[stream];
    const uint8_t *last = bytes + size;
    while (bytes < last) {
        if (!line->inside) {
            begin(lines, line, time_ns);
            if (line->wanted && !framed) bytes = short_lines(lines, stream, bytes, last);
            line->inside = bytes < last;
            if (!line->inside) break;
        }
        const uint8_t *newline = memchr(bytes, '\n', (size_t)(last - bytes)), *end = newline ? newline + 1 : last;
        framed = framed && (size_t)(end - bytes) == size;
        int failed = line->wanted ? feed_line(lines, stream, bytes, end, newline != NULL, framed) : 0;
        if (failed < 0) return failed;
        line->inside = newline == NULL;
        bytes = end;
    }
    return 0;
}

int lines_end(struct lines *lines) {
    int failed = 0;
    for (unsigned stream = 1; stream <= 2 && failed == 0; stream++) {
        struct line *line = &lines->streams[stream];
        if (line->size > 0) failed = piece(lines, stream, NULL, 0, false);
        line->inside = false;
    }
    return failed;
}

int lines_let_go(struct lines *lines) {
    int failed = sink_flush(lines->sink, false); /* first: the sink may point at bytes held of an earlier line */
    for (unsigned stream = 1; stream <= 2; stream++) {
        struct line *line = &lines->streams[stream];
        for (unsigned i = 0; i < line->part_count; i++) {
            memcpy(line->bytes + line->held, line->parts[i].iov_base, line->parts[i].iov_len);
            line->held += line->parts[i].iov_len;
        }
        line->part_count = 0;
    }
    return failed;
}
