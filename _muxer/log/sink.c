/* Writes a log reader's bytes, which lie in many places, to a client in one system call, in HTTP chunks where asked.
 *
 * The descriptor may be blocking or not, a socket or a pipe. */
#include "log/sink.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEPT_ROOM 65536u /* a larger room is given back at once */

void sink_begin(struct sink *sink, int fd, bool chunked) {
    sink->fd = fd;
    sink->chunked = chunked;
    sink->count = 1;
}

int sink_reserve(struct sink *sink, unsigned segments, size_t dress) {
    /* Less than the free segments, because one is kept for the chunk's end. */
    bool room = segments < SINK_SEGMENTS - sink->count && dress <= SINK_DRESS - sink->dressed;
    return room && sink->size < SINK_MOST ? 0 : sink_flush(sink, false);
}

static ssize_t write_some(struct sink *sink, struct iovec *segments, size_t count) {
    if (sink->not_a_socket) return writev(sink->fd, segments, (int)count);
    struct msghdr message = {.msg_iov = segments, .msg_iovlen = count};
    return sendmsg(sink->fd, &message, MSG_NOSIGNAL);
}

/* Takes `size` bytes off the front of the segments; returns the first segment that is left. */
static struct iovec *pass(struct iovec *segments, const struct iovec *end, size_t size) {
    for (; segments < end && size >= segments->iov_len; segments++) size -= segments->iov_len;
    if (segments < end) {
        segments->iov_base = (uint8_t *)segments->iov_base + size;
        segments->iov_len -= size;
    }
    return segments;
}

static int write_all(struct sink *sink, struct iovec *segments, const struct iovec *end) {
    while (segments < end) {
        ssize_t put = write_some(sink, segments, (size_t)(end - segments));
        if (put >= 0) {
            segments = pass(segments, end, (size_t)put);
        } else if (errno == ENOTSOCK && !sink->not_a_socket) {
            sink->not_a_socket = true;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd writable = {.fd = sink->fd, .events = POLLOUT};
            if (poll(&writable, 1, -1) < 0 && errno != EINTR) return -errno;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

void sink_keep(struct sink *sink, int (*too_much)(struct sink *sink, void *holder), void *holder) {
    sink->keeps = true;
    sink->too_much = too_much;
    sink->holder = holder;
}

static bool has_room(struct sink *sink, size_t size) {
    if (size <= sink->kept_room) return true;
    if (size > SINK_MOST) return false;
    size_t room = size > 2 * sink->kept_room ? size : 2 * sink->kept_room;
    uint8_t *grown = realloc(sink->kept, room);
    if (!grown) return false;
    sink->kept = grown;
    sink->kept_room = room;
    return true;
}

static void keep(struct sink *sink) {
    for (unsigned i = 1; i < sink->count; i++) {
        memcpy(sink->kept + sink->kept_size, sink->segments[i].iov_base, sink->segments[i].iov_len);
        sink->kept_size += sink->segments[i].iov_len;
    }
    sink->count = 1;
    sink->size = sink->dressed = 0;
}

int sink_flush(struct sink *sink, bool finish) {
    if (sink->keeps && has_room(sink, sink->kept_size + sink->size)) {
        keep(sink);
        return 0;
    }
    if (sink->keeps) {
        int failed = sink->too_much(sink, sink->holder);
        if (failed < 0) return failed;
    }
    static const char END[] = "\r\n0\r\n\r\n"; /* the end of a chunk, and then of the body */
    char head[SINK_HEAD];
    bool some = sink->size > 0;
    struct iovec *first = sink->segments + 1, *last = sink->segments + sink->count;
    if (sink->chunked && some)
        *--first = (struct iovec){head, (size_t)snprintf(head, sizeof head, "%zx\r\n", sink->size)};
    if (sink->chunked && (some || finish)) {
        const char *from = some ? END : END + 2, *to = finish ? END + sizeof END - 1 : END + 2;
        *last++ = (struct iovec){(void *)from, (size_t)(to - from)};
    }
    sink->count = 1;
    sink->size = sink->dressed = 0;
    return write_all(sink, first, last);
}

size_t sink_kept(const struct sink *sink, char head[SINK_HEAD], struct iovec parts[3]) {
    struct iovec *end = parts;
    if (sink->chunked) *end++ = (struct iovec){head, (size_t)snprintf(head, SINK_HEAD, "%zx\r\n", sink->kept_size)};
    *end++ = (struct iovec){sink->kept, sink->kept_size};
    if (sink->chunked) *end++ = (struct iovec){"\r\n", 2};
    return (size_t)(end - parts);
}

void sink_keep_no_more(struct sink *sink) {
    sink->keeps = false;
    sink->kept_size = 0;
    if (sink->kept_room > KEPT_ROOM) sink_end(sink);
}

int sink_put(struct sink *sink, struct iovec *parts, size_t count) { return write_all(sink, parts, parts + count); }

void sink_end(struct sink *sink) {
    free(sink->kept);
    sink->kept = NULL;
    sink->kept_room = 0;
}

bool is_socket(int fd) {
    int type;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

struct iovec *send_now(int fd, struct iovec *parts, size_t *count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = *count};
    ssize_t put = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return NULL;
    struct iovec *end = parts + *count, *left = put > 0 ? pass(parts, end, (size_t)put) : parts;
    *count = (size_t)(end - left);
    return left;
}

bool client_has_left(int number) {
    return number == EPIPE || number == ECONNRESET || number == ENOTCONN || number == ETIMEDOUT || number == ESHUTDOWN;
}
