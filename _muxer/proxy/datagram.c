/* Published UDP ports: each client has a socket of its own towards the container, until it has been silent for a while.
 *
 * The C version of engine/proxy/datagram.py. A client is known by its address and by the address of the host that it
 * sends to, from which the answers go back: a host has several. The number of clients is bounded, for each container
 * too; a new one takes the place of the one that has been silent for longest. */
#include "proxy/proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LARGEST 65536
#define AT_ONCE 32 /* datagrams of one socket, before others have their turn */
#define MULTICAST 0xff

union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* Makes a socket of the host tell to which address each datagram was sent. 0 or a negative errno. */
int prepare_datagrams(int fd, sa_family_t family) {
    int on = 1;
    int done = family == AF_INET6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on)
                                  : setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    return done < 0 ? -errno : 0;
}

static uint32_t bucket_of(const struct lead *lead, const union address *peer) {
    bool six = peer->any.sa_family == AF_INET6;
    const uint8_t *bytes = six ? peer->six.sin6_addr.s6_addr : (const uint8_t *)&peer->four.sin_addr;
    size_t size = six ? 16 : 4;
    uint32_t hash = 2166136261u ^ (uint32_t)(uintptr_t)lead ^ peer->four.sin_port; /* the port has one place in both */
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 16777619u;
    return (hash ^ hash >> 16) % BUCKETS;
}

static bool is_peer(const union address *one, const union address *other) {
    if (one->any.sa_family != other->any.sa_family || one->four.sin_port != other->four.sin_port) return false;
    if (one->any.sa_family == AF_INET) return one->four.sin_addr.s_addr == other->four.sin_addr.s_addr;
    return one->six.sin6_scope_id == other->six.sin6_scope_id &&
           memcmp(&one->six.sin6_addr, &other->six.sin6_addr, 16) == 0;
}

static void leave_ages(struct flow *flow) {
    struct owner *owner = flow->lead->owner;
    *(flow->older ? &flow->older->newer : &owner->oldest) = flow->newer;
    *(flow->newer ? &flow->newer->older : &owner->newest) = flow->older;
}

static void become_newest(struct flow *flow) {
    struct owner *owner = flow->lead->owner;
    flow->newer = NULL;
    flow->older = owner->newest;
    *(owner->newest ? &owner->newest->newer : &owner->oldest) = flow;
    owner->newest = flow;
}

void close_flow(struct proxy *proxy, struct flow *flow) {
    struct flow **place = &proxy->buckets[bucket_of(flow->lead, &flow->peer)];
    while (*place != flow) place = &(*place)->next;
    *place = flow->next;
    leave_ages(flow);
    close(flow->fd);
    flow->over = true;
    proxy->flows--;
    flow->lead->owner->flows--;
    bury(proxy, &flow->dead);
}

void close_idle(struct proxy *proxy) {
    int64_t before = proxy->now_ms - proxy->limits->idle_ms;
    for (struct owner *owner = proxy->owners; owner; owner = owner->next)
        while (owner->oldest && owner->oldest->used_ms <= before) close_flow(proxy, owner->oldest);
    proxy->idle_due_ms = proxy->flows ? proxy->now_ms + proxy->limits->idle_ms / 4 + 1 : NEVER;
}

/* Closes the flow that has been silent for longest, if there is no room for another one of this owner. */
static void make_room(struct proxy *proxy, struct owner *owner) {
    struct flow *oldest = NULL;
    if (owner->flows >= proxy->limits->flows_each)
        oldest = owner->oldest;
    else if (proxy->flows >= proxy->limits->flows)
        for (struct owner *other = proxy->owners; other; other = other->next)
            if (other->oldest && (!oldest || other->oldest->used_ms < oldest->used_ms)) oldest = other->oldest;
    if (oldest) close_flow(proxy, oldest);
}

static struct flow *new_flow(struct proxy *proxy, struct lead *lead, const union address *peer) {
    make_room(proxy, lead->owner);
    struct flow *flow = calloc(1, sizeof *flow);
    if (!flow) return NULL;
    flow->kind = FLOW;
    flow->lead = lead;
    flow->peer = *peer;
    flow->fd = reach(proxy, SOCK_DGRAM, peer, &lead->target);
    if (flow->fd < 0 || wait_for(proxy, flow->fd, &flow->kind, EPOLLIN, false) < 0) {
        if (flow->fd >= 0) close(flow->fd);
        free(flow);
        return NULL;
    }
    struct flow **place = &proxy->buckets[bucket_of(lead, peer)];
    flow->next = *place;
    *place = flow;
    become_newest(flow);
    proxy->flows++;
    lead->owner->flows++;
    if (proxy->idle_due_ms == NEVER) proxy->idle_due_ms = proxy->now_ms + proxy->limits->idle_ms / 4 + 1;
    return flow;
}

