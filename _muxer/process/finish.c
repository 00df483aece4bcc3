/* The end of a container in its keeper: exit status, exit file, and answers to the daemon and to waiting clients.
 *
 * The same steps in the same order as in engine/monitor/life.py, without entering the interpreter, which would first
 * copy hundreds of pages. */
#include "process/keeper.h"

#include "log/format.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 10000 /* for a client that takes nothing any more */
#define MOST_UNHEARD 4096 /* datagrams; a daemon that goes on talking must not keep the end from being told */

static int exit_code(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return 255; /* another process has taken its status, so it cannot be known */
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Writes the exit file like engine.wire.exitfile.write, over the space that was reserved for it at the start. If the
 * disk refuses that too, there is no file, and the daemon is still told. */
static void write_exit_file(int directory, const char *text, size_t size) {
    int fd = openat(directory, "exit.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    bool whole = pwrite(fd, text, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0;
    close(fd);
    if (whole) renameat(directory, "exit.new", directory, "exit");
}

/* Makes the message Exited of engine.wire.schema, as a datagram; returns its size. */
static int put_exited(const struct mux_stay *stay, int waiters, char *to, size_t size) {
    return snprintf(to, size, WIRE_EXITED, (int64_t)stay->exit_code, (int64_t)stay->finished_ns,
                    (int64_t)stay->handed.started_ns, (int64_t)waiters);
}

void tell_exited(struct mux_stay *stay) {
    char told[200];
    int size = put_exited(stay, waiters_of(stay), told, sizeof told);
    if (stay->link >= 0 && send(stay->link, told, (size_t)size, MSG_NOSIGNAL) < 0) drop_link(stay);
}

/* Whether the socket by which a daemon would find this monitor is gone; it is removed once the end was recorded. */
static bool is_hidden(const struct mux_stay *stay) {
    return stay->exec_dir < 0 || faccessat(stay->exec_dir, "monitor.sock", F_OK, 0) < 0;
}

/* Wakes an engine that sleeps: connects to the socket that its daemon has named before it ended, and hangs up
 * (engine/wire/wakeup.py). If nobody listens there any more, the next daemon finds the end all the same. */
static void wake_engine(int directory) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = openat(directory, "wake", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t got = read(fd, to.sun_path, sizeof to.sun_path - 1);
    close(fd);
    if (got <= 0) return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    connect(fd, (const struct sockaddr *)&to, sizeof to);
    close(fd);
}

void answer_alone(struct mux_stay *stay) {
    if (!stay->waiters) return;
    mux_waiters_orphan(stay->waiters);
    /* A client that waits for the removal waits for the next daemon, which removes the container. If the socket is
     * gone, no daemon will come, and the client is answered here. */
    if (stay->has_ended) mux_waiters_answer(stay->waiters, stay->exit_code, is_hidden(stay));
}

/* Stays until each waiting client was answered, by the daemon or by this process, or has hung up. */
static void wait_with_them(struct mux_stay *stay) {
    mux_pump_free(stay->pump);
    stay->pump = NULL;
    if (stay->mounts >= 0) close(stay->mounts);
    while (waiters_of(stay) > 0) {
        struct pollfd table[] = {{.fd = mux_waiters_fd(stay->waiters), .events = POLLIN},
                                 {.fd = stay->link, .events = POLLIN},
                                 {.fd = stay->listener, .events = POLLIN}};
        if (poll(table, 3, -1) < 0) {
            if (errno == EINTR) continue;
            return;
        }
        if (table[0].revents) mux_waiters_look(stay->waiters);
        if (table[1].revents) hear(stay);
        if (table[2].revents) meet(stay);
    }
}

/* Leaves in an exec's record how it has ended, over the space that the daemon has left there. A short exec may not have
 * read the daemon's word about its home yet, so that is done first. */
static void write_record(struct mux_stay *stay, const char *text, size_t size) {
    uint8_t first;
    if (stay->record < 0 && stay->link >= 0 && peek(stay->link, &first) > 0 && first == WIRE_HOME) find_home(stay);
    if (stay->record >= 0 && write(stay->record, text, size) < 0) return; /* the daemon is told all the same */
}

/* Hears what the daemon had said before the end. The clients that it has entrusted have read the head of their answer:
 * if the daemon dies now, nobody but this process can answer them. */
static void hear_the_rest(struct mux_stay *stay) {
    uint8_t first;
    for (int left = MOST_UNHEARD; left > 0 && stay->link >= 0 && peek(stay->link, &first) > 0; left--) hear(stay);
}

void finish(struct mux_stay *stay) {
    char kept[200];
    reap_launcher(stay);
    stay->exit_code = exit_code(stay->handed.pid);
    stay->finished_ns = now_ns();
    stay->has_ended = 1;
    mux_pump_drain(stay->pump);
    end_compression(stay, true);
    int size = put_exited(stay, 0, kept, sizeof kept);
    if (stay->exec_dir >= 0)
        write_exit_file(stay->exec_dir, kept + 1, (size_t)size - 1);
    else
        write_record(stay, kept + 1, (size_t)size - 1);
    hear_the_rest(stay);
    if (stay->waiters) mux_waiters_look(stay->waiters);
    tell_exited(stay);
    if (stay->link < 0) answer_alone(stay);
    if (stay->link < 0 && stay->exec_dir >= 0) wake_engine(stay->exec_dir);
    while (mux_pump_close_clients(stay->pump, PATIENCE_MS) == -EINTR) {
    }
    if (waiters_of(stay) > 0) wait_with_them(stay);
    /* The process's end closes what is left. The mount namespace stays to the last, because its end syncs the disk
     * below the overlay. */
    _exit(0);
}
