/* Moves the pump's bytes when its loop finds them movable: output to the log and the clients, clients' bytes to stdin.
 *
 * The C version of the second half of engine/monitor/pump.py. It never waits. */
#include "pump/pump.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

void tell(struct mux_pump *pump, int kind, int64_t number) {
    for (int i = 0; i < pump->event_count; i++)
        if (pump->events[i].kind == kind && (pump->events[i].number == number || kind == MUX_UNLOGGED)) return;
    if (pump->event_count < pump->event_room)
        pump->events[pump->event_count++] = (struct mux_event){.kind = kind, .number = number};
}

/* Input. */

void close_input(struct mux_pump *pump) {
    if (pump->input >= 0) {
        close(pump->input);
        pump->input_closed = true;
    }
    pump->input = -1;
    pump->closing_input = false;
}

int write_input(struct mux_pump *pump) {
    while (pump->input_size > 0 && pump->input >= 0) {
        ssize_t put = write(pump->input, pump->input_bytes, pump->input_size);
        if (put >= 0) {
            pump->input_bytes += put;
            pump->input_size -= (size_t)put;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return 0;
        } else if (errno == EPIPE || errno == EIO) {
            close_input(pump); /* the container has closed its stdin; what clients still send is thrown away */
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    pump->input_size = 0;
    if (pump->input_from != 0) tell(pump, MUX_STDIN_CLOSED, pump->input_from);
    pump->input_from = 0;
    if (pump->closing_input) close_input(pump);
    return 0;
}

bool takes_input(const struct mux_pump *pump) {
    return pump->input_size == 0 && (pump->input >= 0 || pump->input_closed);
}

/* Clients. */

void remove_client(struct mux_pump *pump, struct client *client) {
    struct client **link = &pump->clients;
    while (*link != client) link = &(*link)->next;
    *link = client->next;
    pump->client_count--;
    client_free(client);
}

static int leave(struct mux_pump *pump, struct client *client, int kind) {
    bool ends_input = kind == MUX_GONE && client->sends && pump->close_on_eof;
    int64_t number = client->number;
    remove_client(pump, client);
    tell(pump, kind, number);
    if (!ends_input) return 0;
    pump->closing_input = true;
    return write_input(pump);
}

int read_client(struct mux_pump *pump, struct client *client) {
    while (client->sends && takes_input(pump)) {
        if (!room_reserve(&pump->input_room, LARGEST_DETACH + LARGEST_CHUNK)) return leave(pump, client, MUX_GONE);
        pump->warm = true;
        uint8_t *bytes = pump->input_room.bytes + LARGEST_DETACH, *forward;
        int64_t got = client_receive(client, bytes, LARGEST_CHUNK);
        int failed;
        bool found;
        if (got == -EAGAIN) return 0;
        if (got == 0) {
            client->sends = false;
            memcpy(bytes, client->detach, client->matched); /* withheld; now it is certain that no more will come */
            pump->input_bytes = bytes;
            pump->input_size = client->matched;
            client->matched = 0;
            pump->input_from = client->number;
            pump->closing_input = pump->closing_input || pump->close_on_eof;
            if ((failed = write_input(pump)) < 0) return failed;
            break;
        }
        pump->input_size = client_sift(client, bytes, (size_t)got, &forward, &found);
        pump->input_bytes = forward;
        if ((failed = write_input(pump)) < 0) return failed;
        if (found) return leave(pump, client, MUX_DETACHED);
        if (!client->hung_up) return 0;
    }
    if (client->hung_up && (!client->sends || (pump->input < 0 && !pump->input_closed)))
        return leave(pump, client, MUX_GONE);
    return 0;
}

static bool send_owed(struct mux_pump *pump, struct client *client) {
    for (unsigned turn = 0; turn < TURNS; turn++) {
        if (!client_send(client)) return false;
        if (client_pending(client) || !client->replaying) return true;
        if (!client_load(client, pump->log)) return false;
        pump->warm = true;
    }
    return true;
}

int serve_client(struct mux_pump *pump, struct client *client, short events) {
    if (events & (POLLHUP | POLLERR | POLLNVAL)) {
        /* The client receives nothing any more, but what it sent before it left still goes to the container. */
        client->hung_up = true;
        client_drop(client);
        return 0;
    }
    if (events & POLLOUT && !send_owed(pump, client)) return leave(pump, client, MUX_GONE);
    return events & POLLIN ? read_client(pump, client) : 0;
}

/* Output. */

bool may_read_outputs(const struct mux_pump *pump) {
    bool full = log_full(pump->log);
    if (full && pump->log->busy) return false;
    for (const struct client *client = pump->clients; client; client = client->next) {
        if (client_full(client)) return false;
        if (full && client->replaying &&
            (uint64_t)client->segment + pump->log->max_files < (uint64_t)pump->log->number + 1)
            return false;
    }
    return true;
}

/* Whether a change of the log has worked. Only the first of several failures in a row is told. */
static bool logged(struct mux_pump *pump, int failed) {
    if (failed < 0 && !pump->unlogged) tell(pump, MUX_UNLOGGED, -failed);
    pump->unlogged = failed < 0;
    if (pump->log->busy == MUX_UNTOLD) {
        pump->log->busy = MUX_TOLD;
        tell(pump, MUX_ROTATED, 0);
    }
    return failed == 0;
}

void end_line(struct mux_pump *pump, unsigned stream) {
    if (pump->json) logged(pump, json_end(pump->log, pump->json, stream));
}

/* Delivers one chunk, which was read behind room for its header, so that header and chunk are written together: by one
 * pwrite(2) to the log, then to each client that is up to date. */
static int deliver(struct mux_pump *pump, unsigned stream, const uint8_t *frame, size_t size) {
    uint32_t segment = pump->log ? pump->log->number : 0;
    uint64_t position = pump->log ? pump->log->position : 0;
    bool readable = pump->log && logged(pump, log_append(pump->log, pump->json, stream, frame, size)) && !pump->json;
    for (struct client *client = pump->clients, *next; client; client = next) {
        next = client->next;
        if (client->replaying || client->hung_up || !(client->streams & 1u << stream)) continue;
        bool kept;
        if (client_pending(client) && readable) /* only when draining: the client reads from the log what it misses */
            kept = client_fall_back(client, pump->log, segment, position) == 0;
        else
            kept = client_give(client, frame, size);
        int failed = kept ? 0 : leave(pump, client, MUX_GONE);
        if (failed < 0) return failed;
    }
    return 0;
}

/* Where in its pages a chunk is read to. A pipe's bytes lie at the beginning of a page. Processors of AMD copy them six
 * times slower to 8 bytes behind the beginning of another page, where a chunk was before (measured 2026-11-24 with
 * readv(2) of 64 KiB: 1.14 s/GB, at 64 bytes 0.20). */
#define CHUNK_AT 64u

int read_output(struct mux_pump *pump, unsigned stream, unsigned turns) {
    if (!room_reserve(&pump->buffer, CHUNK_AT + LARGEST_CHUNK)) return -ENOMEM;
    uint8_t *frame = pump->buffer.bytes + CHUNK_AT - FRAME_SIZE;
    pump->warm = true;
    while (turns-- > 0) {
        if (!pump->draining && !may_read_outputs(pump)) return 0;
        /* A log of JSON lines rotates itself between any two lines. A drain may make the log larger than its size. */
        if (!pump->draining && !pump->json && log_full(pump->log)) logged(pump, log_rotate(pump->log));
        ssize_t got = read(pump->outputs[stream], frame + FRAME_SIZE, LARGEST_CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
        if (got < 0 && errno != EIO) return -errno; /* EIO: what a master reads when the last slave is closed */
        if (got <= 0) {
            close(pump->outputs[stream]);
            pump->outputs[stream] = -1;
            end_line(pump, stream);
            tell(pump, MUX_EOF, stream);
            return 0;
        }
        frame_pack(frame, stream, (uint32_t)got);
        int failed = deliver(pump, stream, frame, FRAME_SIZE + (size_t)got);
        if (failed < 0) return failed;
    }
    return 0;
}
