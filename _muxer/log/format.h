/* Sizes and functions of the on-disk format of the engine's own logs; engine/logs/format.py explains it. Internal to
 * the muxer. */
#ifndef MUXER_FORMAT_H
#define MUXER_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_SIZE 8u
#define RECORD_SIZE 24u
#define INDEX_HEADER_SIZE 24u
#define ORDER_PLACE 16u /* of the order mark in that header */
#define ORDER_SIZE 8u
#define LARGEST_CHUNK 65536u
#define LARGEST_FRAME (FRAME_SIZE + LARGEST_CHUNK)
#define LINE_LIMIT 16384u
#define STAMP_SIZE 31u
#define NAME_SIZE 20u /* ten digits, the kind, the zero */

struct record {
    uint64_t offset;
    uint64_t time_ns;
    uint32_t length;
    uint8_t stream;
    uint8_t open_lines; /* streams that are in the middle of a line after it: LINE_BIT of each */
};

#define LINE_BIT(stream) (1u << ((stream) - 1u))

/* A frame's header: stream, three zeros, length big-endian. Unpacking tells whether these eight bytes can be a right
 * header. */
void frame_pack(uint8_t *to, unsigned stream, uint32_t length);
bool frame_unpack(const uint8_t *from, unsigned *stream, uint32_t *length);

/* An index record, little-endian. Unpacking tells whether it can be right for a log file of log_size bytes. */
void record_pack(uint8_t *to, const struct record *record);
bool record_unpack(const uint8_t *from, uint64_t log_size, struct record *record);

/* The INDEX_HEADER_SIZE bytes before the records of segment `number`; the order mark (log/order.h) at ORDER_PLACE in
 * them, of which they have none at first; and whether these bytes begin an index of this version. */
void index_header_pack(uint8_t *to, uint32_t number);
void order_pack(uint8_t *to, uint64_t order);
uint64_t index_order(const uint8_t *header);
bool index_is_ours(const uint8_t *header);

/* The names of a segment's files; to has room for NAME_SIZE bytes. */
void log_name(char *to, uint32_t number);
void index_name(char *to, uint32_t number);

/* The number of the segment whose index has this name; 0 for any other name. */
uint32_t segment_number(const char *name);

/* The time before a line, RFC 3339 with nine digits and a space: STAMP_SIZE bytes, no zero at the end. */
void stamp(uint8_t *to, uint64_t time_ns);

/* pread(2) and pwrite(2) of all bytes: how many were read (fewer only at the end of the file), or a negative errno. */
int64_t read_at(int fd, void *to, size_t size, uint64_t offset);
int write_at(int fd, const void *from, size_t size, uint64_t offset);

/* The smallest number above `after` of which there is an index in the directory; 0: none; else a negative errno. */
int64_t next_segment(int directory_fd, uint32_t after);

/* Numbers of segments; the caller frees `each`. */
struct numbers {
    uint32_t *each;
    size_t count, room;
};

/* Fills zeroed `numbers` with all numbers above `after` of which there is an index, in order. 0 or a negative errno. */
int list_segments(int directory_fd, uint32_t after, struct numbers *numbers);

/* The time of day, ns since the epoch. */
uint64_t now_ns(void);

#endif
