/* The writer of a log of JSON lines: the C version of engine/logs/jsonwriter.py. Internal to the muxer. */
#ifndef MUXER_JSONFILE_H
#define MUXER_JSONFILE_H

#include "log/format.h"
#include "log/room.h"
#include "muxer.h"

/* What a log of JSON lines needs beside its file. A line waits in `held` until its end is read. */
struct json {
    struct room out; /* whole lines that are not written yet, out_size bytes */
    size_t out_size;
    const uint8_t *attributes; /* the same in every line */
    size_t attributes_size;
    struct ending { /* of the last line: what stands behind its text, its attributes from byte `middle` on */
        uint64_t time_ns;
        size_t middle, size;
        uint8_t bytes[96];
    } endings[3]; /* by stream */
    struct unfinished {
        struct room held;
        size_t size;
        bool partial;      /* pieces of it are in the log already, with the time first_ns */
        uint64_t first_ns;
    } lines[3]; /* by stream */
};

/* Begins to write a log of JSON lines, with a struct of zeros: 0 or a negative errno; and gives back its memory. */
int json_begin(struct json *json, const struct mux_log *log);
void json_leave(struct json *json);

/* Gives back the memory of buffers in which nothing is kept. */
void json_cool(struct json *json);

/* Does the same for such a log as log_append, with the time `now`. */
int json_append(struct mux_log *log, struct json *json, unsigned stream, const uint8_t *bytes, size_t size,
                uint64_t now);

/* Writes the stream's unfinished line, since the stream has ended, perhaps within a line. */
int json_end(struct mux_log *log, struct json *json, unsigned stream);

/* Does the same for such a log as log_rotate. */
int json_rotate(struct mux_log *log);

#endif
