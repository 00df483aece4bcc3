/* The sleeper of `engine listen`: holds the engine's sockets while there is no daemon, and starts one for a client.
 *
 *     engine-sleeper COUNT now|wait [INODE:PATH...] -- PROGRAM [ARGUMENT...]
 *
 * The sockets are the descriptors from 3 on, COUNT of them. The sleeper waits until a client connects to one, without
 * accepting it. Then it runs the program, which gets the sockets as sd_listen_fds(3) says, and waits for its end. After
 * exit status 0 it sleeps again: a client that connects while the program ends is the next one's. After any other end it
 * runs the program anew, each time after a longer pause. With `now` it runs the program at once. SIGTERM and SIGINT end
 * the program and then the sleeper, which removes the socket files (PATH) whose inode is still the same. SIGPWR does
 * the same, and runs the program for it if there is none. SIGHUP and SIGUSR1 are passed on.
 *
 * It is a static program without a C library, so that it takes some kilobytes of memory. It reads nothing of a client. */

#include "bare.h"

#define SIGHUP 1
#define SIGINT 2
#define SIGUSR1 10
#define SIGTERM 15
#define SIGPWR 30
#define WNOHANG 1
#define POLLIN 1
#define CLOCK_MONOTONIC 1
#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 0x100
#define STATX_INO 0x100
#define STATX_INO_PLACE 4 /* of the number in struct statx, in steps of eight bytes: the same on every machine */
#define FD_CLOEXEC_NONBLOCK (02000000 | 04000)
#define AT_EMPTY_PATH 0x1000
#define OPEN_TREE_CLONE 1
#define OPEN_TREE_CLOEXEC 02000000
#define MOUNT_ATTR_RDONLY 1

#define FIRST_SOCKET 3
#define MOST_SOCKETS 64
#define MOST_VARIABLES 4096
#define FIRST_PAUSE 100 /* ms, before a program is run anew that has failed */
#define LONGEST_PAUSE 30000
#define LONG_RUN 600000 /* ms after which a failure counts as the first one: who lacks memory may run for a while */
#define NOT_RUNNABLE 126

struct polled {
    int fd;
    short events, happened;
};

struct moment {
    long seconds, nanoseconds;
};

struct mount_attributes {
    unsigned long long set, clear, propagation, namespace;
};

#define BIT(number) (1ULL << ((number) - 1))
static const signals WATCHED = BIT(SIGHUP) | BIT(SIGINT) | BIT(SIGUSR1) | BIT(SIGTERM) | BIT(SIGPWR) | BIT(SIGCHLD);

static signals before;
static word sockets;
static char **files, **command, **environment;
static char *given[MOST_VARIABLES + 3];
static char process[32] = "LISTEN_PID=", number[32] = "LISTEN_FDS=";

static int begins(const char *text, const char *with) {
    while (*with)
        if (*text++ != *with++) return 0;
    return 1;
}

/* Reads decimal digits; *end is what follows them. */
static word digits(const char *text, const char **end) {
    word value = 0;
    for (; *text >= '0' && *text <= '9'; text++) value = value * 10 + (word)(*text - '0');
    *end = text;
    return value;
}

/* Writes a number behind the `=` of a variable. */
static void put(char *variable, word value) {
    volatile char *place = variable;
    char turned[20];
    int count = 0;
    while (*place++ != '=') {
    }
    do turned[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count) *place++ = turned[--count];
    *place = 0;
}

static long now_ms(void) {
    struct moment now = {0, 0};
    call(__NR_clock_gettime, CLOCK_MONOTONIC, (word)&now, 0, 0);
    return now.seconds * 1000 + now.nanoseconds / 1000000;
}

/* Executes the program from a read-only mount of its own, as a daemon does with itself (engine/kernel/sealing.py): so the
 * daemon need not start twice. Returns where the kernel or the user's rights do not allow it. */
static void execute_sealed(void) {
#if defined(__NR_open_tree) && defined(__NR_mount_setattr) && defined(__NR_execveat)
    struct mount_attributes read_only = {MOUNT_ATTR_RDONLY, 0, 0, 0};
    long tree = call(__NR_open_tree, (word)AT_FDCWD, (word)command[0], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC, 0);
    if (tree < 0) return;
    if (call5(__NR_mount_setattr, (word)tree, (word) "", AT_EMPTY_PATH, (word)&read_only, sizeof read_only) == 0)
        call5(__NR_execveat, (word)tree, (word) "", (word)command, (word)given, AT_EMPTY_PATH);
    call(__NR_close, (word)tree, 0, 0, 0);
#endif
}

/* In the child: the program with the sockets. power: it finds SIGPWR pending, blocked as it is in the sleeper. */
static void be_program(int power) {
    int count = 0, self = (int)call(__NR_getpid, 0, 0, 0, 0);
    signals mask = before | (power ? BIT(SIGPWR) : 0);
    if (power) call(__NR_kill, (word)self, SIGPWR, 0, 0);
    call(__NR_rt_sigprocmask, SIG_BLOCK_ALL, (word)&mask, 0, sizeof mask);
    for (char **each = environment; *each; each++)
        if (!begins(*each, "LISTEN_")) given[count++] = *each;
    put(process, (word)self);
    put(number, sockets);
    given[count++] = process;
    given[count++] = number;
    given[count] = 0;
    execute_sealed();
    call(__NR_execve, (word)command[0], (word)command, (word)given, 0);
    say("engine listen: the daemon cannot be started: ");
    say(command[0]);
    say("\n");
    leave(NOT_RUNNABLE);
}

