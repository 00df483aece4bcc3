/* One attached client: the bytes it is owed, the bytes it has sent, and its place in the log.
 *
 * It never blocks: every send and receive says MSG_DONTWAIT, whatever the mode of the descriptor is, because other
 * processes may share the descriptor. */
#include "pump/client.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MS 10000   /* the longest time to wait for a client to read its head */
#define LONGEST_LOOK 20 /* ms */

bool client_pending(const struct client *client) { return client->end > client->start; }

bool client_owed(const struct client *client) {
    return !client->hung_up && (client_pending(client) || client->replaying);
}

static void stop_replay(struct client *client) {
    client->replaying = false;
    if (client->directory_fd >= 0) close(client->directory_fd);
    if (client->log_fd >= 0) close(client->log_fd);
    client->directory_fd = client->log_fd = -1;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void client_begin(struct client *client) {
    int domain = 0;
    socklen_t size = sizeof domain;
    /* The queue of a TCP socket tells what has arrived at the peer's host, not what the client has read. */
    client->fresh = getsockopt(client->fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
    client->held_ms = 0;
}

/* Whether the client has not read its head yet. This is polled (unix(7), SIOCOUTQ), since no event tells it. */
static bool held(struct client *client) {
    int unread = 0;
    if (!client->fresh) return false;
    bool waits = ioctl(client->fd, SIOCOUTQ, &unread) == 0 && unread > 0;
    int64_t now = waits ? now_ms() : 0;
    if (client->held_ms == 0) client->held_ms = now;
    if (waits && now - client->held_ms < HEAD_MS) return true;
    client->fresh = false;
    client->held_ms = 0;
    return false;
}

int client_look_ms(const struct client *client) {
    if (client->held_ms == 0) return -1;
    int64_t wait = (now_ms() - client->held_ms) / 4;
    return wait < 1 ? 1 : wait > LONGEST_LOOK ? LONGEST_LOOK : (int)wait;
}

bool client_full(const struct client *client) {
    if (client->replaying || !client_pending(client)) return false;
    return client->held_ms == 0 || client->end - client->start >= LARGEST_CHUNK;
}

/* Sends what the socket takes now; returns how much that was; -1: the client has gone. */
static ssize_t send_some(int fd, const uint8_t *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t sent = send(fd, bytes + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM)) break;
        if (sent < 0) return -1; /* whatever the reason is, nothing reaches the client any more */
        done += (size_t)sent;
    }
    return (ssize_t)done;
}

bool client_give(struct client *client, const uint8_t *frame, size_t size) {
    size_t skipped = client->framed ? 0 : FRAME_SIZE;
    const uint8_t *bytes = frame + skipped;
    size -= skipped;
    if (!client_pending(client) && !held(client)) {
        ssize_t sent = send_some(client->fd, bytes, size);
        if (sent < 0) return false;
        bytes += sent;
        size -= (size_t)sent;
        client->start = client->end = 0;
    }
    if (size == 0) return true;
    if (!room_reserve(&client->pending, client->end + size)) return false;
    memcpy(client->pending.bytes + client->end, bytes, size);
    client->end += size;
    return true;
}

bool client_send(struct client *client) {
    if (!client_pending(client) || held(client)) return true;
    ssize_t sent = send_some(client->fd, client->pending.bytes + client->start, client->end - client->start);
    if (sent < 0) return false;
    client->start += (size_t)sent;
    if (client->start == client->end) client->start = client->end = 0;
    return true;
}

void client_drop(struct client *client) {
    client->fresh = false;
    client->held_ms = 0;
    client->start = client->end = 0;
    room_release(&client->pending);
    stop_replay(client);
}

/* Opens the first segment after number `after` that exists, at its beginning. 0: there is none (yet). */
static int64_t open_next(struct client *client, uint32_t after) {
    for (;;) {
        char name[NAME_SIZE];
        int64_t number = next_segment(client->directory_fd, after);
        if (number <= 0) return number;
        log_name(name, (uint32_t)number);
        int fd = openat(client->directory_fd, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT) return -errno;
        if (fd >= 0) {
            if (client->log_fd >= 0) close(client->log_fd);
            client->log_fd = fd;
            client->segment = (uint32_t)number;
            client->offset = 0;
            return number;
        }
        after = (uint32_t)number; /* a rotation removed it between the listing and now */
    }
}

