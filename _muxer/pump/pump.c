/* The loop of a pump, which moves one container's bytes in the monitor's only thread for the container's whole life.
 *
 * The C version of the first half of engine/monitor/pump.py, which explains the rules. The poll table is made anew each
 * turn from the state, so that no registration can be forgotten. */
#include "pump/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRAIN_CHUNKS 256u /* 16 MiB: a descendant that outlives process 1 may write for ever */
#define COOL_MS 1000      /* after being quiet for so long, the buffers' memory is given back */
#define HEARD 8           /* a ready watched descriptor is returned so many times in a row before clients are read */

static bool next_event(struct mux_pump *pump, struct mux_event *event) {
    if (pump->event_count == 0) return false;
    *event = pump->events[0];
    memmove(pump->events, pump->events + 1, (size_t)--pump->event_count * sizeof *event);
    return true;
}

/* Returns the table with room for so many, NULL if there is no memory for it. few: where it began, in the pump; wide:
 * where it goes on. */
static void *widen(struct room *wide, const void *few, int *room, int wanted, size_t each) {
    void *table = wide->bytes ? wide->bytes : (void *)few;
    if (wanted <= *room) return table;
    bool first = !wide->bytes;
    if (!room_reserve(wide, (size_t)wanted * 2 * each)) return NULL;
    if (first) memcpy(wide->bytes, few, (size_t)*room * each);
    *room = wanted * 2;
    return wide->bytes;
}

/* Makes room in the tables for one more client or watch, so that none has to be made while bytes move. */
static bool make_room(struct mux_pump *pump) {
    int wanted_events = pump->event_count + 2 * (pump->client_count + 1) + 8;
    int wanted_table = 3 + pump->watched_count + 1 + pump->client_count + 1, wanted_watched = pump->watched_count + 1;
    void *events = widen(&pump->wide_events, pump->few_events, &pump->event_room, wanted_events, sizeof *pump->events);
    void *table = widen(&pump->wide_table, pump->few_polled, &pump->table_room, wanted_table, sizeof *pump->table);
    void *watched =
        widen(&pump->wide_watched, pump->few_watched, &pump->watched_room, wanted_watched, sizeof *pump->watched);
    if (events) pump->events = events;
    if (table) pump->table = table;
    if (watched) pump->watched = watched;
    return events && table && watched;
}

/* Making and freeing a pump, and the functions that the monitor calls. */

static struct mux_pump *begin(struct mux_pump *pump, struct mux_log *log, int tty) {
    pump->log = log;
    pump->tty = tty != 0;
    pump->outputs[0] = pump->outputs[1] = pump->outputs[2] = pump->input = -1;
    pump->events = pump->few_events;
    pump->table = pump->few_polled;
    pump->watched = pump->few_watched;
    pump->event_room = FEW_EVENTS;
    pump->table_room = FEW_POLLED;
    pump->watched_room = FEW_WATCHED;
    if (log && log->json) pump->json = &pump->json_place;
    if (!pump->json || json_begin(pump->json, log) == 0) return pump;
    mux_pump_free(pump);
    return NULL;
}

struct mux_pump *mux_pump_new(struct mux_log *log, int tty) {
    struct mux_pump *pump = calloc(1, sizeof *pump);
    return pump ? begin(pump, log, tty) : NULL;
}

struct mux_pump *pump_in(void *place, struct mux_log *log, int tty) {
    struct mux_pump *pump = memset(place, 0, sizeof *pump);
    pump->lent = true;
    return begin(pump, log, tty);
}

void mux_pump_free(struct mux_pump *pump) {
    while (pump->clients) remove_client(pump, pump->clients);
    for (int stream = 1; stream <= 2; stream++)
        if (pump->outputs[stream] >= 0) close(pump->outputs[stream]);
    close_input(pump);
    room_release(&pump->buffer);
    room_release(&pump->input_room);
    if (pump->json) json_leave(pump->json);
    room_release(&pump->wide_watched);
    room_release(&pump->wide_events);
    room_release(&pump->wide_table);
    if (!pump->lent) free(pump);
}

/* Makes fd owned by the pump and non-blocking. A terminal's master may come twice, as output and as input: the second
 * time it is duplicated, so that each use closes its own descriptor. */
static int own(int fd, bool twice) {
    if (twice) fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return -errno;
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : fd;
}

int mux_pump_add_output(struct mux_pump *pump, int stream, int fd) {
    if (stream < 1 || stream > 2 || pump->outputs[stream] >= 0) return -EINVAL;
    if ((fd = own(fd, fd == pump->input)) < 0) return fd;
    pump->outputs[stream] = fd;
    return 0;
}

int mux_pump_set_input(struct mux_pump *pump, int fd, int close_on_eof) {
    if (fd >= 0 && (fd = own(fd, fd == pump->outputs[1] || fd == pump->outputs[2])) < 0) return fd;
    pump->input = fd;
    pump->close_on_eof = close_on_eof && !pump->tty;
    return 0;
}

