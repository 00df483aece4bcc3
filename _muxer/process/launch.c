/* Launches a container or an exec in its keeper, without Python: streams, the child that walks the plan, and the handshake
 * of that child with the daemon.
 *
 * engine/monitor/launch.py and main.py do the same in a launcher of its own, for what no plan can say. Here the keeper
 * launches by itself, so a start takes two processes beside the daemon: this one and the container's process 1. A spare
 * is such a keeper whose child has prepared what every ordinary container has (birth/mounts.c). */
#include "process/keeper.h"

#include "birth/birth.h"
#include "log/format.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_SPACE 4096 /* as engine/wire/exitfile.py reserves it */
#define NOT_TRIED 128   /* the status of a command that was never tried */
#define NO_ROOM "failed to create task for container: the exec root cannot be used: "
#define STDOUT_BIT 2
#define STDERR_BIT 4
#define WARNINGS_SIZE 4096
#define STACK_USED (64 * 1024) /* more than a start takes; the kernel keeps a larger gap below a stack */

/* What the daemon asks for: the fields before the plan in a request. */
struct asked {
    const char *exec_dir;
    bool stdin_open, own_pids, has_log;
    int outputs; /* the bits of those that somebody wants */
    const uint8_t *plan;
    uint32_t plan_size;
};

/* Both ends of a process's standard streams, -1 for none. */
struct streams {
    int theirs[3], ours[3];
};

