/* Lets followers of one log that stand at the same place go on together: one of them, which leads, waits for what is
 * new, reads it once, and sends it to the clients of all.
 *
 * The others, its guests, sleep in a thread of the daemon each. A guest goes on by itself when its client takes less
 * than the others, when the log ends or goes on in another file, when much is new at once, and when the one that leads
 * can send to its own client no more. Then each looks for others again as soon as it has sent all that is there.
 *
 * Two locks: `table` guards the list of companies; a company's own guards the rest of it and its guests, but for what
 * never changes: its log and its wish. None is held while a client or a disk is waited for. */
#include "log/together.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct company {
    struct company *next;
    struct wish wish;
    pthread_mutex_t lock;
    unsigned holders; /* the one that leads, and the guests that have not left yet */
    struct standing at;
    struct guest *guests;
};

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static struct company *companies;

static bool same_bytes(const uint8_t *one, size_t size, const uint8_t *other, size_t other_size) {
    return size == other_size && (size == 0 || memcmp(one, other, size) == 0);
}

static bool wishes_the_same(const struct wish *one, const struct wish *other) {
    const struct mux_query *a = one->query, *b = other->query;
    return a->want_stdout == b->want_stdout && a->want_stderr == b->want_stderr && a->timestamps == b->timestamps &&
           a->tty == b->tty && a->chunked == b->chunked && a->first_ns == b->first_ns && a->last_ns == b->last_ns &&
           same_bytes(a->prefix, a->prefix_size, b->prefix, b->prefix_size) &&
           same_bytes(one->attributes, one->attributes_size, other->attributes, other->attributes_size) &&
           same_bytes(one->prefix, one->prefix_size, other->prefix, other->prefix_size);
}

static bool same_log(const struct standing *one, const struct standing *other) {
    return memcmp(one->log, other->log, sizeof one->log) == 0;
}

static struct company *make(const struct wish *wish, const struct standing *at) {
    struct company *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->wish = *wish;
    made->at = *at;
    made->holders = 1;
    pthread_mutex_init(&made->lock, NULL);
    made->next = companies;
    companies = made;
    return made;
}

/* Unlocks the company, which the caller has left. */
static void let_go(struct company *company) {
    bool last = --company->holders == 0;
    pthread_mutex_unlock(&company->lock);
    if (!last) return;
    pthread_mutex_destroy(&company->lock);
    free(company);
}

static enum meeting join(struct company *company, struct guest *guest, int fd, const struct standing *at) {
    if (memcmp(company->at.at, at->at, sizeof at->at) != 0) return MEETS_OTHERS;
    *guest = (struct guest){.company = company, .fd = fd, .next = company->guests};
    guest->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guest->wake < 0) return MEETS_NOBODY;
    company->guests = guest;
    company->holders++;
    return JOINS;
}

enum meeting together_meet(struct company **company, struct guest *guest, struct sink *sink, const struct wish *wish,
                           const struct standing *at) {
    enum meeting met = MEETS_NOBODY;
    if (!is_socket(sink->fd)) return met;
    pthread_mutex_lock(&table);
    struct company *each = companies;
    while (each && !(same_log(&each->at, at) && wishes_the_same(&each->wish, wish))) each = each->next;
    if (each && pthread_mutex_trylock(&each->lock) != 0) {
        met = MEETS_OTHERS; /* it sends just now, and other logs' followers want the table */
    } else if (each) {
        met = join(each, guest, sink->fd, at);
        pthread_mutex_unlock(&each->lock);
    } else if ((*company = make(wish, at))) {
        met = LEADS;
    }
    pthread_mutex_unlock(&table);
    return met;
}

bool together_any(struct company *company) {
    pthread_mutex_lock(&company->lock);
    bool any = company->guests != NULL;
    pthread_mutex_unlock(&company->lock);
    return any;
}

/* Has the guest go on by itself from where the company stands. It may be gone as soon as the lock is. */
static void set_apart(struct guest *guest, const struct standing *at) {
    guest->at = *at;
    guest->apart = true;
    eventfd_write(guest->wake, 1);
}

