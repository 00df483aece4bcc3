/* What the proxy is told, by a daemon of any version, while clients and containers come, speak and go. */
#include "place.h"

#define meet meet_daemon /* the keeper has one too */
#include "../../../../_muxer/proxy/turns.c" /* for what is static in there */
#undef meet

#define record lead_record /* so has the log */
#include "../../../../_muxer/proxy/orders.c"
#undef record

#include "process/keeper.h"

/* The keeper's files, of which a proxy has what reads a link, name it. */
pid_t fork_with(bool own_pids, int *pidfd) { return (void)own_pids, (void)pidfd, -1; }

#include <sys/syscall.h>

#define STEPS 40
#define MOST 6 /* clients, and containers' ends, at a time */
#define LAST_FD 512

/* The host's sockets (0, 1) and the container's (2, 3), on the loopback address: TCP, then UDP. */
struct scene {
    struct proxy *proxy;
    int daemon, sockets[4], clients[MOST], inside[MOST];
    struct sockaddr_in addresses[4];
};

static const struct mux_proxy_limits FEW = {
    .leads = 8, .streams = 4, .streams_each = 3, .flows = 4, .flows_each = 3, .idle_ms = 2, .linger_ms = 2,
    .transparent = 1};

static void open_all(struct scene *scene) {
    for (int i = 0; i < 4; i++) {
        struct sockaddr_in *address = &scene->addresses[i];
        socklen_t size = sizeof *address;
        *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        scene->sockets[i] = socket(AF_INET, (i % 2 ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (bind(scene->sockets[i], (struct sockaddr *)address, sizeof *address) < 0) abort();
        if (i % 2 == 0 && listen(scene->sockets[i], MOST) < 0) abort();
        if (getsockname(scene->sockets[i], (struct sockaddr *)address, &size) < 0) abort();
    }
    for (int i = 0; i < MOST; i++) scene->clients[i] = scene->inside[i] = -1;
}

static void connect_daemon(struct scene *scene) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) abort();
    if (scene->daemon >= 0) close(scene->daemon);
    part(scene->proxy);
    scene->daemon = ends[0];
    scene->proxy->link = ends[1];
    greet(scene->proxy);
}

/* A datagram that is sound but for some bytes, with as many descriptors as it needs, or not. */
static void order(struct scene *scene, struct choices *choices) {
    static const uint8_t MARKS[] = {WIRE_LEADS_LEADS, WIRE_LEADS_LEADS, WIRE_LEADS_DROPS, WIRE_LEADS_TELLS};
    struct word word = {.head = {.mark = MARKS[number(choices, 3)], .form = WIRE_LEADS_FORM}};
    int fds[16], count = 0;
    word.head.run = number(choices, 2);
    word.head.container[0] = (uint8_t)number(choices, 3);
    word.head.number = number(choices, 4);
    if (word.head.mark == WIRE_LEADS_LEADS) word.head.count = (uint16_t)number(choices, 4);
    for (int i = 0; i < word.head.count; i++) {
        int kind = (int)number(choices, 1);
        struct lead_record *record = &word.records[i];
        *record = (struct lead_record){.protocol = kind ? IPPROTO_UDP : IPPROTO_TCP, .version = 4};
        record->port = ntohs(scene->addresses[2 + kind].sin_port);
        memcpy(record->address, &scene->addresses[2 + kind].sin_addr, 4);
        fds[count++] = scene->sockets[number(choices, 15) == 15 ? 1 - kind : kind];
    }
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (word.head.count > 0) fds[count++] = number(choices, 31) == 31 ? scene->sockets[2] : self;
    if (number(choices, 15) == 15) count = (int)number(choices, 5) % (count + 1);
    size_t size = sizeof word.head + word.head.count * sizeof *word.records;
    for (unsigned changes = number(choices, 7) == 7 ? 3 : 0; changes > 0; changes--) {
        unsigned at = number(choices, 0xff);
        ((uint8_t *)&word)[at % size] = (uint8_t)number(choices, 255);
    }
    if (number(choices, 15) == 15) size = number(choices, 0xffff) % (sizeof word + 1);
    pass_on(scene->daemon, &word, size, fds, count);
    close(self);
}

