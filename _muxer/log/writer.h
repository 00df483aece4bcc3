/* Writing and rotating a container's log of either kind: the C version of engine/logs/writer.py. Internal to the
 * muxer. */
#ifndef MUXER_WRITER_H
#define MUXER_WRITER_H

#include "muxer.h"

struct json;

/* Writes one chunk, which lies behind its frame's header. 0, or a negative errno: then nothing, or not all of it, was
 * added. */
int log_append(struct mux_log *log, struct json *json, unsigned stream, const uint8_t *frame, size_t size);

/* Goes on in a new segment or file. If the host refuses one, it goes on in the old one, and returns the errno. */
int log_rotate(struct mux_log *log);

#endif
