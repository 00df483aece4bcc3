/* docker-init: process 1 of a container that was created with the option Init.
 *
 *     docker-init -- COMMAND [ARGUMENT...]
 *
 * It starts the command, in a process group of its own that has the terminal, and passes every signal on to it. It
 * reaps the children that other processes have left, and ends when the command has ended: with its exit code, or 128
 * and the signal's number.
 *
 * It is a static program without a C library, so that it runs in any image: system calls by hand, no allocation, no
 * state except one path. The engine binds it read-only on /sbin/docker-init; nothing in it trusts the image. */

#include "bare.h"

#define EINTR 4
#define ENOENT 2
#define EACCES 13
#define ENOEXEC 8
#define ENOTDIR 20

#define WNOHANG 1
#define TIOCSPGRP 0x5410
#define SIGTTIN 21
#define SIGTTOU 22
#define SIGNALS 64

#define NOT_FOUND 127
#define NOT_RUNNABLE 126

static const char DEFAULT_PATH[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* The signals of its own program errors: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS. They are not passed
 * on. */
#define BIT(number) (1ULL << ((number) - 1))
static const signals SYNCHRONOUS = BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(11) | BIT(31);

static const char *words(long error) {
    switch (-error) {
    case ENOENT: return "no such file or directory";
    case ENOTDIR: return "not a directory";
    case EACCES: return "permission denied";
    case ENOEXEC: return "exec format error";
    default: return "it cannot be executed";
    }
}

static const char *path_of(char **environment) {
    for (; *environment; environment++) {
        const char *entry = *environment;
        if (entry[0] == 'P' && entry[1] == 'A' && entry[2] == 'T' && entry[3] == 'H' && entry[4] == '=')
            return entry + 5;
    }
    return DEFAULT_PATH;
}

/* A file without `#!` is the shell's, as execvp(3) has it; its name goes before the arguments, where `--` was. */
static long execute(const char *path, char **arguments, char **environment) {
    static char shell[] = "/bin/sh";
    long error = call(__NR_execve, (word)path, (word)arguments, (word)environment, 0);
    if (error != -ENOEXEC) return error;
    char *name = arguments[0];
    arguments[-1] = shell;
    arguments[0] = (char *)path;
    error = call(__NR_execve, (word)shell, (word)(arguments - 1), (word)environment, 0);
    arguments[0] = name;
    return error;
}

/* Executes like execvp(3): along PATH for a name without a slash. Returns the negative errno, only when nothing was
 * executed. */
static long search(char **arguments, char **environment) {
    static char candidate[4096];
    const char *name = arguments[0], *from = path_of(environment);
    word size = length(name);
    long error = -ENOENT;

    for (word at = 0; at < size; at++)
        if (name[at] == '/') return execute(name, arguments, environment);
    if (size == 0) return -ENOENT;
    for (;;) {
        const char *to = from;
        while (*to && *to != ':') to++;
        word directory = (word)(to - from), end = 0;
        if (directory + size + 2 <= sizeof candidate) {
            for (; end < directory; end++) ((volatile char *)candidate)[end] = from[end];
            if (end > 0) candidate[end++] = '/';
            for (word at = 0; at <= size; at++) ((volatile char *)candidate)[end + at] = name[at];
            long tried = execute(candidate, arguments, environment);
            if (tried != -ENOENT && tried != -ENOTDIR) error = tried;
        }
        if (!*to) return error;
        from = to + 1;
    }
}

static void be_command(char **arguments, char **environment, signals *before) {
    int group = (int)call(__NR_getpid, 0, 0, 0, 0);
    /* While SIGTTOU is blocked, the kernel does not stop a process that takes the terminal. Without a terminal this
     * fails. */
    call(__NR_setpgid, 0, 0, 0, 0);
    call(__NR_ioctl, 0, TIOCSPGRP, (word)&group, 0);
    call(__NR_rt_sigprocmask, SIG_BLOCK_ALL, (word)before, 0, sizeof *before);
    long error = search(arguments, environment);
    say("docker-init: exec ");
    say(arguments[0]);
    say(" failed: ");
    say(words(error));
    say("\n");
    leave(error == -ENOENT ? NOT_FOUND : NOT_RUNNABLE);
}

/* Reaps every child that has ended; leaves with the command's status when the command has ended. */
static void reap(int command) {
    int status;
    for (;;) {
        long ended = call(__NR_wait4, (word)-1L, (word)&status, WNOHANG, 0);
        if (ended == -EINTR) continue;
        if (ended <= 0) return;
        if ((int)ended != command) continue;
        int signal = status & 0x7f;
        leave(signal ? 128 + signal : status >> 8 & 0xff);
    }
}

__attribute__((used)) void run(word *stack) {
    word count = stack[0];
    char **arguments = (char **)(stack + 1), **environment = arguments + count + 1;
    signals all = ~SYNCHRONOUS, before = 0;
    word first = count > 1 && length(arguments[1]) == 2 && arguments[1][0] == '-' && arguments[1][1] == '-' ? 2 : 1;

    if (first >= count) {
        say("docker-init -- COMMAND [ARGUMENT...]: run a command as process 1 of a container\n");
        leave(1);
    }
    call(__NR_rt_sigprocmask, SIG_BLOCK_ALL, (word)&all, (word)&before, sizeof all);
    /* fork(2) by a call that every machine has. */
    int command = (int)call(__NR_clone, SIGCHLD, 0, 0, 0);
    if (command < 0) {
        say("docker-init: fork failed\n");
        leave(1);
    }
    if (command == 0) be_command(arguments + first, environment, &before);
    for (;;) {
        int signal = (int)call(__NR_rt_sigtimedwait, (word)&all, 0, 0, sizeof all);
        if (signal == SIGCHLD)
            reap(command);
        else if (signal > 0 && signal <= SIGNALS && signal != SIGTTIN && signal != SIGTTOU)
            call(__NR_kill, (word)(long)command, (word)signal, 0, 0);
    }
}