/* arguments of clone3(2) up to what Linux 5.3 has */
struct clone_request {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

static void let_go_of(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

pid_t fork_with(bool own_pids, int *pidfd) {
    struct clone_request request = {.flags = CLONE_PIDFD | (own_pids ? CLONE_NEWPID : 0),
                                    .pidfd = (uint64_t)(uintptr_t)pidfd,
                                    .exit_signal = SIGCHLD};
    return (pid_t)syscall(SYS_clone3, &request, sizeof request);
}

/* Tells the daemon that there will be no container, and why. */
static void tell_failed(int link, const char *step, int failed, const char *before, const char *after) {
    char reason[128], said[SAID_SIZE], quoted[SAID_SIZE + 512], told[sizeof quoted + 256];
    snprintf(said, sizeof said, "%s%s: %s", before, after, words_of(failed, reason, sizeof reason));
    put_quoted(quoted, sizeof quoted, said, 1000);
    int size = snprintf(told, sizeof told, WIRE_FAILURE, step, (int64_t)(failed < 0 ? -failed : failed), quoted,
                        (int64_t)NOT_TRIED);
    send(link, told, (size_t)size, MSG_NOSIGNAL);
}

/* Reads the log that the daemon has opened, without its descriptors. */
static void read_log(struct cursor *from, struct mux_log *log) {
    log->json = (uint8_t)number(from);
    log->compress = (uint8_t)number(from);
    log->number = (uint32_t)number(from);
    log->max_files = (uint32_t)number(from);
    log->open_lines = (uint8_t)number(from);
    log->max_size = (uint64_t)number(from);
    log->limit = (uint64_t)number(from);
    log->position = (uint64_t)number(from);
    log->records = (uint64_t)number(from);
    log->last_ns = (uint64_t)number(from);
    snprintf(log->name, sizeof log->name, "%s", text(from));
}

static bool read_clients(struct cursor *from, struct mux_handover *handed) {
    int64_t count = number(from);
    if (count < 0 || count > (int64_t)(sizeof handed->clients / sizeof *handed->clients)) return false;
    handed->client_count = (uint32_t)count;
    for (int64_t i = 0; i < count; i++) {
        struct mux_handed_client *client = handed->clients + i;
        uint32_t size;
        client->streams = (uint8_t)number(from);
        client->framed = (uint8_t)number(from);
        client->replay = (uint8_t)number(from);
        const uint8_t *keys = blob(from, &size);
        if (size > sizeof client->detach) return false;
        client->detach_size = (uint8_t)size;
        memcpy(client->detach, keys, size);
    }
    return true;
}

static bool read_head(struct cursor *from, struct mux_handover *handed) {
    uint32_t size;
    const uint8_t *head = blob(from, &size);
    if (size > sizeof handed->head) return false;
    handed->head_size = (uint16_t)size;
    memcpy(handed->head, head, size);
    return true;
}

/* Reads the request into `asked` and stay->handed (engine/daemon/runtime/births.py). */
static bool understand(struct mux_stay *stay, struct asked *asked) {
    struct cursor from = {stay->request + 1, stay->request + stay->request_size, false};
    struct mux_handover *handed = &stay->handed;
    bool exec = stay->request[0] == WIRE_EXEC_BIRTH || stay->request[0] == WIRE_EXEC_BIRTH_ANEW;
    memset(handed, 0, offsetof(struct mux_handover, head));
    asked->exec_dir = text(&from);
    snprintf(handed->container, sizeof handed->container, "%s", text(&from));
    handed->tty = (int32_t)number(&from);
    asked->stdin_open = number(&from);
    handed->close_on_eof = (int32_t)number(&from);
    asked->own_pids = number(&from);
    asked->outputs = (int)number(&from);
    asked->has_log = number(&from);
    if (asked->has_log) read_log(&from, &handed->log);
    if (!read_clients(&from, handed)) return false;
    if (exec && !read_head(&from, handed)) return false;
    asked->plan = blob(&from, &asked->plan_size);
    handed->has_process = handed->has_home = handed->has_mounts = !exec;
    handed->has_log = asked->has_log;
    int count = 1 + exec + 3 * asked->has_log + (int)handed->client_count;
    return !from.broken && stay->fd_count == count;
}

/* Makes both ends of one stream; /dev/null for the process where nobody has the other end. */
static int make_stream(struct streams *streams, int which, bool wanted) {
    int ends[2];
    if (!wanted) {
        streams->theirs[which] = open("/dev/null", (which ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        return streams->theirs[which] < 0 ? -errno : 0;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) return -errno;
    streams->theirs[which] = ends[which ? 1 : 0];
    streams->ours[which] = ends[which ? 0 : 1];
    return 0;
}

static int make_streams(struct streams *streams, const struct asked *asked, bool tty) {
    const bool wanted[] = {asked->stdin_open, asked->outputs & STDOUT_BIT, asked->outputs & STDERR_BIT};
    int failed = 0;
    for (int i = 0; i < 3; i++) streams->theirs[i] = streams->ours[i] = -1;
    for (int i = 0; i < 3 && !tty && !failed; i++) failed = make_stream(streams, i, wanted[i]);
    return failed;
}

/* Reserves the space of the exit file, and makes the socket by which a daemon finds this monitor again
 * (engine/wire/exitfile.py, endpoint.py). */
static int settle_in(struct mux_stay *stay, const char *exec_dir) {
    static const char nothing[EXIT_SPACE];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    stay->exec_dir = open(exec_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (stay->exec_dir < 0) return -errno;
    int fd = openat(stay->exec_dir, "exit.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    ssize_t put = pwrite(fd, nothing, sizeof nothing, 0);
    int failed = put == sizeof nothing ? 0 : put < 0 ? -errno : -ENOSPC;
    close(fd);
    if (failed) return failed;
    stay->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (stay->listener < 0) return -errno;
    snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/monitor.sock", stay->exec_dir);
    if (bind(stay->listener, (struct sockaddr *)&name, sizeof name) < 0 || listen(stay->listener, 4) < 0) return -errno;
    return 0;
}

/* In the child: waits for the plan, which comes with the streams; ends when none comes. */
static _Noreturn void await_plan(struct mux_stay *stay, struct birth *birth) {
    int fds[MUX_MOST_FDS], count;
    ssize_t got = receive(birth->report, stay->request, sizeof stay->request, fds, &count);
    if (got <= 0 || (count != 0 && count != 3)) _exit(0);
    for (int i = 0; i < count; i++) birth->stdio[i] = fds[i];
    be_born(birth, stay->request, (size_t)got);
}

/* Makes the child of a start. ahead: it prepares itself, and waits for its plan. Returns 0 or a negative errno. */
static int make_init(struct mux_stay *stay, struct infant *infant, const struct asked *asked, const int *stdio) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return -errno;
    infant->pid = fork_with(!asked || asked->own_pids, &infant->pidfd);
    if (infant->pid == 0) {
        struct birth birth;
        close(ends[0]);
        if (stay->wants >= 0) close(stay->wants);
        mux_name(stay, "init", "");
        begin_birth(&birth, ends[1], stdio);
        birth.furniture = stay->furniture;
        birth.furniture_size = stay->furniture_size;
        if (asked) be_born(&birth, asked->plan, asked->plan_size);
        static const char ready = WIRE_READY;
        if (do_SECLUDE(&birth) || be_staged(&birth, stay->place)) _exit(BIRTH_FAILED);
        send(birth.report, &ready, 1, MSG_NOSIGNAL);
        await_plan(stay, &birth);
    }
    int failed = infant->pid < 0 ? -errno : 0;
    close(ends[1]);
    infant->reports = ends[0];
    infant->mounts = -1;
    if (failed) let_go_of(&infant->reports);
    return failed;
}

/* Notes that the child's namespaces exist. */
static int meet_infant(struct infant *infant) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)infant->pid);
    infant->mounts = open(path, O_RDONLY | O_CLOEXEC);
    infant->pid_start = start_of(infant->pid);
    return infant->mounts < 0 ? -errno : 0;
}

void end_infant(struct infant *infant) {
    syscall(SYS_pidfd_send_signal, infant->pidfd, SIGKILL, NULL, 0);
    waitpid(infant->pid, NULL, 0);
    let_go_of(&infant->reports);
    let_go_of(&infant->pidfd);
    let_go_of(&infant->mounts);
}

bool prepare_start(struct mux_stay *stay, struct infant *infant) {
    uint8_t said[16];
    int fds[MUX_MOST_FDS], count;
    if (make_init(stay, infant, NULL, NULL) < 0) return false;
    if (receive(infant->reports, said, sizeof said, fds, &count) == 1 && said[0] == WIRE_READY &&
        meet_infant(infant) == 0)
        return true;
    end_infant(infant); /* it could not be prepared: all is made after the request, and a failure is told */
    return false;
}

static void tell_ready(int link, const struct infant *infant) {
    char told[200];
    int size = snprintf(told, sizeof told, WIRE_NAMESPACES_READY, (int64_t)infant->pid, (int64_t)infant->pid_start);
    send(link, told, (size_t)size, MSG_NOSIGNAL);
}

static void add_warning(char *warnings, const char *text) {
    size_t length = strlen(warnings), room = WARNINGS_SIZE - length;
    if (room < 64) return;
    length += (size_t)sprintf(warnings + length, length ? ",\"" : "\"");
    length += put_quoted(warnings + length, WARNINGS_SIZE - length - 2, text, 1000);
    strcpy(warnings + length, "\"");
}

/* Takes one message of the daemon. False: it has gone. */
static bool hear_daemon(int link, bool *proceeded) {
    char said[2048];
    int fds[MUX_MOST_FDS], count;
    ssize_t got = receive(link, said, sizeof said, fds, &count);
    if (got <= 0) return false;
    for (int i = 0; i < count; i++) close(fds[i]);
    *proceeded |= got == sizeof WIRE_PROCEED - 1 && memcmp(said, WIRE_PROCEED, (size_t)got) == 0;
    return true;
}

/* The exchange of messages from the fork to execve. True: the command runs; else the daemon was told why not, or is
 * gone, and there is no child any more. */
static bool see_born(struct mux_stay *stay, struct infant *infant, int link, char *warnings) {
    char said[WIRE_REPORT_SIZE + 1];
    int fds[MUX_MOST_FDS], count;
    bool proceeded = false, there = true;
    stay->terminal = -1;
    if (infant->mounts >= 0) tell_ready(link, infant);
    for (;;) {
        struct pollfd waiting[] = {{.fd = infant->reports, .events = POLLIN},
                                   {.fd = there ? link : -1, .events = POLLIN}};
        if (poll(waiting, 2, -1) < 0 && errno != EINTR) return false;
        if (waiting[1].revents) {
            bool before = proceeded;
            there = hear_daemon(link, &proceeded);
            if (!there && !proceeded) {
                end_infant(infant);
                return false;
            }
            if (proceeded && !before) send(infant->reports, &(char){WIRE_PROCEEDS}, 1, MSG_NOSIGNAL);
        }
        if (!waiting[0].revents) continue;
        ssize_t got = receive(infant->reports, said, sizeof said - 1, fds, &count);
        /* The socket is close-on-exec: its end means execve, or the end of a child that was not even ready. */
        if (got <= 0) return infant->mounts >= 0;
        said[got] = 0;
        if (said[0] == WIRE_TERMINAL && count == 1 && stay->terminal < 0) stay->terminal = fds[--count];
        for (int i = 0; i < count; i++) close(fds[i]);
        if (said[0] == WIRE_READY && infant->mounts < 0) {
            if (meet_infant(infant) == 0) tell_ready(link, infant);
        } else if (said[0] == WIRE_WARNED) {
            add_warning(warnings, said + 1);
        } else if (said[0] == WIRE_FAILED) {
            waitpid(infant->pid, NULL, 0);
            send(link, said + 1, (size_t)got - 1, MSG_NOSIGNAL);
            return false;
        }
    }
}

static void tell_warned(struct mux_stay *stay, int link, const char *warnings) {
    char told[WARNINGS_SIZE + 256];
    const struct mux_handover *handed = &stay->handed;
    int size = snprintf(told, sizeof told, WIRE_STARTED_WARNED, (int64_t)handed->pid, (int64_t)handed->pid_start,
                        (int64_t)handed->started_ns, warnings);
    send(link, told, (size_t)size, MSG_NOSIGNAL);
}

/* Sees the container's process 1 born, and tells the daemon; without one it ends. Not inlined, so that the room for
 * warnings is not on the stack as long as the container runs. */
static __attribute__((noinline)) void see_start(struct mux_stay *stay, struct infant *infant, int link) {
    char warnings[WARNINGS_SIZE] = "";
    if (!see_born(stay, infant, link, warnings)) _exit(1);
    close(infant->reports);
    stay->pidfd = infant->pidfd;
    stay->handed.pid = infant->pid;
    stay->handed.pid_start = infant->pid_start;
    stay->handed.started_ns = now_ns();
    tell_warned(stay, link, warnings);
}

/* Puts the descriptors of a running container where `serve` expects them; returns how many there are. */
static int gather(struct mux_stay *stay, const struct infant *infant, const struct streams *streams, const int *log) {
    struct mux_handover *handed = &stay->handed;
    int input = handed->tty ? stay->terminal : streams->ours[0], count = 1; /* the link is in its place */
    int first = handed->tty ? stay->terminal : streams->ours[1], second = handed->tty ? -1 : streams->ours[2];
    if (handed->tty && input >= 0) input = fcntl(input, F_DUPFD_CLOEXEC, 0);
    handed->has_input = input >= 0;
    handed->has_stdout = first >= 0;
    handed->has_stderr = second >= 0;
    if (handed->has_process) {
        stay->fds[count++] = infant->pidfd;
        stay->fds[count++] = stay->listener;
        stay->fds[count++] = stay->exec_dir;
        stay->fds[count++] = infant->mounts;
    }
    for (int i = 0; i < 3 && handed->has_log; i++) stay->fds[count++] = log[i];
    if (input >= 0) stay->fds[count++] = input;
    if (first >= 0) stay->fds[count++] = first;
    if (second >= 0) stay->fds[count++] = second;
    return count;
}

/* Gives the pages of the request back, as far as they hold nothing else, and those of the stack that only the start
 * has needed: what is below this function's own page. There the stack may grow, so no other mapping is near. */
static void forget_start(struct mux_stay *stay) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = ((uintptr_t)stay->request + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)stay->request + sizeof stay->request) & ~(page - 1);
    if (end > start) madvise((void *)start, end - start, MADV_DONTNEED);
    uintptr_t below = ((uintptr_t)&page & ~(page - 1)) - page;
    madvise((void *)(below - STACK_USED), STACK_USED, MADV_DONTNEED);
}

