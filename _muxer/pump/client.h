/* One attached client of a container, in C: the bytes that it is owed, its detach keys, and its place in the log.
 *
 * engine/monitor/clients.py is the Python version, and explains the terms "owed" and "head". Internal to the muxer. */
#ifndef MUXER_CLIENT_H
#define MUXER_CLIENT_H

#include "log/format.h"
#include "log/room.h"
#include "muxer.h"

#define LARGEST_DETACH 64u

struct client {
    struct client *next;
    struct room place; /* its own memory, on pages of its own */
    int64_t number;
    int fd;
    int polled; /* its place in the poll table, -1 for none */
    uint8_t streams;
    bool framed, sends, hung_up, replaying;
    bool fresh; /* it may not have read its head yet */
    int64_t held_ms; /* since when its bytes are held back for that (CLOCK_MONOTONIC); 0: they are not */
    uint8_t detach[LARGEST_DETACH];
    size_t detach_size, matched;
    struct room pending; /* the bytes [start, end) of it are owed */
    size_t start, end;
    int directory_fd, log_fd; /* while replaying */
    uint32_t segment;
    uint64_t offset;
};

/* Whether there is something to send. */
bool client_owed(const struct client *client);

/* Whether chunks that it was given are still unsent. */
bool client_pending(const struct client *client);

/* Begins to check whether the client has read its head, the head of an HTTP answer that it was sent before. */
void client_begin(struct client *client);

/* In how many ms to check again whether it has read its head; -1: nothing is held back for that. */
int client_look_ms(const struct client *client);

/* Whether the container's outputs may not be read because this client has taken too little. */
bool client_full(const struct client *client);

/* Gives it a chunk with its header: sent at once as far as possible, the rest kept. Nothing is sent before the client
 * has read its head, because the docker SDK for Python throws away what it reads together with the head. False: it has
 * gone. */
bool client_give(struct client *client, const uint8_t *frame, size_t size);

/* Sends as much of the owed bytes as the client takes now. False: it has gone. */
bool client_send(struct client *client);

/* Forgets all bytes that it is owed. */
void client_drop(struct client *client);

/* Makes it read the log from this place on, instead of being given chunks; segment 0: from the log's beginning. */
int client_fall_back(struct client *client, const struct mux_log *log, uint32_t segment, uint64_t offset);

/* Adds the next block of the log to what is owed; ends the replay at the log's end. False: out of memory or
 * descriptors. */
bool client_load(struct client *client, const struct mux_log *log);

/* Reads bytes for stdin into to[0..size): how many, 0 at the end, -EAGAIN if there are none now. */
int64_t client_receive(struct client *client, uint8_t *to, size_t size);

/* Looks for the detach keys in bytes[0..size), before which LARGEST_DETACH bytes are free. Sets *forward to the bytes
 * that go to stdin and returns their size; *found says whether the keys were there. */
size_t client_sift(struct client *client, uint8_t *bytes, size_t size, uint8_t **forward, bool *found);

/* Shuts a connection down, also for other processes that have it, so that its peer reads all that was sent and then the
 * end. The caller still has to close it. */
void connection_end(int fd);

/* Ends its connection and frees the client. */
void client_free(struct client *client);

#endif
