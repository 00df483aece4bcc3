/* The mounts of a container: the overlay root, each mount inside it, the sources of binds, and pivot_root into it.
 *
 * engine/sandbox/mounts.py, sources.py, stage.py and procguard.py do the same in Python, and explain it. */
#include "birth/birth.h"
#include "birth/calls.h"

#include "wire.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define NOT_THE_TYPE 127
#define VICE_VERSA                                                                                                     \
    "Are you trying to mount a directory onto a file (or vice-versa)? Check if the specified host path exists and is" \
    " the expected type"
#define PROC_ROOT_INODE 1

int attach(int source, int place, uint64_t set, uint64_t clear, bool recursive) {
    unsigned depth = recursive ? AT_RECURSIVE : 0;
    int tree = open_tree_of(source, depth), failed = 0;
    if (tree < 0) return -errno;
    if (set && set_attributes(tree, depth, (struct attributes){set, clear, 0, 0}) < 0) failed = -errno;
    if (!failed && move_tree(tree, place) < 0) failed = -errno;
    close(tree);
    return failed;
}

/* The words for a mount that failed; a directory where a file is, or the reverse, is the client's mistake to dockerd. */
static int mount_failure(struct birth *birth, int failed, const char *before) {
    char reason[128];
    if (failed != -ENOTDIR) return system_failure(birth, failed, before);
    words_of(failed, reason, sizeof reason);
    return refuse(birth, -failed, NOT_THE_TYPE, "%s%s: %s", before, reason, VICE_VERSA);
}

/* Where a descriptor is, for this process. */
static int path_of(int fd, char *to, size_t size) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(link, to, size - 1);
    if (got < 0) return -errno;
    to[got] = 0;
    return 0;
}

static bool may_be_mounted_on(const char *below_proc) {
    static const char *const allowed[] = {"cpuinfo", "diskstats", "meminfo",  "stat",
                                          "swaps",   "uptime",    "loadavg",  "slabinfo",
                                          "net/dev", "sys/kernel/ns_last_pid", "sys/crypto/fips_enabled"};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (strcmp(allowed[i], below_proc) == 0) return true;
    return false;
}

static bool is_proc(int fd) {
    struct stat found, proc;
    return fd >= 0 && fstat(fd, &found) == 0 && stat("/proc", &proc) == 0 && found.st_ino == PROC_ROOT_INODE &&
           found.st_dev == proc.st_dev;
}

int check_outside_proc(struct birth *birth, int place, const char *name, const char *target, int source) {
    char root[PATH_SIZE], whole[PATH_SIZE];
    const char *inside = whole, *reason = "it is not of type proc";
    int failed = path_of(birth->root, root, sizeof root);
    if (!failed) failed = path_of(place, whole, sizeof whole);
    if (failed) return failed;
    if (strcmp(root, "/") != 0 && strncmp(whole, root, strlen(root)) == 0) inside += strlen(root);
    if (strcmp(inside, "/proc") == 0) {
        if (is_proc(source)) return 0;
    } else if (strncmp(inside, "/proc/", 6) == 0 && !may_be_mounted_on(inside + 6)) {
        reason = "it is inside /proc";
    } else {
        return 0;
    }
    return refuse(birth, 0, BIRTH_FAILED,
                  "error mounting \"%s\" to rootfs at \"%s\": \"%s\" cannot be mounted because %s", name, target,
                  inside, reason);
}

/* The directory to mount on. straight: no symbolic link may be on the way. */
static int place_for(int root, const char *target, bool straight) {
    if (!straight) return make_directories(root, target);
    int place = open_beneath(root, target, O_PATH | O_DIRECTORY, 0, RESOLVE_STRAIGHT);
    if (place != -ENOENT) return place;
    place = make_directories(root, target);
    if (place < 0) return place;
    close(place);
    return open_beneath(root, target, O_PATH | O_DIRECTORY, 0, RESOLVE_STRAIGHT);
}

