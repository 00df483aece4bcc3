/* The keeper, the process of a monitor that stays with its container: takes over from the launcher and runs the pump.
 * Running Python copies the pages that it touches, so a monitor forks first (see spawner.c). Its child, the launcher,
 * starts the container in Python, hands over and ends. The keeper waits and goes on in C, so that it has few pages of
 * its own. It is a subreaper until the launcher has ended (prctl(2)), and becomes the parent of process 1 then. */
#include "process/keeper.h"

#include "log/format.h"
#include "pump/pump.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How the messages Failed and Warned of engine.wire.schema begin. */
#define FAILED_BEGIN "J{\"@\":\"Failed\""
#define WARNED_BEGIN "J{\"@\":\"Warned\""

_Static_assert(sizeof(struct mux_pump) <= sizeof ((struct mux_stay *)0)->pump_place, "a pump has no room");

/* The request has the first whole pages, which are given back once the container runs, and all that a keeper writes later
 * lies behind it on one page. Between pages that nobody may touch, so that the kernel takes this for no part of a mapping
 * of Python's objects (ballast.c). */
struct mux_stay *mux_stay_new(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (sizeof(struct mux_stay) + page - 1) & ~(page - 1);
    char *place = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED || mprotect(place + page, size, PROT_READ | PROT_WRITE) < 0) return NULL;
    return (struct mux_stay *)(place + page);
}

/* Room for the descriptors that travel with a message. */
union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(MUX_MOST_FDS * sizeof(int))];
};

ssize_t receive(int from, void *bytes, size_t size, int *fds, int *count) {
    union control control;
    struct iovec part = {bytes, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    int resets = 0; /* the peer was gone before it had read all: reported once, before its own last datagrams */
    do
        got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    *count = 0;
    if (got < 0) return errno == ECONNRESET ? 0 : -errno;
    struct cmsghdr *rights = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
        *count = (int)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(rights), (size_t)*count * sizeof(int));
    }
    if (got > 0 && message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        for (int i = 0; i < *count; i++) close(fds[i]);
        *count = -1;
    }
    return got;
}

int pass_on(int to, const void *bytes, size_t size, const int *fds, int count) {
    union control control = {0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count < 0 || count > MUX_MOST_FDS) return -EINVAL;
    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, (size_t)count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(to, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

/* Begins a session of its own, without standard streams, and makes children waitable (the spawner ignores SIGCHLD). */
int settle(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return -errno;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(null, fd) < 0) return -errno;
    if (null > 2) close(null);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL); /* signal(3) writes to a page of its own */
    setsid(); /* EPERM: it leads a session already */
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : 0;
}

void close_request(struct mux_stay *stay) {
    for (int i = 0; i < stay->fd_count; i++) close(stay->fds[i]);
    stay->fd_count = 0;
}

/* Kills this process's children; returns how many there are, ended ones too. */
static int kill_children(void) {
    char text[4096];
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC), count = 0;
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = 0;
    for (char *place = text, *end;; place = end) {
        long pid = strtol(place, &end, 10);
        if (pid <= 0) return count;
        kill((pid_t)pid, SIGKILL);
        count++;
    }
}

/* Ends a monitor to which no container came. What the launcher may have left running is killed, since no process would
 * hear of it later. Orphans of that come here too, because this process is still the subreaper. */
static _Noreturn void abandon(int status) {
    while (kill_children() > 0) waitpid(-1, NULL, 0);
    _exit(status);
}

/* How many bytes of a handover are sent. */
static size_t handover_size(const struct mux_handover *handed) {
    return offsetof(struct mux_handover, clients) + handed->client_count * sizeof *handed->clients;
}

/* Receives what the launcher hands over: its descriptors in stay->fds, those of the clients by a second message, since
 * one takes no more than the clients alone may have. 1: it has come; 0: it will not; else a negative errno. */
