/* Makes the plain members of a layer's tar: the C version of what engine/daemon/tar/reader.py and extract.py do with
 * them, which explain it.
 *
 * A member is plain if it is a file, a directory or a link, its header says all of it, and nothing is in its place yet.
 * Every other one is the caller's, and so is one that cannot be begun: it was not touched. So nothing is removed in here,
 * and nothing is judged. Python's threads do not wait for it. */
#include "birth/birth.h"
#include "muxer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 512
#define ALLOCATION 4096 /* what a small file takes on the usual file systems */
#define OPEN_DIRECTORIES 48
#define NAME_SIZE 257 /* a prefix of 155 bytes, a slash, a name of 100, and NUL */
#define LINK_SIZE 101
#define LARGE (1 << 20) /* bytes of a file that is written to the disk at once, so that a flush has less to wait for */
#define LATEST 9223372036 /* seconds, as nanoseconds in 63 bits */
#define USTAR "ustar\00000" /* with the version */
#define WHITEOUT ".wh."
#define DIRECTORY (O_PATH | O_DIRECTORY | O_CLOEXEC)
#define READABLE (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NEW_FILE (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

enum kind { FILE_KIND = '0', LINK_KIND = '1', SYMLINK_KIND = '2', DIRECTORY_KIND = '5' };

/* A tar's header (POSIX pax(1), "ustar Interchange Format"). */
struct header {
    uint8_t name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], kind, link[100], magic[8];
    uint8_t user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

/* A path without empty parts, and the place of its last part. */
struct path {
    char text[NAME_SIZE];
    size_t above; /* the length of what is above the last part, without the slash; 0: it is in the root */
    const char *name;
};

struct member {
    char name[NAME_SIZE]; /* as in the header */
    char link[LINK_SIZE];
    struct path path;
    int kind;
    mode_t mode;
    uid_t uid;
    gid_t gid;
    uint64_t size;
    int64_t seconds;
};

struct opened {
    char path[NAME_SIZE];
    size_t length;
    int fd;
};

struct mux_extract {
    int root;
    int file; /* whose contents are coming; -1 for none */
    uint64_t left, padding; /* bytes of the contents and behind them that have not come */
    struct member member;
    struct opened open[OPEN_DIRECTORIES];
    unsigned count, oldest;
};

struct mux_extract *mux_extract_new(int root) {
    struct mux_extract *extract = calloc(1, sizeof *extract);
    if (!extract) return NULL;
    extract->root = root;
    extract->file = -1;
    return extract;
}

void mux_extract_forget(struct mux_extract *extract) {
    while (extract->count > 0) close(extract->open[--extract->count].fd);
    extract->oldest = 0;
}

void mux_extract_free(struct mux_extract *extract) {
    mux_extract_forget(extract);
    if (extract->file >= 0) close(extract->file);
    free(extract);
}

const char *mux_extract_name(const struct mux_extract *extract) { return extract->member.name; }

/* The octal number in a field, among blanks and up to a NUL; -1 for a field that has anything else. */
static int64_t octal(const uint8_t *field, size_t size) {
    size_t at = 0;
    int64_t number = 0;
    while (at < size && field[at] == ' ') at++;
    for (; at < size && field[at] >= '0' && field[at] <= '7'; at++) number = 8 * number + (field[at] - '0');
    while (at < size && field[at] == ' ') at++;
    return at == size || field[at] == 0 ? number : -1;
}

static bool is_whole(const struct header *header) {
    const uint8_t *bytes = (const uint8_t *)header;
    int64_t sum = 8 * ' '; /* in the place of the checksum itself */
    for (size_t at = 0; at < BLOCK; at++) sum += bytes[at];
    for (size_t at = 0; at < sizeof header->checksum; at++) sum -= header->checksum[at];
    return sum == octal(header->checksum, sizeof header->checksum);
}

/* Takes a name apart. false: it is the root's, or has `..`. */
static bool read_path(const char *name, struct path *path) {
    size_t length = 0;
    path->above = 0;
    path->name = NULL;
    while (*name) {
        size_t part = strcspn(name, "/");
        if (part == 2 && memcmp(name, "..", 2) == 0) return false;
        if (part > 0 && !(part == 1 && *name == '.')) {
            path->above = length;
            if (length > 0) path->text[length++] = '/';
            path->name = path->text + length;
            memcpy(path->text + length, name, part);
            length += part;
        }
        name += part + (name[part] == '/');
    }
    path->text[length] = 0;
    return path->name != NULL;
}