static int *room(int *ends) {
    for (int i = 0; i < MOST; i++)
        if (ends[i] < 0) return &ends[i];
    return NULL;
}

/* A client comes, or one of those that are there, on either side, does something. */
static void live(struct scene *scene, struct choices *choices) {
    static const char TEXT[4096];
    char heard[4096];
    int *place, *ends = number(choices, 1) ? scene->clients : scene->inside, kind = (int)number(choices, 1);
    unsigned which = number(choices, MOST - 1), some = number(choices, sizeof TEXT);
    switch (number(choices, 6)) {
    case 0:
        if (!(place = room(scene->clients))) break;
        *place = socket(AF_INET, (kind ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(*place, (struct sockaddr *)&scene->addresses[kind], sizeof *scene->addresses);
        break;
    case 1:
        if ((place = room(scene->inside))) *place = accept4(scene->sockets[2], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        break;
    case 2:
        if (ends[which] >= 0) send(ends[which], TEXT, some, MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case 3:
        if (ends[which] >= 0) recv(ends[which], heard, sizeof heard, MSG_DONTWAIT);
        break;
    case 4:
        if (ends[which] >= 0) shutdown(ends[which], SHUT_WR);
        break;
    case 5:
        if (ends[which] < 0) break;
        struct linger reset = {.l_onoff = (int)number(choices, 1)};
        setsockopt(ends[which], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(ends[which]);
        ends[which] = -1;
        break;
    default: { /* the container answers whoever has sent it something */
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        if (recvfrom(scene->sockets[3], heard, sizeof heard, MSG_DONTWAIT, (struct sockaddr *)&from, &size) >= 0)
            sendto(scene->sockets[3], TEXT, some, MSG_DONTWAIT, (struct sockaddr *)&from, size);
    }
    }
}

/* One turn of the proxy's loop, without waiting. */
static void turn(struct proxy *proxy) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(proxy->poll, events, EVENTS, 0);
    proxy->now_ms++;
    for (int i = 0; i < count; i++) handle(proxy, events[i].data.ptr, events[i].events);
    move_waiting(proxy);
    if (proxy->idle_due_ms <= proxy->now_ms) close_idle(proxy);
    if (proxy->retry_due_ms <= proxy->now_ms) resume_leads(proxy);
    free_dead(proxy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct choices choices = {bytes, size};
    struct proxy *proxy = calloc(1, sizeof *proxy);
    struct scene scene = {.proxy = proxy, .daemon = -1};
    open_all(&scene);
    proxy->limits = &FEW;
    proxy->link_kind = LINK;
    proxy->daemons_kind = DAEMONS;
    proxy->link = -1;
    proxy->last_waiting = &proxy->waiting;
    proxy->idle_due_ms = proxy->retry_due_ms = proxy->linger_due_ms = NEVER;
    proxy->poll = epoll_create1(EPOLL_CLOEXEC);
    connect_daemon(&scene);
    for (int step = 0; step < STEPS && choices.left > 0; step++) {
        unsigned what = number(&choices, 15);
        if (what == 15)
            connect_daemon(&scene);
        else if (what > 10)
            order(&scene, &choices);
        else
            live(&scene, &choices);
        turn(proxy);
    }
    part(proxy);
    while (proxy->owners) drop_owner(proxy, proxy->owners);
    free_dead(proxy);
    if (proxy->streams || proxy->flows || proxy->leads || proxy->paused || proxy->waiting) abort(); /* a wrong count */
    free(proxy->datagram);
    free(proxy);
    for (int fd = 3; fd < LAST_FD; fd++) close(fd);
    return 0;
}