/* Mounts on "." of an open directory, which cannot be redirected. */
static int mount_in(int place, const char *source, const char *kind, unsigned long flags, const char *data) {
    if (fchdir(place) < 0) return -errno;
    return mount(source, ".", kind, flags, *data ? data : NULL) < 0 ? -errno : 0;
}

/* Gives a tmpfs that a client asked for the mode of the directory that it hides, unless it was given one. */
static int mode_of_hidden(struct birth *birth, const char *target, const char **data, char *room, size_t size) {
    struct stat found;
    int hidden = open_beneath(birth->root, target, O_PATH | O_DIRECTORY, 0, RESOLVE_LINKS_INSIDE);
    if (hidden == -ENOENT) return 0;
    if (hidden < 0) return hidden;
    if (fstat(hidden, &found) < 0) return -errno;
    close(hidden);
    int length = snprintf(room, size, **data ? "mode=%04o,%s" : "mode=%04o", found.st_mode & 07777, *data);
    *data = room;
    return (size_t)length < size ? 0 : -EINVAL;
}

/* Whether namespaces that the container makes are to be peers of a mount. */
static int set_propagation(struct birth *birth, const char *target, unsigned long propagation) {
    int failed = 0, top = open_beneath(birth->root, target, O_PATH, 0, RESOLVE_LINKS_INSIDE);
    if (top < 0) return top;
    if (fchdir(top) < 0 || mount(NULL, ".", NULL, propagation, NULL) < 0) failed = -errno;
    close(top);
    return failed;
}

STEP(MOUNT) {
    struct cursor *fields = &birth->fields;
    char room[PATH_SIZE];
    const char *kind = text(fields), *source = text(fields), *target = text(fields), *data = text(fields);
    unsigned long flags = (unsigned long)number(fields);
    int64_t how = number(fields);
    unsigned long propagation = (unsigned long)number(fields);
    const char *words = text(fields);
    bool asked = how & WIRE_PLAN_ASKED;
    int failed = how & WIRE_PLAN_SAME_MODE ? mode_of_hidden(birth, target, &data, room, sizeof room) : 0;
    int place = failed ? failed : place_for(birth->root, target, how & WIRE_PLAN_STRAIGHT);
    if (place < 0) return mount_failure(birth, place, words);
    if (asked && (failed = check_outside_proc(birth, place, source, target, -1))) return failed;
    failed = mount_in(place, source, kind, flags, data);
    close(place);
    if (!failed && propagation) failed = set_propagation(birth, target, propagation);
    return failed ? mount_failure(birth, failed, words) : 0;
}

/* The place for a bind: of the type of its source, made if it is missing. */
static int place_of_source(struct birth *birth, const char *target, int source) {
    if (is_directory(source)) return make_directories(birth->root, target);
    int place = make_file(birth->root, target);
    if (place < 0 || !is_directory(place)) return place;
    close(place);
    return -ENOTDIR;
}

STEP(BIND) {
    struct cursor *fields = &birth->fields;
    const char *path = text(fields), *target = text(fields);
    bool recursive = number(fields);
    uint64_t set = (uint64_t)number(fields), clear = (uint64_t)number(fields);
    const char *words = text(fields);
    int source = open(path, O_PATH | O_CLOEXEC);
    if (source < 0) return system_failure(birth, -errno, words);
    int place = place_of_source(birth, target, source);
    int failed = place < 0 ? place : attach(source, place, set, clear, recursive);
    close(source);
    if (place >= 0) close(place);
    return failed ? mount_failure(birth, failed, words) : 0;
}

/* A detached copy of what is behind a descriptor, with all attributes that the mount is to have. */
static int detached(int source, unsigned depth, struct attributes all, uint64_t on_top) {
    int tree = open_tree_of(source, depth);
    if (tree < 0) return -errno;
    if (set_attributes(tree, depth, all) < 0 ||
        (on_top && set_attributes(tree, 0, (struct attributes){on_top, 0, 0, 0}) < 0)) {
        int failed = -errno;
        close(tree);
        return failed;
    }
    return tree;
}

