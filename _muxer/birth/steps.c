/* The small steps of process 1: seclusion, namespaces, names, cgroups, kernel parameters, and the report.
 *
 * engine/birth/init.py and process.py do the same in Python, and explain it. */
#include "birth/birth.h"
#include "birth/calls.h"

#include "wire.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define JOIN_SESSION_KEYRING 1

void begin_birth(struct birth *birth, int report, const int *stdio) {
    memset(birth, 0, sizeof *birth);
    birth->report = report;
    for (int i = 0; i < 3; i++) birth->stdio[i] = stdio ? stdio[i] : -1;
    birth->pidfd = birth->stage = birth->host = birth->root = birth->cwd = -1;
    birth->master = birth->slave = birth->empty = birth->null = -1;
}

/* Writes a text to a file of the kernel. */
static int write_to(const char *path, const char *value) {
    int failed = 0, fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    if (write(fd, value, strlen(value)) < 0) failed = -errno;
    close(fd);
    return failed;
}

/* Closes every descriptor above 2 that a joiner does not need. */
static int close_others(struct birth *birth) {
    const int kept[] = {birth->report, birth->pidfd,
                        birth->stdio[0], birth->stdio[1], birth->stdio[2]};
    for (unsigned first = 3;;) {
        unsigned next = ~0u;
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (kept[i] >= (int)first && (unsigned)kept[i] < next) next = (unsigned)kept[i];
        if (next > first && close_from(first, next == ~0u ? next : next - 1, 0) < 0) return -errno;
        if (next == ~0u) return 0;
        first = next + 1;
    }
}

STEP(SECLUDE) {
    if (prctl(PR_SET_DUMPABLE, 0) < 0) return -errno;
    int failed = birth->pidfd >= 0 ? close_others(birth) : close_from(3, ~0u, MARK_ON_EXEC) < 0 ? -errno : 0;
    if (failed) return failed;
    setsid(); /* EPERM: it leads a session already */
    umask(0);
    /* Where a new session keyring is refused, the process keeps the engine's, see `seclude` in process.py. */
    if (syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS && errno != EDQUOT && errno != EPERM)
        return -errno;
    return 0;
}

STEP(OOM_SCORE) {
    char value[24];
    int64_t score = number(&birth->fields);
    snprintf(value, sizeof value, "%lld", (long long)score);
    int failed = write_to("/proc/self/oom_score_adj", value);
    if (failed != -EACCES && failed != -EPERM) return failed;
    warn(birth, "oom score adjustment %lld: this host does not allow it", (long long)score);
    return 0;
}

STEP(UNSHARE) { return unshare((int)number(&birth->fields)) < 0 ? -errno : 0; }

/* Brings the loopback interface up, by rtnetlink(7). */
STEP(LOOPBACK) {
    struct {
        struct nlmsghdr head;
        struct ifinfomsg link;
    } asked = {{.nlmsg_len = sizeof asked, .nlmsg_type = RTM_SETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
               {.ifi_index = 1, .ifi_flags = IFF_UP, .ifi_change = IFF_UP}};
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char more[256];
    } told;
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    int failed = 0, fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    (void)birth;
    if (fd < 0) return -errno;
    if (sendto(fd, &asked, sizeof asked, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0 ||
        recv(fd, &told, sizeof told, 0) < (ssize_t)(sizeof told.head + sizeof told.error.error))
        failed = errno ? -errno : -EBADMSG;
    else
        failed = told.error.error;
    close(fd);
    return failed;
}

STEP(READY) {
    static const char ready = WIRE_READY;
    birth->ready = true;
    return send(birth->report, &ready, 1, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

STEP(NAME) {
    const char *host = text(&birth->fields), *domain = text(&birth->fields);
    if (*host && sethostname(host, strlen(host)) < 0) return -errno;
    return *domain && setdomainname(domain, strlen(domain)) < 0 ? -errno : 0;
}

/* Waits for P, once; an end of file instead means that nobody wants this container any more. */
STEP(WAIT) {
    char said[16];
    ssize_t got = 0;
    if (birth->proceeding) return 0;
    do
        got = read(birth->report, said, sizeof said);
    while (got < 0 && errno == EINTR);
    if (got != 1 || said[0] != WIRE_PROCEEDS) _exit(BIRTH_FAILED);
    birth->proceeding = true;
    return 0;
}

STEP(CGROUP) { return write_to(text(&birth->fields), "0"); }

STEP(CGROUP_NAMESPACE) {
    (void)birth;
    return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

STEP(PARAMETER) {
    const char *path = text(&birth->fields), *value = text(&birth->fields);
    char reason[128];
    int failed = write_to(path, value);
    if (!failed) return 0;
    return refuse(birth, -failed, BIRTH_FAILED, "open %s: %s", path, words_of(failed, reason, sizeof reason));
}

STEP(DIRECTORY) {
    const char *path = text(&birth->fields);
    birth->cwd = make_directories(birth->root, path);
    return birth->cwd < 0 ? failure_at(birth, path, birth->cwd) : 0;
}
