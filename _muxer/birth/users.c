/* Finds a container process's uid, gid, groups and home in the image's passwd and group files.
 *
 * engine/sandbox/users.py does the same in Python, and explains it. */
#include "birth/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST_FILE (4 << 20)
#define LARGEST_ID 2147483647
#define NO_MATCH "no matching entries in"

/* A piece of a text that does not end in NUL. at is NULL behind the last piece. */
struct piece {
    const char *at;
    size_t size;
};

/* Cuts the piece before the next mark off `rest`. */
static struct piece cut(struct piece *rest, char mark) {
    struct piece found = *rest;
    if (!rest->at) return found;
    const char *end = memchr(rest->at, mark, rest->size);
    if (end) {
        found.size = (size_t)(end - rest->at);
        *rest = (struct piece){end + 1, rest->size - found.size - 1};
    } else {
        *rest = (struct piece){NULL, 0};
    }
    return found;
}

static bool is(struct piece piece, const char *text) {
    return piece.at && strlen(text) == piece.size && memcmp(piece.at, text, piece.size) == 0;
}

static bool is_number(struct piece piece) {
    bool negative = piece.at && piece.size > 1 && piece.at[0] == '-';
    for (size_t i = negative; i < piece.size; i++)
        if (piece.at[i] < '0' || piece.at[i] > '9') return false;
    return piece.at && piece.size > 0;
}

/* The number that the digits make; -1 for other texts, and for a number above the largest id. */
static int64_t natural(struct piece piece) {
    int64_t value = 0;
    if (!is_number(piece) || piece.at[0] == '-') return -1;
    for (size_t i = 0; i < piece.size && value <= LARGEST_ID; i++) value = value * 10 + (piece.at[i] - '0');
    return value <= LARGEST_ID ? value : -1;
}

static struct piece whole(const char *text) { return (struct piece){text, strlen(text)}; }

static struct piece without_blanks(struct piece line) {
    static const char blanks[] = " \t\n\v\f\r";
    while (line.size > 0 && memchr(blanks, line.at[0], sizeof blanks - 1)) line.at++, line.size--;
    while (line.size > 0 && memchr(blanks, line.at[line.size - 1], sizeof blanks - 1)) line.size--;
    return line;
}

/* Opens a file that was found to be a regular one. In a joiner /proc is the container's; there the path is opened again,
 * and if the container has put a device there meanwhile, its own rules for devices hold. */