/* Gives a child that was prepared its plan. A child that was killed while it waited is forgotten: *infant is NULL then,
 * and a new one is to be made. Returns 0 or a negative errno. */
static int give_plan(struct infant **infant, const struct asked *asked, const int *fds, int count) {
    int failed = pass_on((*infant)->reports, asked->plan, asked->plan_size, fds, count);
    if (failed != -EPIPE && failed != -ECONNRESET) return failed;
    end_infant(*infant);
    *infant = NULL;
    return 0;
}

_Noreturn void launch_start(struct mux_stay *stay, struct infant *infant) {
    struct asked asked;
    struct streams streams;
    struct infant fresh;
    int clients[MUX_MOST_FDS], log[3] = {-1, -1, -1};
    if (!understand(stay, &asked)) _exit(1);
    int link = stay->fds[0], failed = settle_in(stay, asked.exec_dir);
    mux_name(stay, "monitor", stay->handed.container);
    if (failed) {
        tell_failed(link, "exec root", failed, NO_ROOM, asked.exec_dir);
        _exit(1);
    }
    for (int i = 0; i < 3 && asked.has_log; i++) log[i] = stay->fds[1 + i];
    int others = 1 + 3 * asked.has_log;
    memcpy(clients, stay->fds + others, stay->handed.client_count * sizeof *clients);
    failed = make_streams(&streams, &asked, stay->handed.tty);
    int given_count = stay->handed.tty ? 0 : 3;
    if (infant && !failed) failed = give_plan(&infant, &asked, streams.theirs, given_count);
    if (!infant && !failed) {
        infant = &fresh;
        failed = make_init(stay, infant, &asked, given_count ? streams.theirs : NULL);
    }
    if (failed) {
        tell_failed(link, "monitor", failed, "failed to create task for container", "");
        _exit(1);
    }
    for (int i = 0; i < 3; i++) let_go_of(&streams.theirs[i]);
    see_start(stay, infant, link);
    let_go_of(&stay->wants); /* tells the spawner that this start is done */
    int count = gather(stay, infant, &streams, log);
    forget_start(stay);
    stay->launching = 0;
    serve(stay, count, clients);
}