int client_fall_back(struct client *client, const struct mux_log *log, uint32_t segment, uint64_t offset) {
    client->directory_fd = fcntl(log->directory_fd, F_DUPFD_CLOEXEC, 0);
    if (client->directory_fd < 0) return -errno;
    int64_t number = open_next(client, segment > 0 ? segment - 1 : 0);
    if (number <= 0) {
        stop_replay(client);
        return number < 0 ? (int)number : -ENOENT;
    }
    client->replaying = true;
    if (client->segment == segment) client->offset = offset;
    return 0;
}

/* Of the `got` bytes of log in pending, keeps the whole frames that this client wants; returns the size of all whole
 * frames. */
static size_t pick(struct client *client, size_t got) {
    uint8_t *bytes = client->pending.bytes;
    size_t place = 0, kept = 0;
    unsigned stream;
    uint32_t length;
    while (got - place >= FRAME_SIZE && frame_unpack(bytes + place, &stream, &length)) {
        if (got - place - FRAME_SIZE < length) break;
        if (client->streams & 1u << stream) {
            size_t skipped = client->framed ? 0 : FRAME_SIZE, size = FRAME_SIZE + length - skipped;
            if (kept != place + skipped) memmove(bytes + kept, bytes + place + skipped, size);
            kept += size;
        }
        place += FRAME_SIZE + length;
    }
    client->start = 0;
    client->end = kept;
    return place;
}

bool client_load(struct client *client, const struct mux_log *log) {
    if (!room_reserve(&client->pending, LARGEST_FRAME)) return false;
    while (client->replaying && !client_pending(client)) {
        bool last = client->segment >= log->number;
        uint64_t size = LARGEST_FRAME;
        if (last) {
            uint64_t rest = log->position > client->offset ? log->position - client->offset : 0;
            if (rest < size) size = rest;
        }
        int64_t got = read_at(client->log_fd, client->pending.bytes, (size_t)size, client->offset);
        if (got < 0) return false;
        size_t taken = pick(client, (size_t)got);
        client->offset += taken;
        if (taken > 0) continue;
        if (last) {
            stop_replay(client);
        } else {
            int64_t number = open_next(client, client->segment);
            if (number < 0) return false;
            if (number == 0) stop_replay(client); /* the segments ahead were removed by hand */
        }
    }
    return true;
}

int64_t client_receive(struct client *client, uint8_t *to, size_t size) {
    ssize_t got;
    do got = recv(client->fd, to, size, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? -EAGAIN : 0; /* a broken connection is an end */
    return got;
}

size_t client_sift(struct client *client, uint8_t *bytes, size_t size, uint8_t **forward, bool *found) {
    *forward = bytes;
    *found = false;
    if (client->detach_size == 0) return size;
    /* The withheld bytes are the beginning of the keys: they are put back in front. */
    *forward = bytes - client->matched;
    memcpy(*forward, client->detach, client->matched);
    size += client->matched;
    const uint8_t *keys = memmem(*forward, size, client->detach, client->detach_size);
    if (keys) {
        client->matched = 0;
        *found = true;
        return (size_t)(keys - *forward);
    }
    size_t longest = client->detach_size - 1 < size ? client->detach_size - 1 : size;
    while (memcmp(*forward + size - longest, client->detach, longest) != 0) longest--;
    client->matched = longest;
    return size - longest;
}

void connection_end(int fd) {
    uint8_t unread[4096];
    /* If it is closed while bytes in it are unread, a Unix socket's peer gets ECONNRESET instead of the end. */
    if (shutdown(fd, SHUT_RDWR) == 0)
        while (recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0) continue;
}

void client_free(struct client *client) {
    stop_replay(client);
    room_release(&client->pending);
    connection_end(client->fd);
    close(client->fd);
    struct room place = client->place;
    room_release(&place);
}
