/* Sends a container's log to a client, in a thread of the daemon: the C version of engine/logs/reader.py.
 *
 * It blocks its thread, holds no lock, and works whether or not the monitor still writes. */
#include "log/lines.h"
#include "log/seek.h"
#include "log/sink.h"
#include "log/segment.h"
#include "log/waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

struct reading {
    const char *directory;
    const struct mux_query *query;
    bool following, begun, finished;
    int directory_fd;
    struct segment *segments; /* open; the first is being read */
    size_t segment_count, segment_room;
    uint32_t newest; /* the highest number ever opened */
    uint64_t record; /* the next one to read */
    struct place skip[3];
    struct sink sink;
    struct lines lines;
    struct view view;
};

/* Opens every segment that is new. Once a segment is open, a rotation cannot take it away. */
static int open_new(struct reading *reading) {
    if (reading->directory_fd < 0) {
        reading->directory_fd = open(reading->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (reading->directory_fd < 0) return errno == ENOENT ? 0 : -errno;
    }
    for (;;) {
        int64_t number = next_segment(reading->directory_fd, reading->newest);
        if (number <= 0) return (int)number;
        if (reading->segment_count == reading->segment_room) {
            size_t room = reading->segment_room * 2 + 4;
            void *grown = realloc(reading->segments, room * sizeof *reading->segments);
            if (!grown) return -ENOMEM;
            reading->segments = grown;
            reading->segment_room = room;
        }
        int failed = segment_open(&reading->segments[reading->segment_count], reading->directory_fd, (uint32_t)number);
        if (failed < 0 && failed != -ENOENT) return failed;
        /* A segment of which one file is missing is being removed by a rotation: it does not come back. */
        if (failed == 0) reading->segment_count++;
        reading->newest = (uint32_t)number;
    }
}

static void drop_segments(struct reading *reading, size_t count) {
    if (count == 0) return; /* there may be no array yet */
    for (size_t i = 0; i < count; i++) segment_close(&reading->segments[i]);
    reading->segment_count -= count;
    memmove(reading->segments, reading->segments + count, reading->segment_count * sizeof *reading->segments);
}

/* Leaves out the torn records at the end, so that the last one that counts is valid. */
static void trim(struct view *view, struct segment *segment) {
    struct record record;
    view_look(view, segment);
    while (segment->count > 0 && !view->failed && !view_record(view, segment->count - 1, &record)) segment->count--;
}

/* Finds the place to start from, once the log exists. */
static int begin(struct reading *reading) {
    struct start start;
    reading->begun = true;
    reading->view.backward = true;
    for (size_t i = 0; i < reading->segment_count; i++) trim(&reading->view, &reading->segments[i]);
    seek_start(&reading->view, reading->segments, reading->segment_count, reading->query, reading->following, &start);
    drop_segments(reading, start.segment);
    reading->record = start.record;
    memcpy(reading->skip, start.skip, sizeof reading->skip);
    for (unsigned stream = 1; stream <= 2; stream++)
        if (start.middle[stream]) lines_pass_over(&reading->lines, stream);
    return -reading->view.failed;
}

/* Sends what the first segment has from `record` on; sets finished when no later line can be wanted. */
static int read_segment(struct reading *reading) {
    struct view *view = &reading->view;
    struct record record;
    view_look(view, &reading->segments[0]);
    for (uint64_t number = reading->record; number < view->segment->count; number++) {
        const uint8_t *payload = view_record(view, number, &record);
        if (view->failed) return -view->failed;
        if (!payload) continue;
        if (record.time_ns > reading->query->last_ns && !lines_owing(&reading->lines)) {
            reading->finished = true;
            return 0;
        }
        const struct place *first = &reading->skip[record.stream];
        if (number >= first->record) {
            size_t skipped = number == first->record ? first->byte : 0;
            if (skipped > record.length) skipped = record.length;
            int failed = lines_feed(&reading->lines, record.stream, record.time_ns, payload + skipped,
                                    record.length - skipped, skipped == 0);
            if (failed < 0) return failed;
        }
        /* Torn records at the end are not skipped: the next writer cuts them off and writes good ones in their
         * place. */
        reading->record = number + 1;
    }
    return 0;
}

/* Sends all that is there, and with `last` the lines in progress. `made`: there may be segments that are new. */
static int advance(struct reading *reading, bool last, bool made) {
    int failed = made || last ? open_new(reading) : 0;
    if (failed == 0 && !reading->begun && (reading->segment_count > 0 || last)) failed = begin(reading);
    while (failed == 0 && reading->segment_count > 0) {
        /* The next segment was seen before this one is read: only then nothing more can be added to this one. */
        bool closed = reading->segment_count > 1;
        if (reading->following) failed = segment_refresh(&reading->segments[0]);
        if (failed == 0) failed = read_segment(reading);
        if (failed < 0 || reading->finished) return failed;
        if (closed || last) failed = lines_end(&reading->lines);
        if (!closed) break;
        drop_segments(reading, 1);
        reading->record = 0;
        memset(reading->skip, 0, sizeof reading->skip);
    }
    return failed;
}

/* Makes a watch on the directory; -1 when there is none left (128 per user by default) or no directory yet. */
static int watch(const char *directory) {
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0 && inotify_add_watch(fd, directory, IN_MODIFY | IN_CREATE) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* 1 when the log is complete and all of it is put, 0 when the client left, else a negative errno. */
static int follow(struct reading *reading, int ended_fd) {
    int changes = -1, going = 1;
    bool made = true; /* a directory of which nothing was made is not listed again, which costs more than a new line */
    while (going > 0) {
        if (changes < 0) changes = watch(reading->directory); /* before reading, so that no change is missed */
        /* Checked before reading: what was written before the end was signalled is then certain to be read. */
        bool last = log_over(reading->query, ended_fd);
        going = advance(reading, last, made);
        if (going < 0 || last || reading->finished) {
            going = going < 0 ? going : 1;
            break;
        }
        made = changes < 0;
        going = sink_flush(&reading->sink, false);
        if (going == 0) going = wait_for_change(reading->query, reading->sink.fd, changes, ended_fd, &made);
    }
    if (changes >= 0) close(changes);
    return going;
}

static int let_go(void *lines) { return lines_let_go(lines); }

int mux_send(const char *directory, int sink_fd, const struct mux_query *query, int ended_fd) {
    /* Not from malloc, whose arenas would keep it: the daemon's idle memory is counted. */
    struct reading *reading =
        mmap(NULL, sizeof *reading, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reading == MAP_FAILED) return -ENOMEM;
    reading->directory = directory;
    reading->query = query;
    reading->following = ended_fd >= 0;
    reading->directory_fd = -1;
    sink_begin(&reading->sink, sink_fd, query->chunked != 0);
    reading->lines.query = query;
    reading->lines.sink = &reading->sink;
    reading->view.release = let_go;
    reading->view.holder = &reading->lines;
    int result = ended_fd >= 0 ? follow(reading, ended_fd) : advance(reading, true, true);
    if (ended_fd < 0 && result == 0) result = 1;
    if (result > 0) {
        int failed = sink_flush(&reading->sink, true);
        if (failed < 0) result = failed;
    }
    drop_segments(reading, reading->segment_count);
    free(reading->segments);
    if (reading->directory_fd >= 0) close(reading->directory_fd);
    munmap(reading, sizeof *reading);
    return result < 0 && client_has_left(-result) ? 0 : result;
}
