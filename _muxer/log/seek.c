/* Finds the record at which the reading of a log must begin for tail and since.
 *
 * The streams are interleaved and lines are sent in the order in which they end, so a place is not one number but one
 * for each stream: a line of stdout may begin long before the last line of stderr and still end after it. */
#include "log/seek.h"

#include "log/lines.h"
#include "log/order.h"

#include <errno.h>
#include <string.h>

/* Whether the stream is in the middle of a line at record `before`. */
static bool open_at(struct view *view, uint64_t before, unsigned stream) {
    struct record record;
    for (uint64_t number = before; number-- > 0 && !view->failed;) {
        if (view_record(view, number, &record)) return record.open_lines & LINE_BIT(stream);
    }
    return false;
}

/* Where the line of the stream that is in progress, or comes next, at record `before` begins. */
static struct place line_start(struct view *view, uint64_t before, unsigned stream) {
    struct record record;
    if (!open_at(view, before, stream)) return (struct place){before, 0};
    for (uint64_t number = before; number-- > 0 && !view->failed;) {
        const uint8_t *payload = view_record(view, number, &record);
        if (!payload || record.stream != stream) continue;
        const uint8_t *newline = memrchr(payload, '\n', record.length);
        if (newline) return (struct place){number, (size_t)(newline - payload) + 1};
    }
    return (struct place){0, 0};
}

static size_t count_ends(const uint8_t *bytes, size_t size) {
    size_t count = 0;
    const uint8_t *end = bytes + size;
    while ((bytes = memchr(bytes, '\n', (size_t)(end - bytes)))) {
        count++;
        if (++bytes == end) break;
    }
    return count;
}

/* Sets the start just after the end of a line of `stream` at this place. A record equal to the count is the end of the
 * segment, where only a stream with a higher number still ends a line. */
static void start_after(struct view *view, const struct mux_query *query, unsigned stream, struct place end,
                        struct start *start) {
    unsigned other = 3 - stream;
    start->skip[stream] = end;
    start->record = end.record;
    if (!stream_wanted(query, other)) return;
    if (end.record == view->segment->count && other < stream)
        start->skip[other] = (struct place){view->segment->count, 0};
    else
        start->skip[other] = line_start(view, end.record, other);
    if (start->skip[other].record < start->record) start->record = start->skip[other].record;
}

/* Views a segment, which is opened if it is not open. The torn records at its end are left out, so that its last one is
 * valid. A segment that is gone has none. */
static void look(struct view *view, struct segment *segment) {
    struct record record;
    bool open = segment->index_fd >= 0;
    int failed = segment_open(segment);
    if (failed < 0 && failed != -ENOENT) view->failed = -failed;
    view_look(view, segment);
    while (!open && segment->count > 0 && !view->failed && !view_record(view, segment->count - 1, &record))
        segment->count--;
}

/* Counts ends of lines from the back of the segment in view; true when one too many was found. */
static bool tail_segment(struct view *view, const struct mux_query *query, bool closed, uint64_t *left,
                         struct start *start) {
    struct record record;
    uint64_t count = view->segment->count;
    /* The end of a segment ends the lines in progress, stdout's first; counted backwards, stderr's first. */
    for (unsigned stream = 2; stream >= 1 && closed; stream--) {
        if (!stream_wanted(query, stream) || !open_at(view, count, stream)) continue;
        if (*left == 0) {
            start_after(view, query, stream, (struct place){count, 0}, start);
            return true;
        }
        --*left;
    }
    for (uint64_t number = count; number-- > 0 && !view->failed;) {
        const uint8_t *payload = view_record(view, number, &record);
        if (!payload || !stream_wanted(query, record.stream)) continue;
        size_t ends = count_ends(payload, record.length), byte = record.length;
        if (ends <= *left) {
            *left -= ends;
            continue;
        }
        for (uint64_t i = 0; i <= *left; i++)
            byte = (size_t)((const uint8_t *)memrchr(payload, '\n', byte) - payload);
        start_after(view, query, record.stream, (struct place){number, byte + 1}, start);
        return true;
    }
    return false;
}

static void tail(struct view *view, struct segment *segments, size_t count, const struct mux_query *query,
                 bool following, struct start *start) {
    uint64_t left = (uint64_t)query->tail;
    for (size_t place = count; place-- > 0 && !view->failed;) {
        look(view, &segments[place]);
        start->segment = place;
        if (tail_segment(view, query, place + 1 < count || !following, &left, start)) return;
    }
    start->segment = 0;
}

/* The latest time of the segment in view and of all before it. */
static uint64_t latest(struct view *view) {
    uint64_t before = view->segment->order & ~ORDER_STEPPED, last = view_time(view, view->segment->count - 1);
    return last > before ? last : before;
}

/* The first segment, from `low` on, with which the query begins; else the last segment. A binary search finds it, since
 * the latest time so far never steps back, and opens few of many segments. */
static size_t segment_since(struct view *view, struct segment *segments, size_t low, size_t count, uint64_t first_ns) {
    size_t high = count - 1, found = count - 1;
    while (low < high && !view->failed) {
        size_t middle = low + (high - low) / 2, probe = middle;
        for (; probe < high; probe++) { /* past those that have no records */
            look(view, &segments[probe]);
            if (segments[probe].count > 0) break;
        }
        if (probe < high && latest(view) < first_ns) {
            low = probe + 1;
        } else {
            if (probe < high) found = probe;
            high = middle;
        }
    }
    return found;
}

/* Moves the start on to the first record that is not older than the query, by binary search; in a segment where times
 * have stepped back, to its beginning. */
static void since(struct view *view, struct segment *segments, size_t count, const struct mux_query *query,
                  struct start *start) {
    if (start->segment >= count) return;
    size_t place = segment_since(view, segments, start->segment, count, query->first_ns);
    look(view, &segments[place]);
    uint64_t low = 0, high = segments[place].order & ORDER_STEPPED ? 0 : segments[place].count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2, probe = middle;
        while (probe > low && view_time(view, probe) == 0) probe--; /* past damaged ones */
        if (view_time(view, probe) < query->first_ns)
            low = middle + 1;
        else
            high = probe;
    }
    if (place == start->segment && low <= start->record) return;
    if (place != start->segment) memset(start->skip, 0, sizeof start->skip);
    start->segment = place;
    start->record = low;
    /* A stream whose tail begins at or after this record begins with a line; the other one may be within an older
     * line. */
    for (unsigned stream = 1; stream <= 2; stream++)
        start->middle[stream] =
            stream_wanted(query, stream) && start->skip[stream].record < low && open_at(view, low, stream);
}

void seek_start(struct view *view, struct segment *segments, size_t count, const struct mux_query *query,
                bool following, struct start *start) {
    memset(start, 0, sizeof *start);
    view->backward = true;
    if (query->tail >= 0) tail(view, segments, count, query, following, start);
    if (query->first_ns > 0) since(view, segments, count, query, start);
    view->backward = false;
}
