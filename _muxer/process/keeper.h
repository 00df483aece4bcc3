/* What the spawner and the parts of the staying half share. Internal to the muxer. */
#ifndef MUXER_STAY_H
#define MUXER_STAY_H

#include "muxer.h"

#include <stdbool.h>
#include <sys/types.h>

#define MUX_MOST_FDS 253 /* SCM_MAX_FD */

/* One datagram and the descriptors that came with it; *count is -1 for a message that was cut. 0 at the end. */
ssize_t receive(int from, void *bytes, size_t size, int *fds, int *count);

/* The first byte of what comes next on a link, which stays there: 1; 0 at the end; -1: errno says why not. */
ssize_t peek(int link, uint8_t *first);

/* Sends a datagram with descriptors; 0 or a negative errno. */
int pass_on(int to, const void *bytes, size_t size, const int *fds, int count);

/* In a monitor that was just forked: a session of its own, and what else it needs. 0 or a negative errno. */
int settle(void);

/* In the spawner: see where a process is called something. */
void find_title(struct mux_stay *stay);

/* Closes the descriptors of the request. */
void close_request(struct mux_stay *stay);

/* In the half that stays: wait for the launching half, then live; MUX_STAYS. */
int stay_on(struct mux_stay *stay, int from, pid_t launcher);

/* Waits for the launching half, unless that has been done. */
void reap_launcher(struct mux_stay *stay);

/* A daemon has connected: it is the daemon from now on, and learns how things stand. */
void meet(struct mux_stay *stay);

/* Takes one message of the daemon's, or its end. False: it is for Python, and still there. */
bool hear(struct mux_stay *stay);

/* Takes a home from the daemon, whose next word is that. */
void find_home(struct mux_stay *stay);

/* The daemon has gone. */
void drop_link(struct mux_stay *stay);

/* How many wait for the container's end. */
int waiters_of(const struct mux_stay *stay);

/* Tells the daemon how the container has ended. */
void tell_exited(struct mux_stay *stay);

/* There is no daemon to answer those who wait: once the container has ended, they are answered here. */
void answer_alone(struct mux_stay *stay);

/* Process 1 has ended: see its end through as engine.monitor.life does, and exit. */
_Noreturn void finish(struct mux_stay *stay);

#endif
