/* System calls for which the C library may be too old; their numbers are the same on every machine. */
#ifndef MUXER_BIRTH_CALLS_H
#define MUXER_BIRTH_CALLS_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#define TREE_CLONE 1u /* OPEN_TREE_CLONE */
#define TREE_FROM_DESCRIPTOR 4u /* MOVE_MOUNT_F_EMPTY_PATH */
#define TREE_TO_DESCRIPTOR 0x40u /* MOVE_MOUNT_T_EMPTY_PATH */
#define ATTRIBUTE_READ_ONLY 1u /* MOUNT_ATTR_RDONLY */
#define ATTRIBUTE_NO_DEVICES 4u /* MOUNT_ATTR_NODEV */
#define CREATE_CONTEXT 6u /* FSCONFIG_CMD_CREATE */
#define MARK_ON_EXEC 4u /* CLOSE_RANGE_CLOEXEC */

struct how {
    uint64_t flags, mode, resolve; /* struct open_how */
};

struct attributes {
    uint64_t set, clear, propagation, userns; /* struct mount_attr */
};

static inline int open_how(int root, const char *path, struct how *how) {
    return (int)syscall(437, root, path, how, sizeof *how);
}

static inline int open_tree_of(int fd, unsigned flags) {
    return (int)syscall(428, fd, "", flags | TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);
}

static inline int move_tree(int tree, int place) {
    return (int)syscall(429, tree, "", place, "", TREE_FROM_DESCRIPTOR | TREE_TO_DESCRIPTOR);
}

static inline int set_attributes(int tree, unsigned depth, struct attributes attributes) {
    return (int)syscall(442, tree, "", depth | AT_EMPTY_PATH, &attributes, sizeof attributes);
}

static inline int close_from(unsigned first, unsigned last, unsigned flags) {
    return (int)syscall(436, first, last, flags);
}

#endif
