/* The spawner's loop: receives requests, forks monitors, and keeps a prepared spare for the next request.
 *
 * Each page that the spawner touches between forks is copied, and its children keep the old copy. So it waits and forks
 * in C, never in Python. A monitor that it forks splits into two processes at once, see keeper.c.
 *
 * When no request has come for a moment, the spawner makes a spare: a monitor whose launcher has prepared what every
 * ordinary container has, and waits for a request. The next ordinary request takes it. While execs are asked for, there
 * is a second spare, for execs; it is closed when no exec has come for a while. */
#include "process/keeper.h"

#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define QUIET_MS 3      /* without a request for so long, a spare is made, which takes a processor for about as long */
#define LINGER_MS 30000 /* without an exec for so long, the spare for execs is closed */

/* The spare of one kind of request. */
struct kind {
    uint8_t mark;  /* the first byte of a request that may have it */
    int part;      /* what mux_spawn returns in its launcher; 0: its keeper launches by itself */
    int spare;     /* this end of the socket on which it takes its request, -1 for none */
    int busy;      /* that end of the last spare used, which hangs up when its launcher is done; or -1 */
    int64_t until; /* a spare is kept until then, in ms of the monotonic clock */
    bool eager;    /* the next is made while the last is at work: execs come in series, and each takes so little */
};

extern pid_t _Fork(void) __attribute__((weak));

#define KINDS 4
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

/* What fork(2) does beyond that is for programs with threads: it writes to pages of the C library and of its loader, each
 * of which every monitor would have for itself. A C library of before has no other function. */
static pid_t fork_lightly(void) { return _Fork ? _Fork() : fork(); }

/* Forks. Returns 0 or a negative errno in the spawner; 1 in the child, which has closed the spawner's descriptors. */
static int fork_off(int requests, struct kind *kinds) {
    pid_t child = fork_lightly();
    if (child != 0) return child < 0 ? -errno : 0;
    close(requests);
    for (int i = 0; i < KINDS; i++) { /* a spare ends when every copy of the spawner's end of its socket is closed */
        let_go(&kinds[i].spare);
        let_go(&kinds[i].busy);
    }
    if (settle() < 0) _exit(1);
    return 1;
}

/* Forks a monitor, and the monitor into launcher and keeper. Returns 0 or a negative errno in the spawner, else its
 * MUX_ part. */
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
    stay_on(stay, ends[0], launcher);
}

/* Forks a keeper that launches by itself. wants: where a spare takes its request, -1 for the request that is here. Returns
 * the same as fork_monitor. */
static int fork_birth(struct mux_stay *stay, int requests, struct kind *kinds, bool exec, int wants) {
    struct infant infant;
    int forked = fork_off(requests, kinds);
    if (forked <= 0) return forked;
    stay->wants = wants;
    stay->launching = 0;
    stay->launching_end = -1;
    mux_name(stay, wants >= 0 ? "spare" : "monitor", "");
    if (wants < 0) exec ? launch_exec(stay, NULL) : launch_start(stay, NULL);
    bool prepared = exec ? prepare_exec(stay, &infant) : prepare_start(stay, &infant);
    if (mux_take(stay) != 1) {
        if (prepared) end_infant(&infant);
        _exit(0);
    }
    exec ? launch_exec(stay, prepared ? &infant : NULL) : launch_start(stay, prepared ? &infant : NULL);
}

/* Makes a spare of this kind. Returns the same as fork_monitor. */
static int make_spare(struct mux_stay *stay, int requests, struct kind *kinds, struct kind *kind) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return -errno;
    stay->fd_count = 0;
    kind->spare = ends[0];
    int result = kind->part ? fork_monitor(stay, requests, kinds, kind->part, ends[1])
                            : fork_birth(stay, requests, kinds, kind->mark == WIRE_EXEC_BIRTH, ends[1]);
    if (result > 0) return result;
    close(ends[1]);
    if (result < 0) let_go(&kind->spare);
    return result;
}

