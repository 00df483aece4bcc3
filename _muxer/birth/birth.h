/* What the files of the births share: one process's way from a fork to execve, by the steps of a plan.
 *
 * engine/sandbox/plan.py compiles a plan and declares its steps; engine/birth/init.py and join.py are what the steps
 * must do. Nothing that an image has brought is trusted: each of its paths is opened beneath the root's descriptor.
 *
 * A function that can fail returns 0, a negative errno, or REFUSED when the words for a client are in `said`. */
#ifndef MUXER_BIRTH_H
#define MUXER_BIRTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define REFUSED 1
#define BIRTH_FAILED 125
#define MOST_SOURCES 64
#define MOST_GROUPS 1024
#define SAID_SIZE 4608 /* room for a path and for docker's words around it */
#define PATH_SIZE 4096 /* PATH_MAX */
#define RESOLVE_LINKS_INSIDE 0x10 /* RESOLVE_IN_ROOT */
#define RESOLVE_STRAIGHT 0x0c     /* RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS */

/* A place in a plan's bytes. broken: something that was read is not there. */
struct cursor {
    const uint8_t *at, *end;
    bool broken;
};

/* A filter for seccomp(2); size 0 for none. */
struct filter {
    const uint8_t *program;
    uint32_t size;
    int flags;
};

struct birth {
    const char *step;     /* the step that is being done, by its name for a client */
    struct cursor fields; /* the fields of that step that are not read yet */
    int report;           /* the socket of engine.wire.report */
    int stdio[3];         /* -1 each for a process with a terminal */
    bool ready, proceeding, staged, furnished;
    bool joins; /* it is an exec's: what it warns of goes to the daemon as a message */
    int pidfd; /* of the process 1 that a joiner joins */
    int stage, host; /* what was prepared ahead, and the mount namespace that this process has left; -1 for none */
    const uint8_t *furniture; /* the plan of what every ordinary container has */
    size_t furniture_size;
    int root, cwd, master, slave;
    int empty, null; /* what masks are bound from */
    int sources[MOST_SOURCES], source_count;
    uint32_t uid, gid, groups[MOST_GROUPS];
    int group_count;
    char home[PATH_SIZE];
    struct filter last; /* the filter of a process with no_new_privs, loaded just before execve */
    struct cursor late_limits[16]; /* limits under which the steps could not go on */
    int late_limit_count;
    int number, status; /* of a refusal */
    char said[SAID_SIZE];
};

/* plan.c */
int64_t number(struct cursor *from);
const char *text(struct cursor *from); /* ends in NUL; "" where the plan is broken */
const uint8_t *blob(struct cursor *from, uint32_t *size);
const char *words_of(int failed, char *to, size_t size); /* the reason in the form of docker's texts */
int refuse(struct birth *birth, int number, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int system_failure(struct birth *birth, int failed, const char *before); /* `before` and the reason */
int failure_at(struct birth *birth, const char *path, int failed); /* of a path beneath the root */
void warn(struct birth *birth, const char *format, ...) __attribute__((format(printf, 2, 3)));
int walk(struct birth *birth, const uint8_t *plan, size_t size); /* do the steps; see the convention above */
_Noreturn void be_born(struct birth *birth, const uint8_t *plan, size_t size);
size_t put_quoted(char *to, size_t size, const char *text, size_t most); /* the inside of a JSON string in ASCII */

/* beneath.c */
int open_unmounted(int directory, const char *name, int flags); /* -EBUSY: something is mounted on the entry */
int open_beneath(int root, const char *path, int flags, mode_t mode, uint64_t resolve);
int make_directories(int root, const char *path);
int make_file(int root, const char *path);
bool is_directory(int fd);
int is_null(int fd); /* whether it is the null device; a negative errno */

/* mounts.c */
int attach(int source, int place, uint64_t set, uint64_t clear, bool recursive);
int check_outside_proc(struct birth *birth, int place, const char *name, const char *target, int source);
int be_staged(struct birth *birth, const char *place);

/* command.c */
struct command {
    const char *path;
    char **argv, **envp;
};
int find_command(struct birth *birth, struct command *command, bool certain);
int let_go(struct birth *birth, int64_t mask);

/* Ends a process that execve(2) itself has refused, with the words and the exit code of engine/sandbox/command.py. */
_Noreturn void end_unexecuted(const char *path, int failed);

int load_filter(const struct filter *filter);

/* process/title.c */
void forget_variables(void); /* clears the variables of the daemon, with which the spawner was executed */

/* steps.c */
void begin_birth(struct birth *birth, int report, const int *stdio); /* with nothing done yet */

/* streams.c */
int send_descriptor(int to, char mark, int fd);

/* rights.c */
int set_limit(struct birth *birth, struct cursor limit);

/* The steps: each does what the method of the same work in engine/birth/{init,process,join}.py does. */
#define STEP(name) int do_##name(struct birth *birth)
STEP(SECLUDE); STEP(OOM_SCORE); STEP(UNSHARE); STEP(LOOPBACK); STEP(READY); STEP(NAME);
STEP(SOURCE); STEP(LEAVE_PEERS); STEP(ROOT); STEP(FURNISH); STEP(MOUNT); STEP(BIND); STEP(PLACE);
STEP(DEVICE); STEP(LINK); STEP(TERMINAL); STEP(READ_ONLY); STEP(MASK); STEP(USER); STEP(DIRECTORY);
STEP(WAIT); STEP(CGROUP); STEP(CGROUP_NAMESPACE); STEP(PARAMETER); STEP(HIERARCHIES); STEP(ROOT_READ_ONLY);
STEP(PIVOT); STEP(CONTROL); STEP(STREAMS); STEP(LIMIT); STEP(PROFILE); STEP(PRIVILEGES); STEP(EXECUTE);
STEP(JOIN); STEP(ENTER_CGROUP); STEP(CHANGE_DIRECTORY); STEP(JOIN_TERMINAL); STEP(BEAR);

#endif
