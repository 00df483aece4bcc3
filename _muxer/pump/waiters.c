/* Keeps connections of clients that wait for the container's end, to answer them if the daemon dies; the C version.
 *
 * engine/monitor/waiters.py is the Python version, and explains the rules. engine/wire/waits.py defines the datagram
 * that comes with each client. */
#include "pump/client.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define DIGITS WIRE_EXIT_DIGITS_SIZE
#define HEAD_SIZE WIRE_WAIT_HEAD_SIZE
#define TOLD_AT_ONCE 16

enum flag { FOR_REMOVAL = 1, FULL_CLOSE = 2 };

/* Where waiters lie: not in memory of malloc(3), whose heap a keeper gives up (process/ballast.c), but in slots of
 * blocks. Most have little text; a block has slots of one size. */
#define BLOCK_SIZE (64u * 1024u)
#define SMALL 256u
#define LARGE 2048u /* more than the head and four texts of 255 bytes */

struct block {
    struct block *next;
    size_t slot, used; /* bytes of each slot; of all that were ever taken */
    uint8_t slots[];
};

struct waiter {
    struct waiter *next;
    uint64_t number;
    int fd;
    bool for_removal, orphan;
    bool large;
    uint8_t sizes[DIGITS + 1];
    uint8_t texts[]; /* what is sent before a code of one, two and three digits, and after it */
};

struct mux_waiters {
    struct waiter *first;
    int count;
    struct waiter *unused[2]; /* slots that are free, by whether they are large */
    struct block *blocks;
    int hang_ups; /* an epoll of all connections: one descriptor for the pump to watch, however many they are */
};

