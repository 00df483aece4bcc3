/* What the files of the proxy share. Internal to the muxer; engine/proxy has the Python version of each file.
 *
 * One process and one thread carry all published ports of a daemon that the firewall does not lead to containers. Each
 * structure that epoll knows begins with its kind. What ends while events are handled is freed after the last of them,
 * because a later event of the same batch may still name it. */
#ifndef MUXER_PROXY_H
#define MUXER_PROXY_H

#include "muxer.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

enum kind { LINK, DAEMONS, OWNER, LEAD, END, FLOW };

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

struct dead { struct dead *next; };

struct lead;

/* One end of a connection: the client's (0) or the container's (1), and the bytes that came in here and wait in a pipe
 * for the other end. */
struct end {
    uint8_t kind, side;
    bool readable, writable; /* as far as is known; a system call may find that it is not */
    bool ended;              /* nothing more comes in here */
    bool shut;               /* the peer was told that nothing more comes */
    int fd;
    int pipe[2]; /* -1 while no bytes wait */
    size_t held; /* bytes in the pipe */
};

struct stream {
    struct dead dead; /* first, so that the memory can be freed by it */
    struct end ends[2];
    struct lead *lead;
    struct stream *next, *previous; /* of the same lead */
    struct stream *waiting;         /* the next one in the list of those that have more to move */
    bool connecting, queued, over;
};

/* A client of a UDP port, by its address and by the host's address that it sends to. */
struct flow {
    struct dead dead;
    uint8_t kind;
    bool over;
    int fd; /* connected to the container */
    struct lead *lead;
    union address peer;
    uint8_t local[16]; /* the host's address, from which the client expects the answers */
    uint32_t interface; /* 0, or for a link-local address its link */
    int64_t used_ms;
    struct flow *next;              /* with the same hash */
    struct flow *older, *newer;     /* of the same owner */
};

/* A socket of the host and where it leads to. */
struct lead {
    struct dead dead;
    uint8_t kind, protocol;
    bool paused, over;
    int fd;
    sa_family_t family; /* of the host's socket */
    union address target;
    struct owner *owner;
    struct lead *next;
    struct stream *streams;
};

/* A run of a container. */
struct owner {
    struct dead dead;
    uint8_t kind;
    bool over;
    uint8_t container[64];
    uint64_t run;
    uint32_t serial;
    int pidfd;
    uint32_t streams, flows, lead_count;
    struct lead *leads, *last;
    struct flow *oldest, *newest;
    struct owner *next;
};

#define BUCKETS 1024u
#define POOL 8

struct proxy {
    const struct mux_proxy_limits *limits;
    uint8_t link_kind, daemons_kind;
    int poll, link, daemons, home;
    struct owner *owners; /* by their serial numbers */
    uint32_t serial, streams, flows, leads, paused;
    struct stream *waiting, **last_waiting;
    struct dead *dead;
    struct flow *buckets[BUCKETS];
    int pool[POOL][2]; /* empty pipes */
    int pooled;
    uint8_t *datagram; /* room for the longest one; NULL before the first */
    int64_t now_ms, idle_due_ms, retry_due_ms, linger_due_ms;
    bool ended;
};

#define NEVER INT64_MAX

/* turns.c */
int wait_for(struct proxy *proxy, int fd, void *of, uint32_t events, bool change);
void let_go_of(struct proxy *proxy, int fd);
void bury(struct proxy *proxy, struct dead *dead);
void pause_lead(struct proxy *proxy, struct lead *lead);
void resume_leads(struct proxy *proxy);

/* orders.c */
void greet(struct proxy *proxy);
void hear_daemon(struct proxy *proxy);
void drop_owner(struct proxy *proxy, struct owner *owner);
void part(struct proxy *proxy);

/* stream.c */
void accept_streams(struct proxy *proxy, struct lead *lead);
void stream_event(struct proxy *proxy, struct end *end, uint32_t events);
void move_waiting(struct proxy *proxy);
void abort_stream(struct proxy *proxy, struct stream *stream);

/* reach.c: begins a connection of this kind (SOCK_STREAM, SOCK_DGRAM) to a container. The socket or a negative errno. */
int reach(const struct proxy *proxy, int kind, const union address *client, const union address *target);

/* datagram.c */
int prepare_datagrams(int fd, sa_family_t family);
void hear_clients(struct proxy *proxy, struct lead *lead);
void hear_container(struct proxy *proxy, struct flow *flow);
void close_flow(struct proxy *proxy, struct flow *flow);
void close_idle(struct proxy *proxy);

#endif
