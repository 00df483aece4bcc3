/* Cutting chunks into lines, with time, prefix and frame for the client: the C version of engine/logs/lines.py.
 * Internal. */
#ifndef MUXER_LINES_H
#define MUXER_LINES_H

#include "muxer.h"
#include "log/sink.h"

#define LINE_PARTS 8u /* of an unfinished line, where they lie in the window */

struct line {
    bool inside; /* a first byte has been seen and no end */
    bool wanted; /* its time is within the query */
    bool bare;   /* its first piece, which carries the time and the prefix, is out */
    uint64_t time_ns;
    size_t size; /* of the piece in progress: `held` bytes in `bytes`, and then the parts */
    size_t held;
    unsigned part_count;
    struct iovec parts[LINE_PARTS];
    uint8_t bytes[LINE_LIMIT];
};

struct lines {
    const struct mux_query *query;
    struct sink *sink;
    bool stamped; /* stamp_bytes is the text of stamp_ns */
    uint64_t stamp_ns;
    uint8_t stamp_bytes[STAMP_SIZE];
    struct line streams[3]; /* by stream */
};

/* Whether the query wants this stream. */
bool stream_wanted(const struct mux_query *query, unsigned stream);

/* Whether a wanted line has begun and not ended. */
bool lines_owing(const struct lines *lines);

/* Whether any line has begun and not ended. */
bool lines_inside(const struct lines *lines);

/* Says that the stream is in the middle of a line that is not wanted. */
void lines_pass_over(struct lines *lines, unsigned stream);

/* Sends what this part of a chunk completes; bytes of unwanted streams are passed over. `framed`: the log's own frame
 * header for just these bytes lies before them. The bytes are lent until lines_let_go. 0 or a negative errno. */
int lines_feed(struct lines *lines, unsigned stream, uint64_t time_ns, const uint8_t *bytes, size_t size, bool framed);

/* Ends every line in progress where it stands, stdout first. 0 or a negative errno. */
int lines_end(struct lines *lines);

/* Makes the lines independent of the bytes that were fed, because those are about to change. 0 or a negative errno. */
int lines_let_go(struct lines *lines);

#endif
