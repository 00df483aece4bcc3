/* What an image brings and a process 1 reads: users and groups, commands with their interpreters, paths with links; the
 * words of a failure; and fields of a plan that are cut or wrong. */
#include <stdlib.h>

/* What a process 1 allocates ends with its execve, here with an input. */
static void *kept[64];
static size_t kept_count;

static void *keep(void *made) {
    if (!made || kept_count == sizeof kept / sizeof *kept) abort();
    return kept[kept_count++] = made;
}

#define malloc(size) keep(malloc(size))
#define calloc(count, size) keep(calloc(count, size))

#include "../../../../_muxer/birth/beneath.c" /* for what is static in there */
#include "../../../../_muxer/birth/command.c"
#include "../../../../_muxer/birth/users.c"

#define MOST 4096

static uint8_t packed[8 * MOST];
static size_t packed_size;

static void put_number(int64_t value) {
    memcpy(packed + packed_size, &value, sizeof value);
    packed_size += sizeof value;
}

static void put_text(const void *bytes, size_t size) {
    uint32_t length = (uint32_t)size;
    memcpy(packed + packed_size, &length, sizeof length);
    memcpy(packed + packed_size + sizeof length, bytes, size);
    packed_size += sizeof length + size;
    packed[packed_size++] = 0;
}

/* Cuts a text off the input: up to a zero, which no text of a plan has. */
static struct piece some(struct piece *rest) {
    struct piece found = cut(rest, 0);
    if (!found.at) found = (struct piece){"", 0};
    if (found.size > MOST / 4) found.size = MOST / 4;
    return found;
}

static void put_file(int root, const char *name, const void *bytes, size_t size) {
    int fd = openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size) abort();
    close(fd);
}

static char made[128]; /* the directory that is the root */

static void tidy(void) {
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", made);
    if (system(command) != 0) abort();
}

