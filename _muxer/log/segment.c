/* Reads the frames and the index of a segment of a log, and checks everything that it finds.
 *
 * It uses pread(2), never a mapping: a file that is cut while it is mapped kills the process that reads the mapping
 * (SIGBUS), and people truncate logs by hand. The bytes are sent from the window without a copy. */
#include "log/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void segment_name(struct segment *segment, int directory_fd, uint32_t number, uint64_t most) {
    *segment = (struct segment){
        .number = number, .directory_fd = directory_fd, .index_fd = -1, .log_fd = -1, .most = most};
}

int segment_open(struct segment *segment) {
    char name[NAME_SIZE];
    if (segment->index_fd >= 0) return 0;
    if (segment->gone) return -ENOENT;
    index_name(name, segment->number);
    segment->index_fd = openat(segment->directory_fd, name, O_RDONLY | O_CLOEXEC);
    int failed = segment->index_fd < 0 ? -errno : 0;
    log_name(name, segment->number);
    if (failed == 0) segment->log_fd = openat(segment->directory_fd, name, O_RDONLY | O_CLOEXEC);
    if (failed == 0) failed = segment->log_fd < 0 ? -errno : segment_refresh(segment);
    if (failed < 0) segment_close(segment);
    segment->gone = failed == -ENOENT;
    return failed;
}

void segment_close(struct segment *segment) {
    if (segment->index_fd >= 0) close(segment->index_fd);
    if (segment->log_fd >= 0) close(segment->log_fd);
    segment->index_fd = segment->log_fd = -1;
    segment->count = 0;
}

int segment_refresh(struct segment *segment) {
    struct stat index, log;
    uint8_t header[INDEX_HEADER_SIZE];
    if (fstat(segment->index_fd, &index) < 0) return -errno;
    if (fstat(segment->log_fd, &log) < 0) return -errno; /* after the index: a frame is written before its record */
    int64_t got = read_at(segment->index_fd, header, sizeof header, 0);
    if (got < 0) return (int)got;
    bool ours = got == sizeof header && index_is_ours(header) && index.st_size > (off_t)sizeof header;
    segment->count = ours ? ((uint64_t)index.st_size - sizeof header) / RECORD_SIZE : 0;
    segment->size = (uint64_t)log.st_size;
    /* A frame has a header and a byte at least: whatever an index has behind that is damage. */
    if (segment->count > segment->size / (FRAME_SIZE + 1)) segment->count = segment->size / (FRAME_SIZE + 1);
    if (segment->count > segment->most) segment->count = segment->most;
    segment->order = ours ? index_order(header) : 0;
    return 0;
}

void view_look(struct view *view, const struct segment *segment) {
    view->segment = segment;
    view->window_size = view->block_size = 0;
}

static const uint8_t *raw_record(struct view *view, uint64_t number) {
    if (number < view->block_start || number - view->block_start >= view->block_size) {
        uint64_t start = number - number % BLOCK, wanted = view->segment->count - start;
        if (number >= view->segment->count) return NULL;
        if (wanted > BLOCK) wanted = BLOCK;
        int64_t got = read_at(view->segment->index_fd, view->block, (size_t)wanted * RECORD_SIZE,
                              INDEX_HEADER_SIZE + start * RECORD_SIZE);
        view->block_start = start;
        view->block_size = got > 0 ? (uint64_t)got / RECORD_SIZE : 0;
        if (got < 0) view->failed = (int)-got;
        if (number - start >= view->block_size) return NULL; /* the file has become shorter */
    }
    return view->block + (number - view->block_start) * RECORD_SIZE;
}

/* These bytes of the .log file, or NULL when it has become shorter. */
static const uint8_t *raw_frame(struct view *view, uint64_t offset, size_t size) {
    if (offset < view->window_start || offset + size > view->window_start + view->window_size) {
        uint64_t start = offset;
        int failed = view->release(view->holder);
        if (failed < 0) {
            view->failed = -failed;
            return NULL;
        }
        if (view->backward) start = offset + size > WINDOW ? offset + size - WINDOW : 0;
        uint64_t wanted = view->segment->size - start; /* no frame is looked for behind that */
        if (wanted > WINDOW) wanted = WINDOW;
        int64_t got = read_at(view->segment->log_fd, view->window, (size_t)wanted, start);
        view->window_start = start;
        view->window_size = got > 0 ? (uint64_t)got : 0;
        if (got < 0) view->failed = (int)-got;
        if (offset + size > start + view->window_size) return NULL;
    }
    return view->window + (offset - view->window_start);
}

const uint8_t *view_record(struct view *view, uint64_t number, struct record *record) {
    unsigned stream;
    uint32_t length;
    const uint8_t *raw = raw_record(view, number);
    if (!raw || !record_unpack(raw, view->segment->size, record)) return NULL;
    const uint8_t *frame = raw_frame(view, record->offset, FRAME_SIZE + (size_t)record->length);
    if (!frame || !frame_unpack(frame, &stream, &length)) return NULL;
    return stream == record->stream && length == record->length ? frame + FRAME_SIZE : NULL;
}

uint64_t view_time(struct view *view, uint64_t number) {
    struct record record;
    const uint8_t *raw = raw_record(view, number);
    return raw && record_unpack(raw, view->segment->size, &record) ? record.time_ns : 0;
}