/* In the child of an exec's keeper: waits for the plan, which comes with a pidfd of process 1 and the streams. */
static _Noreturn void become_joiner(struct mux_stay *stay, int reports) {
    struct birth birth;
    int fds[MUX_MOST_FDS], count;
    begin_birth(&birth, reports, NULL);
    birth.joins = true;
    ssize_t got = receive(reports, stay->request, sizeof stay->request, fds, &count);
    if (got <= 0 || (count != 1 && count != 4)) _exit(0);
    mux_name(stay, "launch", ""); /* until then it is a part of the spare */
    birth.pidfd = fds[0];
    for (int i = 1; i < count; i++) birth.stdio[i - 1] = fds[i];
    be_born(&birth, stay->request, (size_t)got);
}

bool prepare_exec(struct mux_stay *stay, struct infant *infant) {
    int ends[2];
    *infant = (struct infant){.pid = -1, .pidfd = -1, .reports = -1, .mounts = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return false;
    infant->pid = fork_with(false, &infant->pidfd);
    if (infant->pid == 0) {
        close(ends[0]);
        if (stay->wants >= 0) close(stay->wants);
        become_joiner(stay, ends[1]);
    }
    close(ends[1]);
    infant->reports = ends[0];
    if (infant->pid < 0) let_go_of(&infant->reports);
    return infant->pid > 0;
}

_Noreturn void launch_exec(struct mux_stay *stay, struct infant *infant) {
    struct asked asked;
    struct streams streams;
    struct infant fresh;
    int clients[MUX_MOST_FDS];
    if (!understand(stay, &asked)) _exit(1);
    int failed = make_streams(&streams, &asked, stay->handed.tty);
    int given[] = {stay->fds[1], streams.theirs[0], streams.theirs[1], streams.theirs[2]};
    int given_count = stay->handed.tty ? 1 : 4;
    if (infant && !failed) failed = give_plan(&infant, &asked, given, given_count);
    if (!infant && !failed) {
        failed = prepare_exec(stay, &fresh) ? 0 : -EAGAIN;
        infant = &fresh;
        if (!failed) failed = give_plan(&infant, &asked, given, given_count);
        if (!failed && !infant) failed = -EPIPE;
    }
    if (failed) {
        tell_failed(stay->fds[0], "monitor", failed, "failed to make the process of the exec", "");
        _exit(1);
    }
    close(stay->fds[1]);
    for (int i = 0; i < 3; i++) let_go_of(&streams.theirs[i]);
    memcpy(clients, stay->fds + 2, stay->handed.client_count * sizeof *clients);
    stay->terminal = -1;
    int count = gather(stay, infant, &streams, NULL);
    let_go_of(&infant->pidfd);
    forget_start(stay);
    let_go_of(&stay->wants);
    stay_with_exec(stay, infant->reports, infant->pid, count, clients);
}

