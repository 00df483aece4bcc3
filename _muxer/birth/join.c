/* The steps of a joiner, which runs one more process in a running container (engine/birth/join.py does the same in Python,
 * and explains the order). */
#include "birth/birth.h"
#include "birth/calls.h"

#include "muxer.h"
#include "wire.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define TRIES 10 /* for a process 1 that moves on meanwhile */

static int write_nought(int fd) {
    int failed = fd < 0 ? fd : write(fd, "0", 1) < 0 ? -errno : 0;
    if (fd >= 0) close(fd);
    return failed;
}

/* Where below the cgroup `own` of version 2 a process is: a relative path, empty for the cgroup itself, or elsewhere. */
static int place_below(int64_t pid, const char *own, char *to, size_t size) {
    char path[40], text[PATH_SIZE], mark[300];
    const char *name = strrchr(own, '/');
    *to = 0;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    snprintf(mark, sizeof mark, "/%s/", name ? name + 1 : own);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t got = read(fd, text, sizeof text - 1);
    int failed = got < 0 ? -errno : 0;
    close(fd);
    if (failed) return failed;
    text[got] = 0;
    char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line) return 0;
    line = strstr(line, "0::") + 3;
    line[strcspn(line, "\n")] = 0;
    char *below = strstr(line, mark);
    if (below) snprintf(to, size, "%s", below + strlen(mark));
    return 0;
}

/* Enters the container's cgroup, or the cgroup below it into which the container has moved its process 1
 * (engine/sandbox/cgroups/entering.py). */
STEP(ENTER_CGROUP) {
    const char *own = text(&birth->fields), *name = text(&birth->fields);
    int64_t first = number(&birth->fields);
    char entry[PATH_SIZE], below[PATH_SIZE], inner[PATH_SIZE + 300];
    snprintf(entry, sizeof entry, "%s/%s", own, name);
    for (int tries = 1;; tries++) {
        int fd = open(entry, O_WRONLY | O_CLOEXEC), failed = write_nought(fd < 0 ? -errno : fd);
        if (failed != -EBUSY) return failed;
        int unknown = place_below(first, own, below, sizeof below);
        if (unknown) return unknown;
        if (!*below) return failed;
        int place = open(own, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (place < 0) return -errno;
        snprintf(inner, sizeof inner, "%s/%s", below, name);
        failed = write_nought(open_beneath(place, inner, O_WRONLY, 0, RESOLVE_LINKS_INSIDE));
        close(place);
        /* Process 1 may have left that cgroup, which is gone or divided in its turn. */
        if ((failed != -EBUSY && failed != -ENOENT && failed != -ENODEV) || tries == TRIES) return failed;
    }
}

/* Enters all namespaces of the container at once, its own and those that it shares. */
STEP(JOIN) {
    if (setns(birth->pidfd, (int)number(&birth->fields)) < 0) {
        if (errno != ESRCH) return -errno;
        return refuse(birth, ESRCH, BIRTH_FAILED, "the container is not running");
    }
    close(birth->pidfd);
    birth->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return birth->root < 0 ? -errno : 0;
}

/* Changes to the working directory, which must lie inside the root. Unlike a start, an exec makes no missing one. */
STEP(CHANGE_DIRECTORY) {
    const char *cwd = text(&birth->fields);
    char here[PATH_SIZE], reason[128];
    int failed = 0, place = open_beneath(birth->root, cwd, O_PATH | O_DIRECTORY, 0, RESOLVE_LINKS_INSIDE);
    if (place < 0) failed = place;
    else if (fchdir(place) < 0) failed = -errno;
    if (place >= 0) close(place);
    if (!failed && !getcwd(here, sizeof here)) failed = -errno; /* it cannot be reached from the root */
    if (!failed) return 0;
    return refuse(birth, -failed, failed == -ENOENT ? 127 : 126, "chdir to cwd (\"%s\") set in config.json failed: %s",
                  cwd, words_of(failed, reason, sizeof reason));
}

static void tell_birth(struct birth *birth, char mark, int pid) {
    char told[16];
    int size = snprintf(told, sizeof told, "%c%d", mark, pid);
    send(birth->report, told, (size_t)size, MSG_NOSIGNAL);
}

/* Makes the child that shares this process's memory until it has executed, or else a fork that goes on by itself. */
STEP(BEAR) {
    struct cursor again = birth->fields;
    struct command command;
    int64_t mask = number(&birth->fields);
    int failed = find_command(birth, &command, true);
    bool bears = number(&birth->fields), terminal = birth->slave >= 0;
    if (failed < 0) return failed;
    if (bears && !failed) {
        if ((failed = let_go(birth, mask))) return failed;
        int pid = mux_newborn(command.path, command.argv, command.envp, terminal);
        if (pid < 0) return pid;
        tell_birth(birth, WIRE_EXECUTED, pid);
        _exit(0);
    }
    tell_birth(birth, WIRE_BORN, 0);
    forget_variables(); /* who may trace the child reads its memory */
    pid_t pid = fork();
    if (pid < 0) return -errno;
    if (pid > 0) {
        tell_birth(birth, WIRE_BORN, pid);
        _exit(0);
    }
    birth->step = "control";
    setsid();
    if (terminal && ioctl(0, TIOCSCTTY, 0) < 0) return -errno;
    birth->step = "exec";
    birth->fields = again;
    return do_EXECUTE(birth);
}