int64_t mux_pump_add_client(struct mux_pump *pump, int fd, int streams, int framed, const uint8_t *detach,
                            size_t detach_size, int replay, const uint8_t *owed, size_t owed_size) {
    if (detach_size > LARGEST_DETACH) return -EINVAL;
    struct room place = {0};
    if (!make_room(pump) || !room_reserve(&place, sizeof(struct client))) return -ENOMEM;
    struct client *client = (struct client *)place.bytes, **link = &pump->clients;
    client->place = place;
    client->fd = fd;
    client->polled = client->directory_fd = client->log_fd = -1;
    client->streams = (uint8_t)streams;
    client->framed = framed != 0;
    client->sends = streams & 1;
    if (detach_size > 0) memcpy(client->detach, detach, detach_size);
    client->detach_size = detach_size;
    int failed = replay && pump->log && !pump->json ? client_fall_back(client, pump->log, 0, 0) : 0;
    if (failed == 0 && owed_size > 0 && !room_reserve(&client->pending, owed_size)) failed = -ENOMEM;
    if (failed < 0) {
        room_release(&place); /* the descriptor is still the caller's */
        return failed;
    }
    if (owed_size > 0) memcpy(client->pending.bytes, owed, owed_size);
    client->end = owed_size;
    client_begin(client);
    client->number = ++pump->last_number;
    while (*link) link = &(*link)->next;
    *link = client;
    pump->client_count++;
    return client->number;
}

int mux_pump_watch(struct mux_pump *pump, int fd) {
    if (!make_room(pump)) return -ENOMEM;
    pump->watched[pump->watched_count++] = fd;
    return 0;
}

int mux_pump_unwatch(struct mux_pump *pump, int fd) {
    for (int i = 0; i < pump->watched_count; i++) {
        if (pump->watched[i] != fd) continue;
        int *place = pump->watched + i;
        memmove(place, place + 1, (size_t)(--pump->watched_count - i) * sizeof *place);
        return 0;
    }
    return -ENOENT;
}

int mux_pump_clients(const struct mux_pump *pump) { return pump->client_count; }

size_t mux_pump_unfinished(const struct mux_pump *pump, int stream, uint8_t *to, size_t size) {
    if (!pump->json || stream < 1 || stream > 2) return 0;
    const struct unfinished *line = &pump->json->lines[stream];
    if (line->size <= size && line->size > 0) memcpy(to, line->held.bytes, line->size);
    return line->size;
}

/* The loop. */

static int enter(struct mux_pump *pump, int *count, int fd, short events) {
    pump->table[*count] = (struct pollfd){.fd = fd, .events = events};
    return (*count)++;
}

static int build_table(struct mux_pump *pump) {
    int count = 0;
    bool outputs = pump->outputs[1] >= 0 || pump->outputs[2] >= 0;
    pump->output_polled[1] = pump->output_polled[2] = pump->input_polled = -1;
    if (outputs && may_read_outputs(pump))
        for (int stream = 1; stream <= 2; stream++)
            if (pump->outputs[stream] >= 0)
                pump->output_polled[stream] = enter(pump, &count, pump->outputs[stream], POLLIN);
    if (pump->input_size > 0 && pump->input >= 0) pump->input_polled = enter(pump, &count, pump->input, POLLOUT);
    for (struct client *client = pump->clients; client; client = client->next) {
        client->polled = -1;
        if (client->hung_up) continue;
        short events = client_owed(client) && client->held_ms == 0 ? POLLOUT : 0;
        if (client->sends && takes_input(pump)) events |= POLLIN;
        client->polled = enter(pump, &count, client->fd, events);
    }
    /* poll(2) looks in this order, so what the daemon sent before a client spoke is seen together with it. */
    pump->watched_polled = count;
    for (int i = 0; i < pump->watched_count; i++) enter(pump, &count, pump->watched[i], POLLIN);
    return count;
}

/* Gives back the memory of buffers in which nothing is kept: most containers write little, and then nothing. */
static void cool(struct mux_pump *pump) {
    room_release(&pump->buffer);
    json_cool(pump->json);
    if (pump->input_size == 0) room_release(&pump->input_room);
    for (struct client *client = pump->clients; client; client = client->next)
        if (!client_pending(client)) room_release(&client->pending);
    pump->warm = false;
}

static int wait_for(struct mux_pump *pump, int count, int wait_ms) {
    if ((pump->event_count > 0 && !pump->closing_clients) || pump->heard > 0) wait_ms = 0;
    int ready = poll(pump->table, (nfds_t)count, wait_ms < 0 && pump->warm ? COOL_MS : wait_ms);
    if (ready == 0 && wait_ms < 0) {
        cool(pump);
        ready = poll(pump->table, (nfds_t)count, -1);
    }
    return ready < 0 ? -errno : ready;
}

static short said(const struct mux_pump *pump, int place) { return place >= 0 ? pump->table[place].revents : 0; }

