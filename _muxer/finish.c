/* The end of a container, in the half of its monitor that stayed: the same steps in the same order as in
 * engine/monitor/life.py, without waking the interpreter, which would copy hundreds of pages first. */
#include "stay.h"

#include "format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 10000 /* for a client that takes nothing any more */

static int exit_code(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return 255; /* somebody else has had its status: it cannot be known */
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* As engine.wire.exitfile.write, over the space that was reserved for it at the start. A disk that refuses that too leaves
 * no file: the daemon is still told. */
static void write_exit_file(int directory, const char *text, size_t size) {
    int fd = openat(directory, "exit.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    bool whole = pwrite(fd, text, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0;
    close(fd);
    if (whole) renameat(directory, "exit.new", directory, "exit");
}

void finish(struct mux_stay *stay) {
    /* The message Exited of engine.wire.messages, as engine.wire.codec writes it; the file has it without the J. */
    char told[160];
    reap_launcher(stay);
    int code = exit_code(stay->handed.pid);
    int size = snprintf(told, sizeof told,
                        "J{\"@\":\"Exited\",\"exit_code\":%d,\"finished_ns\":%" PRIu64 ",\"started_ns\":%" PRIu64 "}",
                        code, now_ns(), stay->handed.started_ns);
    mux_pump_drain(stay->pump);
    if (stay->exec_dir >= 0) write_exit_file(stay->exec_dir, told + 1, (size_t)size - 1);
    if (stay->link >= 0) send(stay->link, told, (size_t)size, MSG_NOSIGNAL);
    while (mux_pump_close_clients(stay->pump, PATIENCE_MS) == -EINTR) {
    }
    /* What is left goes with the process; the mount namespace last, as its end syncs the disk below the overlay. */
    _exit(0);
}