static bool is_whiteout(const struct path *path) { return strncmp(path->name, WHITEOUT, strlen(WHITEOUT)) == 0; }

/* Reads what a header says. false: the member is not plain. */
static bool read_member(const struct header *header, struct member *member) {
    size_t length = 0;
    if (!is_whole(header)) return false;
    if (memcmp(header->magic, USTAR, sizeof header->magic) == 0 && header->prefix[0]) {
        length = strnlen((const char *)header->prefix, sizeof header->prefix);
        memcpy(member->name, header->prefix, length);
        member->name[length++] = '/';
    }
    size_t rest = strnlen((const char *)header->name, sizeof header->name);
    memcpy(member->name + length, header->name, rest);
    length += rest;
    member->name[length] = 0;
    rest = strnlen((const char *)header->link, sizeof header->link);
    memcpy(member->link, header->link, rest);
    member->link[rest] = 0;
    int64_t mode = octal(header->mode, sizeof header->mode), uid = octal(header->uid, sizeof header->uid);
    int64_t gid = octal(header->gid, sizeof header->gid), size = octal(header->size, sizeof header->size);
    int64_t seconds = octal(header->mtime, sizeof header->mtime);
    if (mode < 0 || uid < 0 || gid < 0 || size < 0 || seconds < 0) return false;
    member->kind = header->kind == 0 || header->kind == '7' ? FILE_KIND : header->kind;
    member->mode = (mode_t)mode & 07777;
    member->uid = (uid_t)uid;
    member->gid = (gid_t)gid;
    member->size = member->kind == FILE_KIND ? (uint64_t)size : 0;
    member->seconds = seconds <= LATEST ? seconds : 0;
    if (member->kind == FILE_KIND && length > 0 && member->name[length - 1] == '/') return false;
    return read_path(member->name, &member->path) && !is_whiteout(&member->path);
}

/* Keeps one more directory open; the oldest one is closed for it, but never `beside`. */
static void keep_open(struct mux_extract *extract, const char *path, size_t length, int fd, int beside) {
    struct opened *place = extract->open + extract->count;
    if (extract->count == OPEN_DIRECTORIES) {
        if (extract->open[extract->oldest].fd == beside) extract->oldest = (extract->oldest + 1) % OPEN_DIRECTORIES;
        place = extract->open + extract->oldest;
        extract->oldest = (extract->oldest + 1) % OPEN_DIRECTORIES;
        close(place->fd);
    } else {
        extract->count++;
    }
    memcpy(place->path, path, length);
    place->length = length;
    place->fd = fd;
}

/* The descriptor of the directory that a path's last part is in, which stays open for the next member. */
static int parent_of(struct mux_extract *extract, const struct path *path, int beside) {
    char above[NAME_SIZE];
    if (path->above == 0) return extract->root;
    for (unsigned at = 0; at < extract->count; at++) {
        const struct opened *known = extract->open + at;
        if (known->length == path->above && memcmp(known->path, path->text, path->above) == 0) return known->fd;
    }
    memcpy(above, path->text, path->above);
    above[path->above] = 0;
    int fd = open_beneath(extract->root, above, DIRECTORY, 0, RESOLVE_LINKS_INSIDE);
    if (fd >= 0) keep_open(extract, above, path->above, fd, beside);
    return fd;
}

static void times_of(const struct member *member, struct timespec *times) {
    times[0] = times[1] = (struct timespec){(time_t)member->seconds, 0};
}

/* The next functions make a member: 0, MUX_EXTRACT_OTHER if nothing was done, or a negative errno. */

static int make_file_at(struct mux_extract *extract, int parent) {
    const struct member *member = &extract->member;
    int fd = openat(parent, member->path.name, NEW_FILE, 0600);
    if (fd < 0) return MUX_EXTRACT_OTHER;
    extract->file = fd;
    extract->left = member->size;
    extract->padding = -member->size % BLOCK;
    return 0;
}

