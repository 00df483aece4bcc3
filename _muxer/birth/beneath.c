/* Opens and makes files and directories beneath a descriptor, so that no symbolic link or ".." leads out of it.
 *
 * engine/kernel/beneath.py does the same in Python, and explains it. */
#include "birth/birth.h"
#include "birth/calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define MOST_LINKS 40
#define MOST_OPEN 256 /* directories on the way of a walk */
#define RETRIES 8
#define BENEATH 0x08 /* RESOLVE_BENEATH */
#define NO_SYMLINKS 0x04
#define NO_MOUNT 0x01 /* RESOLVE_NO_XDEV */

/* The target of a symbolic link in to[0..PATH_SIZE), which ends in NUL: 1; 0: it is none; else a negative errno. ELOOP:
 * it is a magic link of /proc, whose text is a path of the host's, and has not both the size and the mode of a link. */
static int link_at(int directory, const char *name, char *to) {
    struct stat found;
    ssize_t got = readlinkat(directory, name, to, PATH_SIZE);
    if (got > 0 && *to == '/') {
        int link = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (link < 0) return errno == ENOENT ? 0 : -errno;
        got = fstat(link, &found) < 0 ? -1 : readlinkat(link, "", to, PATH_SIZE);
        close(link);
        if (got >= 0 && (found.st_size != got || (found.st_mode & 07777) != 0777)) return -ELOOP;
    }
    if (got < 0) return errno == EINVAL || errno == ENOENT ? 0 : -errno;
    if (got >= PATH_SIZE) return -ENAMETOOLONG;
    to[got] = 0;
    return 1;
}

/* Whether an entry of a directory is of another file system. One that is mounted twice is not seen by a walk in C. */
static bool is_mounted(int directory, int fd) {
    struct stat above, found;
    return fstat(directory, &above) < 0 || fstat(fd, &found) < 0 || above.st_dev != found.st_dev;
}

/* What is still to be walked: `first` and then `rest`, which is in the same buffer. last: there was no slash between. */
static int put_before(char *rest, const char *first, size_t size, bool last) {
    char joined[2 * PATH_SIZE];
    int length = snprintf(joined, sizeof joined, last ? "%s" : "%s/%s", first, rest);
    if (length < 0 || (size_t)length >= size) return -ENAMETOOLONG;
    memcpy(rest, joined, (size_t)length + 1);
    return 0;
}

/* Does the work of openat2(2) by a walk, for a process whose seccomp filter does not know that call. */
static int walk_to(int root, const char *path, int flags, mode_t mode, uint64_t resolve) {
    char todo[2 * PATH_SIZE], name[256], target[PATH_SIZE];
    int trail[MOST_OPEN], depth = 1, links = 0, result = 0;
    snprintf(todo, sizeof todo, "%s", path);
    if ((trail[0] = fcntl(root, F_DUPFD_CLOEXEC, 0)) < 0) return -errno;
    while (result == 0) {
        size_t length = strcspn(todo, "/");
        bool last = todo[length] == 0;
        if (length >= sizeof name) {
            result = -ENAMETOOLONG;
            break;
        }
        memcpy(name, todo, length);
        name[length] = 0;
        memmove(todo, todo + length + !last, strlen(todo + length + !last) + 1);
        if (strcmp(name, "..") == 0) {
            if (depth == 1 && resolve & BENEATH) result = -EXDEV;
            if (depth > 1) close(trail[--depth]);
            if (!last || result < 0) continue;
            name[0] = 0;
        }
        if ((!*name || strcmp(name, ".") == 0) && !last) continue;
        int is_link = *name ? link_at(trail[depth - 1], name, target) : 0;
        if (is_link < 0) {
            result = is_link;
        } else if (is_link && (!last || resolve & NO_SYMLINKS || !(flags & O_NOFOLLOW))) {
            if (resolve & NO_SYMLINKS || ++links > MOST_LINKS)
                result = -ELOOP;
            else if (resolve & BENEATH && *target == '/')
                result = -EXDEV;
            else
                result = put_before(todo, target, sizeof todo, last);
            if (*target == '/')
                while (depth > 1) close(trail[--depth]);
        } else if (last) {
            int fd = openat(trail[depth - 1], *name ? name : ".", flags | O_NOFOLLOW | O_CLOEXEC, mode);
            result = fd < 0 ? -errno : fd;
            if (fd >= 0 && resolve & NO_MOUNT && is_mounted(trail[depth - 1], fd)) {
                close(fd);
                result = -EXDEV;
            }
            break;
        } else if (depth == MOST_OPEN) {
            result = -ENAMETOOLONG;
        } else {
            trail[depth] = openat(trail[depth - 1], name, O_PATH | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY);
            if (trail[depth] < 0) result = -errno;
            else depth++;
        }
    }
    while (depth > 0) close(trail[--depth]);
    return result;
}

