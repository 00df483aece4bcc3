/* What the daemon tells the proxy: which sockets lead where; and what the proxy tells the next daemon of them.
 *
 * The C version of engine/proxy/orders.py. engine/wire/leads.py describes the datagrams. No answer is waited with: a
 * daemon that does not read loses its link, and another one may come. */
#include "proxy/proxy.h"

#include "process/keeper.h"
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct head {
    uint8_t mark, form;
    uint16_t count;
    uint32_t number;
    uint64_t run;
    uint8_t container[64];
};

struct record {
    uint8_t protocol, version;
    uint16_t port;
    uint8_t address[16];
};

_Static_assert(sizeof(struct head) == WIRE_LEADS_HEAD_SIZE, "as engine/wire/leads.py packs it");
_Static_assert(sizeof(struct record) == WIRE_LEADS_RECORD_SIZE, "as engine/wire/leads.py packs it");

struct word {
    struct head head;
    struct record records[WIRE_LEADS_MOST];
};

#define MOST_WORDS 16 /* handled in one turn, before others have theirs */

void part(struct proxy *proxy) {
    if (proxy->link >= 0) let_go_of(proxy, proxy->link);
    proxy->link = -1;
}

/* Sends one datagram, with descriptors if there are any. */
static void tell(struct proxy *proxy, struct word *word, const int *fds) {
    size_t size = sizeof word->head + word->head.count * sizeof *word->records;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int) * WIRE_LEADS_MOST)];
    } control;
    struct iovec part_of = {.iov_base = word, .iov_len = size};
    struct msghdr message = {.msg_iov = &part_of, .msg_iovlen = 1};
    word->head.form = WIRE_LEADS_FORM;
    if (fds && word->head.count) {
        size_t bytes = sizeof(int) * word->head.count;
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(rights), fds, bytes);
    }
    if (sendmsg(proxy->link, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) part(proxy);
}

static void answer(struct proxy *proxy, int error) {
    struct word word = {.head = {.mark = WIRE_LEADS_ANSWERS, .number = (uint32_t)error}};
    tell(proxy, &word, NULL);
}

void greet(struct proxy *proxy) {
    struct word word = {.head = {.mark = WIRE_LEADS_GREETS, .number = (uint32_t)getpid()}};
    if (wait_for(proxy, proxy->link, &proxy->link_kind, EPOLLIN, false) < 0)
        part(proxy);
    else
        tell(proxy, &word, NULL);
}

static void close_lead(struct proxy *proxy, struct lead *lead) {
    while (lead->streams) abort_stream(proxy, lead->streams);
    if (lead->paused) proxy->paused--;
    lead->over = true;
    let_go_of(proxy, lead->fd);
    proxy->leads--;
    bury(proxy, &lead->dead);
}

void drop_owner(struct proxy *proxy, struct owner *owner) {
    struct owner **place = &proxy->owners;
    while (*place != owner) place = &(*place)->next;
    *place = owner->next;
    while (owner->oldest) close_flow(proxy, owner->oldest);
    for (struct lead *lead = owner->leads, *next; lead; lead = next) {
        next = lead->next;
        close_lead(proxy, lead);
    }
    owner->leads = NULL;
    owner->over = true;
    let_go_of(proxy, owner->pidfd);
    bury(proxy, &owner->dead);
}

static struct owner *find(struct proxy *proxy, const struct head *head) {
    for (struct owner *owner = proxy->owners; owner; owner = owner->next)
        if (memcmp(owner->container, head->container, sizeof owner->container) == 0) return owner;
    return NULL;
}

/* Adds an owner at the end of the list. The pidfd is the owner's from then on. */
static struct owner *add_owner(struct proxy *proxy, const struct head *head, int pidfd) {
    struct owner *owner = calloc(1, sizeof *owner), **place = &proxy->owners;
    if (!owner) return NULL;
    owner->kind = OWNER;
    if (wait_for(proxy, pidfd, &owner->kind, EPOLLIN, false) < 0) {
        free(owner);
        return NULL;
    }
    memcpy(owner->container, head->container, sizeof owner->container);
    owner->run = head->run;
    owner->serial = ++proxy->serial;
    owner->pidfd = pidfd;
    while (*place) place = &(*place)->next;
    *place = owner;
    return owner;
}

/* Whether the descriptor is a socket that a record may be about; returns its address family, else 0. */
static sa_family_t family_of(int fd, uint8_t protocol) {
    int type = 0, domain = 0, wanted = protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != wanted) return 0;
    size = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0) return 0;
    return domain == AF_INET || domain == AF_INET6 ? (sa_family_t)domain : 0;
}

static bool is_good(const struct record *record, int fd) {
    if (record->protocol != IPPROTO_TCP && record->protocol != IPPROTO_UDP) return false;
    return (record->version == 4 || record->version == 6) && family_of(fd, record->protocol) != 0;
}

static union address target_of(const struct record *record) {
    union address target;
    memset(&target, 0, sizeof target);
    if (record->version == 6) {
        target.six.sin6_family = AF_INET6;
        target.six.sin6_port = htons(record->port);
        memcpy(&target.six.sin6_addr, record->address, 16);
    } else {
        target.four.sin_family = AF_INET;
        target.four.sin_port = htons(record->port);
        memcpy(&target.four.sin_addr, record->address, 4);
    }
    return target;
}