/* Gives the request to a spare, which is then used up. A spare for execs exists only while execs come. */
static bool give(struct mux_stay *stay, struct kind *kinds) {
    for (struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        if (stay->request[0] != kind->mark) continue;
        if (kind->until != FOR_EVER && kind->until >= 0) kind->until = now_ms() + LINGER_MS;
        if (kind->spare < 0) return false;
        bool taken = pass_on(kind->spare, stay->request, stay->request_size, stay->fds, stay->fd_count) == 0;
        let_go(&kind->busy);
        if (kind->eager) close(kind->spare); /* the next one need not wait for it */
        else kind->busy = kind->spare;
        kind->spare = -1;
        return taken;
    }
    return false;
}

/* Waits for a request: NULL; or until a new spare is due: its kind. A spare is due when no request has come for a
 * moment, or when the launcher that took the last spare is done. It is not made earlier, because making it would
 * take a processor from that launcher's start. After an exec the next spare is made at once, unless such a start is
 * under way. */
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
        if (ready < 0 && errno != EINTR) return NULL; /* the error is seen again when the socket is read */
        if (ready <= 0) continue;
        if (waiting[0].revents) return NULL;
        for (struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
            if (!waiting[1 + kind - kinds].revents) continue;
            let_go(&kind->busy);
            if (kind->spare < 0 && kind->until > now) return kind;
        }
    }
}

static bool is_exec(uint8_t mark) { return mark == WIRE_EXEC_BIRTH || mark == WIRE_EXEC_BIRTH_ANEW; }

static bool is_birth(uint8_t mark) { return mark == WIRE_BIRTH || mark == WIRE_BIRTH_ANEW || is_exec(mark); }

int mux_spawn(int requests, struct mux_stay *stay, int spares) {
    bool births = stay->furniture_size > 0;
    struct kind kinds[KINDS] = {
        {.mark = WIRE_BIRTH, .spare = -1, .busy = -1, .until = births ? FOR_EVER : -1},
        {.mark = WIRE_ORDINARY, .part = MUX_PREPARES, .spare = -1, .busy = -1, .until = births ? 0 : FOR_EVER},
        {.mark = WIRE_EXEC_BIRTH, .spare = -1, .busy = -1, .until = births ? 0 : -1, .eager = true},
        {.mark = WIRE_EXEC, .part = MUX_PREPARES_EXEC, .spare = -1, .busy = -1, .until = 0, .eager = true},
    };
    int result;
    find_title(stay);
    if (stay->place) stay->place = strdup(stay->place); /* else it lies among Python's objects */
    if (births && !stay->place) return -ENOMEM;
    stow_ballast(stay);
    for (;;) {
        struct kind *kind = spares ? time_for_spare(requests, kinds) : NULL;
        if (kind) {
            if ((result = make_spare(stay, requests, kinds, kind)) > 0) return result;
            if (result < 0) kind->until = -1; /* no more spares of this kind: each monitor is made at its request */
            continue;
        }
        ssize_t got = receive(requests, stay->request, sizeof stay->request, stay->fds, &stay->fd_count);
        if (got <= 0) return got < 0 ? (int)got : MUX_ENDED;
        stay->request_size = (uint32_t)got;
        /* If the request was cut, or the fork failed, the daemon sees the end of the request's link. */
        if (stay->fd_count >= 0 && stay->request[0] == WIRE_RESOLVER) {
            if (fork_off(requests, kinds) > 0) return MUX_RESOLVES;
        } else if (stay->fd_count >= 0 &&
                   (stay->request[0] == WIRE_PROXY || stay->request[0] == WIRE_TRANSPARENT_PROXY)) {
            if (fork_off(requests, kinds) > 0) be_proxy(stay);
        } else if (stay->fd_count >= 0 && !give(stay, kinds)) {
            result = is_birth(stay->request[0]) ? fork_birth(stay, requests, kinds, is_exec(stay->request[0]), -1)
                                                : fork_monitor(stay, requests, kinds, MUX_LAUNCHES, -1);
            if (result > 0) return result;
        }
        close_request(stay);
        /* What is forked later can become the newcomer in a container that may trace it: it shall know of no other. */
        memset(stay->request, 0, stay->request_size);
    }
}