/* The program's process, or a negative errno. */
static int start(int power) {
    int child = (int)call(__NR_clone, SIGCHLD, 0, 0, 0); /* fork(2) by a call that every machine has */
    if (child == 0) be_program(power);
    if (child < 0) say("engine listen: fork failed\n");
    return child;
}

/* Removes the files of the sockets that are still the sleeper's. */
static void end(int status) {
    for (char **each = files; *each != command[-1]; each++) {
        unsigned long long about[32];
        const char *path;
        word inode = digits(*each, &path);
        if (*path++ != ':') continue;
        if (call5(__NR_statx, (word)AT_FDCWD, (word)path, AT_SYMLINK_NOFOLLOW, STATX_INO, (word)about) == 0 &&
            about[STATX_INO_PLACE] == inode)
            call(__NR_unlinkat, (word)AT_FDCWD, (word)path, 0, 0);
    }
    leave(status);
}

/* Whether this process has ended, and with what; reaps all that have. */
static int ended(int child, int *status) {
    int found = 0, how;
    for (long pid; (pid = call(__NR_wait4, (word)-1L, (word)&how, WNOHANG, 0)) > 0;)
        if ((int)pid == child) {
            *status = how & 0x7f ? 128 + (how & 0x7f) : how >> 8 & 0xff;
            found = 1;
        }
    return found;
}

static void say_number(word value) {
    char text[24] = "=";
    put(text, value);
    say(text + 1);
}

/* Says how the program has ended, and in how many ms it is run anew. */
static void say_failed(int status, long pause) {
    say(status > 128 ? "engine listen: the daemon was ended by signal " : "engine listen: the daemon ended with status ");
    say_number((word)(status > 128 ? status - 128 : status));
    say(", and is started anew in ");
    say_number((word)pause / 1000);
    if (pause < 1000) {
        say(".");
        say_number((word)pause / 100);
    }
    say(" s\n");
}

static void serve(int told, int at_once) {
    struct polled table[1 + MOST_SOCKETS];
    int child = 0, ending = 0, status = 0;
    long pause = at_once ? 0 : -1, next = FIRST_PAUSE, began = 0; /* pause: until the next start; -1: for a client */
    table[0].fd = told;
    table[0].events = POLLIN;
    for (word each = 0; each < sockets; each++) table[1 + each].events = POLLIN;
    for (;;) {
        struct moment wait = {pause / 1000, pause % 1000 * 1000000};
        unsigned int said[32]; /* struct signalfd_siginfo, whose first number is the signal's */
        /* A negative descriptor is passed over. */
        for (word each = 0; each < sockets; each++)
            table[1 + each].fd = child || pause >= 0 ? -1 : (int)(FIRST_SOCKET + each);
        long got = call5(__NR_ppoll, (word)table, 1 + sockets, child || pause < 0 ? 0 : (word)&wait, 0, sizeof before);
        if (got < 0) continue;
        if (got == 0 || !table[0].happened) {
            child = start(0);
            began = now_ms();
            pause = child > 0 ? -1 : next;
            if (child < 0) child = 0;
            continue;
        }
        while (call(__NR_read, (word)told, (word)said, sizeof said, 0) == (long)sizeof said) {
            switch (said[0]) {
            case SIGCHLD:
                if (!child || !ended(child, &status)) break;
                child = 0;
                if (ending) end(status);
                if (status == 0 || now_ms() - began >= LONG_RUN) next = FIRST_PAUSE;
                pause = status == 0 ? -1 : next;
                if (status == 0) break;
                say_failed(status, next);
                next = next * 2 < LONGEST_PAUSE ? next * 2 : LONGEST_PAUSE;
                break;
            case SIGPWR:
                if (!child && !ending) {
                    child = start(1);
                    began = now_ms();
                    ending = 1;
                    if (child > 0) break;
                    end(1);
                } /* fall through */
            case SIGTERM:
            case SIGINT:
                if (!child) end(0);
                ending = 1; /* fall through */
            default:
                if (child) call(__NR_kill, (word)child, said[0], 0, 0);
            }
        }
    }
}

__attribute__((used)) void run(word *stack) {
    word count = stack[0], at = 3, variables = 0;
    char **arguments = (char **)(stack + 1);
    const char *rest = "";
    signals watched = WATCHED;
    environment = arguments + count + 1;
    files = arguments + 3;
    while (at < count && !(begins(arguments[at], "--") && !arguments[at][2])) at++;
    while (environment[variables]) variables++;
    if (count > 2) sockets = digits(arguments[1], &rest);
    if (at + 1 >= count || *rest || sockets < 1 || sockets > MOST_SOCKETS || variables > MOST_VARIABLES) {
        say("engine-sleeper COUNT now|wait [INODE:PATH...] -- PROGRAM [ARGUMENT...]: run by `engine listen`\n");
        leave(1);
    }
    command = arguments + at + 1;
    call(__NR_rt_sigprocmask, 0, (word)&watched, (word)&before, sizeof watched);
    int told = (int)call(__NR_signalfd4, (word)-1L, (word)&watched, sizeof watched, FD_CLOEXEC_NONBLOCK);
    if (told < 0) {
        say("engine listen: signalfd failed\n");
        leave(1);
    }
    serve(told, begins(arguments[2], "now"));
}
