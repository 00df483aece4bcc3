/* The state of a pump, shared by its loop (pump.c) and the functions that move bytes (flow.c). Internal to the
 * muxer. */
#ifndef MUXER_PUMP_H
#define MUXER_PUMP_H

#include "pump/client.h"
#include "log/jsonwriter.h"
#include "log/lasting.h"
#include "log/writer.h"

#include <poll.h>

/* What an ordinary container needs of the tables lies in the pump. Nothing here is from malloc(3), whose heap is the
 * spawner's: a keeper gives that up (ballast.c). */
#define FEW_EVENTS 16
#define FEW_POLLED 12
#define FEW_WATCHED 6

#define TURNS 8u /* chunks of one output, or blocks for one client, before the others have their turn */

struct mux_pump {
    struct mux_log *log;
    struct json *json; /* of a log of JSON lines, else NULL */
    bool tty;
    bool lent; /* its memory is its maker's */
    int outputs[3]; /* by stream, -1 for none */
    int output_polled[3];
    struct client *clients;
    int client_count;
    int64_t last_number;
    int *watched;
    int watched_count, watched_room, watched_polled;
    int heard; /* how many times in a row a watched descriptor was returned before clients were read */
    struct mux_event *events; /* a queue; room for every event that its sources can tell */
    int event_count, event_room;
    struct pollfd *table;
    int table_room;
    int input;
    int input_polled;
    bool input_closed;  /* there was a stdin, and it is closed */
    bool close_on_eof;
    bool closing_input; /* a client has sent its end: close stdin when all is written */
    int64_t input_from; /* the client of the "stdin-closed" event that is told when all is written, 0 for none */
    struct room input_room, wide_events, wide_table, wide_watched;
    const uint8_t *input_bytes;
    size_t input_size;
    struct room buffer; /* one frame */
    bool draining, closing_clients, unlogged, warm;
    struct json json_place;
    struct mux_event few_events[FEW_EVENTS];
    struct pollfd few_polled[FEW_POLLED];
    int few_watched[FEW_WATCHED];
};

/* Makes a pump as mux_pump_new does, in memory that outlives it. */
struct mux_pump *pump_in(void *place, struct mux_log *log, int tty);

/* Queues an event; an event that already waits in the queue is not queued twice. */
void tell(struct mux_pump *pump, int kind, int64_t number);

/* Whether bytes for stdin can be taken from a client now. */
bool takes_input(const struct mux_pump *pump);

/* Writes what was read from a client, and then does what was due after it. */
int write_input(struct mux_pump *pump);

/* Closes the container's stdin. */
void close_input(struct mux_pump *pump);

/* Whether the outputs may be read now. False while a client that is up to date has not taken the last chunk (or many
 * chunks, before it has read its head). False also while a rotation is due and would remove a segment that a replaying
 * client has not opened yet, or must wait for the compression that the last rotation began. */
bool may_read_outputs(const struct mux_pump *pump);

/* Reads chunks of one output until it is empty, or the pump must wait for a client or the log, or its turn is over. */
int read_output(struct mux_pump *pump, unsigned stream, unsigned turns);

/* The stream has ended: writes what is left of its unfinished line to a log of JSON lines. */
void end_line(struct mux_pump *pump, unsigned stream);

/* Acts on what poll(2) reported for one client. May free it. */
int serve_client(struct mux_pump *pump, struct client *client, short events);

/* Reads the client's bytes for stdin, as long as the container takes them. May free the client. */
int read_client(struct mux_pump *pump, struct client *client);

/* Takes the client out of the list and closes it. */
void remove_client(struct mux_pump *pump, struct client *client);

#endif
