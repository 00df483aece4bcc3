/* Functions that the spawner and the files of the keeper share. Internal to the muxer. */
#ifndef MUXER_STAY_H
#define MUXER_STAY_H

#include "muxer.h"

#include <stdbool.h>
#include <sys/types.h>

#define MUX_MOST_FDS 253 /* SCM_MAX_FD */

/* Receives one datagram and the descriptors that came with it; *count is -1 for a message that was cut. Returns the
 * size, 0 at the end of the connection, else a negative errno. */
ssize_t receive(int from, void *bytes, size_t size, int *fds, int *count);

/* Reads the first byte of the next datagram of a link, and leaves the datagram there: 1; 0 at the end; -1: see
 * errno. */
ssize_t peek(int link, uint8_t *first);

/* Sends a datagram with descriptors; 0 or a negative errno. */
int pass_on(int to, const void *bytes, size_t size, const int *fds, int count);

/* In a process just forked by the spawner: begins a session of its own, and sets what else it needs. 0 or a negative
 * errno. */
int settle(void);

/* In the spawner: finds the place in memory of a process's command line, and of its variables. */
void find_title(struct mux_stay *stay);

/* In the spawner, before its first fork: has forks copy nothing of the memory that only Python needs. */
void stow_ballast(const struct mux_stay *stay);

/* In a keeper: gives up the memory of Python, which is the spawner's, for good. Nothing of it, and nothing of malloc(3),
 * may be touched any more. */
void shed_ballast(void);

/* Forks a child that stays in C; it is in a PID namespace of its own if it is to be. */
pid_t fork_with(bool own_pids, int *pidfd);

/* Closes the descriptors of the request. */
void close_request(struct mux_stay *stay);

/* In the keeper: waits for the launcher, then serves the container. */
_Noreturn void stay_on(struct mux_stay *stay, int from, pid_t launcher);

/* In the keeper: serves a container that runs; stay->fds and stay->handed have all of it. */
_Noreturn void serve(struct mux_stay *stay, int count, const int *clients);

/* In the keeper of an exec: waits for what the joiner, on the socket `from`, tells of its process, and serves
 * that. */
_Noreturn void stay_with_exec(struct mux_stay *stay, int from, pid_t joiner, int count, const int *clients);

/* The child of a keeper that launches by itself: a container's process 1, or an exec's joiner.
 * mounts: its mount namespace, -1 before it has one of its own */
struct infant {
    pid_t pid;
    int pidfd, reports, mounts;
    uint64_t pid_start;
};

/* In a keeper that has no request yet: makes the child, and has it prepare what it can. False: there is none. */
bool prepare_start(struct mux_stay *stay, struct infant *infant);
bool prepare_exec(struct mux_stay *stay, struct infant *infant);

/* In a keeper with a request: launches what it asks for, by the child that was prepared, if any, and serves it. */
_Noreturn void launch_start(struct mux_stay *stay, struct infant *infant);
_Noreturn void launch_exec(struct mux_stay *stay, struct infant *infant);

/* Kills and reaps the child. */
void end_infant(struct infant *infant);

/* When a process started, in clock ticks since boot; 0: it is gone. */
uint64_t start_of(pid_t pid);

/* Waits for the end of the launcher, unless it was reaped already. */
void reap_launcher(struct mux_stay *stay);

/* Accepts a connection of a new daemon, which replaces the earlier daemon, and tells it the state of the container. */
void meet(struct mux_stay *stay);

/* Takes one message of the daemon, or the end of the link. */
void hear(struct mux_stay *stay);

/* Carries out a message of the daemon to a container that runs. */
void carry_out(struct mux_stay *stay);

/* The log was rotated: begins to compress its older files. */
void compress_older(struct mux_stay *stay);

/* Has what is packed in a file written to another, and waits for that. 0 or a negative errno. */
int unpack_older(const void *stay, int packed, int to);

/* The compression has ended, or is to end since it is unwanted, if there is one. */
void end_compression(struct mux_stay *stay, bool unwanted);

/* Takes a home from the daemon, whose next datagram gives it (engine/wire/endpoint.py). */
void find_home(struct mux_stay *stay);

/* Closes the link: the daemon has gone. */
void drop_link(struct mux_stay *stay);

/* In a process just forked by the spawner: is the proxy (see mux_proxy) of the request's descriptors, and exits. */
_Noreturn void be_proxy(struct mux_stay *stay);

/* How many clients wait for the container's end. */
int waiters_of(const struct mux_stay *stay);

/* Tells the daemon how the container has ended. */
void tell_exited(struct mux_stay *stay);

/* There is no daemon to answer waiting clients: if the container has ended, they are answered here. */
void answer_alone(struct mux_stay *stay);

/* Process 1 has ended: does the same steps as engine.monitor.life at its end, and exits. */
_Noreturn void finish(struct mux_stay *stay);

#endif
