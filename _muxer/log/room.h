/* A piece of memory for what waits to be written or sent. Internal to the muxer. */
#ifndef MUXER_ROOM_H
#define MUXER_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stretch of memory that costs nothing until it is used, and nothing again once it was let go. */
struct room {
    uint8_t *bytes;
    size_t size;
};

bool room_reserve(struct room *room, size_t size); /* what is in it stays; false: out of memory */
void room_release(struct room *room);

#endif
