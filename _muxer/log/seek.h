/* The record at which the reading of a log begins for tail and since: the C version of engine/logs/seek.py.
 * Internal. */
#ifndef MUXER_SEEK_H
#define MUXER_SEEK_H

#include "muxer.h"
#include "log/segment.h"

/* A byte of the payload of a record. */
struct place {
    uint64_t record;
    size_t byte;
};

struct start {
    size_t segment;       /* its place in the array */
    uint64_t record;
    struct place skip[3]; /* by stream: nothing of the stream before it is used */
    bool middle[3];       /* by stream: it is in the middle of an unwanted line */
};

/* Finds the start, and opens the segments that it has to look at. Following: an unfinished last line is no line yet, so
 * tail does not count it. */
void seek_start(struct view *view, struct segment *segments, size_t count, const struct mux_query *query,
                bool following, struct start *start);

#endif