static int take_over(struct mux_stay *stay, int from, int *count, int *clients) {
    uint8_t mark;
    int client_count;
    ssize_t got = receive(from, &stay->handed, sizeof stay->handed, stay->fds, count);
    if (got <= 0) return (int)got;
    if (*count < 0 || (size_t)got != handover_size(&stay->handed)) return -EPROTO;
    stay->handed.container[sizeof stay->handed.container - 1] = 0;
    if (stay->handed.client_count == 0) return 1;
    got = receive(from, &mark, sizeof mark, clients, &client_count);
    if (got < 0) return (int)got;
    return got == 1 && client_count == (int)stay->handed.client_count ? 1 : -EPROTO;
}

/* Serves an exec's terminal, which came in a report of its own. */
static int add_terminal(struct mux_stay *stay) {
    int failed, fd = fcntl(stay->terminal, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if ((failed = mux_pump_add_output(stay->pump, 1, fd)) < 0) {
        close(fd);
        return failed;
    }
    return mux_pump_set_input(stay->pump, fd, 0);
}

/* When a process started (field 22 of proc_pid_stat(5), found after field 2, which may hold anything); 0: gone. */
uint64_t start_of(pid_t pid) {
    char text[1024];
    snprintf(text, sizeof text, "/proc/%d/stat", (int)pid);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    char *place = strrchr(text, ')');
    for (int field = 2; place && field < 22; field++) place = strchr(place + 1, ' ');
    return place ? strtoull(place, NULL, 10) : 0;
}

/* Sends the message Started of engine.wire.schema. If the daemon has gone already, the end of its link is read next. */
static void tell_started(const struct mux_stay *stay, int link) {
    char told[200];
    const struct mux_handover *handed = &stay->handed;
    int size = snprintf(told, sizeof told, WIRE_STARTED, (int64_t)handed->pid, (int64_t)handed->pid_start,
                        (int64_t)handed->started_ns);
    send(link, told, (size_t)size, MSG_NOSIGNAL);
}

/* Whether this is a child of this process, also one that has ended: a tracer of the newborn can report a false pid. */
static bool is_child(pid_t pid) {
    siginfo_t info;
    return pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Whether a datagram is a message of the class with which it begins, and names no other further on, not by an escape
 * either: the daemon would believe the last name. engine/monitor/enter.py decodes the message, and so passes over what
 * is none; here the daemon cannot decode it, and takes the monitor for dead. Who can send it can fail the exec anyway. */
static bool is_of(const char *said, size_t size, const char *begin) {
    size_t at = strlen(begin);
    if (size < at || memcmp(said, begin, at) != 0) return false;
    for (; at < size; at++) {
        if (strncmp(said + at, "\\u0040", 6) == 0 || strncmp(said + at, "\"@\"", 3) == 0) return false;
        at += said[at] == '\\'; /* what is escaped begins nothing */
    }
    return true;
}

/* Reads what becomes of an exec's process (engine/wire/report.py). Who traces the newborn can say anything in its place,
 * once the joiner has said that it bears one: then only the newborn's number counts, and one failure. 1: it runs and the
 * daemon knows; 0: it never ran, and the daemon was told why, or sees the end of the link; else a negative errno. */
static int await_birth(struct mux_stay *stay, int from) {
    char said[WIRE_REPORT_SIZE + 1], *told = said + 1;
    int link = stay->fds[0], passed, fds[MUX_MOST_FDS];
    bool failed = false, executed = false, bears = false;
    stay->terminal = -1;
    while (!executed) {
        ssize_t got = receive(from, said, sizeof said - 1, fds, &passed);
        if (got < 0) return (int)got;
        if (got == 0) break;
        said[got] = 0;
        bool first = !bears, warns = first && said[0] == WIRE_WARNED && is_of(told, (size_t)got - 1, WARNED_BEGIN);
        bool fails = !failed && said[0] == WIRE_FAILED && is_of(told, (size_t)got - 1, FAILED_BEGIN);
        if (first && said[0] == WIRE_TERMINAL && passed == 1 && stay->terminal < 0) stay->terminal = fds[--passed];
        for (int i = 0; i < passed; i++) close(fds[i]);
        executed = first && said[0] == WIRE_EXECUTED;
        bears |= said[0] == WIRE_BORN;
        if (executed || (said[0] == WIRE_BORN && atoi(told) != stay->launching)) stay->handed.pid = atoi(told);
        if (warns || fails) send(link, told, (size_t)got - 1, MSG_NOSIGNAL);
        failed |= fails;
    }
    if (failed || stay->handed.pid <= 0) return 0;
    if (!executed) reap_launcher(stay); /* it was the launcher's child until then */
    if (!is_child(stay->handed.pid)) return -ECHILD;
    stay->pidfd = (int)syscall(SYS_pidfd_open, stay->handed.pid, 0);
    if (stay->pidfd < 0) return -errno;
    stay->handed.pid_start = start_of(stay->handed.pid);
    stay->handed.started_ns = now_ns();
    tell_started(stay, link);
    return 1;
}

/* Serves a client. If that fails, the client's connection is closed, and the container goes on. */
static void add_client(struct mux_stay *stay, const struct mux_handed_client *client, int fd) {
    if (mux_pump_add_client(stay->pump, fd, client->streams, client->framed, client->detach, client->detach_size,
                            client->replay, NULL, 0) < 0)
        close(fd);
}

/* Makes the pump from what was handed over, and watches the descriptors. */
static int begin(struct mux_stay *stay, int count, const int *clients) {
    const struct mux_handover *handed = &stay->handed;
    const int *next = stay->fds;
    int failed;
    if (count != 1 + !!handed->has_process + 2 * !!handed->has_home + !!handed->has_mounts + 3 * !!handed->has_log +
                     !!handed->has_input + !!handed->has_stdout + !!handed->has_stderr)
        return -EPROTO;
    mux_name(stay, handed->has_process ? "monitor" : "exec", handed->container);
    stay->link = *next++;
    if (handed->has_process) stay->pidfd = *next++;
    stay->listener = handed->has_home ? *next++ : -1;
    stay->exec_dir = handed->has_home ? *next++ : -1;
    stay->mounts = handed->has_mounts ? *next++ : -1;
    if (handed->has_log) {
        stay->log = handed->log;
        stay->log.log_fd = *next++;
        stay->log.index_fd = *next++;
        stay->log.directory_fd = *next++;
    }
    stay->pump = pump_in(stay->pump_place, handed->has_log ? &stay->log : NULL, handed->tty);
    if (!stay->pump) return -ENOMEM;
    if (handed->has_input && (failed = mux_pump_set_input(stay->pump, *next++, handed->close_on_eof)) < 0)
        return failed;
    if (handed->has_process) stay->terminal = -1;
    /* A copy of the terminal for resizes, since the pump closes its own when the last program has left the terminal. */
    if (handed->tty && handed->has_stdout) stay->terminal = fcntl(*next, F_DUPFD_CLOEXEC, 0);
    if (handed->has_stdout && (failed = mux_pump_add_output(stay->pump, 1, *next++)) < 0) return failed;
    if (handed->has_stderr && (failed = mux_pump_add_output(stay->pump, 2, *next++)) < 0) return failed;
    if (!handed->has_process && stay->terminal >= 0 && (failed = add_terminal(stay)) < 0) return failed;
    /* Who is sent the head of an answer has an exec that runs. If the client has gone, the pump will find out. */
    if (handed->head_size > 0 && handed->client_count > 0)
        send(clients[0], handed->head, handed->head_size, MSG_DONTWAIT | MSG_NOSIGNAL);
    for (uint32_t i = 0; i < handed->client_count; i++) add_client(stay, handed->clients + i, clients[i]);
    if (handed->has_home && (failed = mux_pump_watch(stay->pump, stay->listener)) < 0) return failed;
    if ((failed = mux_pump_watch(stay->pump, stay->link)) < 0) return failed;
    return mux_pump_watch(stay->pump, stay->pidfd);
}

int waiters_of(const struct mux_stay *stay) { return stay->waiters ? mux_waiters_count(stay->waiters) : 0; }

void drop_link(struct mux_stay *stay) {
    if (stay->link < 0) return;
    if (stay->pump) mux_pump_unwatch(stay->pump, stay->link);
    close(stay->link);
    stay->link = -1;
    answer_alone(stay);
}

/* Reaps the launcher. Its children are this process's children from then on, but later orphans are not. */
void reap_launcher(struct mux_stay *stay) {
    while (stay->launching > 0 && waitpid(stay->launching, NULL, 0) < 0 && errno == EINTR) {
    }
    stay->launching = 0;
    if (stay->launching_end < 0) return;
    mux_pump_unwatch(stay->pump, stay->launching_end);
    close(stay->launching_end);
    stay->launching_end = -1;
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

void meet(struct mux_stay *stay) {
    int link = accept4(stay->listener, NULL, NULL, SOCK_CLOEXEC);
    if (link < 0) return; /* the daemon has gone again */
    drop_link(stay);
    if (stay->pump && mux_pump_watch(stay->pump, link) < 0) {
        close(link); /* the daemon sees the end, and connects again when it is started again */
        return;
    }
    stay->link = link;
    if (stay->has_ended)
        tell_exited(stay);
    else
        tell_started(stay, link);
}

/* Sends the message Detached of engine.wire.schema. */
static void tell_detached(const struct mux_stay *stay) {
    if (stay->link >= 0) send(stay->link, WIRE_DETACHED, sizeof WIRE_DETACHED - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Keeps a waiting client; if there is no room for it, only the daemon can answer it. */
static void take_waiter(struct mux_stay *stay, const uint8_t *datagram, size_t size, int fd) {
    if (!stay->waiters) {
        stay->waiters = mux_waiters_new();
        if (stay->waiters && stay->pump && mux_pump_watch(stay->pump, mux_waiters_fd(stay->waiters)) < 0) {
            mux_waiters_free(stay->waiters);
            stay->waiters = NULL;
        }
    }
    if (!stay->waiters || mux_waiters_take(stay->waiters, datagram, size, fd) < 0) close(fd);
}

/* Reads a word of the daemon about waiting clients (engine/wire/waits.py) and acts on it. */
static void hear_of_waiters(struct mux_stay *stay) {
    uint8_t said[2048];
    int fds[MUX_MOST_FDS], count;
    ssize_t got = receive(stay->link, said, sizeof said, fds, &count);
    if (got <= 0 || count < 0) return; /* cut: no descriptor was free for it */
    if (said[0] == WIRE_WAITS && count == 1) {
        take_waiter(stay, said, (size_t)got, fds[0]);
        return;
    }
    for (int i = 0; i < count; i++) close(fds[i]);
    if (!stay->waiters) return;
    if (said[0] == WIRE_ANSWERED)
        mux_waiters_answered(stay->waiters, said, (size_t)got);
    else if (stay->has_ended && (said[0] == WIRE_SETTLED || said[0] == WIRE_REMOVED))
        mux_waiters_answer(stay->waiters, stay->exit_code, said[0] == WIRE_REMOVED);
}

void find_home(struct mux_stay *stay) {
    uint8_t said[8];
    int fds[MUX_MOST_FDS], count;
    ssize_t got = receive(stay->link, said, sizeof said, fds, &count);
    if (got == 1 && count == 2 && stay->listener < 0 && mux_pump_watch(stay->pump, fds[1]) == 0) {
        stay->record = fds[0];
        stay->listener = fds[1];
        return;
    }
    for (int i = 0; i < count; i++) close(fds[i]);
}

/* Drops a message that is meant for a running container, because the container has ended. */
static void pass_over(struct mux_stay *stay) {
    uint8_t said[1];
    int fds[MUX_MOST_FDS], count;
    receive(stay->link, said, sizeof said, fds, &count);
    for (int i = 0; i < count; i++) close(fds[i]);
}

ssize_t peek(int link, uint8_t *first) {
    ssize_t got = recv(link, first, 1, MSG_PEEK | MSG_DONTWAIT);
    return got < 0 && errno == ECONNRESET ? recv(link, first, 1, MSG_PEEK | MSG_DONTWAIT) : got; /* as in receive */
}

void hear(struct mux_stay *stay) {
    uint8_t first;
    ssize_t got = peek(stay->link, &first);
    if (got > 0 && (first == WIRE_WAITS || first == WIRE_ANSWERED || first == WIRE_SETTLED || first == WIRE_REMOVED))
        hear_of_waiters(stay);
    else if (got > 0 && first == WIRE_HOME && !stay->has_ended)
        find_home(stay);
    else if (got > 0 && !stay->has_ended)
        carry_out(stay);
    else if (got > 0)
        pass_over(stay);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        drop_link(stay);
}

/* Handles what is readable. */
static void look_at(struct mux_stay *stay, int64_t number) {
    if (number == stay->pidfd)
        finish(stay);
    else if (number == stay->listener)
        meet(stay);
    else if (number == stay->launching_end)
        reap_launcher(stay);
    else if (stay->waiters && number == mux_waiters_fd(stay->waiters))
        mux_waiters_look(stay->waiters);
    else if (number == stay->compressing_end)
        end_compression(stay, false);
    else
        hear(stay);
}

void serve(struct mux_stay *stay, int count, const int *clients) {
    stay->waiters = NULL;
    stay->record = stay->compressing_end = -1;
    stay->compressing = 0;
    stay->has_ended = 0;
    if (begin(stay, count, clients) < 0) abandon(1);
    if (stay->launching_end < 0)
        prctl(PR_SET_CHILD_SUBREAPER, 0);
    else if (mux_pump_watch(stay->pump, stay->launching_end) < 0)
        reap_launcher(stay);
    shed_ballast();
    for (;;) {
        if (mux_pump_run(stay->pump, &stay->event) < 0) {
            /* Out of memory. Without its streams the container is killed, and its end is told as usual. */
            syscall(SYS_pidfd_send_signal, stay->pidfd, SIGKILL, NULL, 0);
            finish(stay);
        }
        if (stay->event.kind == MUX_READABLE) look_at(stay, stay->event.number);
        if (stay->event.kind == MUX_DETACHED) tell_detached(stay);
        if (stay->event.kind == MUX_ROTATED) compress_older(stay);
    }
}

void stay_with_exec(struct mux_stay *stay, int from, pid_t joiner, int count, const int *clients) {
    stay->launching = joiner;
    stay->launching_end = -1;
    int born = await_birth(stay, from);
    close(from);
    if (born <= 0) abandon(born != 0);
    /* An exec's process may end before the joiner, which has no more to do, is gone: so that is watched for. */
    if (stay->launching > 0) stay->launching_end = (int)syscall(SYS_pidfd_open, joiner, 0);
    if (stay->launching_end < 0) reap_launcher(stay);
    serve(stay, count, clients);
}

/* In the keeper, after it has closed the request's descriptors: waits for the launcher, then serves the container. */
void stay_on(struct mux_stay *stay, int from, pid_t launcher) {
    int count, clients[MUX_MOST_FDS], taken = take_over(stay, from, &count, clients);
    if (taken > 0 && !stay->handed.has_process && count > 0)
        stay_with_exec(stay, from, launcher, count, clients);
    close(from);
    stay->launching = launcher;
    stay->launching_end = -1;
    reap_launcher(stay);
    /* No container came to run. The daemon was told why, or sees the end of the link. */
    if (taken <= 0) abandon(taken != 0);
    serve(stay, count, clients);
}

int mux_take(struct mux_stay *stay) {
    ssize_t got = receive(stay->wants, stay->request, sizeof stay->request, stay->fds, &stay->fd_count);
    /* The socket stays open: its end tells the spawner that this launcher is done. */
    stay->request_size = got > 0 ? (uint32_t)got : 0;
    return got < 0 ? (int)got : got > 0 && stay->fd_count >= 0;
}

int mux_hand_over(const struct mux_stay *stay, const struct mux_handover *handed, const int *fds, int count,
                  const int *clients) {
    int failed = pass_on(stay->launcher, handed, handover_size(handed), fds, count);
    if (failed < 0 || handed->client_count == 0) return failed;
    return pass_on(stay->launcher, "", 1, clients, (int)handed->client_count);
}
