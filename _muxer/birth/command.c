/* Finds a container's command along PATH, checks that it can run, and executes it, with docker's words for what is wrong.
 *
 * engine/sandbox/command.py and the last steps of engine/birth/process.py do the same in Python, and explain it. */
#include "birth/birth.h"
#include "birth/calls.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NOT_FOUND 127
#define NOT_RUNNABLE 126
#define NOT_EXECUTED 255
#define MOST_INTERPRETERS 5
#define SIGNALS 64

static int check(struct birth *birth, const char *path, bool certain, int depth);

/* The interpreter after `#!` in the first line, as the kernel reads it; empty for none. */
static int read_interpreter(struct birth *birth, const char *absolute, char *to, size_t size) {
    char head[256];
    *to = 0;
    /* The file may have been replaced by a FIFO meanwhile, and opening it must not wait. */
    int fd = open_beneath(birth->root, absolute, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0, RESOLVE_LINKS_INSIDE);
    if (fd == -EACCES || fd == -EPERM) return 0; /* it may be executed but not read */
    if (fd < 0) return fd;
    ssize_t got = read(fd, head, sizeof head);
    int failed = got < 0 ? -errno : 0;
    close(fd);
    if (failed || got < 2 || head[0] != '#' || head[1] != '!') return failed;
    ssize_t at = 2, end;
    while (at < got && (head[at] == ' ' || head[at] == '\t')) at++;
    for (end = at; end < got && head[end] && !strchr(" \t\n", head[end]); end++) {}
    snprintf(to, size, "%.*s", (int)(end - at), head + at);
    return 0;
}

/* Checks only that an interpreter is not behind a magic link: execve itself reports anything else. */
static int check_interpreter(struct birth *birth, const char *interpreter, bool certain, int depth) {
    struct stat found;
    int failed = check(birth, interpreter, certain, depth);
    if (!failed || certain || failed == -ELOOP || failed == -EXDEV) return failed;
    return (failed == -ENOENT || failed == -ENOTDIR) && stat(interpreter, &found) == 0 ? failed : 0;
}

/* Whether the file, and the interpreter that its first line names, may be executed: 0 or a negative errno. */
static int check(struct birth *birth, const char *path, bool certain, int depth) {
    char absolute[2 * PATH_SIZE], interpreter[256];
    struct stat found, followed;
    if (strlen(path) >= PATH_SIZE) return -ENAMETOOLONG;
    if (*path == '/') {
        strcpy(absolute, path);
    } else {
        if (!getcwd(absolute, PATH_SIZE)) return -errno;
        strcat(absolute, "/");
        strcat(absolute, path);
    }
    int place = open_beneath(birth->root, absolute, O_PATH, 0, RESOLVE_LINKS_INSIDE);
    if (place < 0) return place;
    int failed = fstat(place, &found) < 0 ? -errno : 0;
    close(place);
    if (failed) return failed;
    if (S_ISDIR(found.st_mode)) return -EISDIR;
    if (stat(path, &followed) < 0) return -errno;
    /* If the kernel, following all links, finds another file, a magic link was on the way. */
    if (found.st_ino != followed.st_ino || found.st_dev != followed.st_dev) return -ELOOP;
    if (access(path, X_OK) < 0) return -EACCES;
    if (!S_ISREG(found.st_mode)) return 0;
    if ((failed = read_interpreter(birth, absolute, interpreter, sizeof interpreter))) return failed;
    return *interpreter && depth < MOST_INTERPRETERS ? check_interpreter(birth, interpreter, certain, depth + 1) : 0;
}

/* A word in Go's quotation marks, with control characters escaped. */
static const char *quoted(const char *text, char *to, size_t size) {
    static const char escaped[] = "\a\b\f\n\r\t\v\"\\", letters[] = "abfnrtv\"\\";
    size_t done = 0;
    to[done++] = '"';
    for (; *text && done + 6 < size; text++) {
        const char *found = strchr(escaped, *text);
        if (found)
            done += (size_t)sprintf(to + done, "\\%c", letters[found - escaped]);
        else if ((unsigned char)*text < ' ' || *text == 0x7f)
            done += (size_t)sprintf(to + done, "\\x%02x", (unsigned char)*text);
        else
            to[done++] = *text;
    }
    to[done++] = '"';
    to[done] = 0;
    return to;
}

static int refuse_command(struct birth *birth, const char *name, int failed) {
    char word[2 * PATH_SIZE], reason[128];
    quoted(name, word, sizeof word);
    words_of(failed, reason, sizeof reason);
    if (failed == -ENOENT || failed == -ENOTDIR)
        return refuse(birth, -failed, failed == -ENOENT ? NOT_FOUND : NOT_RUNNABLE, "exec: %s: stat %s: %s", word,
                      name, reason);
    if (failed == -EISDIR)
        return refuse(birth, EACCES, NOT_RUNNABLE, "exec: %s: is a directory: permission denied", word);
    return refuse(birth, -failed, NOT_RUNNABLE, "exec: %s: %s", word, reason);
}

