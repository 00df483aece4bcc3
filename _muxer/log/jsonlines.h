/* Taking a line of a log of JSON lines apart: the C version of engine/logs/jsonlines.py, for the lines that docker and
 * this engine write. Internal to the muxer. */
#ifndef MUXER_JSONLINES_H
#define MUXER_JSONLINES_H

#include "log/format.h"

/* What is remembered of one line for the next ones, which are often written at the same time. */
struct jsonlines {
    uint8_t time[STAMP_SIZE];
    size_t time_size;
    uint64_t time_ns;
    /* The attributes that are known to be right, from their name to the comma behind them. */
    uint8_t *attributes;
    size_t attributes_size;
};

struct message {
    unsigned stream;
    uint64_t time_ns;
    bool attributes; /* it has those that are known */
    uint8_t *end;    /* of its text */
};

/* Reads the line [line, end), without its newline; `to` has room for its size. False for every line that is not
 * written as docker writes it, or has other attributes than the known ones: engine/logs/jsonlines.py judges it. */
bool jsonline_read(struct jsonlines *known, const uint8_t *line, const uint8_t *end, uint8_t *to,
                   struct message *message);

#endif
