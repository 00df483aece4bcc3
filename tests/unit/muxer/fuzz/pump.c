/* A container's output, as bytes and as JSON lines, and what clients send: input, detach keys, ends, at any moment. */
#include "place.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#define MOST_CLIENTS 3

static struct mux_log open_log(int directory, struct choices *choices, int json) {
    static const char ATTRIBUTES[] = ",\"attrs\":{\"a\":\"b\"}";
    uint8_t header[INDEX_HEADER_SIZE];
    struct mux_log log = {.directory_fd = directory, .number = 1, .max_files = 1 + number(choices, 3), .json = (uint8_t)json};
    log.limit = log.max_size = number(choices, 1) ? 1 + number(choices, 2000) : 0;
    if (json) {
        strcpy(log.name, "json");
        log.log_fd = openat(directory, "json", O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
        log.index_fd = make(directory, "attributes", ATTRIBUTES, number(choices, 1) ? sizeof ATTRIBUTES - 1 : 0);
    } else {
        char name[NAME_SIZE];
        index_header_pack(header, 1);
        log_name(name, 1);
        log.log_fd = make(directory, name, "", 0);
        index_name(name, 1);
        log.index_fd = make(directory, name, header, sizeof header);
    }
    return log;
}

/* Some of the input's own bytes; what does not fit is not sent. */
static void say(int to, struct choices *choices) {
    size_t size = number(choices, 300);
    if (size > choices->left) size = choices->left;
    if (size > 0 && send(to, choices->bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && write(to, choices->bytes, size) < 0)
        return;
    choices->bytes += size;
    choices->left -= size;
}

static void hear(int from) {
    uint8_t bytes[4096];
    while (recv(from, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct choices choices = {bytes, size};
    int directory = open(place(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), json = (int)number(&choices, 1);
    int pipes[2][2], input[2], clients[MOST_CLIENTS], count = (int)number(&choices, MOST_CLIENTS);
    int bell = eventfd(1, EFD_CLOEXEC), tty = (int)number(&choices, 1);
    struct mux_log log = open_log(directory, &choices, json);
    struct mux_pump *pump = mux_pump_new(number(&choices, 3) ? &log : NULL, tty);
    struct mux_event event;
    if (!pump || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) < 0) abort();
    for (int i = 0; i < 2; i++) {
        if (pipe2(pipes[i], O_CLOEXEC | O_NONBLOCK) < 0) abort();
        if (mux_pump_add_output(pump, i + 1, pipes[i][0]) < 0) abort();
    }
    mux_pump_set_input(pump, input[0], (int)number(&choices, 1));
    mux_pump_watch(pump, bell);
    for (int i = 0; i < count; i++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) abort();
        clients[i] = ends[0];
        int streams = (int)number(&choices, 7), framed = (int)number(&choices, 1), replay = (int)number(&choices, 1);
        size_t owed = number(&choices, 1) ? 4 : 0, keys = number(&choices, 5);
        if (keys > choices.left) keys = choices.left;
        if (mux_pump_add_client(pump, ends[1], streams, framed, choices.bytes, keys, replay, (const uint8_t *)"owed",
                                owed) < 0)
            abort();
        choices.bytes += keys;
        choices.left -= keys;
    }
    for (unsigned turn = 0; choices.left > 0 && turn < 64; turn++) {
        unsigned what = number(&choices, 15);
        int client = count > 0 ? clients[number(&choices, 255) % (unsigned)count] : -1;
        if (what < 6) say(pipes[what & 1][1], &choices);
        else if (what < 11 && client >= 0) say(client, &choices);
        else if (what == 11 && client >= 0) shutdown(client, SHUT_WR);
        else if (what == 12 && client >= 0) hear(client);
        else if (what == 13) hear(input[1]);
        else if (what == 14 && client >= 0) shutdown(client, SHUT_RDWR);
        else log.busy = MUX_IDLE;
        for (int told = 0; told < 8; told++) {
            if (mux_pump_run(pump, &event) < 0) abort();
            if (event.kind == MUX_READABLE) break;
        }
    }
    mux_pump_drain(pump);
    for (int i = 0; i < count; i++) close(clients[i]);
    while (mux_pump_close_clients(pump, 10) < 0) continue;
    mux_pump_free(pump);
    for (int i = 0; i < 2; i++) close(pipes[i][1]);
    close(input[1]);
    close(bell);
    close(log.log_fd);
    close(log.index_fd);
    tidy(directory);
    close(directory);
    return 0;
}
