/* Hands bytes to a client in large pieces. The descriptor may be blocking or not, a socket or a pipe. */
#include "sink.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int write_all(struct sink *sink, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        ssize_t put = sink->not_a_socket ? write(sink->fd, bytes, size) : send(sink->fd, bytes, size, MSG_NOSIGNAL);
        if (put >= 0) {
            bytes += put;
            size -= (size_t)put;
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

int sink_flush(struct sink *sink, bool finish) {
    uint8_t *first = sink->bytes + SINK_HEAD, *last = first + sink->used;
    if (sink->chunked && sink->used > 0) {
        char header[SINK_HEAD];
        int size = snprintf(header, sizeof header, "%zx\r\n", sink->used);
        first -= size;
        memcpy(first, header, (size_t)size);
        memcpy(last, "\r\n", 2);
        last += 2;
    }
    if (sink->chunked && finish) {
        memcpy(last, "0\r\n\r\n", 5);
        last += 5;
    }
    sink->used = 0;
    return write_all(sink, first, (size_t)(last - first));
}

int sink_put(struct sink *sink, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        size_t room = SINK_ROOM - sink->used, taken = size < room ? size : room;
        memcpy(sink->bytes + SINK_HEAD + sink->used, bytes, taken);
        sink->used += taken;
        bytes += taken;
        size -= taken;
        int failed = sink->used == SINK_ROOM ? sink_flush(sink, false) : 0;
        if (failed < 0) return failed;
    }
    return 0;
}

bool client_has_left(int number) {
    return number == EPIPE || number == ECONNRESET || number == ENOTCONN || number == ETIMEDOUT || number == ESHUTDOWN;
}
