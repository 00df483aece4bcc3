/* The contract of the C muxer: what the modules `native...` of engine.monitor and engine.logs may call.
 *
 * It moves the bytes of containers: in the monitor from pipes to the log and to attached clients (mux_pump_*), in the
 * daemon's threads from the log to a client (mux_send). Each function has a Python twin of the same behaviour in
 * engine/logs, which is its oracle; the shape of the files is told in engine/logs/format.py.
 *
 * No Python in here, no global state, no signal handling, no allocation per chunk. A function that can fail returns a
 * negative errno. SIGPIPE must be ignored in the process. Nothing found in a log's files is trusted.
 */
#ifndef MUXER_H
#define MUXER_H

#include <stddef.h>
#include <stdint.h>

/* What follows, up to the closing line, is also read by cffi: declarations only, no directives. */
/* cffi begin */

/* The open end of a log: the C side of engine.logs.writer.Writer, or of engine.logs.drivers.jsonfile.JsonWriter, whose
 * descriptors these are. A rotation changes them in here. */
struct mux_log {
    int log_fd;          /* frames of the present segment; or the file of JSON lines, opened to append */
    int index_fd;        /* its index; or the attributes of every JSON line */
    int directory_fd;    /* the log's directory */
    uint32_t number;     /* of the present segment */
    uint32_t max_files;  /* how many segments a rotation keeps */
    uint8_t open_lines;  /* streams in the middle of a line */
    uint8_t json;        /* which of the two it is */
    uint8_t compress;    /* JSON: each rotation is told (MUX_ROTATED), and makes the log busy */
    uint8_t busy;        /* JSON, enum mux_busy: but for MUX_IDLE no further rotation; who was told ends this */
    uint64_t max_size;   /* bytes that a segment may have, 0 for any */
    uint64_t limit;      /* bytes at which the present one is full, 0 for never */
    uint64_t position;   /* bytes of frames, or of JSON, written */
    uint64_t records;    /* records written */
    uint64_t last_ns;    /* the latest time written */
    char name[96];       /* JSON: the file's, in the directory */
};

enum mux_busy { MUX_IDLE = 0, MUX_UNTOLD = 1, MUX_TOLD = 2 };

enum mux_event_kind {
    MUX_READABLE = 1,     /* number: a watched descriptor */
    MUX_EOF = 2,          /* number: a stream that has ended */
    MUX_GONE = 3,         /* number: a client that left */
    MUX_DETACHED = 4,     /* number: a client that sent the detach keys */
    MUX_STDIN_CLOSED = 5, /* number: a client that ended its sending half */
    MUX_ROTATED = 6,      /* the log has a file that wants compressing, and is busy until that is done */
    MUX_UNLOGGED = 7,     /* number: the errno with which the log could not be written */
    MUX_INTERRUPTED = 8   /* a signal came: let its handler run, call again */
};

struct mux_event {
    int kind;
    int64_t number;
};

struct mux_pump;

/* A pump; log may be NULL and must else outlive it. NULL: out of memory. */
struct mux_pump *mux_pump_new(struct mux_log *log, int tty);

/* Closes every descriptor that the pump owns, and frees it. */
void mux_pump_free(struct mux_pump *pump);

/* What each does is told in engine.monitor.contract.Pump, also what a client has to have read first. Descriptors given to
 * the first three belong to the pump from then on. */
int mux_pump_add_output(struct mux_pump *pump, int stream, int fd);
int mux_pump_set_input(struct mux_pump *pump, int fd, int close_on_eof);
int64_t mux_pump_add_client(struct mux_pump *pump, int fd, int streams, int framed, const uint8_t *detach,
                            size_t detach_size, int replay, const uint8_t *owed, size_t owed_size);
int mux_pump_watch(struct mux_pump *pump, int fd);
int mux_pump_unwatch(struct mux_pump *pump, int fd);
int mux_pump_clients(const struct mux_pump *pump);

/* What a log of JSON lines holds back of the stream's unfinished line: copied to to[0..size), its size returned. */
size_t mux_pump_unfinished(const struct mux_pump *pump, int stream, uint8_t *to, size_t size);

/* Moves bytes until there is something to tell. */
int mux_pump_run(struct mux_pump *pump, struct mux_event *event);

/* Reads what is left in the outputs, waiting for nobody. */
int mux_pump_drain(struct mux_pump *pump);

/* Gives every client what it is owed and closes it; a client that takes nothing for patience_ms is dropped.
 * -EINTR: a signal came; call again. */
int mux_pump_close_clients(struct mux_pump *pump, int patience_ms);

struct mux_waiters;

