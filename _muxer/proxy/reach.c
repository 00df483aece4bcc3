/* Sockets towards containers: from the client's own address, where the container's answers come back here, else from
 * the bridge's.
 *
 * The C version of engine/proxy/reach.py. The first kind needs CAP_NET_RAW, and what engine/daemon/network/returning.py
 * has made in this network (IP_TRANSPARENT, ip(7)). */
#include "proxy/proxy.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_TRIES 3 /* SYNs that are sent again: about 15 seconds (tcp(7), TCP_SYNCNT) */
#ifndef IP_TRANSPARENT
#define IP_TRANSPARENT 19
#endif
#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif

static socklen_t size_of(const union address *one) {
    return one->any.sa_family == AF_INET6 ? sizeof one->six : sizeof one->four;
}

static const void *bytes_of(const union address *one) {
    return one->any.sa_family == AF_INET6 ? (const void *)&one->six.sin6_addr : (const void *)&one->four.sin_addr;
}

/* From which address this host would send to the other one. Nothing is sent. */
static bool find_source(const union address *other, union address *source) {
    socklen_t size = sizeof *source;
    int fd = socket(other->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool found = connect(fd, &other->any, size_of(other)) == 0 && getsockname(fd, &source->any, &size) == 0;
    close(fd);
    return found;
}

/* Whether containers send what is for this address to their gateway, as they do for addresses outside: it is neither
 * this host's own, nor in a subnet in which a container would look for it itself. Then the way there is the same as to
 * an address that nobody has, or there is no way to both. */
static bool is_outside(const union address *client) {
    union address nobody = {.any.sa_family = client->any.sa_family}, here, there;
    bool six = client->any.sa_family == AF_INET6;
    if (six && (IN6_IS_ADDR_LINKLOCAL(&client->six.sin6_addr) || IN6_IS_ADDR_V4MAPPED(&client->six.sin6_addr)))
        return false;
    nobody.four.sin_port = htons(9);
    if (six)
        nobody.six.sin6_addr = (struct in6_addr){{{1}}}; /* 100::, which discards (RFC 6666) */
    else
        nobody.four.sin_addr.s_addr = htonl(0xc0000008); /* 192.0.0.8, a dummy (RFC 7600) */
    bool found = find_source(client, &here);
    if (found != find_source(&nobody, &there)) return false;
    return !found || memcmp(bytes_of(&here), bytes_of(&there), six ? 16 : 4) == 0;
}

/* Begins a connection to `target`, from an address that need not be this host's, or from any of its own (NULL). */
static int begin(int kind, const union address *from, const union address *target) {
    bool six = target->any.sa_family == AF_INET6;
    int on = 1, tries = CONNECT_TRIES, failed;
    int fd = socket(target->any.sa_family, kind | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (kind == SOCK_STREAM) setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &tries, sizeof tries);
    if (from) {
        if (six ? setsockopt(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof on)
                : setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on))
            goto fails;
        /* A client may use one port for several connections. Of datagrams each socket must have a port of its own, or
         * the answers would not be told apart. */
        if (kind == SOCK_STREAM) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, &from->any, size_of(from)) < 0) goto fails;
    }
    if (connect(fd, &target->any, size_of(target)) == 0 || errno == EINPROGRESS) return fd;
fails:
    failed = -errno;
    close(fd);
    return failed;
}

int reach(const struct proxy *proxy, int kind, const union address *client, const union address *target) {
    if (proxy->limits->transparent && client->any.sa_family == target->any.sa_family && is_outside(client)) {
        union address from = *client;
        int fd = begin(kind, &from, target);
        if (fd >= 0) return fd;
        from.four.sin_port = 0; /* its own leads there already, or is taken; the port has one place in both families */
        fd = begin(kind, &from, target);
        if (fd >= 0) return fd;
    }
    return begin(kind, NULL, target);
}