static int open_found(struct birth *birth, const char *path, int place) {
    char link[40];
    int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
    if (birth->joins) return open_beneath(birth->root, path, flags, 0, RESOLVE_LINKS_INSIDE);
    snprintf(link, sizeof link, "/proc/self/fd/%d", place);
    int fd = open(link, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Reads a file of the root; nothing where it is missing. The image may have put a FIFO or anything there, and to open a
 * device can have effects: so it is looked at first. */
static int read_file(struct birth *birth, const char *path, struct piece *to) {
    struct stat found;
    int fd, place = open_beneath(birth->root, path, O_PATH, 0, RESOLVE_LINKS_INSIDE);
    *to = (struct piece){"", 0};
    if (place == -ENOENT || place == -ENOTDIR) return 0;
    if (place < 0) return failure_at(birth, path, place);
    bool regular = fstat(place, &found) == 0 && S_ISREG(found.st_mode);
    if (regular && (fd = open_found(birth, path, place)) < 0) return failure_at(birth, path, fd);
    close(place);
    if (!regular || fstat(fd, &found) < 0 || !S_ISREG(found.st_mode))
        return refuse(birth, 0, BIRTH_FAILED, "%s in the image is not a regular file", path);
    size_t size = found.st_size < LARGEST_FILE ? (size_t)found.st_size : LARGEST_FILE;
    char *bytes = size ? malloc(size) : NULL;
    ssize_t got = bytes ? read(fd, bytes, size) : 0;
    int failed = got < 0 ? -errno : size && !bytes ? -ENOMEM : 0;
    if (bytes && !failed) *to = (struct piece){bytes, (size_t)got};
    close(fd);
    return failed;
}

static int number_of(struct birth *birth, const char *text, const char *kind, const char *file, int64_t *to) {
    if (!is_number(whole(text)))
        return refuse(birth, 0, BIRTH_FAILED, "unable to find %s %s: " NO_MATCH " %s file", kind, text, file);
    *to = natural(whole(text));
    return *to < 0 ? refuse(birth, 0, BIRTH_FAILED, "uids and gids must be in range 0-%d", LARGEST_ID) : 0;
}

static int group_number(struct birth *birth, const char *text, struct piece groups, int64_t *to) {
    while (groups.at && !is_number(whole(text))) {
        struct piece line = without_blanks(cut(&groups, '\n')), name = cut(&line, ':');
        cut(&line, ':');
        *to = natural(cut(&line, ':'));
        if (*to >= 0 && is(name, text)) return 0;
    }
    return number_of(birth, text, "group", "group", to);
}

static int add_group(struct birth *birth, int64_t group) {
    for (int i = 0; i < birth->group_count; i++)
        if (birth->groups[i] == group) return 0;
    if (birth->group_count == MOST_GROUPS)
        return refuse(birth, 0, BIRTH_FAILED, "the user is in more than %d groups", MOST_GROUPS);
    birth->groups[birth->group_count++] = (uint32_t)group;
    return 0;
}

/* Adds the groups that have this user among their members. */
static int add_memberships(struct birth *birth, struct piece login, struct piece groups) {
    int failed = 0;
    while (groups.at && !failed) {
        struct piece line = without_blanks(cut(&groups, '\n'));
        cut(&line, ':');
        cut(&line, ':');
        int64_t group = natural(cut(&line, ':'));
        struct piece members = cut(&line, ':');
        while (group >= 0 && members.at && !failed) {
            struct piece member = cut(&members, ',');
            if (member.size != login.size || memcmp(member.at, login.at, login.size) != 0) continue;
            failed = add_group(birth, group);
            break;
        }
    }
    return failed;
}

/* Finds the user's line of passwd; an empty name asks for uid 0, and digits for that uid. False: there is none. */
static bool find_entry(struct birth *birth, const char *name, struct piece passwd, struct piece *login, int64_t *gid) {
    int64_t wanted = natural(whole(*name ? name : "0"));
    bool by_name = !is_number(whole(name));
    while (passwd.at) {
        struct piece line = cut(&passwd, '\n'), first = cut(&line, ':');
        cut(&line, ':');
        int64_t uid = natural(cut(&line, ':'));
        *gid = natural(cut(&line, ':'));
        if (uid < 0 || *gid < 0 || !(uid == wanted || (by_name && is(first, name)))) continue;
        cut(&line, ':');
        struct piece home = cut(&line, ':');
        *login = first;
        birth->uid = (uint32_t)uid;
        if (home.at && home.size > 0 && home.size < sizeof birth->home && !memchr(home.at, 0, home.size)) {
            memcpy(birth->home, home.at, home.size);
            birth->home[home.size] = 0;
        }
        return true;
    }
    return false;
}

STEP(USER) {
    struct cursor *fields = &birth->fields;
    const char *name = text(fields), *group = text(fields);
    struct piece passwd, groups, login = {NULL, 0};
    int64_t id, gid = 0;
    int failed = read_file(birth, "/etc/passwd", &passwd);
    if (!failed) failed = read_file(birth, "/etc/group", &groups);
    if (failed) return failed;
    strcpy(birth->home, "/");
    if (!find_entry(birth, name, passwd, &login, &gid)) {
        gid = 0;
        if (*name && (failed = number_of(birth, name, "user", "passwd", &id))) return failed;
        birth->uid = *name ? (uint32_t)id : 0;
    }
    if (*group && (failed = group_number(birth, group, groups, &gid))) return failed;
    birth->gid = (uint32_t)gid;
    birth->group_count = 0;
    failed = add_group(birth, gid);
    if (!failed && !*group && login.size > 0) failed = add_memberships(birth, login, groups);
    for (int64_t more = number(fields); more > 0 && !failed && !fields->broken; more--) {
        failed = group_number(birth, text(fields), groups, &id);
        if (!failed) failed = add_group(birth, id);
    }
    return failed;
}
