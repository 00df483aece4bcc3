/* The memory that only Python needs: the spawner puts it into a file of memory, so that no fork copies its page tables.
 *
 * For anonymous memory that was written to, each fork copies the page tables, and counts each page once more; the end of
 * the child takes that back. For a private mapping of a file to which nobody has written, the child finds a page when it
 * first touches it. A monitor and its child touch few of Python's objects, or none. Who writes to such a page gets a
 * copy, as before. What the spawner's own loop writes to stays where it is. */
#include "process/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAST (64 * 1024)
#define MOST (UINT64_C(1) << 30) /* larger ones are no objects of a spawner's */
#define MOST_SPANS 32
#define POPULATE_FOR_READING 22 /* MADV_POPULATE_READ, of Linux 5.14 */
#define WRITES_TO_COME 0x10 /* F_SEAL_FUTURE_WRITE, of Linux 5.1 */
#define BEHIND (INT64_C(1) << 32) /* a mapping that grows (mremap(2) in realloc(3)) finds a part of the file there */

/* Not where the address sanitizer keeps what it knows of the memory, and not with musl, where it was never tried. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
struct span {
    uint64_t start, end;
};

static struct span spans[MOST_SPANS];
static int span_count;

static void add_span(uint64_t start, uint64_t end) {
    if (start < end && end - start >= LEAST && span_count < MOST_SPANS) spans[span_count++] = (struct span){start, end};
}

/* Adds a mapping without what the spawner writes to between its forks: the request, and what belongs to its thread. */
static void add_mapping(uint64_t start, uint64_t end, const struct mux_stay *stay) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const struct {
        const void *place;
        size_t size;
    } written[] = {{stay, sizeof *stay}, {&errno, sizeof errno}};
    if (end - start > MOST) return;
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        uint64_t first = (uint64_t)(uintptr_t)written[i].place / page * page;
        uint64_t last = ((uint64_t)(uintptr_t)written[i].place + written[i].size + page - 1) / page * page;
        if (last <= start || first >= end) continue;
        add_mapping(start, first, stay);
        start = last;
    }
    add_span(start, end);
}

/* Finds the heap, the mappings without a name, and the data of libraries: what was written to is private to this
 * process. */
static bool find_spans(FILE *maps, const struct mux_stay *stay) {
    char line[512], rights[8], name[8];
    uint64_t start, end, inode;
    span_count = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        int fields = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %" SCNu64 " %7s", &start, &end, rights, &inode, name);
        if (fields < 4 || strcmp(rights, "rw-p") != 0) continue;
        if (fields == 4 || inode != 0 || strcmp(name, "[heap]") == 0) add_mapping(start, end, stay);
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

void stow_ballast(const struct mux_stay *stay) {
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
#endif
