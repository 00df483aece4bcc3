/* Writes chunks to a log of the engine's own form and rotates its segments: the C version of engine/logs/writer.py. */
#include "log/writer.h"

#include "log/jsonwriter.h"
#include "log/lasting.h"
#include "log/order.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int log_append(struct mux_log *log, struct json *json, unsigned stream, const uint8_t *frame, size_t size) {
    uint8_t bytes[RECORD_SIZE];
    uint64_t now = order_clock(log);
    if (json) return json_append(log, json, stream, frame + FRAME_SIZE, size - FRAME_SIZE, now);
    unsigned bit = LINE_BIT(stream), open = frame[size - 1] == '\n' ? log->open_lines & ~bit : log->open_lines | bit;
    struct record record = {log->position, now, (uint32_t)(size - FRAME_SIZE), (uint8_t)stream, (uint8_t)open};
    record_pack(bytes, &record);
    int failed = write_at(log->log_fd, frame, size, log->position);
    if (failed == 0)
        failed = write_at(log->index_fd, bytes, sizeof bytes, INDEX_HEADER_SIZE + log->records * RECORD_SIZE);
    if (failed < 0) return failed;
    log->position += size;
    log->open_lines = record.open_lines;
    log->records++;
    return 0;
}

/* Makes segment `number`: the file of frames first, since for a reader a segment exists when its index does. */
static int begin(struct mux_log *log, uint32_t number) {
    char frames[NAME_SIZE], index[NAME_SIZE];
    uint8_t header[INDEX_HEADER_SIZE];
    int failed = 0, index_fd = -1, flags = O_RDWR | O_CREAT | O_CLOEXEC;
    log_name(frames, number);
    index_name(index, number);
    int log_fd = openat(log->directory_fd, frames, flags | O_TRUNC, 0600);
    if (log_fd < 0) return -errno;
    index_fd = openat(log->directory_fd, index, flags | O_EXCL, 0600);
    if (index_fd < 0) failed = -errno;
    index_header_pack(header, number);
    order_pack(header + ORDER_PLACE, log->last_ns);
    if (failed == 0 && (failed = write_at(index_fd, header, sizeof header, 0)) < 0)
        unlinkat(log->directory_fd, index, 0);
    if (failed < 0) {
        close(log_fd);
        if (index_fd >= 0) close(index_fd);
        return failed;
    }
    close(log->log_fd);
    close(log->index_fd);
    log->log_fd = log_fd;
    log->index_fd = index_fd;
    log->number = number;
    log->position = log->records = 0;
    log->open_lines = log->late = 0;
    log->limit = log->max_size;
    return 0;
}

/* Writes the full segments after this one to the disk; one that is on the disk already costs next to nothing. */
static int sync_kept(const struct mux_log *log, uint32_t oldest) {
    char name[NAME_SIZE];
    int failed = 0;
    for (int64_t number = next_segment(log->directory_fd, oldest); number != 0 && number < (int64_t)log->number;
         number = next_segment(log->directory_fd, (uint32_t)number)) {
        if (number < 0) return (int)number;
        if ((uint64_t)number + log->max_files <= log->number) continue; /* it is removed too */
        index_name(name, (uint32_t)number);
        failed = log_sync(log, name);
        log_name(name, (uint32_t)number);
        if (failed == 0) failed = log_sync(log, name);
        if (failed < 0) return failed;
    }
    return fsync(log->directory_fd) < 0 ? -errno : 0;
}

static int remove_oldest(const struct mux_log *log) {
    char name[NAME_SIZE];
    bool synced = false;
    int64_t number = next_segment(log->directory_fd, 0);
    while (number > 0 && (uint64_t)number + log->max_files <= log->number) {
        log_name(name, (uint32_t)number);
        if (!synced && log_is_old(log, name)) {
            int failed = sync_kept(log, (uint32_t)number);
            if (failed < 0) return failed;
            synced = true;
        }
        /* The index goes first: a reader lists segments by their indexes, and so never misses the frames of a listed
         * one. */
        index_name(name, (uint32_t)number);
        if (unlinkat(log->directory_fd, name, 0) < 0 && errno != ENOENT) return -errno;
        log_name(name, (uint32_t)number);
        if (unlinkat(log->directory_fd, name, 0) < 0 && errno != ENOENT) return -errno;
        number = next_segment(log->directory_fd, (uint32_t)number);
    }
    return number < 0 ? (int)number : 0;
}

int log_rotate(struct mux_log *log) {
    int failed = 0;
    if (log->json) return json_rotate(log);
    /* A write that failed half-way may have left bytes after the last frame. */
    if (ftruncate(log->log_fd, (off_t)log->position) < 0) failed = -errno;
    if (failed == 0) failed = begin(log, log->number + 1);
    if (failed == 0) failed = remove_oldest(log);
    /* The container matters more than the size of its log. */
    if (failed < 0 && log_full(log)) log->limit = log->position + log->max_size;
    return failed;
}
