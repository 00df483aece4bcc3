/* Reading what came into a log of JSON lines since. Internal to the muxer. */
#ifndef MUXER_LATER_H
#define MUXER_LATER_H

#include "log/jsonwriter.h"

/* Puts the lines behind this place, as the query has them, into `to`, and their size into *size. The log stands still.
 * unpack: writes what is packed in a file to another, for `holder`; 0 or a negative errno
 * *whole: whether these are all of them. 0 or a negative errno. */
typedef int json_unpack(const void *holder, int packed, int to);
int json_later(const struct mux_log *log, const struct json *json, const struct mux_query *query, uint64_t inode,
               uint64_t offset, json_unpack *unpack, const void *holder, struct room *to, size_t *size, bool *whole);

#endif
