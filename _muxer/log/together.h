/* Followers of one log that stand at the same place and want the same, of which one reads for all. Internal. */
#ifndef MUXER_TOGETHER_H
#define MUXER_TOGETHER_H

#include "muxer.h"
#include "log/sink.h"

/* Bytes of the log that are new. Where there are more, each follower reads for itself, on all processors at once. */
#define TOGETHER_MOST 65536u

/* Which log it is, and up to where it was read. */
struct standing {
    uint64_t log[2]; /* the device and the inode of its directory or file */
    uint64_t at[2];
};

/* What two followers have to have in common, beside the place. */
struct wish {
    const struct mux_query *query;
    const uint8_t *attributes, *prefix; /* of lines with attributes; see mux_lines_learn */
    size_t attributes_size, prefix_size;
};

struct company;

/* A follower for which another reads. */
struct guest {
    struct company *company;
    struct guest *next;
    int fd, wake; /* the client; an eventfd(2), readable when the guest goes on by itself */
    bool apart;   /* it does */
    int failed;   /* the errno with which the client took nothing */
    struct standing at;
    uint8_t *rest; /* what the client did not take yet of the bytes up to `at` */
    size_t rest_size;
};

enum meeting {
    MEETS_NOBODY, /* and nobody can join this one */
    MEETS_OTHERS, /* they stand elsewhere, for a moment */
    LEADS,        /* *company is made, and others may join it */
    JOINS         /* the guest has joined, and has to call together_wait */
};

/* Looks for others. The wish and what it points at must outlive the company. */
enum meeting together_meet(struct company **company, struct guest *guest, struct sink *sink, const struct wish *wish,
                           const struct standing *at);

/* Whether there is a guest. One that joins while the leader reads gets what is read, too. */
bool together_any(struct company *company);

/* Has the sink keep what is read next, for together_send. The company ends if that is too much. */
void together_keep(struct company **company, struct sink *sink);

/* Sends every guest what the sink has kept, all of it that lies between the last place and this one. A guest whose
 * client does not take it at once goes on by itself. */
void together_send(struct company *company, const struct sink *sink, const struct standing *at);

/* Sends the kept bytes to the sink's own client, and keeps no more. The company ends first if they do not all go out at
 * once. 0 or a negative errno. */
int together_send_own(struct company **company, struct sink *sink);

/* Ends the company: each guest goes on by itself from where it stands. */
void together_part(struct company **company);

/* A guest waits until it has to go on by itself, from *at, and sends its client the rest up to there. 1: go on; 0: the
 * client has left; else a negative errno. */
int together_wait(struct guest *guest, struct sink *sink, int ended_fd, struct standing *at);

/* How long a follower waits before it looks again for others that stand elsewhere, in ms; `before`: what it was last
 * time, or negative. */
static inline int64_t together_patience(int64_t before) {
    int64_t most = 1000;
    return before < 0 ? 5 : before < most ? 2 * before : most;
}

#endif
