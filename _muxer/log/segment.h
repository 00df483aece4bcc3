/* Reading one segment of a log at a time, trusting nothing in it: the C version of engine/logs/segment.py. Internal. */
#ifndef MUXER_VIEW_H
#define MUXER_VIEW_H

#include "log/format.h"

#define WINDOW (4u * LARGEST_FRAME) /* bytes of a .log file held at a time */
#define BLOCK 1024u                 /* records of an index held at a time */

struct segment {
    uint32_t number;
    int directory_fd;
    int index_fd, log_fd; /* -1 while it is not open */
    bool gone;            /* one of its files is not there: a rotation removes it, and it does not come back */
    uint64_t most;  /* no more records than this are wanted */
    uint64_t count; /* of records, valid or not, at the last refresh; 0 while it is not open */
    uint64_t size;  /* of the .log file, at the last refresh */
    uint64_t order; /* its order mark (log/order.h), at the last refresh */
};

/* Makes a segment that is not open yet, of which no more than `most` records are wanted. */
void segment_name(struct segment *segment, int directory_fd, uint32_t number, uint64_t most);

/* Opens it, if it is not open. 0 or a negative errno: -ENOENT when it is gone. */
int segment_open(struct segment *segment);
void segment_close(struct segment *segment);

/* Updates count, size and order to what was written since. */
int segment_refresh(struct segment *segment);

/* Which segment is being read, and which part of its files is in memory. */
struct view {
    const struct segment *segment;
    int failed;    /* the errno of a read that failed */
    bool backward; /* the next reads go towards the beginning */
    int (*release)(void *holder); /* called before the window's bytes change: 0 or a negative errno */
    void *holder;
    uint64_t window_start, window_size;
    uint64_t block_start, block_size; /* in records */
    uint8_t window[WINDOW];
    uint8_t block[BLOCK * RECORD_SIZE];
};

/* Makes this segment, as it was at its last refresh, the one that is read. */
void view_look(struct view *view, const struct segment *segment);

/* Fills *record and returns its payload, which has the frame's header before it, valid until `release` is called; NULL
 * when record `number`, or the frame that it points at, is not valid (or failed is set). */
const uint8_t *view_record(struct view *view, uint64_t number, struct record *record);

/* The time in record `number`; 0 when it cannot be a right one. */
uint64_t view_time(struct view *view, uint64_t number);

#endif
