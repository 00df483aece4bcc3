/* One attached client of a container, in C: the twin of engine/monitor/clients.py. Internal to the muxer. */
#ifndef MUXER_CLIENT_H
#define MUXER_CLIENT_H

#include "log/format.h"
#include "log/room.h"
#include "muxer.h"

#define LARGEST_DETACH 64u

struct client {
    struct client *next;
    int64_t number;
    int fd;
    int polled; /* its place in the poll table, -1 for none */
    uint8_t streams;
    bool framed, sends, hung_up, replaying;
    bool fresh; /* it may not have read yet what it was sent before it came here */
    int64_t held_ms; /* since when that keeps it from what it is owed (CLOCK_MONOTONIC); 0: it does not */
    uint8_t detach[LARGEST_DETACH];
    size_t detach_size, matched;
    struct room pending; /* what it is owed is [start, end) of it */
    size_t start, end;
    int directory_fd, log_fd; /* while replaying */
    uint32_t segment;
    uint64_t offset;
};

/* Whether there is something to send. */
bool client_owed(const struct client *client);

/* Whether chunks that it was given are still unsent. */
bool client_pending(const struct client *client);

/* Begins to look whether it has read what it was sent before it came here, the head of an answer. */
void client_begin(struct client *client);

/* In how many ms to look again whether it has; -1: nothing that it is owed waits for that. */
int client_look_ms(const struct client *client);

/* Whether it has taken too little for the container to be read on. */
bool client_full(const struct client *client);

/* Gives it a chunk with its header: sent at once as far as it goes, the rest kept. Nothing goes before it has read the
 * head of its answer, as the docker SDK for Python throws away what it reads along with that. False: it has gone. */
bool client_give(struct client *client, const uint8_t *frame, size_t size);

/* Sends of what it is owed what it takes now. False: it has gone. */
bool client_send(struct client *client);

/* Forgets what it is owed. */
void client_drop(struct client *client);

/* Lets it read on in the log at this place instead of being given chunks; segment 0: at the log's beginning. */
int client_fall_back(struct client *client, const struct mux_log *log, uint32_t segment, uint64_t offset);

/* Owes it the next block of the log; at the log's end the replay is over. False: out of memory or descriptors. */
bool client_load(struct client *client, const struct mux_log *log);

/* Reads for stdin to to[0..size): how much, 0 at the end, -EAGAIN for nothing now. */
int64_t client_receive(struct client *client, uint8_t *to, size_t size);

/* Looks for the detach keys in bytes[0..size), before which LARGEST_DETACH bytes are free. Sets *forward and returns
 * the size of what goes to stdin; *found says whether the keys were there. */
size_t client_sift(struct client *client, uint8_t *bytes, size_t size, uint8_t **forward, bool *found);

/* Ends a connection, whoever has it, so that its peer reads all that was sent and then the end. It is still to be
 * closed. */
void connection_end(int fd);

/* Ends its connection and frees the client. */
void client_free(struct client *client);

#endif