/* What each does is told in engine.monitor.contract.Waiters. NULL: out of memory or of descriptors. */
struct mux_waiters *mux_waiters_new(void);
void mux_waiters_free(struct mux_waiters *waiters);
int mux_waiters_fd(const struct mux_waiters *waiters);
int mux_waiters_count(const struct mux_waiters *waiters);
int mux_waiters_take(struct mux_waiters *waiters, const uint8_t *datagram, size_t size, int fd);
void mux_waiters_answered(struct mux_waiters *waiters, const uint8_t *datagram, size_t size);
void mux_waiters_look(struct mux_waiters *waiters);
void mux_waiters_orphan(struct mux_waiters *waiters);
void mux_waiters_answer(struct mux_waiters *waiters, int code, int removed);

struct mux_query {
    int want_stdout;
    int want_stderr;
    int timestamps;
    int tty;               /* no frames */
    int chunked;           /* as an HTTP/1.1 chunked body */
    uint64_t first_ns;     /* lines of a time in [first_ns, last_ns] */
    uint64_t last_ns;
    int64_t tail;          /* that many last lines; negative: all */
    const uint8_t *prefix; /* before each line, after the time */
    size_t prefix_size;
};

/* Sends the log in directory to sink_fd. ended_fd: -1 for what is there now, else follow until it is readable.
 * 1: the client got all of it; 0: the client left. */
int mux_send(const char *directory, int sink_fd, const struct mux_query *query, int ended_fd);

/* What the half of a monitor that launches a container tells the half that stays. Its descriptors, in this order:
 * link, [pidfd], [listener, the exec directory], [the mount namespace], [log, index, log directory], [stdin], [stdout],
 * [stderr]. Without a process (pidfd, pid, times), as an exec is handed over, what becomes of it is reported next.
 * Without a home (listener and directory), as an exec is at first, no other daemon finds it again. The mount namespace
 * is held until the end has been told, as its own end syncs a disk. */
struct mux_handed_client {
    uint8_t streams, framed, replay, detach_size;
    uint8_t detach[64];
};

struct mux_handover {
    int32_t tty, close_on_eof, has_process, has_home, has_mounts, has_log, has_input, has_stdout, has_stderr;
    int32_t pid; /* process 1 */
    uint64_t pid_start, started_ns;
    struct mux_log log; /* but for its descriptors */
    uint32_t client_count;
    char container[13]; /* the first digits of its id */
    struct mux_handed_client clients[250]; /* as many descriptors as engine.wire.channel sends at once */
};

enum mux_part {
    MUX_ENDED = 0,
    MUX_LAUNCHES = 1,
    MUX_STAYS = 2,
    MUX_PREPARES = 3,
    MUX_PREPARES_EXEC = 4,
    MUX_RESOLVES = 5
};

struct mux_stay {
    uint8_t request[65537]; /* a datagram of the daemon's, and the descriptors that came with it */
    uint32_t request_size;
    int fds[253];
    int fd_count;
    int launcher; /* the launching half's socket to the other */
    int launching; /* in the half that stays: the launching half, while it is not reaped; else 0 */
    int launching_end; /* its pidfd, -1 for none */
    int wants;    /* the socket on which a spare takes its request, else -1 */
    int pidfd, listener, link, exec_dir, mounts, terminal, record;
    char *title; /* where the command line is, with room for so many bytes; NULL: nobody knows */
    uint32_t title_size;
    struct mux_event event;
    struct mux_pump *pump; /* its log is the one below */
    struct mux_log log;
    struct mux_waiters *waiters; /* NULL until somebody waits */
    int has_ended, exit_code; /* process 1; then this only stays for those who wait */
    uint64_t finished_ns;
    struct mux_handover handed;
};

/* Forks a monitor for each request on the spawner's socket, and each monitor into its two halves. MUX_LAUNCHES: this is
 * the one that launches. MUX_PREPARES, MUX_PREPARES_EXEC: so it is, without a request yet, and of the one kind or of the
 * other (spares is not 0): mux_take waits for it. MUX_RESOLVES: this is no monitor, and the request says what it is.
 * MUX_STAYS: this is the one that stays, the container runs, and its pump has something to tell of a watched descriptor
 * or of a rotated log; a container that ends before ends this process in here. MUX_ENDED: this is the spawner, and the
 * daemon has gone. */
int mux_spawn(int requests, struct mux_stay *stay, int spares);

/* Makes a child that leads a session (terminal: of the terminal that is its descriptor 0) and executes the command; its
 * parent is the caller's. argv and envp end in NULL. The pid once it has executed, or the negative errno of what failed,
 * and then there is a child all the same, that has ended. */
int mux_newborn(const char *path, char *const *argv, char *const *envp, int terminal);

/* Calls this process `engine KIND` in ps(1), and its command line `engine KIND OF`, as far as there is room for it; `of`
 * may be empty. After mux_spawn only. */
void mux_name(const struct mux_stay *stay, const char *kind, const char *of);

/* In a spare: wait for the request. 1: it is there; 0: there will be none. */
int mux_take(struct mux_stay *stay);

/* The launching half's last word; clients: the descriptor of each. */
int mux_hand_over(const struct mux_stay *stay, const struct mux_handover *handed, const int *fds, int count,
                  const int *clients);

/* cffi end */

#endif
