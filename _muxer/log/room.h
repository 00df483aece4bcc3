/* A growing buffer for bytes that wait to be written or sent. Internal to the muxer. */
#ifndef MUXER_ROOM_H
#define MUXER_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A buffer that takes no memory until it is used, and none again once it was released. */
struct room {
    uint8_t *bytes;
    size_t size;
};

bool room_reserve(struct room *room, size_t size); /* its content stays; false: out of memory */
void room_release(struct room *room);

#endif
