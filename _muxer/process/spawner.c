/* The spawner's loop. What it touches while it is forked from, its children are left with; so it waits and forks in here,
 * and never in Python. A monitor that it forks is two halves at once, see keeper.c.
 *
 * When the spawner has been quiet for a moment it makes a spare: a monitor whose launching half has prepared what every
 * ordinary container has, and waits for a request. The next request that may have it takes it. Where execs are asked for
 * there is one of another kind beside it, which is let go when they have ceased. */
#include "process/keeper.h"

#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define QUIET_MS 3      /* without a request, and a spare is made, which takes a processor for as long */
#define LINGER_MS 30000 /* without an exec, and the spare for execs is let go */

/* The spare of one kind of request. */
struct kind {
    uint8_t mark;  /* the first byte of a request that may have it */
    int part;      /* of its launching half */
    int spare;     /* this end of the socket on which it takes its request, -1 for none */
    int busy;      /* that of the last one that took one, which hangs up when its launching half is done; or -1 */
    int64_t until; /* one is to be there until then, in ms of the monotonic clock */
    bool eager;    /* the next is made while the last one is at work: execs come in series, and each takes so little */
};

#define KINDS 2
#define FOR_EVER INT64_MAX

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Closes a descriptor, if it is one, and forgets it. */
static void let_go(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Forks. In the spawner 0 or a negative errno; in the child, which has let go of what is the spawner's, 1. */
static int fork_off(int requests, struct kind *kinds) {
    pid_t child = fork();
    if (child != 0) return child < 0 ? -errno : 0;
    close(requests);
    for (int i = 0; i < KINDS; i++) { /* a spare ends when the spawner's end of its socket does */
        let_go(&kinds[i].spare);
        let_go(&kinds[i].busy);
    }
    if (settle() < 0) _exit(1);
    return 1;
}

/* Forks a monitor, and the monitor into its halves. In the spawner 0 or a negative errno; in a half its name. */
static int fork_monitor(struct mux_stay *stay, int requests, struct kind *kinds, int which, int wants) {
    int ends[2], forked = fork_off(requests, kinds);
    if (forked <= 0) return forked;
    mux_name(stay, wants >= 0 ? "spare" : "monitor", "");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) _exit(1);
    pid_t launcher = fork();
    if (launcher < 0) _exit(1);
    if (launcher == 0) {
        close(ends[0]);
        stay->launcher = ends[1];
        stay->wants = wants;
        return which;
    }
    close(ends[1]);
    if (wants >= 0) close(wants);
    close_request(stay);
    return stay_on(stay, ends[0], launcher);
}

/* A spare of this kind. Returns as fork_monitor. */
static int make_spare(struct mux_stay *stay, int requests, struct kind *kinds, struct kind *kind) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return -errno;
    stay->fd_count = 0;
    kind->spare = ends[0];
    int result = fork_monitor(stay, requests, kinds, kind->part, ends[1]);
    if (result > 0) return result;
    close(ends[1]);
    if (result < 0) let_go(&kind->spare);
    return result;
}

/* Gives the request to a spare, which is used up then. One for execs is only there while there are execs. */
static bool give(struct mux_stay *stay, struct kind *kinds) {
    for (struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        if (stay->request[0] != kind->mark) continue;
        if (kind->until != FOR_EVER && kind->until >= 0) kind->until = now_ms() + LINGER_MS;
        if (kind->spare < 0) return false;
        bool taken = pass_on(kind->spare, stay->request, stay->request_size, stay->fds, stay->fd_count) == 0;
        let_go(&kind->busy);
        if (kind->eager) close(kind->spare); /* it has what it needs */
        else kind->busy = kind->spare;
        kind->spare = -1;
        return taken;
    }
    return false;
}

/* Waits for a request, NULL; or until it is time for a new spare, its kind: nothing was asked for a moment, or what took
 * the last one runs, so that the making of the next does not take a processor from its start. */
static struct kind *time_for_spare(int requests, struct kind *kinds) {
    for (;;) {
        struct pollfd waiting[1 + KINDS] = {{.fd = requests, .events = POLLIN}};
        struct kind *due = NULL;
        bool busy = false;
        int64_t now = now_ms(), latest = FOR_EVER;
        for (int i = 0; i < KINDS; i++) {
            struct kind *kind = kinds + i;
            waiting[1 + i] = (struct pollfd){.fd = kind->busy, .events = 0};
            busy |= kind->busy >= 0;
            if (kind->until <= now)
                let_go(&kind->spare);
            else if (kind->spare < 0)
                due = due ? due : kind;
            else if (kind->until < latest)
                latest = kind->until;
        }
        if (busy) due = NULL;
        int wait = due ? (due->eager ? 0 : QUIET_MS) : latest == FOR_EVER ? -1 : (int)(latest - now) + 1;
        int ready = poll(waiting, 1 + KINDS, wait);
        if (ready == 0 && due) return due;
        if (ready < 0 && errno != EINTR) return NULL; /* what is wrong is heard from the socket */
        if (ready <= 0) continue;
        if (waiting[0].revents) return NULL;
        for (struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
            if (!waiting[1 + kind - kinds].revents) continue;
            let_go(&kind->busy);
            if (kind->spare < 0 && kind->until > now) return kind;
        }
    }
}

int mux_spawn(int requests, struct mux_stay *stay, int spares) {
    struct kind kinds[KINDS] = {
        {.mark = WIRE_ORDINARY, .part = MUX_PREPARES, .spare = -1, .busy = -1, .until = FOR_EVER},
        {.mark = WIRE_EXEC, .part = MUX_PREPARES_EXEC, .spare = -1, .busy = -1, .until = 0, .eager = true},
    };
    int result;
    find_title(stay);
    for (;;) {
        struct kind *kind = spares ? time_for_spare(requests, kinds) : NULL;
        if (kind) {
            if ((result = make_spare(stay, requests, kinds, kind)) > 0) return result;
            if (result < 0) kind->until = -1; /* every one of them is made from the beginning then */
            continue;
        }
        ssize_t got = receive(requests, stay->request, sizeof stay->request, stay->fds, &stay->fd_count);
        if (got <= 0) return got < 0 ? (int)got : MUX_ENDED;
        stay->request_size = (uint32_t)got;
        /* What was cut, or could not be forked for, is heard by who asked as the end of the link. */
        if (stay->fd_count >= 0 && stay->request[0] == WIRE_RESOLVER) {
            if (fork_off(requests, kinds) > 0) return MUX_RESOLVES;
        } else if (stay->fd_count >= 0 && !give(stay, kinds) &&
            (result = fork_monitor(stay, requests, kinds, MUX_LAUNCHES, -1)) > 0)
            return result;
        close_request(stay);
    }
}
