/* Writing a container's log, of either kind: the C side of engine/logs/writer.py and engine/logs/drivers/jsonfile.py. Internal. */
#ifndef MUXER_LOG_H
#define MUXER_LOG_H

#include "client.h"
#include "format.h"
#include "muxer.h"

/* What a log of JSON lines needs beside its file. A line waits in held until its end is read. */
struct json {
    struct room out; /* whole lines that are not written yet, out_size bytes */
    size_t out_size;
    const uint8_t *attributes; /* the same in every line */
    size_t attributes_size;
    struct unfinished {
        struct room held;
        size_t size;
        bool partial;      /* pieces of it are in the log already, with the time first_ns */
        uint64_t first_ns;
    } lines[3]; /* by stream */
};

/* Whether the segment, or the JSON file, has passed its size. */
bool log_full(const struct mux_log *log);

/* One chunk, which lies behind its frame's header. 0, or a negative errno: then nothing, or not all of it, was added. */
int log_append(struct mux_log *log, struct json *json, unsigned stream, const uint8_t *frame, size_t size);

/* Goes on in a new segment or file; where the host refuses one it goes on in the old, and says why. */
int log_rotate(struct mux_log *log);

/* Whether a file of the log is so old that it is on the disk for certain, see engine/logs/lasting.py. */
bool log_is_old(const struct mux_log *log, const char *name);

/* Puts a file of the log on the disk, if it is there. 0, or a negative errno. */
int log_sync(const struct mux_log *log, const char *name);

/* Memory for a log of JSON lines; NULL with errno. And that memory back. */
struct json *json_new(const struct mux_log *log);
void json_free(struct json *json);

/* Gives back what nothing is kept in. */
void json_cool(struct json *json);

/* As log_append. */
int json_append(struct mux_log *log, struct json *json, unsigned stream, const uint8_t *bytes, size_t size);

/* The stream has ended, perhaps within a line. */
int json_end(struct mux_log *log, struct json *json, unsigned stream);

/* As log_rotate. */
int json_rotate(struct mux_log *log);

#endif
