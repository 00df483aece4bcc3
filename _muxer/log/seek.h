/* Where in a log the reading begins for tail and since: the twin of engine/logs/seek.py. Internal. */
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
    struct place skip[3]; /* by stream: nothing before it is to be looked at */
    bool middle[3];       /* by stream: it is in the middle of an unwanted line */
};

/* Finds the start. Following: an unfinished last line is no line yet, and so not counted by tail. */
void seek_start(struct view *view, const struct segment *segments, size_t count, const struct mux_query *query,
                bool following, struct start *start);

#endif
