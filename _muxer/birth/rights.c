/* Gives a process the rights and limits of its container, and takes all others: rlimits, ids, capabilities, seccomp.
 *
 * engine/birth/process.py (`privileges`), engine/sandbox/limits.py, capabilities.py and lsm.py do the same in Python, and
 * explain it. */
#include "birth/birth.h"
#include "birth/calls.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define MOST_LATE_LIMITS 16

/* A limit as a number that compares; RLIM_INFINITY is the largest. */
static int set_cut_limit(struct birth *birth, const char *name, int which, struct rlimit asked, int refused) {
    struct rlimit present;
    if (getrlimit(which, &present) < 0) return -errno;
    if (refused == EINVAL || asked.rlim_max <= present.rlim_max)
        return refuse(birth, 0, BIRTH_FAILED, "error setting rlimits for ready process: error setting rlimit type %d: %s",
                      which, refused == EPERM ? "operation not permitted" : "invalid argument");
    present.rlim_cur = asked.rlim_cur < present.rlim_max ? asked.rlim_cur : present.rlim_max;
    if (setrlimit(which, &present) < 0) return -errno;
    warn(birth, "ulimit %s: this host does not allow more than %lld", name, (long long)present.rlim_max);
    return 0;
}

int set_limit(struct birth *birth, struct cursor limit) {
    const char *name = text(&limit);
    int which = (int)number(&limit);
    struct rlimit asked;
    asked.rlim_cur = (rlim_t)number(&limit);
    asked.rlim_max = (rlim_t)number(&limit);
    if (setrlimit(which, &asked) == 0) return 0;
    return errno == EPERM || errno == EINVAL ? set_cut_limit(birth, name, which, asked, errno) : -errno;
}

STEP(LIMIT) {
    struct cursor limit = birth->fields, *fields = &birth->fields;
    text(fields);
    for (int i = 0; i < 3; i++) number(fields);
    if (!number(fields)) return set_limit(birth, limit);
    if (birth->late_limit_count == MOST_LATE_LIMITS) return -E2BIG;
    birth->late_limits[birth->late_limit_count++] = limit;
    return 0;
}

/* A procfs that no other process sees. */
static int private_proc(void) {
    int context = (int)syscall(430, "proc", 1u), proc; /* fsopen, FSOPEN_CLOEXEC */
    if (context < 0) return -errno;
    if (syscall(431, context, CREATE_CONTEXT, NULL, NULL, 0) < 0 || (proc = (int)syscall(432, context, 1u, 0)) < 0)
        proc = -errno; /* fsconfig; fsmount, FSMOUNT_CLOEXEC */
    close(context);
    return proc;
}

/* The /proc of the engine, for a process that has entered no container yet. */
static int engines_proc(void) {
    int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return proc < 0 ? -errno : proc;
}

/* Makes the next execve run under an AppArmor profile. An exec asks for it before it enters the container, by the
 * engine's /proc (engine/sandbox/lsm.py). */
STEP(PROFILE) {
    static const char *const files[] = {"thread-self/attr/apparmor/exec", "thread-self/attr/exec"};
    const char *profile = text(&birth->fields);
    int proc = number(&birth->fields) ? engines_proc() : private_proc(), failed = proc < 0 ? proc : -ENOENT;
    char asked[PATH_SIZE];
    int size = snprintf(asked, sizeof asked, "exec %s", profile);
    if ((size_t)size >= sizeof asked) failed = -ENAMETOOLONG;
    bool found = false;
    for (size_t i = 0; failed == -ENOENT && i < sizeof files / sizeof *files; i++) {
        int fd = openat(proc, files[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0) {
            failed = -errno;
            continue;
        }
        found = true;
        failed = write(fd, asked, (size_t)size) < 0 ? -errno : 0;
        close(fd);
        if (failed == -ENOENT) break; /* the host has no such profile */
    }
    if (proc >= 0) close(proc);
    if (!failed) return 0;
    if (failed == -ENOENT && !found)
        return refuse(birth, 0, BIRTH_FAILED, "apparmor failed to apply profile: this kernel has no AppArmor");
    char reason[128];
    return refuse(birth, -failed, BIRTH_FAILED, "apparmor failed to apply profile: %s: %s", profile,
                  words_of(failed, reason, sizeof reason));
}

int load_filter(const struct filter *filter) {
    struct sock_fprog program = {(unsigned short)(filter->size / sizeof(struct sock_filter)),
                                 (struct sock_filter *)(uintptr_t)filter->program};
    if (filter->size == 0) return 0;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, filter->flags, &program) < 0 ? -errno : 0;
}

/* Warns of capabilities that the container is to have and this host does not have. */
static void warn_missing(struct birth *birth, uint64_t missing, struct cursor names) {
    char said[1024] = "";
    int64_t count = number(&names);
    for (int64_t i = 0; i < count && i < 64; i++) {
        const char *name = text(&names);
        size_t length = strlen(said);
        if (missing >> i & 1) snprintf(said + length, sizeof said - length, length ? ", %s" : "%s", name);
    }
    warn(birth, "this host does not have the capabilities %s", said);
}

static int become(struct birth *birth, const char *kind, int result) {
    if (result == 0) return 0;
    if (errno != EINVAL) return -errno;
    return refuse(birth, EINVAL, BIRTH_FAILED, "setup user: cannot set %s to unmapped user in user namespace", kind);
}

static int set_own_capabilities(uint64_t keep) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{(uint32_t)keep, (uint32_t)keep, 0},
                                             {(uint32_t)(keep >> 32), (uint32_t)(keep >> 32), 0}};
    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* Takes the rights of the container, in runc's order. */
STEP(PRIVILEGES) {
    struct cursor *fields = &birth->fields;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    struct filter filter;
    uint64_t asked = (uint64_t)number(fields);
    int last = (int)number(fields), failed;
    bool no_new_rights = number(fields), may_set_groups = number(fields);
    filter.program = blob(fields, &filter.size);
    filter.flags = (int)number(fields);
    if (syscall(SYS_capget, &head, data) < 0) return -errno;
    uint64_t permitted = data[0].permitted | (uint64_t)data[1].permitted << 32, keep = asked & permitted;
    if (asked & ~permitted) warn_missing(birth, asked & ~permitted, *fields);
    for (int each = 0; each <= last; each++)
        if (!(keep >> each & 1) && prctl(PR_CAPBSET_DROP, each) < 0) return -errno;
    if (no_new_rights)
        birth->last = filter;
    else if ((failed = load_filter(&filter)))
        return failed;
    if (birth->uid && prctl(PR_SET_KEEPCAPS, 1) < 0) return -errno;
    if (may_set_groups &&
        (failed = become(birth, "groups", setgroups((size_t)birth->group_count, birth->groups))))
        return failed;
    if ((failed = become(birth, "gid", setresgid(birth->gid, birth->gid, birth->gid)))) return failed;
    if ((failed = become(birth, "uid", setresuid(birth->uid, birth->uid, birth->uid)))) return failed;
    if ((failed = set_own_capabilities(keep))) return failed;
    return no_new_rights && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}
