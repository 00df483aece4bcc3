/* What a daemon says of those who wait for a container's end, and what those do meanwhile. */
#include "place.h"
#include "wire.h"

#include <sys/socket.h>

#define MOST 6u

/* A waiter as a daemon tells of it, with texts of any size; how many bytes that takes. */
static size_t make_sound(uint8_t *to, struct choices *choices) {
    size_t size = 14;
    memset(to, 0, size);
    to[0] = WIRE_WAITS;
    to[1] = (uint8_t)number(choices, 3);
    to[9] = (uint8_t)number(choices, 3);
    for (int i = 0; i < 4; i++) {
        to[10 + i] = (uint8_t)number(choices, 255);
        memset(to + size, 'a' + i, to[10 + i]);
        size += to[10 + i];
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct choices choices = {bytes, size};
    struct mux_waiters *waiters = mux_waiters_new();
    int ends[MOST][2];
    unsigned count = 0;
    if (!waiters) abort();
    while (choices.left > 0) {
        unsigned what = number(&choices, 7);
        size_t some = number(&choices, 63) * (number(&choices, 7) == 7 ? 16 : 1);
        if (some > choices.left) some = choices.left;
        if (what < 3 && count < MOST) {
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[count]) < 0) abort();
            uint8_t sound[14 + 4 * 255];
            const uint8_t *said = what == 2 ? choices.bytes : sound;
            if (said == sound) some = make_sound(sound, &choices);
            if (mux_waiters_take(waiters, said, some, ends[count][1]) < 0) close(ends[count][1]);
            if (said == sound) some = 0;
            count++;
        } else if (what == 3)
            mux_waiters_answered(waiters, choices.bytes, some);
        else if (what == 4)
            mux_waiters_look(waiters);
        else if (what == 5)
            mux_waiters_orphan(waiters);
        else if (what == 6)
            mux_waiters_answer(waiters, (int)number(&choices, 255), (int)number(&choices, 1));
        else if (count > 0)
            shutdown(ends[number(&choices, 255) % count][0], number(&choices, 1) ? SHUT_RDWR : SHUT_WR);
        choices.bytes += some < choices.left ? some : choices.left;
        choices.left -= some < choices.left ? some : choices.left;
    }
    if (mux_waiters_count(waiters) > (int)MOST || mux_waiters_fd(waiters) < 0) abort();
    mux_waiters_free(waiters);
    for (unsigned i = 0; i < count; i++) close(ends[i][0]);
    return 0;
}
