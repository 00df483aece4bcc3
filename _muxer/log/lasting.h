/* When a log's file is full, and which of its files are on the disk: the C version of engine/logs/lasting.py.
 * Internal. */
#ifndef MUXER_LASTING_H
#define MUXER_LASTING_H

#include "muxer.h"

#include <stdbool.h>

/* Whether the segment, or the JSON file, has passed its size. */
bool log_full(const struct mux_log *log);

/* Whether a file of the log is so old that it is on the disk for certain, see engine/logs/lasting.py. */
bool log_is_old(const struct mux_log *log, const char *name);

/* Writes a file of the log to the disk, if it exists. 0, or a negative errno. */
int log_sync(const struct mux_log *log, const char *name);

#endif