/* Sends what there is room for. False: the guest keeps the rest, or why nothing more can be sent. */
static bool take_all(struct guest *guest, const struct sink *sink) {
    char head[SINK_HEAD];
    struct iovec parts[3];
    size_t count = sink_kept(sink, head, parts), size = 0;
    struct iovec *left = send_now(guest->fd, parts, &count);
    if (left && count == 0) return true;
    for (size_t i = 0; left && i < count; i++) size += left[i].iov_len;
    if (!left)
        guest->failed = errno;
    else if (!(guest->rest = malloc(size)))
        guest->failed = ENOMEM;
    if (guest->failed) return false;
    for (size_t i = 0; i < count; i++) {
        memcpy(guest->rest + guest->rest_size, left[i].iov_base, left[i].iov_len);
        guest->rest_size += left[i].iov_len;
    }
    return false;
}

void together_send(struct company *company, const struct sink *sink, const struct standing *at) {
    pthread_mutex_lock(&company->lock);
    memcpy(company->at.at, at->at, sizeof at->at); /* who looks for a company reads its log without this lock */
    for (struct guest **place = &company->guests; *place && sink->kept_size > 0;) {
        struct guest *guest = *place;
        if (take_all(guest, sink)) {
            place = &guest->next;
        } else {
            *place = guest->next;
            set_apart(guest, at);
        }
    }
    pthread_mutex_unlock(&company->lock);
}

void together_part(struct company **leads) {
    struct company *company = *leads;
    if (!company) return;
    *leads = NULL;
    pthread_mutex_lock(&table);
    struct company **place = &companies;
    while (*place != company) place = &(*place)->next;
    *place = company->next;
    pthread_mutex_unlock(&table);
    pthread_mutex_lock(&company->lock);
    while (company->guests) {
        struct guest *guest = company->guests;
        company->guests = guest->next;
        set_apart(guest, &company->at);
    }
    let_go(company);
}

int together_send_own(struct company **company, struct sink *sink) {
    char head[SINK_HEAD];
    struct iovec parts[3];
    size_t count = sink->kept_size > 0 ? sink_kept(sink, head, parts) : 0;
    struct iovec *left = parts;
    if (*company && count > 0 && !(left = send_now(sink->fd, parts, &count))) return -errno;
    if (count > 0) together_part(company); /* nobody waits for this client */
    int failed = sink_put(sink, left, count);
    sink_keep_no_more(sink);
    return failed;
}

/* Each guest reads for itself what is too much to keep. */
static int part_and_send(struct sink *sink, void *company) {
    together_part(company);
    return together_send_own(company, sink);
}

void together_keep(struct company **company, struct sink *sink) { sink_keep(sink, part_and_send, company); }

int together_wait(struct guest *guest, struct sink *sink, int ended_fd, struct standing *at) {
    struct company *company = guest->company;
    struct pollfd waits[3] = {
        {.fd = guest->fd, .events = 0},
        {.fd = ended_fd, .events = POLLIN},
        {.fd = guest->wake, .events = POLLIN},
    };
    int ready;
    while ((ready = poll(waits, 3, -1)) < 0 && errno == EINTR) {
    }
    int result = ready < 0 ? -errno : 1;
    pthread_mutex_lock(&company->lock);
    if (!guest->apart) {
        struct guest **place = &company->guests;
        while (*place != guest) place = &(*place)->next;
        *place = guest->next;
        guest->at = company->at;
    }
    let_go(company);
    close(guest->wake);
    *at = guest->at;
    if (result > 0 && waits[0].revents) result = 0;
    if (result > 0 && guest->failed) result = -guest->failed;
    struct iovec rest = {guest->rest, guest->rest_size};
    int failed = result > 0 ? sink_put(sink, &rest, 1) : 0;
    free(guest->rest);
    return failed < 0 ? failed : result;
}
