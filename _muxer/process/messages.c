/* Carries out what a daemon asks of a keeper whose container runs: the messages Attach and Resize of
 * engine/wire/schema.py. engine/monitor/life.py does the same in Python.
 *
 * The datagrams are those of engine/wire/codec.py. In these two messages no string has a quote or an escape, so a field
 * is found by its name. */
#include "process/keeper.h"

#include "log/later.h"
#include "pump/pump.h"
#include "wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#define MESSAGE_SIZE 2048 /* of those that a keeper carries out; a longer one is cut, and so is none of them */

/* What stands behind "name": in the message; NULL: nothing. */
static const char *field(const char *message, const char *name) {
    char key[32];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = strstr(message, key);
    return found ? found + strlen(key) : NULL;
}

/* Reads digits, and moves behind them. False: there are none, or 64 bits are too few for them. */
static bool read_number(const char **place, uint64_t *number) {
    const char *from = *place;
    *number = 0;
    for (; **place >= '0' && **place <= '9'; ++*place)
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(**place - '0'), number))
            return false;
    return *place > from;
}

static bool number_of(const char *message, const char *name, uint64_t *number) {
    const char *place = field(message, name);
    return place && read_number(&place, number);
}

static bool is_true(const char *message, const char *name) {
    const char *place = field(message, name);
    return place && strncmp(place, "true", 4) == 0;
}

/* Reads bytes in base64, with which the message has its bytes: how many, -1 for more than there is room for. */
static int read_bytes(const char *message, const char *name, uint8_t *to, size_t room) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char begin[] = "{\"@bytes\":\"";
    const char *place = field(message, name), *digit;
    uint32_t bits = 0;
    size_t size = 0, count = 0;
    if (!place || strncmp(place, begin, sizeof begin - 1) != 0) return 0;
    for (place += sizeof begin - 1; *place && (digit = strchr(digits, *place)); place++) {
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (count++ % 4 == 0) continue;
        if (size == room) return -1;
        to[size++] = (uint8_t)(bits >> (6 - 2 * ((count - 1) % 4)));
    }
    return (int)size;
}

/* Adds the stream's unfinished line, which the log holds back, to what a client is owed. */
static int add_unfinished(const struct mux_pump *pump, unsigned stream, bool framed, struct room *owed, size_t *size) {
    const struct unfinished *line = &pump->json->lines[stream];
    size_t head = framed ? FRAME_SIZE : 0;
    if (line->size == 0) return 0;
    if (!room_reserve(owed, *size + head + line->size)) return -ENOMEM;
    if (framed) frame_pack(owed->bytes + *size, stream, (uint32_t)line->size);
    memcpy(owed->bytes + *size + head, line->held.bytes, line->size);
    *size += head + line->size;
    return 0;
}

/* Says in the daemon's log what became of a message. */
static void warn(const struct mux_stay *stay, const char *kind, int failed) {
    char told[256];
    if (failed == 0) return;
    int size = snprintf(told, sizeof told, WIRE_WARNING, kind);
    if (failed != -ENOMSG) {
        char text[80];
        snprintf(text, sizeof text, "%s: errno %d", kind, -failed);
        size = snprintf(told, sizeof told, WIRE_WARNING, text);
    }
    send(stay->link, told, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What came into a log of JSON lines after the daemon has sent the client what it had read of that. Nothing is written
 * to the log meanwhile. */
static int find_owed(const struct mux_stay *stay, const char *after, int streams, bool framed, struct room *owed,
                     size_t *size) {
    const struct mux_pump *pump = stay->pump;
    struct mux_query query = {.want_stdout = streams & 2, .want_stderr = streams & 4, .tty = !framed,
                              .last_ns = UINT64_MAX, .tail = -1};
    uint64_t inode, offset;
    bool whole;
    if (strncmp(after, "null", 4) == 0) return 0;
    if (*after++ != '[' || !read_number(&after, &inode) || *after++ != ',' || !read_number(&after, &offset))
        return -EINVAL;
    if (!pump->json) return 0;
    int failed = json_later(&stay->log, pump->json, &query, inode, offset, unpack_older, stay, owed, size, &whole);
    if (failed == 0 && !whole)
        warn(stay, "a client was not sent all lines of a log: the file that it had read from is gone", -ENOMSG);
    for (unsigned stream = 1; stream <= 2 && failed == 0; stream++)
        if (streams & 1 << stream) failed = add_unfinished(pump, stream, framed, owed, size);
    return failed;
}

/* Serves one more client; 0, and the descriptor is the pump's, or a negative errno. */
static int attach(struct mux_stay *stay, const char *message, int fd) {
    uint8_t keys[LARGEST_DETACH];
    uint64_t streams;
    struct room owed = {0};
    size_t size = 0;
    const char *after = field(message, "after");
    bool framed = is_true(message, "framed");
    int key_count = read_bytes(message, "detach", keys, sizeof keys);
    if (!after || key_count < 0 || !number_of(message, "streams", &streams)) return -EINVAL;
    int failed = find_owed(stay, after, (int)streams, framed, &owed, &size);
    if (failed == 0) {
        int64_t client = mux_pump_add_client(stay->pump, fd, (int)streams & 7, framed, keys, (size_t)key_count,
                                             is_true(message, "replay"), owed.bytes, size);
        failed = client < 0 ? (int)client : 0;
    }
    room_release(&owed);
    return failed;
}

static int resize(const struct mux_stay *stay, const char *message) {
    uint64_t rows, columns;
    if (!number_of(message, "rows", &rows) || !number_of(message, "columns", &columns)) return -EINVAL;
    if (rows > UINT16_MAX || columns > UINT16_MAX) return -EINVAL;
    struct winsize size = {.ws_row = (uint16_t)rows, .ws_col = (uint16_t)columns};
    return stay->terminal < 0 || ioctl(stay->terminal, TIOCSWINSZ, &size) == 0 ? 0 : -errno;
}

static bool is_a(const char *message, const char *kind) {
    char begin[32];
    int size = snprintf(begin, sizeof begin, "J{\"@\":\"%s\"", kind);
    return strncmp(message, begin, (size_t)size) == 0;
}

void carry_out(struct mux_stay *stay) {
    char message[MESSAGE_SIZE + 1];
    int fds[MUX_MOST_FDS], count;
    ssize_t got = receive(stay->link, message, sizeof message - 1, fds, &count);
    message[got > 0 ? got : 0] = 0;
    if (got <= 0) return;
    if (count < 0) {
        warn(stay, "a message of the engine came in truncated", -ENOMSG);
    } else if (is_a(message, "Attach") && count > 0) {
        int failed = attach(stay, message, fds[count - 1]);
        if (failed == 0) count--;
        warn(stay, "Attach", failed);
    } else if (is_a(message, "Resize")) {
        warn(stay, "Resize", resize(stay, message));
    } else {
        warn(stay, "unexpected message for a monitor", -ENOMSG);
    }
    for (int i = 0; i < count; i++) close(fds[i]);
}
