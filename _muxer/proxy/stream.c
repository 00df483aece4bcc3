/* Connections of published TCP ports: accepted on the host, connected to the container, and spliced both ways.
 *
 * The C version of engine/proxy/stream.py. The bytes go from socket to pipe to socket and are never read (splice(2)). A
 * direction has a pipe only while bytes wait in it. While the receiving end takes nothing, nothing more is read from
 * the sending end, so the sender is slowed down and nothing is lost. Each end of sending is passed on by itself, and so
 * is a reset. */
#include "proxy/proxy.h"

#include <errno.h>
#include <stddef.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define AT_ONCE 32            /* connections accepted in one turn */
#define CHUNK (256 * 1024)    /* the most bytes that wait in a pipe */
#define TURNS 32              /* moves of one direction, before other connections have their turn */
#define PIPE_SIZE (256 * 1024)

enum moved { IDLE, MORE, BROKEN };

/* Pipes. A pipe whose bytes have all gone is kept for the next direction that needs one. */

static bool take_pipe(struct proxy *proxy, struct end *end) {
    if (end->pipe[0] >= 0) return true;
    if (proxy->pooled > 0) {
        memcpy(end->pipe, proxy->pool[--proxy->pooled], sizeof end->pipe);
        return true;
    }
    if (pipe2(end->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        end->pipe[0] = end->pipe[1] = -1;
        return false;
    }
    fcntl(end->pipe[1], F_SETPIPE_SZ, PIPE_SIZE); /* where that is refused, the usual size does */
    return true;
}

static void drop_pipe(struct end *end) {
    if (end->pipe[0] < 0) return;
    close(end->pipe[0]);
    close(end->pipe[1]);
    end->pipe[0] = end->pipe[1] = -1;
}

static void give_pipe_back(struct proxy *proxy, struct end *end) {
    if (end->pipe[0] < 0 || end->held > 0) return;
    if (proxy->pooled == POOL) {
        drop_pipe(end);
        return;
    }
    memcpy(proxy->pool[proxy->pooled++], end->pipe, sizeof end->pipe);
    end->pipe[0] = end->pipe[1] = -1;
}

/* The end of a connection. */

static void forget(struct proxy *proxy, struct stream *stream) {
    struct lead *lead = stream->lead;
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        lead->streams = stream->next;
    if (stream->next) stream->next->previous = stream->previous;
    for (int side = 0; side < 2; side++) {
        drop_pipe(&stream->ends[side]);
        if (stream->ends[side].fd >= 0) close(stream->ends[side].fd);
    }
    stream->over = true;
    proxy->streams--;
    lead->owner->streams--;
    if (!stream->queued) bury(proxy, &stream->dead); /* else when it comes out of the queue */
    if (proxy->paused) resume_leads(proxy);
}

/* Ends a connection so that both peers see a reset: something went wrong, and what they have got may not be all. */
void abort_stream(struct proxy *proxy, struct stream *stream) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    for (int side = 0; side < 2; side++)
        if (stream->ends[side].fd >= 0)
            setsockopt(stream->ends[side].fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    forget(proxy, stream);
}

/* Moving bytes. */

static enum moved move(struct proxy *proxy, struct stream *stream, int side) {
    struct end *from = &stream->ends[side], *to = &stream->ends[1 - side];
    for (int turn = 0; turn < TURNS; turn++) {
        ssize_t count;
        if (from->held > 0) {
            if (!to->writable) return IDLE;
            count = splice(from->pipe[0], NULL, to->fd, NULL, from->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
            if (count > 0)
                from->held -= (size_t)count;
            else if (count < 0 && errno == EAGAIN)
                to->writable = false;
            else if (count == 0 || errno != EINTR)
                return BROKEN;
            continue;
        }
        if (from->ended) {
            if (!to->shut) shutdown(to->fd, SHUT_WR); /* ENOTCONN: it has gone, as its event says too */
            to->shut = true;
        }
        if (from->ended || !from->readable) return IDLE;
        if (!take_pipe(proxy, from)) return BROKEN;
        count = splice(from->fd, NULL, from->pipe[1], NULL, CHUNK, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (count > 0)
            from->held = (size_t)count;
        else if (count == 0)
            from->ended = true;
        else if (errno == EAGAIN)
            from->readable = false;
        else if (errno != EINTR)
            return BROKEN;
    }
    return MORE;
}

/* Lets a connection wait for its next turn. */
static void queue(struct proxy *proxy, struct stream *stream) {
    if (stream->queued) return;
    stream->queued = true;
    stream->waiting = NULL;
    *proxy->last_waiting = stream;
    proxy->last_waiting = &stream->waiting;
}

/* Moves what can be moved now. The stream may be over afterwards. */
static void serve(struct proxy *proxy, struct stream *stream) {
    bool more = false;
    if (stream->connecting) return;
    for (int side = 0; side < 2; side++) {
        enum moved moved = move(proxy, stream, side);
        give_pipe_back(proxy, &stream->ends[side]);
        if (moved == BROKEN) {
            abort_stream(proxy, stream);
            return;
        }
        more |= moved == MORE;
    }
    if (stream->ends[0].shut && stream->ends[1].shut)
        forget(proxy, stream);
    else if (more)
        queue(proxy, stream);
}

void move_waiting(struct proxy *proxy) {
    struct stream *stream = proxy->waiting, *next;
    proxy->waiting = NULL;
    proxy->last_waiting = &proxy->waiting;
    for (; stream; stream = next) {
        next = stream->waiting;
        stream->queued = false;
        if (stream->over)
            bury(proxy, &stream->dead);
        else
            serve(proxy, stream);
    }
}

void stream_event(struct proxy *proxy, struct end *end, uint32_t events) {
    struct stream *stream = (struct stream *)((char *)(end - end->side) - offsetof(struct stream, ends));
    if (stream->over) return;
    if (events & EPOLLERR) { /* refused, unreachable, reset */
        abort_stream(proxy, stream);
        return;
    }
    end->readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) != 0;
    end->writable |= (events & (EPOLLOUT | EPOLLHUP)) != 0;
    if (end->side == 1 && events & EPOLLOUT) stream->connecting = false;
    serve(proxy, stream);
}

/* New connections. */

static void set(int fd, int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value); /* each is a wish alone */
}

/* Takes a client, whose descriptor is this function's. A client that cannot be served is reset. */
static void begin(struct proxy *proxy, struct lead *lead, int client, const union address *peer) {
    struct stream *stream = calloc(1, sizeof *stream);
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int container = stream ? reach(proxy, SOCK_STREAM, peer, &lead->target) : -ENOMEM;
    if (container < 0) {
        setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(client);
        free(stream);
        return;
    }
    stream->connecting = true;
    stream->lead = lead;
    stream->next = lead->streams;
    if (stream->next) stream->next->previous = stream;
    lead->streams = stream;
    proxy->streams++;
    lead->owner->streams++;
    for (int side = 0; side < 2; side++)
        stream->ends[side] = (struct end){.kind = END, .side = (uint8_t)side, .pipe = {-1, -1}};
    stream->ends[0].fd = client;
    stream->ends[1].fd = container;
    for (int side = 0; side < 2; side++) {
        int fd = stream->ends[side].fd;
        set(fd, IPPROTO_TCP, TCP_NODELAY, 1); /* the sender has waited already, if it wanted to */
        set(fd, SOL_SOCKET, SO_KEEPALIVE, 1); /* a peer that is gone without a word is noticed in the end */
        if (wait_for(proxy, fd, &stream->ends[side], EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, false) < 0) {
            abort_stream(proxy, stream);
            return;
        }
    }
}

void accept_streams(struct proxy *proxy, struct lead *lead) {
    for (int i = 0; i < AT_ONCE && !lead->over; i++) {
        const struct mux_proxy_limits *limits = proxy->limits;
        if (proxy->streams >= limits->streams || lead->owner->streams >= limits->streams_each) {
            pause_lead(proxy, lead);
            return;
        }
        union address peer = {.any.sa_family = AF_UNSPEC};
        socklen_t size = sizeof peer;
        int client = accept4(lead->fd, &peer.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client >= 0) {
            begin(proxy, lead, client, &peer);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_lead(proxy, lead); /* epoll would report it again and again */
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}
