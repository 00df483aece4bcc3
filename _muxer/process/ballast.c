/* The memory that only Python needs: a child that stays in C until it executes a command does not copy it.
 *
 * The kernel takes as long to copy and to tear down the page tables of Python's objects as for a container's mounts.
 * Python has these objects in mappings without a name, of 1 MB and more. What C needs lies elsewhere, or its mapping is
 * passed over here. The kernel joins the zeroed data of a library, or of the program, with such a mapping behind it. */
#include "process/keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAST (512 * 1024)
#define PIECE 4096
#define MOST (UINT64_C(1) << 30) /* larger ones are no objects of a spawner's */
#define MOST_RANGES 16

static struct {
    uint64_t start, size;
} ranges[MOST_RANGES];
static int range_count;

/* Not with musl, whose malloc(3) has its pieces in such mappings too, nor with the address sanitizer, which keeps there
 * what it knows of the memory. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
static bool holds(uint64_t start, uint64_t end, const void *place) {
    return (uint64_t)(uintptr_t)place >= start && (uint64_t)(uintptr_t)place < end;
}

/* Whether C itself has something there: errno stands for what belongs to the thread, `here` for its stack, and `piece`
 * for what malloc(3) gives out. */
static bool is_needed(uint64_t start, uint64_t end, const struct mux_stay *stay, const void *piece) {
    int here;
    return holds(start, end, &errno) || holds(start, end, &here) || holds(start, end, stay) ||
           holds(start, end, stay->furniture) || holds(start, end, stay->place) || holds(start, end, stay->title) ||
           holds(start, end, piece);
}

struct span {
    uint64_t start, end;
};

/* Begins the span behind what it has of this library's memory (dl_iterate_phdr(3)). */
static int pass_over(struct dl_phdr_info *info, size_t size, void *data) {
    struct span *span = data;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + part->p_vaddr, end = (start + part->p_memsz + page - 1) / page * page;
        if (part->p_type == PT_LOAD && start < span->end && end > span->start) span->start = end;
    }
    return 0;
}

void find_ballast(const struct mux_stay *stay) {
    char line[512], rights[8], name[8];
    uint64_t start, end, inode;
    range_count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    void *piece = malloc(PIECE);
    while (maps && piece && range_count < MOST_RANGES && fgets(line, sizeof line, maps)) {
        int fields = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %" SCNu64 " %7s", &start, &end, rights, &inode, name);
        if (fields != 4 || inode != 0 || strcmp(rights, "rw-p") != 0) continue; /* a fifth field is a name */
        struct span span = {start, end};
        dl_iterate_phdr(pass_over, &span);
        if (span.end < span.start + LEAST || span.end - span.start > MOST) continue;
        if (is_needed(span.start, span.end, stay, piece)) continue;
        ranges[range_count].start = span.start;
        ranges[range_count++].size = span.end - span.start;
    }
    free(piece);
    if (maps) fclose(maps);
}
#else
void find_ballast(const struct mux_stay *stay) { (void)stay; }
#endif

void keep_ballast(bool kept) {
    int before = errno;
    for (int i = 0; i < range_count; i++)
        madvise((void *)(uintptr_t)ranges[i].start, ranges[i].size, kept ? MADV_DONTFORK : MADV_DOFORK);
    errno = before;
}
