/* The memory that only Python needs: the spawner puts it into a file of memory, so that no fork copies its page tables.
 *
 * For anonymous memory that was written to, each fork copies the page tables, and counts each page once more; the end of
 * the child takes that back. For a private mapping of a file to which nobody has written, the child finds a page when it
 * first touches it. A monitor and its child touch few of Python's objects, or none. Who writes to such a page gets a
 * copy, as before. What the spawner's own loop writes to stays where it is.
 *
 * A file of memory lasts as long as one process maps it. A keeper outlives its spawner, perhaps for months, and never
 * comes back to Python: once its container runs, it gives up all of Python, and so keeps nothing of its spawner. What it
 * does from then on allocates nothing by malloc(3), whose heap is gone too, binds nothing lazily (build.py), and has the
 * locale C, whose tables are in the C library. */
#include "process/keeper.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAST (64 * 1024)
#define MOST (UINT64_C(1) << 30) /* larger ones are no objects of a spawner's */
#define MOST_SPANS 32
#define POPULATE_FOR_READING 22 /* MADV_POPULATE_READ, of Linux 5.14 */
#define WRITES_TO_COME 0x10 /* F_SEAL_FUTURE_WRITE, of Linux 5.1 */
#define MOST_SHED 256
#define MOST_KEPT 128
#define LARGEST_VARIABLES (256 * 1024) /* a C library's are fewer, and an interpreter's are more */
#define OF_THREAD (16 * 1024)          /* on either side of its descriptor: its variables, and what the C library has */
#define BEHIND (INT64_C(1) << 32) /* a mapping that grows (mremap(2) in realloc(3)) finds a part of the file there */

/* Not where the address sanitizer keeps what it knows of the memory, and not with musl, where it was never tried. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
struct span {
    uint64_t start, end;
};

static struct span spans[MOST_SPANS]; /* what is put into the file */
static int span_count;
static struct span shed[MOST_SHED]; /* what a keeper gives up beside that: Python's programs and libraries */
static int shed_count;
static struct span kept[MOST_KEPT]; /* what a keeper, or the spawner between its forks, writes to */
static int kept_count;
static sigset_t caught; /* signals whose handlers are Python's */

static void keep(const void *place, size_t size) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = (uint64_t)(uintptr_t)place;
    uint64_t end = (start + size + page - 1) / page * page;
    if (kept_count < MOST_KEPT) kept[kept_count++] = (struct span){start / page * page, end};
}

/* Keeps the variables of a library, which C may need however its memory lies among Python's. Python's own are many. */
static int keep_variables(struct dl_phdr_info *library, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = library->dlpi_phdr + i;
        if (part->p_type == PT_LOAD && part->p_flags & PF_W && part->p_memsz < LARGEST_VARIABLES)
            keep((const void *)(uintptr_t)(library->dlpi_addr + part->p_vaddr), part->p_memsz);
    }
    return 0;
}

/* Adds a piece of a mapping without what is kept, by the places of that from `next` on. */
static void add_span(uint64_t start, uint64_t end, int next) {
    for (; next < kept_count; next++) {
        if (kept[next].end <= start || kept[next].start >= end) continue;
        if (kept[next].start > start) add_span(start, kept[next].start, next + 1);
        start = kept[next].end;
        if (start >= end) return;
    }
    if (end - start < LEAST || end - start > MOST || span_count == MOST_SPANS) return;
    spans[span_count++] = (struct span){start, end};
}

/* Whether one of these functions is in the library: what C calls stays. */
static bool is_needed(const struct dl_phdr_info *library) {
    const void *const functions[] = {(void *)mux_spawn, (void *)poll,      (void *)sendmsg,
                                     (void *)waitpid,   (void *)sigaction, (void *)getauxval(AT_BASE)};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        uint64_t at = (uint64_t)(uintptr_t)functions[i] - library->dlpi_addr;
        for (int j = 0; j < library->dlpi_phnum; j++) {
            const ElfW(Phdr) *part = library->dlpi_phdr + j;
            if (part->p_type == PT_LOAD && at >= part->p_vaddr && at - part->p_vaddr < part->p_memsz) return true;
        }
    }
    return false;
}

/* Lists what a keeper gives up beside the spans: the interpreter, and its modules. */
static int add_library(struct dl_phdr_info *library, size_t size, void *unused) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    (void)size, (void)unused;
    if ((*library->dlpi_name && !strstr(library->dlpi_name, "python")) || is_needed(library)) return 0;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = library->dlpi_phdr + i;
        uint64_t start = library->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;
        if (part->p_type == PT_LOAD && shed_count < MOST_SHED)
            shed[shed_count++] = (struct span){start / page * page, (end + page - 1) / page * page};
    }
    return 0;
}

