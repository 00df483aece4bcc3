/* The proxy's process, from the spawner's fork to its end: takes up its descriptors, its bounds and its confinement.
 *
 * Like a keeper it never runs Python, so it has few pages of its own. engine/proxy/main.py does the same in Python. */
#include "process/keeper.h"
#include "wire.h"

#include <errno.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#define FEWEST 64
#define SPARE 64 /* descriptors of the proxy itself */
#define UNLIMITED (1u << 20)
#define MOST_STREAMS 16384
#define MOST_FLOWS 8192
#define IDLE_MS 90000
#define LINGER_MS 20000
#define OF_STREAM 6 /* descriptors: two sockets, two pipes */

static uint32_t bounded(uint32_t number, uint32_t most) {
    return number < most ? number : most;
}

/* Raises the soft limit of open files to the hard one, and shares the files out. */
static struct mux_proxy_limits limits_of_files(void) {
    struct rlimit files = {FEWEST, FEWEST};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    uint32_t room = files.rlim_max > UNLIMITED ? UNLIMITED : (uint32_t)files.rlim_max;
    if (room < FEWEST) room = FEWEST;
    room = room > 2 * SPARE ? room - SPARE : room / 2;
    struct mux_proxy_limits limits = {.leads = room / 4, .idle_ms = IDLE_MS, .linger_ms = LINGER_MS};
    limits.streams = bounded(room / 2 / OF_STREAM, MOST_STREAMS);
    limits.flows = bounded(room / 4, MOST_FLOWS);
    limits.streams_each = limits.streams / 2 + 1;
    limits.flows_each = limits.flows / 2 + 1;
    return limits;
}

void be_proxy(struct mux_stay *stay) {
    mux_name(stay, "proxy", "");
    if (stay->fd_count != 3) _exit(1);
    struct mux_proxy_limits limits = limits_of_files();
    limits.transparent = stay->request[0] == WIRE_TRANSPARENT_PROXY;
    if (mux_proxy_confine((int)limits.transparent) < 0) _exit(1); /* the daemon sees the end of the link */
    _exit(mux_proxy(stay->fds[0], stay->fds[1], stay->fds[2], &limits) < 0);
}
