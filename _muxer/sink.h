/* Handing the reader's bytes to the client's descriptor: the twin of engine/logs/sink.py. Internal. */
#ifndef MUXER_SINK_H
#define MUXER_SINK_H

#include "format.h"

#define SINK_ROOM 262144u /* bytes of one HTTP chunk at most; twice as much is not faster */
#define SINK_HEAD 16u     /* before them, for the chunk's header */
#define SINK_TAIL 16u     /* after them, for its end and the body's */

struct sink {
    int fd;
    bool chunked, not_a_socket;
    size_t used;
    uint8_t bytes[SINK_HEAD + SINK_ROOM + SINK_TAIL];
};

/* Where `size` bytes may be put that the caller adds to `used`; NULL when the rest of the room is too small. */
static inline uint8_t *sink_room(struct sink *sink, size_t size) {
    return size <= SINK_ROOM - sink->used ? sink->bytes + SINK_HEAD + sink->used : NULL;
}

/* Takes any number of bytes. 0 or a negative errno. */
int sink_put(struct sink *sink, const uint8_t *bytes, size_t size);

/* Writes all that was put so far; `finish`: and the end of the HTTP body. 0 or a negative errno. */
int sink_flush(struct sink *sink, bool finish);

/* Whether this errno says that the client has left. */
bool client_has_left(int number);

#endif