/* The first watched descriptor that is ready, which then goes to the end of the list, so that a busy one cannot keep
 * the others from being returned; -1 for none. */
static int first_watched(struct mux_pump *pump) {
    for (int i = 0; i < pump->watched_count; i++) {
        if (!pump->table[pump->watched_polled + i].revents) continue;
        int fd = pump->watched[i], *place = pump->watched + i;
        memmove(place, place + 1, (size_t)(pump->watched_count - i - 1) * sizeof *place);
        pump->watched[pump->watched_count - 1] = fd;
        return fd;
    }
    return -1;
}

/* In how many ms to check whether a client has read its head, for which its bytes are held back; -1: there is none. */
static int look_ms(const struct mux_pump *pump) {
    int soonest = -1;
    for (const struct client *client = pump->clients; client; client = client->next) {
        int wait = client_look_ms(client);
        if (wait >= 0 && (soonest < 0 || wait < soonest)) soonest = wait;
    }
    return soonest;
}

/* Waits, then moves what can be moved. *idle: nothing was ready. *fd: a watched descriptor that is ready, or -1.
 * Watched descriptors are returned before clients are read, so that a terminal has its new size before it gets the
 * bytes that were typed after the resize. */
static int turn(struct mux_pump *pump, int wait_ms, bool *idle, int *fd) {
    int look = look_ms(pump), failed = 0;
    int ready = wait_for(pump, build_table(pump), look >= 0 ? look : wait_ms);
    *idle = ready == 0 && look < 0;
    *fd = -1;
    if (ready < 0) return ready;
    for (unsigned stream = 1; stream <= 2; stream++)
        if (said(pump, pump->output_polled[stream]) && (failed = read_output(pump, stream, TURNS)) < 0) return failed;
    if (said(pump, pump->input_polled) && (failed = write_input(pump)) < 0) return failed;
    *fd = first_watched(pump);
    pump->heard = *fd >= 0 && pump->heard < HEARD ? pump->heard + 1 : 0;
    for (struct client *client = pump->clients, *next; client; client = next) {
        next = client->next;
        short events = said(pump, client->polled) & (pump->heard > 0 ? ~POLLIN : ~0);
        if (client->held_ms > 0) events |= POLLOUT;
        if (events && (failed = serve_client(pump, client, events)) < 0) return failed;
    }
    for (struct client *client = pump->heard > 0 ? NULL : pump->clients, *next; client; client = next) {
        next = client->next;
        if (client->hung_up && (failed = read_client(pump, client)) < 0) return failed;
    }
    return 0;
}

int mux_pump_run(struct mux_pump *pump, struct mux_event *event) {
    for (;;) {
        bool idle;
        int fd, failed = turn(pump, -1, &idle, &fd);
        if (failed < 0 && failed != -EINTR) return failed;
        if (next_event(pump, event)) return 0;
        if (failed == -EINTR || fd >= 0) {
            *event = (struct mux_event){.kind = failed ? MUX_INTERRUPTED : MUX_READABLE, .number = failed ? 0 : fd};
            return 0;
        }
    }
}

int mux_pump_drain(struct mux_pump *pump) {
    int failed = 0;
    pump->draining = true;
    for (unsigned stream = 1; stream <= 2 && failed == 0; stream++)
        if (pump->outputs[stream] >= 0) failed = read_output(pump, stream, DRAIN_CHUNKS);
    for (unsigned stream = 1; stream <= 2; stream++) end_line(pump, stream);
    pump->draining = false;
    return failed;
}

static void forget_client_events(struct mux_pump *pump) {
    int kept = 0;
    for (int i = 0; i < pump->event_count; i++) {
        int kind = pump->events[i].kind;
        if (kind != MUX_GONE && kind != MUX_DETACHED && kind != MUX_STDIN_CLOSED)
            pump->events[kept++] = pump->events[i];
    }
    pump->event_count = kept;
}

int mux_pump_close_clients(struct mux_pump *pump, int patience_ms) {
    int outputs[3], watched = pump->watched_count, failed = 0;
    bool idle = false;
    memcpy(outputs, pump->outputs, sizeof outputs);
    pump->outputs[1] = pump->outputs[2] = -1;
    pump->watched_count = 0;
    pump->heard = 0;
    pump->input_size = 0;
    pump->input_from = 0;
    pump->closing_clients = true;
    for (struct client *client = pump->clients; client; client = client->next) client->sends = false;
    for (;;) {
        for (struct client *client = pump->clients, *next; client; client = next) {
            next = client->next;
            if (idle || !client_owed(client)) remove_client(pump, client);
        }
        forget_client_events(pump);
        int fd;
        if (!pump->clients || (failed = turn(pump, patience_ms, &idle, &fd)) < 0) break;
    }
    pump->closing_clients = false;
    memcpy(pump->outputs, outputs, sizeof outputs);
    pump->watched_count = watched;
    return failed;
}