/* Finds the heap, the mappings without a name, and the data of libraries: what was written to is private to this
 * process. */
static bool find_spans(FILE *maps, const struct mux_stay *stay) {
    char line[512], rights[8], name[8];
    uint64_t start, end, inode;
    span_count = kept_count = 0;
    keep(stay, sizeof *stay);
    keep(&errno, sizeof errno);
    keep((const uint8_t *)pthread_self() - OF_THREAD, 2 * OF_THREAD);
    dl_iterate_phdr(keep_variables, NULL);
    while (maps && fgets(line, sizeof line, maps)) {
        int fields = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %" SCNu64 " %7s", &start, &end, rights, &inode, name);
        if (fields < 4 || strcmp(rights, "rw-p") != 0) continue;
        if (fields == 4 || inode != 0 || strcmp(name, "[heap]") == 0) add_span(start, end, 0);
    }
    return span_count > 0;
}

static bool is_empty(const uint8_t *page, size_t size) { return page[0] == 0 && memcmp(page, page + 1, size - 1) == 0; }

/* Writes a span to the file at this offset. Pages that hold nothing are left out, since the file shows zeros there. */
static bool put(int file, struct span span, uint64_t at) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (uint64_t here = span.start; here < span.end;) {
        uint64_t end = here;
        while (end < span.end && !is_empty((const uint8_t *)(uintptr_t)end, page)) end += page;
        ssize_t put = end > here ? pwrite(file, (void *)(uintptr_t)here, end - here, (off_t)(at + here - span.start)) : 0;
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 || (put == 0 && end > here)) return false;
        here += end > here ? (uint64_t)put : page;
    }
    return true;
}

/* Shows the part of the file in the place of the memory. The spawner's own page tables get what the file holds: forks
 * do not copy them, and this memory is counted as what it is, the spawner's. */
static bool show(int file, struct span span, uint64_t at) {
    uint64_t size = span.end - span.start;
    void *place = (void *)(uintptr_t)span.start;
    if (mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, (off_t)at) == MAP_FAILED) return false;
    off_t from = (off_t)at, to;
    while ((from = lseek(file, from, SEEK_DATA)) >= 0 && (uint64_t)from < at + size) {
        if ((to = lseek(file, from, SEEK_HOLE)) < 0) break;
        if ((uint64_t)to > at + size) to = (off_t)(at + size);
        madvise((uint8_t *)place + ((uint64_t)from - at), (size_t)(to - from), POPULATE_FOR_READING);
        from = to;
    }
    return true;
}

/* Notes the signals whose handlers are in Python. */
static void find_handlers(void) {
    struct sigaction now;
    sigemptyset(&caught);
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN)
            sigaddset(&caught, number);
}

void shed_ballast(void) {
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&caught, number) == 1) sigaction(number, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
    for (int i = 0; i < span_count; i++) munmap((void *)(uintptr_t)spans[i].start, spans[i].end - spans[i].start);
    for (int i = 0; i < shed_count; i++) munmap((void *)(uintptr_t)shed[i].start, shed[i].end - shed[i].start);
}

void stow_ballast(const struct mux_stay *stay) {
    find_handlers();
    shed_count = 0;
    dl_iterate_phdr(add_library, NULL);
    int file = memfd_create("python", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint64_t at = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    bool done = file >= 0 && find_spans(maps, stay);
    /* From here on nothing writes to the heap, for it would be lost, and nothing is freed: malloc(3) may give the end of
     * the heap back to the kernel then. */
    for (int i = 0; done && i < span_count; i++) {
        uint64_t size = spans[i].end - spans[i].start;
        done = ftruncate(file, (off_t)(at + size) + BEHIND) == 0 && put(file, spans[i], at);
        if (done && !show(file, spans[i], at)) _exit(1); /* what was there is gone */
        at += size;
    }
    if (maps) fclose(maps);
    if (file < 0) return;
    /* Who may open /proc/PID/map_files(5) would change the memory of all monitors by one of them. */
    fcntl(file, F_ADD_SEALS, WRITES_TO_COME | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    close(file);
}
#else
void stow_ballast(const struct mux_stay *stay) { (void)stay; }

void shed_ballast(void) {}
#endif
