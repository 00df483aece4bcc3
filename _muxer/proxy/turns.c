/* The proxy's loop: waits with epoll, calls what the event is for, and ends when nothing is served any more.
 *
 * The C version of engine/proxy/turns.py. */
#include "proxy/proxy.h"

#include <errno.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 64
#define RETRY_MS 1000 /* after so long, a lead that had no room for a client looks again */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Waits for events of a descriptor. Returns 0 or a negative errno. */
int wait_for(struct proxy *proxy, int fd, void *of, uint32_t events, bool change) {
    struct epoll_event event = {.events = events, .data.ptr = of};
    return epoll_ctl(proxy->poll, change ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* Stops waiting for a descriptor, and closes it. The daemon has most of them open too, so a close alone would not take
 * them out of the poll: it would go on to tell of them. */
void let_go_of(struct proxy *proxy, int fd) {
    epoll_ctl(proxy->poll, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
}

/* Frees the memory once no event of this batch can name it. */
void bury(struct proxy *proxy, struct dead *dead) {
    dead->next = proxy->dead;
    proxy->dead = dead;
}

static void free_dead(struct proxy *proxy) {
    while (proxy->dead) {
        struct dead *next = proxy->dead->next;
        free(proxy->dead);
        proxy->dead = next;
    }
}

/* Accepts no more connections of a lead for a while: they wait in the kernel. */
void pause_lead(struct proxy *proxy, struct lead *lead) {
    if (lead->paused) return;
    lead->paused = true;
    proxy->paused++;
    wait_for(proxy, lead->fd, &lead->kind, 0, true);
    if (proxy->retry_due_ms == NEVER) proxy->retry_due_ms = proxy->now_ms + RETRY_MS;
}

/* Lets all paused leads look whether there is room again. */
void resume_leads(struct proxy *proxy) {
    proxy->retry_due_ms = NEVER;
    for (struct owner *owner = proxy->owners; owner && proxy->paused; owner = owner->next)
        for (struct lead *lead = owner->leads; lead; lead = lead->next) {
            if (!lead->paused) continue;
            lead->paused = false;
            proxy->paused--;
            wait_for(proxy, lead->fd, &lead->kind, EPOLLIN, true);
        }
}

/* Ends the proxy if it serves nobody: at once without a daemon, else after a while. */
static void end_if_idle(struct proxy *proxy) {
    if (proxy->owners)
        proxy->linger_due_ms = NEVER;
    else if (proxy->link < 0)
        proxy->ended = true;
    else if (proxy->linger_due_ms == NEVER)
        proxy->linger_due_ms = proxy->now_ms + proxy->limits->linger_ms;
}

static int patience(const struct proxy *proxy) {
    if (proxy->waiting) return 0;
    int64_t due = proxy->idle_due_ms;
    if (proxy->retry_due_ms < due) due = proxy->retry_due_ms;
    if (proxy->linger_due_ms < due) due = proxy->linger_due_ms;
    if (due == NEVER) return -1;
    int64_t left = due - proxy->now_ms;
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left + 1;
}

static void meet(struct proxy *proxy) {
    int link = accept4(proxy->daemons, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (link < 0) return; /* that daemon has gone again */
    part(proxy);
    proxy->link = link;
    greet(proxy);
}

static void handle(struct proxy *proxy, void *of, uint32_t events) {
    struct flow *flow;
    struct lead *lead;
    struct owner *owner;
    switch (*(uint8_t *)of) {
    case LINK:
        hear_daemon(proxy);
        break;
    case DAEMONS:
        meet(proxy);
        break;
    case OWNER:
        owner = (struct owner *)((char *)of - offsetof(struct owner, kind));
        if (!owner->over) drop_owner(proxy, owner);
        break;
    case LEAD:
        lead = (struct lead *)((char *)of - offsetof(struct lead, kind));
        if (lead->over) break;
        if (lead->protocol == IPPROTO_TCP)
            accept_streams(proxy, lead);
        else
            hear_clients(proxy, lead);
        break;
    case END:
        stream_event(proxy, of, events);
        break;
    case FLOW:
        flow = (struct flow *)((char *)of - offsetof(struct flow, kind));
        if (!flow->over) hear_container(proxy, flow);
        break;
    }
}

static void run(struct proxy *proxy) {
    struct epoll_event events[EVENTS];
    for (end_if_idle(proxy); !proxy->ended; end_if_idle(proxy)) {
        int count = epoll_wait(proxy->poll, events, EVENTS, patience(proxy));
        proxy->now_ms = now_ms();
        for (int i = 0; i < count; i++) handle(proxy, events[i].data.ptr, events[i].events);
        move_waiting(proxy);
        if (proxy->idle_due_ms <= proxy->now_ms) close_idle(proxy);
        if (proxy->retry_due_ms <= proxy->now_ms) resume_leads(proxy);
        if (proxy->linger_due_ms <= proxy->now_ms) proxy->ended = !proxy->owners;
        free_dead(proxy);
    }
}

int mux_proxy(int link, int daemons, int home, const struct mux_proxy_limits *limits) {
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (!proxy) return -ENOMEM;
    proxy->limits = limits;
    proxy->link_kind = LINK;
    proxy->daemons_kind = DAEMONS;
    proxy->link = link;
    proxy->daemons = daemons;
    proxy->home = home;
    proxy->last_waiting = &proxy->waiting;
    proxy->idle_due_ms = proxy->retry_due_ms = proxy->linger_due_ms = NEVER;
    proxy->now_ms = now_ms();
    fcntl(link, F_SETFL, fcntl(link, F_GETFL) | O_NONBLOCK);
    proxy->poll = epoll_create1(EPOLL_CLOEXEC);
    int result = proxy->poll < 0 ? -errno : wait_for(proxy, daemons, &proxy->daemons_kind, EPOLLIN, false);
    if (result == 0) {
        greet(proxy);
        run(proxy);
    }
    part(proxy);
    while (proxy->owners) drop_owner(proxy, proxy->owners);
    free_dead(proxy);
    for (int i = 0; i < proxy->pooled; i++) {
        close(proxy->pool[i][0]);
        close(proxy->pool[i][1]);
    }
    unlinkat(home, "proxy.sock", 0);
    close(daemons);
    close(home);
    if (proxy->poll >= 0) close(proxy->poll);
    free(proxy->datagram);
    free(proxy);
    return result;
}
