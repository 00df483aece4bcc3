/* Has the older files of a log of JSON lines compressed and unpacked, by Python: a child executes engine/logs/compress.py, whose text
 * this library has, for a keeper has nothing of Python any more. The child finds nothing but Python's own files.
 *
 * engine/monitor/logs.py does the same by a fork. */
#include "process/keeper.h"

#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMPRESS WIRE_COMPRESS "import sys\ncompress_all(3, sys.argv[1], int(sys.argv[2]))\n"
#define UNPACK WIRE_COMPRESS "open(4, 'wb').writelines(unpacked(3))\n"

/* Has the child do the work, with these files at its descriptors 3 and 4. */
static _Noreturn void execute(const struct mux_stay *stay, const char *work, int third, int fourth) {
    char most[16];
    snprintf(most, sizeof most, "%u", stay->log.max_files - 1);
    char *const words[] = {(char *)stay->program, "-I", "-S", "-c", (char *)work, (char *)stay->log.name, most, NULL};
    char *const variables[] = {NULL};
    int first = fcntl(third, F_DUPFD_CLOEXEC, 5), second = fcntl(fourth, F_DUPFD_CLOEXEC, 5);
    /* Descriptors of clients that stayed open would keep their connections alive: all others are close-on-exec. */
    if (first >= 0 && second >= 0 && dup2(first, 3) == 3 && dup2(second, 4) == 4)
        execve("/proc/self/exe", words, variables);
    _exit(1);
}

int unpack_older(const void *stay, int packed, int to) {
    int pidfd = -1, status = 0;
    pid_t pid = fork_with(false, &pidfd), ended;
    if (pid < 0) return -EAGAIN;
    if (pid == 0) execute(stay, UNPACK, packed, to);
    do ended = waitpid(pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    close(pidfd);
    return ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

void compress_older(struct mux_stay *stay) {
    int pidfd = -1;
    pid_t pid = fork_with(false, &pidfd);
    if (pid == 0) execute(stay, COMPRESS, stay->log.directory_fd, stay->log.directory_fd);
    if (pid > 0 && mux_pump_watch(stay->pump, pidfd) == 0) {
        stay->compressing = pid;
        stay->compressing_end = pidfd;
        return;
    }
    /* Then it is tried after the next rotation. */
    stay->log.busy = MUX_IDLE;
    if (pid > 0) {
        waitpid(pid, NULL, 0);
        close(pidfd);
    }
}

void end_compression(struct mux_stay *stay, bool unwanted) {
    char made[sizeof stay->log.name + 16];
    if (stay->compressing == 0) return;
    if (unwanted) syscall(SYS_pidfd_send_signal, stay->compressing_end, SIGKILL, NULL, 0);
    while (waitpid(stay->compressing, NULL, 0) < 0 && errno == EINTR) {
    }
    mux_pump_unwatch(stay->pump, stay->compressing_end);
    close(stay->compressing_end);
    stay->compressing = 0;
    stay->compressing_end = -1;
    stay->log.busy = MUX_IDLE;
    snprintf(made, sizeof made, "%s.gz.new", stay->log.name);
    if (unwanted) unlinkat(stay->log.directory_fd, made, 0);
}