static void *some_pages(size_t size) {
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* Returns a slot, NULL if there is no memory for it. */
static struct waiter *take_slot(struct mux_waiters *waiters, bool large) {
    struct waiter *found = waiters->unused[large];
    struct block *block = waiters->blocks;
    size_t slot = large ? LARGE : SMALL;
    if (found) {
        waiters->unused[large] = found->next;
        return found;
    }
    while (block && (block->slot != slot || BLOCK_SIZE - sizeof *block - block->used < slot)) block = block->next;
    if (!block) {
        if (!(block = some_pages(BLOCK_SIZE))) return NULL;
        block->slot = slot;
        block->next = waiters->blocks;
        waiters->blocks = block;
    }
    found = (struct waiter *)(block->slots + block->used);
    block->used += slot;
    return found;
}

static void free_slot(struct mux_waiters *waiters, struct waiter *waiter) {
    waiter->next = waiters->unused[waiter->large];
    waiters->unused[waiter->large] = waiter;
}

struct mux_waiters *mux_waiters_new(void) {
    struct mux_waiters *waiters = some_pages(sizeof *waiters);
    if (!waiters) return NULL;
    waiters->hang_ups = epoll_create1(EPOLL_CLOEXEC);
    if (waiters->hang_ups < 0) {
        munmap(waiters, sizeof *waiters);
        return NULL;
    }
    /* The usual limit of 1024 is soon reached. The container was forked before and keeps its own limit. */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return waiters;
}

int mux_waiters_fd(const struct mux_waiters *waiters) { return waiters->hang_ups; }

int mux_waiters_count(const struct mux_waiters *waiters) { return waiters->count; }

/* Takes a client out of the list. Its connection stays open while another process has it. */
static void forget(struct mux_waiters *waiters, struct waiter *waiter) {
    struct waiter **link = &waiters->first;
    while (*link != waiter) link = &(*link)->next;
    *link = waiter->next;
    waiters->count--;
    /* The connection may stay open in the daemon, and epoll would go on reporting it. */
    epoll_ctl(waiters->hang_ups, EPOLL_CTL_DEL, waiter->fd, NULL);
    close(waiter->fd);
    free_slot(waiters, waiter);
}

void mux_waiters_free(struct mux_waiters *waiters) {
    while (waiters->first) forget(waiters, waiters->first);
    close(waiters->hang_ups);
    for (struct block *block = waiters->blocks, *next; block; block = next) {
        next = block->next;
        munmap(block, BLOCK_SIZE);
    }
    munmap(waiters, sizeof *waiters);
}

int mux_waiters_take(struct mux_waiters *waiters, const uint8_t *datagram, size_t size, int fd) {
    size_t texts = 0;
    if (size < HEAD_SIZE || datagram[0] != WIRE_WAITS) return -EINVAL;
    for (int i = 0; i <= DIGITS; i++) texts += datagram[10 + i];
    if (size != HEAD_SIZE + texts) return -EINVAL;
    bool large = sizeof(struct waiter) + texts > SMALL;
    struct waiter *waiter = take_slot(waiters, large);
    if (!waiter) return -ENOMEM;
    waiter->large = large;
    memcpy(&waiter->number, datagram + 1, sizeof waiter->number);
    memcpy(waiter->sizes, datagram + 10, sizeof waiter->sizes);
    memcpy(waiter->texts, datagram + HEAD_SIZE, texts);
    waiter->for_removal = datagram[9] & FOR_REMOVAL;
    waiter->orphan = false;
    waiter->fd = fd;
    struct epoll_event event = {.events = datagram[9] & FULL_CLOSE ? 0 : EPOLLRDHUP, .data.ptr = waiter};
    if (epoll_ctl(waiters->hang_ups, EPOLL_CTL_ADD, fd, &event) < 0) {
        int failed = -errno;
        free_slot(waiters, waiter); /* the descriptor is still the caller's */
        return failed;
    }
    waiter->next = waiters->first;
    waiters->first = waiter;
    waiters->count++;
    return 0;
}

void mux_waiters_answered(struct mux_waiters *waiters, const uint8_t *datagram, size_t size) {
    uint64_t number;
    if (size != 1 + sizeof number) return;
    memcpy(&number, datagram + 1, sizeof number);
    for (struct waiter *waiter = waiters->first; waiter; waiter = waiter->next) {
        if (waiter->orphan || waiter->number != number) continue;
        forget(waiters, waiter);
        return;
    }
}

void mux_waiters_look(struct mux_waiters *waiters) {
    struct epoll_event events[TOLD_AT_ONCE];
    int count;
    while ((count = epoll_wait(waiters->hang_ups, events, TOLD_AT_ONCE, 0)) > 0)
        for (int i = 0; i < count; i++) forget(waiters, events[i].data.ptr);
}

void mux_waiters_orphan(struct mux_waiters *waiters) {
    for (struct waiter *waiter = waiters->first; waiter; waiter = waiter->next) waiter->orphan = true;
}

static void answer(const struct waiter *waiter, int code) {
    uint8_t text[2 * 255 + DIGITS + 1];
    char digits[DIGITS + 1];
    size_t size = (size_t)snprintf(digits, sizeof digits, "%u", (unsigned)code & 255u), place = 0;
    const uint8_t *before = waiter->texts, *after = waiter->texts;
    for (size_t i = 0; i + 1 < size; i++) before += waiter->sizes[i];
    for (int i = 0; i < DIGITS; i++) after += waiter->sizes[i];
    memcpy(text, before, waiter->sizes[size - 1]);
    place += waiter->sizes[size - 1];
    memcpy(text + place, digits, size);
    place += size;
    memcpy(text + place, after, waiter->sizes[DIGITS]);
    place += waiter->sizes[DIGITS];
    /* So short a text always fits beside the head, which is all that was sent before; a client that has gone needs no
     * answer. */
    send(waiter->fd, text, place, MSG_DONTWAIT | MSG_NOSIGNAL);
    connection_end(waiter->fd);
}

void mux_waiters_answer(struct mux_waiters *waiters, int code, int removed) {
    for (struct waiter *waiter = waiters->first, *next; waiter; waiter = next) {
        next = waiter->next;
        if (!waiter->orphan || (waiter->for_removal && !removed)) continue;
        answer(waiter, code);
        forget(waiters, waiter);
    }
}
