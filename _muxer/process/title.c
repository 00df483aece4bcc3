/* Sets the name of a process in ps(1) and its command line, for processes that do not run Python to name themselves, and
 * clears the variables that lie behind the command line.
 *
 * engine/kernel/title.py and variables.py do the same in Python, and explain it. */
#include "process/keeper.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define COMM_SIZE 16 /* bytes of a command's name, with its end (prctl(2)) */
#define ARG_START 48 /* field of proc_pid_stat(5), before arg_end, env_start and env_end */

/* Where the variables are in memory that this process was executed with, or that which it was forked from. */
static char *variables;
static size_t variables_size;

/* Finds the memory from which the kernel shows the command line, for this process and all that it forks. */
void find_title(struct mux_stay *stay) {
    char text[2048];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = 0;
    char *place = strrchr(text, ')');
    for (int field = 2; place && field < ARG_START; field++) place = strchr(place + 1, ' ');
    uint64_t start = 0, end = 0, first = 0, last = 0;
    stay->title = NULL;
    if (!place) return;
    int found = sscanf(place, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &start, &end, &first, &last);
    if (found == 4 && first > 0 && last > first) {
        variables = (char *)(uintptr_t)first;
        variables_size = last - first;
    }
    if (found < 2 || start == 0 || end <= start) return;
    stay->title = (char *)(uintptr_t)start;
    stay->title_size = (uint32_t)(end - start);
}

void forget_variables(void) {
    if (variables) memset(variables, 0, variables_size);
}

void mux_name(const struct mux_stay *stay, const char *kind, const char *of) {
    char name[COMM_SIZE];
    snprintf(name, sizeof name, "engine %s", kind);
    prctl(PR_SET_NAME, name);
    if (!stay->title) return;
    int size = snprintf(stay->title, stay->title_size, *of ? "engine %s %s" : "engine %s", kind, of);
    if (size >= 0 && (uint32_t)size < stay->title_size) memset(stay->title + size, 0, stay->title_size - (uint32_t)size);
}
