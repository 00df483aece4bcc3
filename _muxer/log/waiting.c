/* Waits for more of a log that is followed, for the readers of both forms: the C version of engine/logs/following.py.
 */
#include "log/waiting.h"

#include "log/format.h"

#include <errno.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 50 /* where inotify has no watches left */

/* Reads the events away. Which file they are about does not matter, because the reader looks at everything. */
static void drain(int changes, bool *made) {
    _Alignas(struct inotify_event) char events[4096];
    ssize_t got;
    while ((got = read(changes, events, sizeof events)) > 0) {
        for (ssize_t place = 0; place < got;) {
            const struct inotify_event *event = (const void *)(events + place);
            if (event->mask & ~(uint32_t)IN_MODIFY) *made = true;
            place += (ssize_t)(sizeof *event + event->len);
        }
    }
}

int wait_for_change(const struct mux_query *query, int sink_fd, int changes, int ended_fd, int64_t most_ms,
                    bool *made) {
    int64_t wait_ms = changes >= 0 || (most_ms >= 0 && most_ms < LOOK_AGAIN_MS) ? most_ms : LOOK_AGAIN_MS;
    if (query->last_ns != UINT64_MAX) {
        uint64_t now = now_ns(), last = query->last_ns;
        int64_t rest = last > now ? (int64_t)((last - now) / 1000000u) + 1 : 1;
        if (wait_ms < 0 || rest < wait_ms) wait_ms = rest;
        if (wait_ms > INT32_MAX) wait_ms = INT32_MAX;
    }
    struct pollfd waits[3] = {
        {.fd = sink_fd, .events = 0},
        {.fd = ended_fd, .events = POLLIN},
        {.fd = changes, .events = POLLIN},
    };
    if (poll(waits, 3, (int)wait_ms) < 0) return errno == EINTR ? 1 : -errno;
    if (waits[0].revents) return 0;
    if (waits[2].revents) drain(changes, made);
    return 1;
}

bool log_over(const struct mux_query *query, int ended_fd) {
    struct pollfd ended = {.fd = ended_fd, .events = POLLIN};
    if (poll(&ended, 1, 0) > 0) return true;
    return query->last_ns != UINT64_MAX && now_ns() >= query->last_ns;
}