_Noreturn void end_unexecuted(const char *path, int failed) {
    char reason[128], said[PATH_SIZE + sizeof reason + 16];
    int size = snprintf(said, sizeof said, "exec %.*s: %s\n", PATH_SIZE, path, words_of(failed, reason, sizeof reason));
    if (write(2, said, (size_t)size) < 0) _exit(NOT_EXECUTED); /* nobody reads it */
    _exit(NOT_EXECUTED);
}

/* Finds the path for argv[0]: itself if it has a slash, else the first match along PATH, by Go's LookPath. The found
 * path stays allocated. */
static int look_path(struct birth *birth, const char *name, const char *path, bool certain, const char **found) {
    char word[2 * PATH_SIZE];
    int failed;
    *found = name;
    if (strchr(name, '/')) return (failed = check(birth, name, certain, 0)) ? refuse_command(birth, name, failed) : 0;
    size_t room = strlen(path) + strlen(name) + 4;
    char *candidate = malloc(room);
    if (!candidate) return -ENOMEM;
    *found = candidate;
    while (*path) {
        size_t length = strcspn(path, ":");
        bool last = path[length] == 0;
        snprintf(candidate, room, "%.*s/%s", length ? (int)length : 1, length ? path : ".", name);
        failed = check(birth, candidate, certain, 0);
        if (!failed) return 0;
        if (certain && failed != -ENOENT && failed != -ENOTDIR) return refuse_command(birth, name, failed);
        path += length + !last;
        if (!last && !*path) { /* PATH ends in a colon: the working directory is its last entry */
            snprintf(candidate, room, "./%s", name);
            failed = check(birth, candidate, certain, 0);
            if (!failed) return 0;
            if (certain && failed != -ENOENT && failed != -ENOTDIR) return refuse_command(birth, name, failed);
        }
    }
    quoted(name, word, sizeof word);
    return refuse(birth, ENOENT, NOT_FOUND, "exec: %s: executable file not found in $PATH", word);
}

/* Reads several texts into an array that ends in NULL, with room for one more. */
static char **texts(struct cursor *from, int64_t *count) {
    *count = number(from);
    if (*count < 0 || *count > from->end - from->at) *count = 0;
    char **all = calloc((size_t)*count + 2, sizeof *all);
    for (int64_t i = 0; all && i < *count; i++) all[i] = (char *)(uintptr_t)text(from);
    return all;
}

int find_command(struct birth *birth, struct command *command, bool certain) {
    struct cursor *fields = &birth->fields;
    bool has_home = number(fields);
    const char *path = text(fields);
    int64_t argc, envc;
    command->argv = texts(fields, &argc);
    command->envp = texts(fields, &envc);
    if (!command->argv || !command->envp) return -ENOMEM;
    if (argc < 1) return -EINVAL;
    if (!has_home) {
        size_t size = strlen(birth->home) + sizeof "HOME=";
        char *home = malloc(size);
        if (!home) return -ENOMEM;
        snprintf(home, size, "HOME=%s", birth->home);
        command->envp[envc] = home;
    }
    return look_path(birth, command->argv[0], path, certain, &command->path);
}

/* The kernel's struct sigaction, of which only the handler counts here: the C library's function refuses its own two
 * signals, which whatever posix_spawn(3) has started ignores. */
static void default_signals(void) {
    struct {
        void (*handler)(int);
        unsigned long words[7];
    } action = {SIG_DFL, {0}}, present;
    for (int each = 1; each <= SIGNALS; each++)
        if (syscall(SYS_rt_sigaction, each, NULL, &present, 8) == 0 && present.handler == SIG_IGN)
            syscall(SYS_rt_sigaction, each, &action, NULL, 8);
}

/* Sets what the command inherits; with no_new_privs the filter comes last, and then only execve may follow. */
int let_go(struct birth *birth, int64_t mask) {
    sigset_t none;
    int failed = 0;
    umask((mode_t)mask);
    for (int i = 0; i < birth->late_limit_count && !failed; i++) failed = set_limit(birth, birth->late_limits[i]);
    if (failed) return failed;
    default_signals();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return load_filter(&birth->last);
}

STEP(EXECUTE) {
    struct command command;
    int64_t mask = number(&birth->fields);
    int failed = find_command(birth, &command, false);
    if (!failed) failed = let_go(birth, mask);
    if (failed) return failed;
    execve(command.path, command.argv, command.envp);
    end_unexecuted(command.path, errno);
}
