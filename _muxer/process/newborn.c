/* Makes the process of an exec by clone(2): a child that shares its maker's memory until it executes its command.
 *
 * So nothing is copied for the short time in between. The caller is a joiner (engine/birth/join.py). It is
 * single-threaded and has already what the new process is to have: the container's namespaces, user and rights. */
#include "birth/birth.h"
#include "muxer.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define STACK_SIZE 65536

struct newborn {
    const char *path;
    char *const *argv, *const *envp;
    int terminal;
    volatile int failed;
};

/* In the child, on a stack of its own and in the maker's memory, which waits: nothing but system calls, and words. */
__attribute__((no_sanitize("address", "undefined"))) static int execute(void *given) {
    struct newborn *newborn = given;
    sigset_t none;
    sigemptyset(&none);
    setsid(); /* works, since the child leads no process group yet */
    if (newborn->terminal && ioctl(0, TIOCSCTTY, 0) < 0) {
        newborn->failed = errno;
        _exit(1);
    }
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(newborn->path, newborn->argv, newborn->envp);
    end_unexecuted(newborn->path, errno);
}

int mux_newborn(const char *path, char *const *argv, char *const *envp, int terminal) {
    _Alignas(16) char stack[STACK_SIZE];
    struct newborn newborn = {path, argv, envp, terminal, 0};
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* no handler of the maker may run in the child */
    /* The child is a sibling of its maker: the maker's parent is told of its end. */
    int pid = clone(execute, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | CLONE_PARENT | SIGCHLD, &newborn);
    int failed = pid < 0 ? errno : newborn.failed;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return failed ? -failed : pid;
}
