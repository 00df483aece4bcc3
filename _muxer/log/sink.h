/* Gathering a log reader's bytes and writing them to the client: the C version of engine/logs/sink.py. Internal. */
#ifndef MUXER_SINK_H
#define MUXER_SINK_H

#include "log/format.h"

#include <sys/uio.h>

#define SINK_SEGMENTS 1024u /* of one gathered write: IOV_MAX of every Linux */
#define SINK_DRESS 262144u  /* bytes of headers, times, small prefixes and short lines in one gathered write */
#define SINK_MOST 1048576u  /* bytes that are enough for one gathered write */
#define SINK_HEAD 20u       /* an HTTP chunk's header: 16 digits, the end of the line, the zero */

/* What waits for the next gathered write: segments that point at the bytes where they lie. Code that lends bytes
 * flushes the sink before they change. */
struct sink {
    int fd;
    bool chunked, not_a_socket;
    bool keeps; /* a flush copies into `kept` */
    int (*too_much)(struct sink *sink, void *holder);
    void *holder;
    uint8_t *kept;
    size_t kept_size, kept_room;
    unsigned count; /* of segments in use; the first is for the chunk's head */
    size_t size;    /* of all of them together */
    size_t dressed; /* bytes of dress in use */
    struct iovec segments[SINK_SEGMENTS];
    uint8_t dress[SINK_DRESS];
};

/* Makes a sink of zeroed memory. */
void sink_begin(struct sink *sink, int fd, bool chunked);

/* Makes room for so many segments and bytes of dress. 0 or a negative errno. */
int sink_reserve(struct sink *sink, unsigned segments, size_t dress);

/* Lends bytes to the sink, which has room for them; bytes that follow directly on the last ones need no new segment. */
static inline void sink_lend(struct sink *sink, const uint8_t *bytes, size_t size) {
    struct iovec *last = &sink->segments[sink->count - 1];
    if (sink->count > 1 && (uint8_t *)last->iov_base + last->iov_len == bytes)
        last->iov_len += size;
    else
        sink->segments[sink->count++] = (struct iovec){(void *)bytes, size};
    sink->size += size;
}

/* Writes all that was lent so far, and with `finish` the end of the HTTP body; or keeps it. 0 or a negative errno. */
int sink_flush(struct sink *sink, bool finish);

/* Keeps what is flushed from now on. too_much: called when more than SINK_MOST bytes would be kept, or there is no memory
 * for them; it sends the kept bytes, has the sink keep no more, and returns 0 or a negative errno. */
void sink_keep(struct sink *sink, int (*too_much)(struct sink *sink, void *holder), void *holder);

/* The kept bytes as the client gets them: fills up to 3 parts, one of which is in `head`, and returns their number. */
size_t sink_kept(const struct sink *sink, char head[SINK_HEAD], struct iovec parts[3]);

/* Forgets the kept bytes, and keeps no more. */
void sink_keep_no_more(struct sink *sink);

/* Writes these parts, which are no chunk of their own. 0 or a negative errno. */
int sink_put(struct sink *sink, struct iovec *parts, size_t count);

/* Gives back what the sink holds beside itself. */
void sink_end(struct sink *sink);

bool is_socket(int fd);

/* Sends without waiting. Returns the parts that did not go out, *count of them; NULL and errno: none can. */
struct iovec *send_now(int fd, struct iovec *parts, size_t *count);

/* Whether this errno says that the client has left. */
bool client_has_left(int number);

#endif