/* Opens the source of a bind on the host as it is at this moment: a process that was prepared ahead goes back to the
 * host's mount namespace for it. */
STEP(SOURCE) {
    struct cursor *fields = &birth->fields;
    const char *path = text(fields);
    unsigned depth = number(fields) ? AT_RECURSIVE : 0;
    struct attributes all = {0};
    all.set = (uint64_t)number(fields);
    all.clear = (uint64_t)number(fields);
    all.propagation = (uint64_t)number(fields);
    uint64_t on_top = (uint64_t)number(fields);
    const char *words = text(fields);
    if (birth->source_count == MOST_SOURCES) return -E2BIG;
    int own = -1;
    if (birth->host >= 0) {
        own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        if (own < 0 || setns(birth->host, CLONE_NEWNS) < 0) return -errno;
    }
    int source = open(path, O_PATH | O_CLOEXEC), tree = source < 0 ? -errno : detached(source, depth, all, on_top);
    if (source >= 0) close(source);
    if (own >= 0) {
        if (setns(own, CLONE_NEWNS) < 0) return -errno;
        close(own);
    }
    if (tree < 0) return mount_failure(birth, tree, words);
    birth->sources[birth->source_count++] = tree;
    return 0;
}

STEP(PLACE) {
    struct cursor *fields = &birth->fields;
    int64_t which = number(fields);
    const char *source = text(fields), *target = text(fields);
    bool asked = number(fields);
    const char *words = text(fields);
    if (which < 0 || which >= birth->source_count) return -EINVAL;
    int tree = birth->sources[which], failed = 0, place = place_of_source(birth, target, tree);
    if (place < 0) return mount_failure(birth, place, words);
    if (asked && (failed = check_outside_proc(birth, place, source, target, tree))) return failed;
    if (move_tree(tree, place) < 0) failed = -errno;
    close(tree);
    close(place);
    return failed ? mount_failure(birth, failed, words) : 0;
}