static int make_directory_at(struct mux_extract *extract, int parent, struct mux_extracted *told) {
    const struct member *member = &extract->member;
    size_t length = strlen(member->path.text), whole = sizeof member->seconds + length + 1;
    if (told->directories_size + whole > sizeof told->directories) return MUX_EXTRACT_FULL;
    if (mkdirat(parent, member->path.name, 0700) < 0) return MUX_EXTRACT_OTHER;
    int fd = openat(parent, member->path.name, READABLE);
    if (fd < 0) return -errno;
    if (fchown(fd, member->uid, member->gid) < 0 || fchmod(fd, member->mode) < 0) {
        int failed = -errno;
        close(fd);
        return failed;
    }
    keep_open(extract, member->path.text, length, fd, -1);
    memcpy(told->directories + told->directories_size, &member->seconds, sizeof member->seconds);
    memcpy(told->directories + told->directories_size + sizeof member->seconds, member->path.text, length + 1);
    told->directories_size += (uint32_t)whole;
    told->size += ALLOCATION;
    return 0;
}

static int make_symbolic_link_at(const struct member *member, int parent) {
    struct timespec times[2];
    times_of(member, times);
    if (symlinkat(member->link, parent, member->path.name) < 0) return MUX_EXTRACT_OTHER;
    if (fchownat(parent, member->path.name, member->uid, member->gid, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
    return utimensat(parent, member->path.name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int make_link_at(struct mux_extract *extract, int parent) {
    struct path target;
    if (!read_path(extract->member.link, &target) || is_whiteout(&target)) return MUX_EXTRACT_OTHER;
    int source = parent_of(extract, &target, parent);
    if (source < 0 || linkat(source, target.name, parent, extract->member.path.name, 0) < 0) return MUX_EXTRACT_OTHER;
    return 0;
}

static int make_member(struct mux_extract *extract, const struct header *header, struct mux_extracted *told) {
    struct member *member = &extract->member;
    if (!read_member(header, member)) return MUX_EXTRACT_OTHER;
    int parent = parent_of(extract, &member->path, -1), made;
    if (parent < 0) return MUX_EXTRACT_OTHER;
    switch (member->kind) {
    case FILE_KIND: made = make_file_at(extract, parent); break;
    case DIRECTORY_KIND: made = make_directory_at(extract, parent, told); break;
    case SYMLINK_KIND: made = make_symbolic_link_at(member, parent); break;
    case LINK_KIND: made = make_link_at(extract, parent); break;
    default: return MUX_EXTRACT_OTHER;
    }
    if (made == 0) told->counted += ALLOCATION;
    return made;
}

/* Writes what has come of a file's contents, and finishes the file when that is all. 0 or a negative errno. */
static int write_file(struct mux_extract *extract, const uint8_t *bytes, size_t size, struct mux_extracted *told) {
    const struct member *member = &extract->member;
    size_t wanted = extract->left < size ? (size_t)extract->left : size, done = 0;
    while (done < wanted) {
        ssize_t wrote = write(extract->file, bytes + done, wanted - done);
        if (wrote < 0 && errno != EINTR) return -errno;
        if (wrote > 0) done += (size_t)wrote;
    }
    told->done += wanted;
    told->counted += wanted;
    extract->left -= wanted;
    if (extract->left > 0) return 0;
    struct timespec times[2];
    times_of(member, times);
    if (fchown(extract->file, member->uid, member->gid) < 0) return -errno;
    if (fchmod(extract->file, member->mode) < 0 || futimens(extract->file, times) < 0) return -errno;
    /* Whether it can be begun is of no matter: only the flush makes a layer durable. */
    if (member->size >= LARGE) sync_file_range(extract->file, 0, 0, SYNC_FILE_RANGE_WRITE);
    close(extract->file);
    extract->file = -1;
    told->size += (member->size + ALLOCATION - 1) / ALLOCATION * ALLOCATION;
    return 0;
}

int mux_extract_feed(struct mux_extract *extract, const uint8_t *bytes, size_t size, struct mux_extracted *told) {
    told->done = told->size = told->counted = told->directories_size = 0;
    for (;;) {
        if (extract->file >= 0) {
            int failed = write_file(extract, bytes + told->done, size - told->done, told);
            if (failed < 0) return failed;
            if (extract->file >= 0) return MUX_EXTRACT_DATA;
        }
        uint64_t passed = extract->padding < size - told->done ? extract->padding : size - told->done;
        extract->padding -= passed;
        told->done += passed;
        if (size - told->done < BLOCK) return MUX_EXTRACT_MORE;
        int made = make_member(extract, (const struct header *)(bytes + told->done), told);
        if (made != 0) return made;
        told->done += BLOCK;
    }
}