/* Reads from the control message to which of the host's addresses a datagram was sent, and on which link. */
static void find_local(const struct msghdr *message, uint8_t local[16], uint32_t *interface) {
    memset(local, 0, 16);
    *interface = 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR((struct msghdr *)message, each)) {
        if (each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo told;
            memcpy(&told, CMSG_DATA(each), sizeof told);
            if (told.ipi6_addr.s6_addr[0] != MULTICAST) memcpy(local, &told.ipi6_addr, 16);
            if (IN6_IS_ADDR_LINKLOCAL(&told.ipi6_addr)) *interface = told.ipi6_ifindex;
        } else if (each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo told;
            memcpy(&told, CMSG_DATA(each), sizeof told);
            memcpy(local, &told.ipi_spec_dst, 4); /* for a broadcast the address of the link */
        }
    }
}

static struct flow *flow_of(struct proxy *proxy, struct lead *lead, const union address *peer, const uint8_t local[16],
                            uint32_t interface) {
    struct flow *flow = proxy->buckets[bucket_of(lead, peer)];
    while (flow && !(flow->lead == lead && flow->interface == interface && memcmp(flow->local, local, 16) == 0 &&
                     is_peer(&flow->peer, peer)))
        flow = flow->next;
    if (flow) {
        leave_ages(flow);
        become_newest(flow);
    } else if ((flow = new_flow(proxy, lead, peer))) {
        memcpy(flow->local, local, 16);
        flow->interface = interface;
    }
    if (flow) flow->used_ms = proxy->now_ms;
    return flow;
}

/* Whether there is room for a datagram. */
static bool has_room(struct proxy *proxy) {
    if (!proxy->datagram) proxy->datagram = malloc(LARGEST);
    return proxy->datagram != NULL;
}

void hear_clients(struct proxy *proxy, struct lead *lead) {
    for (int i = 0; i < AT_ONCE && has_room(proxy); i++) {
        union address peer;
        union control control;
        struct iovec part = {proxy->datagram, LARGEST};
        struct msghdr message = {.msg_name = &peer,
                                 .msg_namelen = sizeof peer,
                                 .msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control};
        uint8_t local[16];
        uint32_t interface;
        memset(&peer, 0, sizeof peer);
        ssize_t got = recvmsg(lead->fd, &message, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return;
        if (got < 0 || peer.any.sa_family != lead->family) continue; /* an error of the network, over once returned */
        find_local(&message, local, &interface);
        struct flow *flow = flow_of(proxy, lead, &peer, local, interface);
        /* Of the two errors, the first may be that of an earlier datagram. A datagram may be lost. */
        if (flow && send(flow->fd, proxy->datagram, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
            errno == ECONNREFUSED && send(flow->fd, proxy->datagram, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            continue;
    }
}

/* Sends an answer to the client, from the address that the client has sent to. */
static void answer_from(struct flow *flow, uint8_t *bytes, size_t size) {
    union control control;
    struct iovec part = {bytes, size};
    bool six = flow->lead->family == AF_INET6;
    struct msghdr message = {.msg_name = &flow->peer,
                             .msg_namelen = six ? sizeof flow->peer.six : sizeof flow->peer.four,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen =
                                 six ? CMSG_SPACE(sizeof(struct in6_pktinfo)) : CMSG_SPACE(sizeof(struct in_pktinfo))};
    memset(&control, 0, sizeof control);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (six) {
        struct in6_pktinfo from = {.ipi6_ifindex = flow->interface};
        memcpy(&from.ipi6_addr, flow->local, 16);
        head->cmsg_level = IPPROTO_IPV6;
        head->cmsg_type = IPV6_PKTINFO;
        head->cmsg_len = CMSG_LEN(sizeof from);
        memcpy(CMSG_DATA(head), &from, sizeof from);
    } else {
        struct in_pktinfo from = {.ipi_ifindex = 0};
        memcpy(&from.ipi_spec_dst, flow->local, 4);
        head->cmsg_level = IPPROTO_IP;
        head->cmsg_type = IP_PKTINFO;
        head->cmsg_len = CMSG_LEN(sizeof from);
        memcpy(CMSG_DATA(head), &from, sizeof from);
    }
    if (sendmsg(flow->lead->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return; /* a datagram may be lost */
}

void hear_container(struct proxy *proxy, struct flow *flow) {
    for (int i = 0; i < AT_ONCE && has_room(proxy); i++) {
        ssize_t got = recv(flow->fd, proxy->datagram, LARGEST, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return;
        if (got < 0) continue; /* nobody listens there; reading the error ends it */
        flow->used_ms = proxy->now_ms;
        leave_ages(flow);
        become_newest(flow);
        answer_from(flow, proxy->datagram, (size_t)got);
    }
}