/* Takes the descriptor, if it returns 0. */
static int add_lead(struct proxy *proxy, struct owner *owner, const struct record *record, int fd) {
    struct lead *lead = calloc(1, sizeof *lead);
    if (!lead) return -ENOMEM;
    lead->kind = LEAD;
    lead->protocol = record->protocol;
    lead->family = family_of(fd, record->protocol);
    lead->target = target_of(record);
    lead->owner = owner;
    lead->fd = fd;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    int failed = record->protocol == IPPROTO_UDP ? prepare_datagrams(fd, lead->family) : 0;
    if (failed == 0) failed = wait_for(proxy, fd, &lead->kind, EPOLLIN, false);
    if (failed < 0) {
        free(lead);
        return failed;
    }
    if (owner->last)
        owner->last->next = lead;
    else
        owner->leads = lead;
    owner->last = lead;
    owner->lead_count++;
    proxy->leads++;
    return 0;
}

static void close_all(const int *fds, int count) {
    for (int i = 0; i < count; i++) close(fds[i]);
}

/* Serves the sockets of these records: all of them, or none and the container's others neither. Returns an errno. */
static int lead_there(struct proxy *proxy, const struct word *word, const int *fds, int fd_count) {
    int count = word->head.count, taken = 0, failed = 0;
    bool good = count > 0 && fd_count == count + 1;
    for (int i = 0; good && i < count; i++) good = is_good(&word->records[i], fds[i]);
    bool room = proxy->leads + (uint32_t)count <= proxy->limits->leads;
    struct owner *owner = good && room ? find(proxy, &word->head) : NULL;
    if (owner && owner->run != word->head.run) {
        drop_owner(proxy, owner);
        owner = NULL;
    }
    if (!good || !room || (!owner && !(owner = add_owner(proxy, &word->head, fds[count])))) {
        close_all(fds, fd_count);
        return !good ? EINVAL : !room ? EMFILE : ENOMEM;
    }
    if (owner->pidfd != fds[count]) close(fds[count]);
    while (taken < count && !failed)
        if ((failed = -add_lead(proxy, owner, &word->records[taken], fds[taken])) == 0) taken++;
    close_all(fds + taken, count - taken);
    if (failed) drop_owner(proxy, owner);
    return failed;
}

/* Tells the daemon the leads of one container, a part at a time. */
static void tell_leads(struct proxy *proxy, const struct head *asked) {
    struct word word = {.head = {.mark = WIRE_LEADS_LEADS}};
    struct owner *owner = proxy->owners;
    int fds[WIRE_LEADS_MOST];
    uint64_t skipped = asked->run;
    while (owner && owner->serial < asked->number) owner = owner->next;
    if (owner && (owner->serial != asked->number || skipped >= owner->lead_count)) {
        if (owner->serial == asked->number) owner = owner->next;
        skipped = 0;
    }
    if (!owner) {
        answer(proxy, ENOENT);
        return;
    }
    struct lead *lead = owner->leads;
    while (lead && skipped-- > 0) lead = lead->next;
    memcpy(word.head.container, owner->container, sizeof owner->container);
    word.head.run = owner->run;
    word.head.number = owner->serial;
    for (; lead && word.head.count < WIRE_LEADS_MOST; lead = lead->next) {
        struct record *record = &word.records[word.head.count];
        bool six = lead->target.any.sa_family == AF_INET6;
        record->protocol = lead->protocol;
        record->version = six ? 6 : 4;
        record->port = ntohs(six ? lead->target.six.sin6_port : lead->target.four.sin_port);
        if (six)
            memcpy(record->address, &lead->target.six.sin6_addr, 16);
        else
            memcpy(record->address, &lead->target.four.sin_addr, 4);
        fds[word.head.count++] = lead->fd;
    }
    tell(proxy, &word, fds);
}

/* Carries out one datagram, whose descriptors are this function's. */
static void obey(struct proxy *proxy, const struct word *word, size_t size, const int *fds, int fd_count) {
    bool whole = size >= sizeof word->head && word->head.form == WIRE_LEADS_FORM &&
                 word->head.count <= WIRE_LEADS_MOST &&
                 size == sizeof word->head + word->head.count * sizeof *word->records;
    uint8_t mark = whole ? word->head.mark : 0;
    if (mark == WIRE_LEADS_LEADS) {
        answer(proxy, lead_there(proxy, word, fds, fd_count));
        return;
    }
    close_all(fds, fd_count);
    if (mark == WIRE_LEADS_DROPS) {
        struct owner *owner = find(proxy, &word->head);
        if (owner && (word->head.run == 0 || word->head.run == owner->run)) drop_owner(proxy, owner);
        answer(proxy, 0);
    } else if (mark == WIRE_LEADS_TELLS) {
        tell_leads(proxy, &word->head);
    } else {
        answer(proxy, EPROTO);
    }
}

void hear_daemon(struct proxy *proxy) {
    for (int i = 0; i < MOST_WORDS && proxy->link >= 0; i++) {
        uint8_t bytes[sizeof(struct word) + 1];
        struct word word;
        int fds[MUX_MOST_FDS], count = 0;
        ssize_t got = receive(proxy->link, bytes, sizeof bytes, fds, &count);
        if (got == -EAGAIN || got == -EINTR) return;
        if (got <= 0) {
            part(proxy);
            return;
        }
        if (count < 0) { /* it was cut: by its length, or because there was no room for its descriptors */
            answer(proxy, EMSGSIZE);
            continue;
        }
        memset(&word, 0, sizeof word);
        memcpy(&word, bytes, (size_t)got < sizeof word ? (size_t)got : sizeof word);
        obey(proxy, &word, (size_t)got, fds, count);
    }
}
