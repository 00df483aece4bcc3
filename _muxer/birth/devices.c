/* A container's device nodes, the links beside them, its masks and its terminal.
 *
 * engine/sandbox/devices.py and masks.py do the same in Python, and explain it. */
#include "birth/birth.h"
#include "birth/calls.h"

#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

STEP(DEVICE) {
    struct cursor *fields = &birth->fields;
    const char *directory = text(fields), *name = text(fields), *path = text(fields);
    mode_t mode = (mode_t)number(fields);
    dev_t device = (dev_t)number(fields);
    uid_t uid = (uid_t)number(fields);
    gid_t gid = (gid_t)number(fields);
    struct stat found;
    int failed = 0, parent = make_directories(birth->root, directory);
    if (parent < 0) return parent;
    if (mknodat(parent, name, mode, device) < 0) {
        failed = -errno;
        if (failed == -EEXIST && fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) == 0)
            failed = (found.st_mode & S_IFMT) == (mode & S_IFMT) && found.st_rdev == device ? 0 : REFUSED;
    } else if ((uid || gid) && fchownat(parent, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0) {
        failed = -errno;
    }
    close(parent);
    if (failed != REFUSED) return failed;
    return refuse(birth, 0, BIRTH_FAILED, "%s in the container exists and is not the requested device", path);
}

STEP(LINK) {
    const char *name = text(&birth->fields), *target = text(&birth->fields);
    int failed = 0, place = make_directories(birth->root, "/dev");
    if (place < 0) return place;
    if (symlinkat(target, place, name) < 0 && errno != EEXIST) failed = -errno;
    close(place);
    return failed;
}

/* Checks that a descriptor is of the device that makes terminals. */
static int check_ptmx(struct birth *birth, int fd) {
    struct stat found;
    if (fstat(fd, &found) < 0) return -errno;
    if (found.st_rdev == makedev(5, 2)) return 0;
    return refuse(birth, 0, BIRTH_FAILED, "/dev/pts/ptmx in the container is not the ptmx device");
}

/* Makes birth->slave of birth->master, by descriptor and not by a name that the image could have put there. */
static int make_slave(struct birth *birth, int64_t rows, int64_t columns) {
    int unlocked = 0;
    if (ioctl(birth->master, TIOCSPTLCK, &unlocked) < 0) return -errno;
    birth->slave = ioctl(birth->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (birth->slave < 0) return -errno;
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    return (rows || columns) && ioctl(birth->slave, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

STEP(TERMINAL) {
    int64_t rows = number(&birth->fields), columns = number(&birth->fields);
    char path[40];
    int failed, found = open_beneath(birth->root, "/dev/pts/ptmx", O_PATH, 0, RESOLVE_LINKS_INSIDE);
    if (found < 0) return found;
    if ((failed = check_ptmx(birth, found))) return failed;
    snprintf(path, sizeof path, "/proc/self/fd/%d", found);
    birth->master = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (birth->master < 0) return -errno;
    close(found);
    if ((failed = make_slave(birth, rows, columns))) return failed;
    int place = make_file(birth->root, "/dev/console");
    if (place < 0) return place;
    /* It may be a link, in a client's own /dev (CVE-2025-52565). */
    if ((failed = check_outside_proc(birth, place, "pty", "/dev/console", -1))) return failed;
    failed = attach(birth->slave, place, 0, 0, false);
    close(place);
    return failed;
}

/* A joiner leaves /dev/console alone, as it is process 1's, and cannot rely on the container's /proc. */
STEP(JOIN_TERMINAL) {
    int64_t rows = number(&birth->fields), columns = number(&birth->fields);
    struct stat before, after;
    int failed, found = open_beneath(birth->root, "/dev/pts/ptmx", O_PATH, 0, RESOLVE_LINKS_INSIDE);
    if (found < 0) return found;
    if ((failed = check_ptmx(birth, found))) return failed;
    birth->master = open_beneath(birth->root, "/dev/pts/ptmx", O_RDWR | O_NOCTTY, 0, RESOLVE_LINKS_INSIDE);
    if (birth->master < 0) return birth->master;
    if (fstat(found, &before) < 0 || fstat(birth->master, &after) < 0) return -errno;
    if (before.st_ino != after.st_ino || before.st_dev != after.st_dev)
        return refuse(birth, 0, BIRTH_FAILED, "/dev/pts/ptmx in the container was replaced while it was opened");
    close(found);
    return make_slave(birth, rows, columns);
}

STEP(CONTROL) { return ioctl(birth->slave, TIOCSCTTY, 0) < 0 ? -errno : 0; }

/* A path that is to be masked: -1 where there is no such path, else a negative errno below that. */
static int masked(struct birth *birth, const char *path) {
    int place = open_beneath(birth->root, path, O_PATH, 0, RESOLVE_LINKS_INSIDE);
    return place == -ENOENT || place == -ENOTDIR ? -1 : place < 0 ? place - 1 : place;
}

STEP(READ_ONLY) {
    int place = masked(birth, text(&birth->fields));
    if (place < 0) return place + 1;
    int failed = attach(place, place, ATTRIBUTE_READ_ONLY, 0, true);
    close(place);
    return failed;
}

/* Finds the container's /dev/null, or the host's where it has none; never another file of that name. */
static int find_null(struct birth *birth) {
    for (int host = 0; host < 2; host++) {
        int fd = host ? open("/dev/null", O_PATH | O_CLOEXEC)
                      : open_beneath(birth->root, "dev/null", O_PATH, 0, RESOLVE_LINKS_INSIDE);
        if (host && fd < 0) fd = -errno;
        if (fd == -ENOENT) continue;
        if (fd < 0) return fd;
        if (is_null(fd) == 1) {
            birth->null = fd;
            return 0;
        }
        close(fd);
    }
    return refuse(birth, 0, BIRTH_FAILED, "neither the container nor the host has a /dev/null to mask paths with");
}

/* Mounts an empty read-only directory on a directory, and /dev/null on another file. One empty file system is enough:
 * the others are binds of it. */
STEP(MASK) {
    const char *path = text(&birth->fields);
    int failed = 0, place = masked(birth, path);
    if (place < 0) return place + 1;
    if (!is_directory(place)) {
        if (birth->null < 0) failed = find_null(birth);
        if (!failed) failed = attach(birth->null, place, 0, 0, false);
    } else if (birth->empty >= 0) {
        failed = attach(birth->empty, place, 0, 0, false);
    } else if (fchdir(place) < 0 || mount("tmpfs", ".", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                                          "size=0k,nr_inodes=2") < 0) {
        failed = -errno;
    } else {
        birth->empty = open_beneath(birth->root, path, O_PATH, 0, RESOLVE_LINKS_INSIDE);
        if (birth->empty < 0) failed = birth->empty;
    }
    close(place);
    return failed;
}
