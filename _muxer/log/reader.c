/* Sends a container's log to a client, in a thread of the daemon: the C version of engine/logs/reader.py.
 *
 * It blocks its thread, holds no lock, and works whether or not the monitor still writes. */
#include "log/lines.h"
#include "log/order.h"
#include "log/seek.h"
#include "log/sink.h"
#include "log/segment.h"
#include "log/together.h"
#include "log/waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct reading {
    const char *directory;
    const struct mux_query *query;
    bool following, begun;
    int directory_fd;
    struct segment *segments; /* open; the first is being read */
    size_t segment_count, segment_room;
    uint32_t newest; /* the highest number ever opened */
    uint64_t record; /* the next one to read */
    uint32_t watched_number; /* the segment of which the index is watched, 0 for none; and its watch */
    int watched;
    struct place skip[3];
    uint64_t seen;          /* of the first segment's .log file, what was there at the last reading */
    bool little;            /* the last reading found little that was new */
    struct company *company; /* the followers that this one leads, or NULL */
    struct wish wish;
    struct sink sink;
    struct lines lines;
    struct view view;
};

/* Names every segment that is new. */
static int name_new(struct reading *reading) {
    if (reading->directory_fd < 0) {
        reading->directory_fd = open(reading->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (reading->directory_fd < 0) return errno == ENOENT ? 0 : -errno;
    }
    struct numbers numbers = {0};
    int failed = list_segments(reading->directory_fd, reading->newest, &numbers);
    size_t room = reading->segment_count + numbers.count;
    if (failed == 0 && room > reading->segment_room) {
        void *grown = realloc(reading->segments, room * sizeof *reading->segments);
        if (!grown) failed = -ENOMEM;
        if (grown) reading->segments = grown;
        if (grown) reading->segment_room = room;
    }
    const struct mux_query *query = reading->query;
    for (size_t i = 0; i < numbers.count && failed == 0; i++) {
        if (query->ends && numbers.each[i] > query->end_segment) break;
        reading->newest = numbers.each[i];
        uint64_t most = query->ends && reading->newest == query->end_segment ? query->end_record : UINT64_MAX;
        segment_name(&reading->segments[reading->segment_count++], reading->directory_fd, reading->newest, most);
    }
    free(numbers.each);
    return failed;
}

/* Opens every segment that is not open. Once a segment is open, a rotation cannot take it away. */
static int open_all(struct reading *reading) {
    size_t kept = 0;
    int failed = 0;
    for (size_t i = 0; i < reading->segment_count; i++) {
        if (failed == 0) failed = segment_open(&reading->segments[i]);
        bool gone = failed == -ENOENT;
        if (gone) failed = 0;
        if (!gone) reading->segments[kept++] = reading->segments[i];
    }
    reading->segment_count = kept;
    return failed;
}

static void drop_segments(struct reading *reading, size_t count) {
    if (count == 0) return; /* there may be no array yet */
    for (size_t i = 0; i < count; i++) segment_close(&reading->segments[i]);
    reading->segment_count -= count;
    memmove(reading->segments, reading->segments + count, reading->segment_count * sizeof *reading->segments);
}

/* Finds the place to start from, once the log exists. What is before it is not even opened: a log may have thousands of
 * segments. */
static int begin(struct reading *reading) {
    struct start start;
    reading->begun = true;
    seek_start(&reading->view, reading->segments, reading->segment_count, reading->query, reading->following, &start);
    drop_segments(reading, start.segment);
    reading->record = start.record;
    memcpy(reading->skip, start.skip, sizeof reading->skip);
    for (unsigned stream = 1; stream <= 2; stream++)
        if (start.middle[stream]) lines_pass_over(&reading->lines, stream);
    return -reading->view.failed;
}

/* Sends what the first segment has from `record` on. */
static int read_segment(struct reading *reading) {
    struct view *view = &reading->view;
    struct record record;
    view_look(view, &reading->segments[0]);
    for (uint64_t number = reading->record; number < view->segment->count; number++) {
        const uint8_t *payload = view_record(view, number, &record);
        if (view->failed) return -view->failed;
        if (!payload) continue;
        if (record.time_ns > reading->query->last_ns && !lines_owing(&reading->lines) &&
            !(view->segment->order & ORDER_STEPPED)) {
            reading->record = view->segment->count; /* all others are later too */
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

/* Has the guests, if there are any, read for themselves, from where nothing of this turn was sent to them. */
static int part(struct reading *reading) {
    together_part(&reading->company);
    return together_send_own(&reading->company, &reading->sink);
}

/* Updates what the first segment has. Much that is new is not for a company. */
static int look(struct reading *reading) {
    struct segment *segment = &reading->segments[0];
    int failed = segment_refresh(segment);
    if (failed < 0) return failed;
    reading->little = segment->size - reading->seen <= TOGETHER_MOST;
    reading->seen = segment->size;
    return reading->little || !reading->company ? 0 : part(reading);
}

/* Sends all that is there, and with `last` the lines in progress. `made`: there may be segments that are new. */
static int advance(struct reading *reading, bool last, bool made) {
    int failed = made || last ? name_new(reading) : 0;
    if (failed == 0 && !reading->begun && (reading->segment_count > 0 || last)) failed = begin(reading);
    if (failed == 0) failed = open_all(reading);
    while (failed == 0 && reading->segment_count > 0) {
        /* The next segment was seen before this one is read: only then nothing more can be added to this one. */
        bool closed = reading->segment_count > 1;
        if (reading->following) failed = look(reading);
        if (failed == 0) failed = read_segment(reading);
        if (failed < 0) return failed;
        if (closed || last) failed = lines_end(&reading->lines);
        if (!closed) break;
        drop_segments(reading, 1);
        reading->record = reading->seen = 0;
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

/* Watches the index that is written, instead of both files: a chunk then wakes the follower once, not twice. True when
 * that is new, and the log has to be looked at once more, because a change may have been missed. */
static bool watch_index(struct reading *reading, int changes) {
    char path[32 + NAME_SIZE], name[NAME_SIZE];
    if (changes < 0 || reading->segment_count == 0) return false;
    uint32_t number = reading->segments[reading->segment_count - 1].number;
    if (number == reading->watched_number) return false;
    if (reading->watched_number > 0 && reading->watched >= 0) inotify_rm_watch(changes, reading->watched);
    reading->watched_number = number;
    index_name(name, number);
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", reading->directory_fd, name);
    reading->watched = inotify_add_watch(changes, path, IN_MODIFY);
    /* Where that is not possible, the directory tells of both files. */
    uint32_t mask = reading->watched < 0 ? IN_MODIFY | IN_CREATE : IN_CREATE;
    bool failed = inotify_add_watch(changes, reading->directory, mask) < 0;
    return reading->watched >= 0 && !failed;
}

static struct standing place_of(const struct reading *reading) {
    struct standing place = {.at = {reading->newest, reading->record}};
    struct stat found;
    if (reading->directory_fd < 0 || fstat(reading->directory_fd, &found) < 0) return place;
    place.log[0] = found.st_dev;
    place.log[1] = found.st_ino;
    return place;
}

/* Sends what is new, also to the guests. The same as `advance`. */
static int advance_together(struct reading *reading, bool last, bool made) {
    struct standing place;
    if (reading->company && (last || made || !together_any(reading->company))) together_part(&reading->company);
    if (reading->company) together_keep(&reading->company, &reading->sink);
    int failed = advance(reading, last, made);
    if (reading->company && failed == 0) failed = sink_flush(&reading->sink, false);
    if (!reading->company) return failed; /* also where it was too much */
    if (failed < 0 || lines_inside(&reading->lines)) {
        int unsent = part(reading);
        return failed < 0 ? failed : unsent;
    }
    place = place_of(reading);
    together_send(reading->company, &reading->sink, &place);
    return together_send_own(&reading->company, &reading->sink);
}

/* Looks for followers at the same place, where this one may have some. */
static enum meeting meet(struct reading *reading, struct guest *guest) {
    if (reading->company) return LEADS;
    if (!reading->little || reading->segment_count != 1 || lines_inside(&reading->lines)) return MEETS_NOBODY;
    struct standing place = place_of(reading);
    return together_meet(&reading->company, guest, &reading->sink, &reading->wish, &place);
}

/* Lets the one that leads read, until this follower has to go on by itself. The same as together_wait. */
static int be_guest(struct reading *reading, struct guest *guest, int ended_fd) {
    struct standing place;
    int going = together_wait(guest, &reading->sink, ended_fd, &place);
    reading->record = place.at[1];
    return going;
}

/* 1 when the log is complete and all of it is put, 0 when the client left, else a negative errno. */
static int follow(struct reading *reading, int ended_fd) {
    int changes = -1, going = 1;
    int64_t most_ms = -1;
    bool made = true; /* a directory of which nothing was made is not listed again, which costs more than a new line */
    while (going > 0) {
        if (changes < 0) changes = watch(reading->directory); /* before reading, so that no change is missed */
        /* Checked before reading: what was written before the end was signalled is then certain to be read. */
        bool last = log_over(reading->query, ended_fd);
        going = advance_together(reading, last, made);
        if (going < 0 || last) {
            going = going < 0 ? going : 1;
            break;
        }
        made = changes < 0;
        going = watch_index(reading, changes);
        if (going > 0) continue;
        going = sink_flush(&reading->sink, false);
        if (going < 0) break;
        struct guest guest;
        enum meeting met = changes < 0 ? MEETS_NOBODY : meet(reading, &guest); /* who is not told leads nobody */
        if (met == JOINS) {
            close(changes); /* a watch costs whoever writes the log */
            changes = -1;
            reading->watched_number = 0;
            made = true;
            going = be_guest(reading, &guest, ended_fd);
            continue;
        }
        most_ms = met == MEETS_OTHERS ? together_patience(most_ms) : -1;
        going = wait_for_change(reading->query, reading->sink.fd, changes, ended_fd, most_ms, &made);
    }
    together_part(&reading->company);
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
    reading->wish.query = query;
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
    sink_end(&reading->sink);
    free(reading->segments);
    if (reading->directory_fd >= 0) close(reading->directory_fd);
    munmap(reading, sizeof *reading);
    return result < 0 && client_has_left(-result) ? 0 : result;
}
