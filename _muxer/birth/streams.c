/* Makes a process's standard streams its own (engine/birth/process.py, `streams`, does the same in Python). */
#include "birth/birth.h"
#include "birth/calls.h"

#include "wire.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

int send_descriptor(int to, char mark, int fd) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {&mark, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    return sendmsg(to, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The container's own /dev/null. It may have removed it, or put another file in its place, or a link to a file that its
 * processes may not open: this process still may. It gets an empty file of memory then. */
static int containers_null(void) {
    int place = open("/dev/null", O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -1;
    if (place < 0 && errno != ENOENT) return -errno;
    int null = place >= 0 ? is_null(place) : 0; /* opening another device can have effects */
    if (place >= 0) close(place);
    if (null == 1 && (fd = open("/dev/null", O_RDWR | O_NOFOLLOW | O_CLOEXEC)) < 0 && errno != ENOENT) return -errno;
    if (fd >= 0 && is_null(fd) == 1) return fd; /* it was not replaced meanwhile */
    if (fd >= 0) close(fd);
    fd = memfd_create("null", MFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Makes the user the owner of the stream. The host's /dev/null is replaced by the container's own. */
static int adopt(int fd, uid_t uid) {
    struct stat found;
    int null = is_null(fd);
    if (null < 0) return null;
    if (null) {
        int own = containers_null(), failed = 0;
        if (own < 0) return own;
        if (dup2(own, fd) < 0) failed = -errno;
        close(own);
        return failed;
    }
    if (fstat(fd, &found) < 0) return -errno;
    /* Sockets, and files on file systems that have no owners or are read-only: runc passes over these too. */
    if (found.st_uid != uid && fchown(fd, uid, (gid_t)-1) < 0 && errno != EINVAL && errno != EPERM && errno != EROFS)
        return -errno;
    return 0;
}

STEP(STREAMS) {
    int wanted[3], failed;
    if (birth->slave >= 0 && (failed = send_descriptor(birth->report, WIRE_TERMINAL, birth->master)) < 0) return failed;
    for (int i = 0; i < 3; i++) {
        wanted[i] = birth->slave >= 0 ? birth->slave : birth->stdio[i];
        if (wanted[i] >= 0 && wanted[i] < 3 && (wanted[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, 3)) < 0) return -errno;
    }
    for (int i = 0; i < 3; i++) {
        if (wanted[i] >= 0 && dup2(wanted[i], i) < 0) return -errno;
        if ((failed = adopt(i, birth->uid))) return failed;
    }
    return 0;
}
