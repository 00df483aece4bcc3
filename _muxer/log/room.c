/* Buffers of memory that grow by whole pages, which the kernel moves without a copy. */
#include "log/room.h"

#include <sys/mman.h>

bool room_reserve(struct room *room, size_t size) {
    if (size <= room->size) return true;
    size_t wanted = (size + 65535u) & ~(size_t)65535u;
    void *bytes = room->bytes ? mremap(room->bytes, room->size, wanted, MREMAP_MAYMOVE)
                              : mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wanted < size || bytes == MAP_FAILED) return false;
    room->bytes = bytes;
    room->size = wanted;
    return true;
}

void room_release(struct room *room) {
    if (room->bytes) munmap(room->bytes, room->size);
    room->bytes = NULL;
    room->size = 0;
}