static int root_of(const char **path) {
    if (!*made) {
        const char *within = getenv("TMPDIR");
        if (!within) within = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(made, sizeof made, "%s/engine-fuzz-XXXXXX", within);
        if (!mkdtemp(made) || chdir(made) < 0 || mkdir("etc", 0755) < 0 || mkdir("way", 0755) < 0) abort();
        atexit(tidy);
    }
    *path = made;
    return open(made, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void begin(struct birth *birth, int root, unsigned broken) {
    begin_birth(birth, -1, NULL);
    birth->step = "step";
    birth->root = root;
    if (broken % 4 == 0) packed[broken % packed_size] ^= (uint8_t)(1u << broken % 8);
    if (broken % 4 == 1) packed_size = broken % packed_size;
    uint8_t *exact = malloc(packed_size + !packed_size); /* what is read beyond it is seen */
    memcpy(exact, packed, packed_size);
    birth->fields = (struct cursor){exact, exact + packed_size, false};
}

static void find_users(int root, struct piece rest, unsigned broken) {
    static struct birth birth;
    struct piece name = some(&rest), group = some(&rest), more = some(&rest), passwd = some(&rest);
    if (!rest.at) rest = (struct piece){"", 0};
    put_file(root, "etc/passwd", passwd.at, passwd.size);
    put_file(root, "etc/group", rest.at, rest.size);
    packed_size = 0;
    put_text(name.at, name.size);
    put_text(group.at, group.size);
    put_number(more.size > 0);
    put_text(more.at, more.size);
    begin(&birth, root, broken);
    if (do_USER(&birth) == 0 && (birth.group_count < 1 || birth.group_count > MOST_GROUPS || !*birth.home)) abort();
    if (birth.uid > LARGEST_ID || birth.gid > LARGEST_ID) abort();
}

static void find_commands(int root, struct piece rest, unsigned broken) {
    static struct birth birth;
    static const char *const names[] = {"./script", "script", "../script", "", "/", "way/../script"};
    struct piece name = whole(names[broken % 6]), path = some(&rest);
    if (!rest.at) rest = (struct piece){"", 0};
    put_file(root, "script", rest.at, rest.size);
    packed_size = 0;
    put_number(broken & 1);
    put_text(path.at, path.size);
    put_number(1);
    put_text(name.at, name.size);
    put_number(1);
    put_text(path.at, path.size);
    begin(&birth, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), broken);
    struct command command = {0};
    int failed = find_command(&birth, &command, broken & 2);
    if (failed == REFUSED && !memchr(birth.said, 0, sizeof birth.said)) abort();
    if (failed == 0 && access(command.path, X_OK) < 0) abort();
    close(birth.root);
}

static void quote(struct piece rest, unsigned broken) {
    char text[MOST + 1], *to = malloc(16 + broken);
    size_t size = rest.size < MOST ? rest.size : MOST, most = 16 + broken;
    memcpy(text, rest.at, size);
    text[size] = 0;
    size_t done = put_quoted(to, most, text, broken);
    if (done >= most || to[done] != 0 || strlen(to) != done) abort();
    for (size_t i = 0; i < done; i++)
        if (to[i] < 0x20 || to[i] == 0x7f) abort();
    quoted(text, to, most);
}

/* A few directories, files and links: the kernel and the walk find the same, and nothing leads out. */
static void walk_paths(int root, const char *home, struct piece rest) {
    static const char *const words[] = {"a", "b", "c", "..", ".", "", "a/b", "/", "/a", "../..", "b/", "a/../c"};
    static const uint64_t ways[] = {RESOLVE_LINKS_INSIDE, BENEATH, RESOLVE_STRAIGHT};
    size_t turns = 0;
    int top = openat(root, "way", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (; rest.size >= 4 && turns < 12; rest.at += 4, rest.size -= 4, turns++) {
        const uint8_t *at = (const uint8_t *)rest.at;
        char path[64], seen[PATH_SIZE], link[40], *under = NULL;
        snprintf(path, sizeof path, "%s/%s", words[at[1] % 12], words[at[2] % 12]);
        int fd = -1, by_kernel, by_walk;
        if (at[0] % 5 == 0) symlinkat(path, top, words[at[3] % 3]);
        if (at[0] % 5 == 1) fd = make_directories(top, path);
        if (at[0] % 5 == 2) fd = make_file(top, path);
        if (fd >= 0) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t size = readlink(link, seen, sizeof seen - 1);
            seen[size > 0 ? size : 0] = 0;
            if (!(under = strstr(seen, "/way")) || strncmp(seen, home, strlen(home)) != 0) abort();
            close(fd);
        }
        if (at[0] % 5 < 3 || !*path || path[0] == '/') continue;
        struct how how = {O_PATH | O_CLOEXEC, 0, ways[at[3] % 3]};
        struct stat one, other;
        do
            by_kernel = open_how(top, path, &how);
        while (by_kernel < 0 && errno == EAGAIN); /* somebody has renamed or mounted something */
        bool unknown = by_kernel < 0 && errno == ENOSYS; /* under emulation */
        by_walk = walk_to(top, path, O_PATH, 0, ways[at[3] % 3]);
        if (unknown && by_walk >= 0) close(by_walk);
        if (unknown) continue;
        if ((by_kernel < 0) != (by_walk < 0)) abort();
        if (by_kernel < 0) continue;
        if (fstat(by_kernel, &one) < 0 || fstat(by_walk, &other) < 0 || one.st_ino != other.st_ino) abort();
        close(by_kernel);
        close(by_walk);
    }
    close(top);
    if (system("rm -rf way && mkdir way") != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    /* Small numbers are marks that mean something. */
    static const char marks[][8] = {{0, ':', '\n', ',', 'f', '0', '5', ' '}, {0, '#', '!', '/', '\n', 's', ':', ' '}};
    static char text[MOST];
    if (size < 3 || size > MOST) return 0;
    for (size_t i = 3; i < size; i++)
        text[i - 3] = bytes[0] % 4 < 2 && bytes[i] < 8 ? marks[bytes[0] % 4][bytes[i]] : (char)bytes[i];
    struct piece rest = {text, size - 3};
    unsigned broken = bytes[1] | (unsigned)bytes[2] << 8;
    const char *home;
    int root = root_of(&home);
    if (bytes[0] % 4 == 0) find_users(root, rest, broken);
    if (bytes[0] % 4 == 1) find_commands(root, rest, broken);
    if (bytes[0] % 4 == 2) quote(rest, broken);
    if (bytes[0] % 4 == 3) walk_paths(root, home, rest);
    close(root);
    while (kept_count > 0) free(kept[--kept_count]);
    return 0;
}
