/* Removes whole directory trees of untrusted shape: the C version of engine/daemon/tar/trees.py, which explains it.
 *
 * Python's threads do not wait for it, and for each entry it makes the one call that removes it. */
#include "birth/birth.h"
#include "muxer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READABLE (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define LISTED 8192 /* bytes of a directory's entries that are read at once */

/* An entry as getdents64(2) returns it. */
struct entry {
    uint64_t inode;
    int64_t next;
    uint16_t size;
    uint8_t type;
    char name[];
};

/* A directory on the way down: the name of its child that was entered, and what it is. */
struct step {
    dev_t device;
    ino_t inode;
    char child[NAME_MAX + 1];
};

struct trail {
    struct step *steps;
    size_t depth, room;
};

static bool is_directory_entry(int directory, const struct entry *entry) {
    struct stat found;
    if (entry->type != DT_UNKNOWN) return entry->type == DT_DIR;
    return fstatat(directory, entry->name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode);
}

/* Removes one entry. 1: it is a directory with something in it; 0: it is gone; else a negative errno. */
static int remove_entry(int directory, const struct entry *entry) {
    bool empties = is_directory_entry(directory, entry);
    if (empties) { /* one that is mounted on in another namespace could be removed, and the mount would go with it */
        int fd = open_unmounted(directory, entry->name, O_PATH);
        if (fd < 0) return fd;
        close(fd);
    }
    if (unlinkat(directory, entry->name, empties ? AT_REMOVEDIR : 0) == 0) return 0;
    return empties && (errno == ENOTEMPTY || errno == EEXIST) ? 1 : -errno;
}

/* Removes entries up to a directory that is not empty, whose name is put into `child`. 1: there is one; 0: the directory
 * is empty; else a negative errno. */
static int empty(int directory, char *child) {
    _Alignas(struct entry) char listed[LISTED];
    for (;;) {
        long got = syscall(SYS_getdents64, directory, listed, sizeof listed);
        if (got <= 0) return got < 0 ? -errno : 0;
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(listed + at);
            at += entry->size;
            if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0) continue;
            int left = remove_entry(directory, entry);
            if (left > 0 && strlen(entry->name) > NAME_MAX) return -ENAMETOOLONG; /* FUSE may have longer ones */
            if (left > 0) strcpy(child, entry->name);
            if (left != 0) return left;
        }
    }
}

/* Enters a child of *here, which is noted and closed. 0 or a negative errno. */
static int descend(int *here, const char *child, struct trail *trail) {
    struct stat found;
    if (trail->depth == trail->room) {
        size_t room = trail->room ? 2 * trail->room : 8;
        struct step *steps = realloc(trail->steps, room * sizeof *steps);
        if (!steps) return -ENOMEM;
        trail->steps = steps;
        trail->room = room;
    }
    int deeper = open_unmounted(*here, child, READABLE);
    if (deeper < 0) return deeper;
    if (fstat(*here, &found) < 0) {
        int failed = -errno;
        close(deeper);
        return failed;
    }
    struct step *step = trail->steps + trail->depth++;
    step->device = found.st_dev;
    step->inode = found.st_ino;
    strcpy(step->child, child);
    close(*here);
    *here = deeper;
    return 0;
}

/* Returns to the parent, and removes the emptied child. A process may have moved the child away: then its parent is
 * another directory, of which nothing is removed. 0 or a negative errno. */
static int ascend(int *here, struct trail *trail) {
    struct stat found;
    const struct step *step = trail->steps + --trail->depth;
    int above = openat(*here, "..", READABLE);
    if (above < 0) return -errno;
    close(*here);
    *here = above;
    if (fstat(above, &found) < 0) return -errno;
    if (found.st_dev != step->device || found.st_ino != step->inode) return -ESTALE;
    return unlinkat(above, step->child, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int mux_remove_tree(int parent, const char *name) {
    struct trail trail = {0};
    char child[NAME_MAX + 1];
    int here = open_unmounted(parent, name, READABLE), left;
    if (here < 0) return here;
    for (;;) {
        left = empty(here, child);
        if (left < 0 || (left == 0 && trail.depth == 0)) break;
        left = left > 0 ? descend(&here, child, &trail) : ascend(&here, &trail);
        if (left < 0) break;
    }
    close(here);
    free(trail.steps);
    if (left < 0) return left;
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
