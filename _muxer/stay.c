/* The spawner's loop, and the half of a monitor that stays. What runs Python copies the pages that it touches, and what
 * it touches while it is forked from, its children are left with; so the spawner waits and forks in here. A monitor
 * forks before it does anything: its child launches the container in Python, hands over and ends; the parent has only
 * waited in here and goes on in here, so that what it keeps of its own for the container's whole life is a few pages.
 * It is a subreaper until then (prctl(2)), which makes it the parent of process 1 once the launching half has ended. */
#include "muxer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANDED_FDS 8 /* pidfd, listener, three of the log, input, two outputs */

#define HANDED_CLIENTS (sizeof((struct mux_handover *)0)->clients / sizeof(struct mux_handed_client))

/* A session of its own, no terminal, children that can be waited for (the spawner's are nobody's to wait for). */
static int settle(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return -errno;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(null, fd) < 0) return -errno;
    if (null > 2) close(null);
    signal(SIGCHLD, SIG_DFL);
    setsid(); /* EPERM: it leads one already */
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : 0;
}

static int take_over(int from, struct mux_handover *handed, int *fds) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(HANDED_FDS * sizeof(int))];
    } control;
    struct iovec part = {handed, sizeof *handed};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    do
        got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0) return -errno;
    if (got == 0) return 0;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (got != sizeof *handed || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !rights) return -EPROTO;
    memcpy(fds, CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
    return (int)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
}

static int begin(struct mux_stay *stay, const int *fds, int count) {
    const struct mux_handover *handed = &stay->handed;
    int next = 2, failed;
    if (count != 2 + 3 * !!handed->has_log + !!handed->has_input + !!handed->has_stdout + !!handed->has_stderr)
        return -EPROTO;
    stay->pidfd = fds[0];
    stay->listener = fds[1];
    if (handed->has_log) {
        stay->log = handed->log;
        stay->log.log_fd = fds[next++];
        stay->log.index_fd = fds[next++];
        stay->log.directory_fd = fds[next++];
    }
    stay->pump = mux_pump_new(handed->has_log ? &stay->log : NULL, handed->tty);
    if (!stay->pump) return -ENOMEM;
    if (handed->has_input && (failed = mux_pump_set_input(stay->pump, fds[next++], handed->close_on_eof)) < 0)
        return failed;
    if (handed->has_stdout) {
        stay->terminal = handed->tty ? fds[next] : -1;
        if ((failed = mux_pump_add_output(stay->pump, 1, fds[next++])) < 0) return failed;
    }
    if (handed->has_stderr && (failed = mux_pump_add_output(stay->pump, 2, fds[next++])) < 0) return failed;
    for (uint32_t i = 0; i < handed->client_count && i < HANDED_CLIENTS; i++) {
        const struct mux_handed_client *client = handed->clients + i;
        int64_t number = mux_pump_add_client(stay->pump, client->fd, client->streams, client->framed, client->detach,
                                             client->detach_size, client->replay);
        if (number < 0) return (int)number;
    }
    if ((failed = mux_pump_watch(stay->pump, stay->listener)) < 0) return failed;
    if ((failed = mux_pump_watch(stay->pump, handed->link)) < 0) return failed;
    return mux_pump_watch(stay->pump, stay->pidfd);
}

/* In the monitor: fork the half that launches, and be the half that stays. */
static int split(struct mux_stay *stay) {
    int ends[2], fds[HANDED_FDS], result = settle();
    if (result < 0) return result;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return -errno;
    pid_t launcher = fork();
    if (launcher < 0) return -errno;
    close(ends[launcher == 0 ? 0 : 1]);
    if (launcher == 0) {
        stay->launcher = ends[1];
        return MUX_LAUNCHES;
    }
    int count = take_over(ends[0], &stay->handed, fds);
    close(ends[0]);
    while (waitpid(launcher, NULL, 0) < 0 && errno == EINTR) {
    }
    if (count <= 0) _exit(count < 0); /* no container came to run, and who wanted it was told why */
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    if ((result = begin(stay, fds, count)) < 0) return result;
    /* Clients come and go without a word to the interpreter, whose pages stay the spawner's. */
    do
        result = mux_pump_run(stay->pump, &stay->event);
    while (result == 0 && stay->event.kind != MUX_READABLE && stay->event.kind != MUX_FULL);
    return result < 0 ? result : MUX_STAYS;
}

/* The next request; 0: there will be none. */
static ssize_t receive_request(int from, struct mux_stay *stay) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof stay->fds)];
    } control;
    struct iovec part = {stay->request, sizeof stay->request};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    do
        got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    struct cmsghdr *rights = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    size_t bytes = rights ? rights->cmsg_len - CMSG_LEN(0) : 0;
    if (bytes) memcpy(stay->fds, CMSG_DATA(rights), bytes);
    stay->fd_count = (int)(bytes / sizeof(int));
    stay->request_size = got > 0 ? (uint32_t)got : 0;
    if (got > 0 && message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) stay->request_size = 0; /* answered by its end */
    return got < 0 ? -errno : got;
}

int mux_spawn(int requests, struct mux_stay *stay) {
    for (;;) {
        ssize_t got = receive_request(requests, stay);
        if (got <= 0) return got < 0 ? (int)got : MUX_ENDED;
        pid_t monitor = stay->request_size ? fork() : -1;
        if (monitor == 0) {
            close(requests);
            return split(stay);
        }
        /* A fork that failed is heard by the one who asked as the end of the link. */
        for (int i = 0; i < stay->fd_count; i++) close(stay->fds[i]);
    }
}

int mux_hand_over(const struct mux_stay *stay, const struct mux_handover *handed, const int *fds, int count) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(HANDED_FDS * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)handed, sizeof *handed};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    if (count < 1 || count > HANDED_FDS) return -EINVAL;
    message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    memcpy(CMSG_DATA(&control.header), fds, (size_t)count * sizeof(int));
    ssize_t sent;
    do
        sent = sendmsg(stay->launcher, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}