STEP(LEAVE_PEERS) {
    if (birth->host >= 0) close(birth->host);
    birth->host = -1;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

/* Finds out why an overlay is read-only, which the kernel does not say: it could not make a directory in `work`. */
static int why_read_only(const char *work) {
    char probe[PATH_SIZE];
    snprintf(probe, sizeof probe, "%s/probe", work);
    if (mkdir(probe, 0777) < 0) return -errno;
    return rmdir(probe) < 0 ? -errno : -EROFS;
}

static int mount_root(struct birth *birth, const char *upper, const char *work, const char *options, bool read_only) {
    struct statvfs found;
    if (*options ? mount("overlay", upper, "overlay", 0, options) < 0 : mount(upper, upper, NULL, MS_BIND, NULL) < 0)
        return -errno;
    birth->root = open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (birth->root < 0) return -errno;
    if (!*options || read_only) return 0;
    if (fstatvfs(birth->root, &found) < 0) return -errno;
    return found.f_flag & ST_RDONLY ? why_read_only(work) : 0;
}

STEP(ROOT) {
    struct cursor *fields = &birth->fields;
    const char *base = text(fields), *upper = text(fields), *work = text(fields), *options = text(fields);
    bool read_only = number(fields), no_devices = number(fields);
    char reason[128];
    int failed = *options && chdir(base) < 0 ? -errno : mount_root(birth, upper, work, options, read_only);
    if (failed)
        return refuse(birth, -failed, BIRTH_FAILED, "mount: %s on /: %s", *options ? "overlay" : "bind",
                      words_of(failed, reason, sizeof reason));
    if (no_devices && set_attributes(birth->root, 0, (struct attributes){ATTRIBUTE_NO_DEVICES, 0, 0, 0}) < 0)
        return -errno;
    return 0;
}

/* Gives the root what every ordinary container has: moves one of the trees that were prepared ahead; or, for the first
 * of them, makes all of it. */
STEP(FURNISH) {
    const char *target = text(&birth->fields);
    bool straight = number(&birth->fields);
    const char *words = text(&birth->fields);
    if (birth->stage < 0) {
        bool first = !birth->furnished;
        birth->furnished = true;
        return first ? walk(birth, birth->furniture, birth->furniture_size) : 0;
    }
    int tree = open_beneath(birth->stage, target, O_PATH | O_DIRECTORY, 0, RESOLVE_STRAIGHT), failed = 0;
    if (tree < 0) return tree;
    int place = place_for(birth->root, target, straight);
    if (place < 0 || move_tree(tree, place) < 0) failed = place < 0 ? place : -errno;
    close(tree);
    if (place >= 0) close(place);
    return failed ? system_failure(birth, failed, words) : 0;
}

/* Makes the stage: docker's default mounts in a small tmpfs on the host directory `place`, which only this process's
 * mount namespace shows. */
int be_staged(struct birth *birth, const char *place) {
    int failed;
    birth->host = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (birth->host < 0) return -errno;
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET) < 0) return -errno;
    /* The host's mounts and unmounts reach this namespace, so that a spare keeps no mount in use. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) return -errno;
    if ((failed = do_LOOPBACK(birth))) return failed;
    if (mount("stage", place, "tmpfs", 0, "mode=700,size=64k") < 0) return -errno;
    int stage = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (stage < 0) return -errno;
    birth->root = stage;
    if ((failed = walk(birth, birth->furniture, birth->furniture_size))) return failed;
    for (int *mask = &birth->empty; mask; mask = mask == &birth->empty ? &birth->null : NULL) {
        if (*mask >= 0) close(*mask);
        *mask = -1;
    }
    birth->root = -1;
    birth->stage = stage;
    birth->staged = true;
    return 0;
}

/* Shows the hierarchies beside version 1, each below the tmpfs that is mounted already (engine/sandbox/cgroups/view.py);
 * of each come its name, its kind of file system and its options. */
STEP(HIERARCHIES) {
    struct cursor *fields = &birth->fields;
    const char *target = text(fields);
    unsigned long flags = (unsigned long)number(fields);
    bool read_only = number(fields);
    int64_t count = number(fields);
    int top = open_beneath(birth->root, target, O_PATH, 0, RESOLVE_LINKS_INSIDE);
    if (top < 0) return top;
    if (fchdir(top) < 0) return -errno;
    for (int64_t i = 0; i < count && !fields->broken; i += 3) {
        const char *hierarchy = text(fields), *kind = text(fields), *options = text(fields);
        char names[256], *rest = names, *name;
        if (mkdir(hierarchy, 0755) < 0) return -errno;
        snprintf(names, sizeof names, "%s", hierarchy);
        while (strchr(hierarchy, ',') && (name = strsep(&rest, ",")))
            if (symlink(hierarchy, name) < 0) return -errno;
        if (mount("cgroup", hierarchy, kind, flags, options) < 0) return -errno;
    }
    if (read_only && set_attributes(top, 0, (struct attributes){ATTRIBUTE_READ_ONLY, 0, 0, 0}) < 0) return -errno;
    close(top);
    return 0;
}

STEP(ROOT_READ_ONLY) {
    return set_attributes(birth->root, 0, (struct attributes){ATTRIBUTE_READ_ONLY, 0, 0, 0}) < 0 ? -errno : 0;
}

/* The old root is stacked on the new one and detached at once (pivot_root(2), NOTES). */
STEP(PIVOT) {
    if (fchdir(birth->root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0) return -errno;
    if (chdir("/") < 0) return -errno;
    return fchdir(birth->cwd) < 0 ? -errno : 0;
}