int open_beneath(int root, const char *path, int flags, mode_t mode, uint64_t resolve) {
    char relative[PATH_SIZE];
    size_t length = strlen(path);
    if (length > 0 && path[length - 1] == '/') flags |= O_DIRECTORY;
    while (length > 0 && path[length - 1] == '/') length--;
    while (length > 0 && *path == '/') path++, length--;
    if (length >= sizeof relative) return -ENAMETOOLONG;
    memcpy(relative, length ? path : ".", length ? length : 1);
    relative[length ? length : 1] = 0;
    struct how how = {(uint64_t)(flags | O_CLOEXEC), flags & O_CREAT ? mode : 0, resolve};
    for (int tries = 0; tries < RETRIES; tries++) {
        int fd = open_how(root, relative, &how);
        if (fd >= 0) return fd;
        if (errno == ENOSYS || errno == EPERM) break;
        if (errno != EAGAIN) return -errno; /* EAGAIN: a rename or a mount happened while ".." was resolved */
    }
    return walk_to(root, relative, flags, mode, resolve);
}

int open_unmounted(int directory, const char *name, int flags) {
    int fd = open_beneath(directory, name, flags | O_NOFOLLOW, 0, BENEATH | NO_MOUNT);
    return fd == -EXDEV ? -EBUSY : fd;
}

/* Makes the missing parts of a path. 0: `path` is to be opened next, which is another one after a dangling link. */
static int make_missing(int root, char *path) {
    char whole[PATH_SIZE], above[PATH_SIZE] = "", target[PATH_SIZE], *rest = whole, *name;
    snprintf(whole, sizeof whole, "%s", path);
    while ((name = strsep(&rest, "/"))) {
        if (!*name || strcmp(name, ".") == 0) continue;
        int parent = open_beneath(root, above, O_PATH | O_DIRECTORY, 0, RESOLVE_LINKS_INSIDE);
        if (parent < 0) return parent;
        int failed = mkdirat(parent, name, 0755) < 0 ? -errno : 0;
        int is_link = failed == -EEXIST ? link_at(parent, name, target) : 0;
        close(parent);
        if (failed < 0 && failed != -EEXIST) return failed;
        if (is_link < 0) return is_link;
        size_t length = strlen(above);
        if (length + strlen(name) + 2 > sizeof above) return -ENAMETOOLONG;
        snprintf(above + length, sizeof above - length, "/%s", name);
        if (!is_link) continue;
        int there = open_beneath(root, above, O_PATH, 0, RESOLVE_LINKS_INSIDE);
        if (there >= 0) close(there);
        if (there >= 0) continue;
        if (there != -ENOENT) return there;
        char beside[2 * PATH_SIZE], next[3 * PATH_SIZE + 2];
        above[length] = 0;
        snprintf(beside, sizeof beside, *target == '/' ? "%.0s%s" : "%s/%s", above, target);
        int size = snprintf(next, sizeof next, rest && *rest ? "%s/%s" : "%s", beside, rest);
        if (size >= PATH_SIZE) return -ENAMETOOLONG;
        memcpy(path, next, (size_t)size + 1);
        return 0;
    }
    return 0;
}

int make_directories(int root, const char *wanted) {
    char path[PATH_SIZE];
    if (strlen(wanted) >= sizeof path) return -ENAMETOOLONG;
    strcpy(path, wanted);
    for (int tries = 0; tries < MOST_LINKS; tries++) {
        int failed, fd = open_beneath(root, path, O_PATH | O_DIRECTORY, 0, RESOLVE_LINKS_INSIDE);
        if (fd != -ENOENT) return fd;
        if ((failed = make_missing(root, path)) < 0) return failed;
    }
    return -ELOOP;
}

int make_file(int root, const char *wanted) {
    char path[PATH_SIZE], above[PATH_SIZE], target[PATH_SIZE];
    if (strlen(wanted) >= sizeof path) return -ENAMETOOLONG;
    strcpy(path, wanted);
    for (int tries = 0; tries < MOST_LINKS; tries++) {
        int fd = open_beneath(root, path, O_PATH, 0, RESOLVE_LINKS_INSIDE);
        if (fd != -ENOENT) return fd;
        char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - path) : 0, path);
        int parent = make_directories(root, above);
        if (parent < 0) return parent;
        int is_link = link_at(parent, name, target);
        close(parent);
        if (is_link < 0) return is_link;
        if (!is_link) {
            fd = open_beneath(root, path, O_WRONLY | O_CREAT | O_NONBLOCK, 0644, RESOLVE_LINKS_INSIDE);
            if (fd < 0) return fd;
            close(fd);
        } else if (*target == '/') {
            strcpy(path, target);
        } else {
            char beside[2 * PATH_SIZE + 2];
            int size = snprintf(beside, sizeof beside, "%s/%s", above, target);
            if (size >= PATH_SIZE) return -ENAMETOOLONG;
            memcpy(path, beside, (size_t)size + 1);
        }
    }
    return -ELOOP;
}

bool is_directory(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 && S_ISDIR(found.st_mode);
}

int is_null(int fd) {
    struct stat found;
    if (fstat(fd, &found) < 0) return -errno;
    return S_ISCHR(found.st_mode) && found.st_rdev == makedev(1, 3);
}
