/* The interface of the C muxer: everything that the `native...` modules of engine.monitor, engine.logs, engine.proxy and
 * engine.daemon.tar may call.
 *
 * It moves the bytes of containers: in the monitor from pipes to the log and to attached clients (mux_pump_*), in the
 * daemon's threads from the log to a client (mux_send), in the proxy from the host's ports to containers (mux_proxy).
 * Functions that move bytes have Python versions of the same behaviour in engine/monitor, engine/logs and engine/proxy,
 * and tests compare the two. engine/logs/format.py defines the format of the files.
 *
 * No Python in here, no global state, no signal handling, no allocation per chunk. A function that can fail returns a
 * negative errno. SIGPIPE must be ignored in the process. Nothing found in a log's files is trusted. */
#ifndef MUXER_H
#define MUXER_H

#include <stddef.h>
#include <stdint.h>

/* cffi also reads what follows, up to the closing line: so it has only declarations, and no preprocessor directives. */
/* cffi begin */

/* The open end of a log: the C side of engine.logs.writer.Writer, or of engine.logs.jsonwriter.JsonWriter, which
 * owns these descriptors. A rotation replaces them in here. */
struct mux_log {
    int log_fd;          /* the present segment's frames; or the file of JSON lines, opened to append */
    int index_fd;        /* the segment's index; or the attributes of every JSON line */
    int directory_fd;    /* the log's directory */
    uint32_t number;     /* of the present segment */
    uint32_t max_files;  /* how many segments, or files, a rotation keeps */
    uint8_t open_lines;  /* streams in the middle of a line */
    uint8_t json;        /* 0: a log of the engine's own form; 1: a log of JSON lines */
    uint8_t compress;    /* JSON: each rotation is reported (MUX_ROTATED), and makes the log busy */
    uint8_t busy;        /* JSON, enum mux_busy: it is not rotated again until the caller sets MUX_IDLE */
    uint8_t late;        /* the last time written was before last_ns, and the present file is marked so */
    uint64_t max_size;   /* bytes that a segment may have, 0 for any */
    uint64_t limit;      /* bytes at which the present segment is full, 0 for never */
    uint64_t position;   /* bytes of frames, or of JSON, written */
    uint64_t records;    /* records written */
    uint64_t last_ns;    /* the latest time ever written */
    char name[96];       /* JSON: the file's name in the directory */
};

enum mux_busy { MUX_IDLE = 0, MUX_UNTOLD = 1, MUX_TOLD = 2 };

enum mux_event_kind {
    MUX_READABLE = 1,     /* number: a watched descriptor */
    MUX_EOF = 2,          /* number: a stream that has ended */
    MUX_GONE = 3,         /* number: a client that left */
    MUX_DETACHED = 4,     /* number: a client that sent the detach keys */
    MUX_STDIN_CLOSED = 5, /* number: a client that ended its sending half */
    MUX_ROTATED = 6,      /* a file of the log is to be compressed; the log is busy until that is done */
    MUX_UNLOGGED = 7,     /* number: the errno with which the log could not be written */
    MUX_INTERRUPTED = 8   /* a signal came: let its handler run, and call again */
};

struct mux_event {
    int kind;
    int64_t number;
};

struct mux_pump;

/* Makes a pump; log may be NULL, and otherwise must outlive the pump. NULL: out of memory. */
struct mux_pump *mux_pump_new(struct mux_log *log, int tty);

/* Closes every descriptor that the pump owns, and frees it. */
void mux_pump_free(struct mux_pump *pump);

/* engine.monitor.contract.Pump tells what each function does, and also what a client must have read first. The pump
 * owns the descriptors that the first three functions get. */
int mux_pump_add_output(struct mux_pump *pump, int stream, int fd);
int mux_pump_set_input(struct mux_pump *pump, int fd, int close_on_eof);
int64_t mux_pump_add_client(struct mux_pump *pump, int fd, int streams, int framed, const uint8_t *detach,
                            size_t detach_size, int replay, const uint8_t *owed, size_t owed_size);
int mux_pump_watch(struct mux_pump *pump, int fd);
int mux_pump_unwatch(struct mux_pump *pump, int fd);
int mux_pump_clients(const struct mux_pump *pump);

/* Copies to to[0..size) the bytes of the stream's unfinished line, which a log of JSON lines holds back; returns their
 * number. */
size_t mux_pump_unfinished(const struct mux_pump *pump, int stream, uint8_t *to, size_t size);

/* Moves bytes until there is something to tell. */
int mux_pump_run(struct mux_pump *pump, struct mux_event *event);

/* Reads what is left in the outputs, without waiting for any client. */
int mux_pump_drain(struct mux_pump *pump);

/* Sends every client what it is owed and closes it; drops all clients once none has taken anything for patience_ms.
 * -EINTR: a signal came; call again. */
int mux_pump_close_clients(struct mux_pump *pump, int patience_ms);

struct mux_waiters;

/* engine.monitor.contract.Waiters tells what each function does. NULL: out of memory or of descriptors. */
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
    int64_t tail;          /* only that many last lines; negative: all */
    const uint8_t *prefix; /* put before each line, after the time */
    size_t prefix_size;
    int ends;              /* of a log of the engine's own form, nothing that came behind this place: */
    uint64_t end_segment;
    uint64_t end_record;   /* how many of that segment are wanted */
};

/* Sends the log in directory to sink_fd. ended_fd: -1 sends what is there now; else new lines are sent too until it is
 * readable. 1: the client got all of it; 0: the client left. */
int mux_send(const char *directory, int sink_fd, const struct mux_query *query, int ended_fd);

struct mux_lines;

enum mux_lines_end {
    MUX_LINES_READ = 0,  /* nothing more is to be read now */
    MUX_LINES_OTHER = 1, /* a line that the caller judges: see mux_lines_other */
    MUX_LINES_PAST = 2,  /* a line behind last_ns, and so are all others of the file */
    MUX_LINES_LOOK = 3,  /* there may be another file, or the log has ended */
    MUX_LINES_LEFT = 4,  /* the client has left */
    MUX_LINES_TOGETHER = 5 /* another reads for this client: call mux_lines_together */
};

/* Makes what sends a log of JSON lines to sink_fd. The caller opens the log's files, and finds where to begin; the
 * query's tail is not used. Its prefix stands before each line without attributes, and must outlive this. NULL: out of
 * memory. */
struct mux_lines *mux_lines_new(int sink_fd, const struct mux_query *query);
void mux_lines_free(struct mux_lines *lines);

/* Sends the whole lines of a file from *offset on, and moves *offset behind them; or those of size bytes in memory, and
 * moves *done behind them. enum mux_lines_end, or a negative errno. */
int mux_lines_read(struct mux_lines *lines, int fd, uint64_t *offset);
int mux_lines_feed(struct mux_lines *lines, const uint8_t *bytes, size_t size, size_t *done);

/* The line that made the last call return MUX_LINES_OTHER. It is passed over, unless the caller puts what it says. */
const uint8_t *mux_lines_other(const struct mux_lines *lines, size_t *size);

/* Sends one line, if the query wants it: the prefix and the text, behind the time. MUX_LINES_READ, MUX_LINES_PAST or a
 * negative errno. */
int mux_lines_put(struct mux_lines *lines, int stream, uint64_t time_ns, const uint8_t *prefix, size_t prefix_size,
                  const uint8_t *text, size_t size);

/* From now on lines that have just these attributes, `"attrs":{...},`, are read here, and get this prefix. 0 or a
 * negative errno. */
int mux_lines_learn(struct mux_lines *lines, const uint8_t *attributes, size_t size, const uint8_t *prefix,
                    size_t prefix_size);

/* sifts: from now on lines behind last_ns are only left out, because earlier ones may come behind them. */
void mux_lines_sift(struct mux_lines *lines, int sifts);

/* From now on mux_lines_read reads a file no further than this offset. */
void mux_lines_limit(struct mux_lines *lines, uint64_t limit);

/* Sends what waits, and with `finish` the end of the HTTP body. 0 or a negative errno. */
int mux_lines_flush(struct mux_lines *lines, int finish);

/* Sends what waits, and then what comes into the file (fd -1: none), while it is the one that has this path. changes:
 * an inotify descriptor on its directory, -1 for none; ended_fd: readable when the log is complete. Never returns
 * MUX_LINES_READ. */
int mux_lines_wait(struct mux_lines *lines, int fd, uint64_t *offset, const char *path, int changes, int ended_fd);

/* After MUX_LINES_TOGETHER, and when the directory is not watched any more: waits until this client has to be sent what
 * comes by itself again. MUX_LINES_LOOK, MUX_LINES_LEFT or a negative errno. */
int mux_lines_together(struct mux_lines *lines, uint64_t *offset, int ended_fd);

/* What the launcher of a monitor tells the keeper. Its descriptors, in this order: link, [pidfd], [listener, the exec
 * directory], [the mount namespace], [log, index, log directory], [stdin], [stdout], [stderr]. An exec is handed over
 * without a process (pidfd, pid, times), which is reported next; and at first without a home (listener and directory),
 * so that no other daemon finds it again. The mount namespace is held until the end has been told, because its own end
 * syncs a disk. */
struct mux_handed_client {
    uint8_t streams, framed, replay, detach_size;
    uint8_t detach[64];
};

struct mux_handover {
    int32_t tty, close_on_eof, has_process, has_home, has_mounts, has_log, has_input, has_stdout, has_stderr;
    int32_t pid; /* process 1 */
    uint64_t pid_start, started_ns;
    struct mux_log log; /* without its descriptors */
    uint32_t client_count;
    char container[13]; /* the first digits of the container's id */
    uint16_t head_size;
    uint8_t head[1024]; /* what an exec's client is sent first of all, once it runs */
    struct mux_handed_client clients[250]; /* as many descriptors as engine.wire.channel sends at once */
};

enum mux_part {
    MUX_ENDED = 0,
    MUX_LAUNCHES = 1,
    MUX_PREPARES = 3,
    MUX_PREPARES_EXEC = 4,
    MUX_RESOLVES = 5
};

struct mux_stay {
    uint8_t request[65537]; /* a datagram of the daemon; the descriptors that came with it are in fds */
    uint32_t request_size;
    int fds[253];
    int fd_count;
    int launcher; /* in the launcher: its socket to the keeper */
    int launching; /* in the keeper: the launcher's pid, while it is not reaped; else 0 */
    int launching_end; /* the launcher's pidfd, -1 for none */
    int wants;    /* the socket on which a spare takes its request, else -1 */
    int pidfd, listener, link, exec_dir, mounts, terminal, record;
    const uint8_t *furniture; /* the plan of what a spare prepares (engine.sandbox.plan) */
    uint32_t furniture_size;  /* 0: plans are not obeyed here */
    const char *place;        /* an empty directory on which a spare prepares it */
    char *title; /* where the command line is in memory, with room for title_size bytes; NULL: unknown */
    uint32_t title_size;
    struct mux_event event;
    struct mux_pump *pump;    /* it lies at pump_place, and its log is the one below */
    uint64_t pump_place[192]; /* beside the other fields, so that a keeper writes to few pages */
    struct mux_log log;
    struct mux_waiters *waiters; /* NULL until a client waits */
    int compressing, compressing_end; /* the pid of the child that compresses older files of the log, or 0; its pidfd */
    int has_ended, exit_code; /* process 1 has ended, with this code; the keeper then only stays for waiting clients */
    uint64_t finished_ns;
    struct mux_handover handed;
    char program[256]; /* what Python's program is called, for that child */
};

/* Makes the state of a spawner, which its children have too, on pages of its own. It stays as long as the process. NULL:
 * out of memory. */
struct mux_stay *mux_stay_new(void);

/* Forks a monitor for each request on the spawner's socket, and each monitor into launcher and keeper. Returns in
 * several processes. MUX_LAUNCHES: this is the launcher. MUX_PREPARES, MUX_PREPARES_EXEC (only if spares is not 0):
 * this is a launcher without a request, a spare for a start or for an exec; mux_take waits for its request.
 * MUX_RESOLVES: this is no monitor, and the request says what it is. (A process that is to be the proxy does not
 * return, and neither does a keeper, which serves its container in here and exits.) MUX_ENDED: this is the spawner, and
 * the daemon has gone. */
int mux_spawn(int requests, struct mux_stay *stay, int spares);

/* Makes a child that leads a session (terminal: with the terminal at descriptor 0 as its controlling terminal) and
 * executes the command; its parent is the caller's parent. argv and envp end in NULL. Returns the pid once it has
 * executed, or has said why it cannot and ended (see end_unexecuted); or the negative errno of what failed before, after
 * which there may be a child that has ended. */
int mux_newborn(const char *path, char *const *argv, char *const *envp, int terminal);

/* Calls this process `engine KIND` in ps(1), and its command line `engine KIND OF`, as far as there is room; `of` may
 * be empty. To be called only after mux_spawn. */
void mux_name(const struct mux_stay *stay, const char *kind, const char *of);

/* In a spare: waits for the request. 1: it has come; 0: none will come. */
int mux_take(struct mux_stay *stay);

/* In the launcher: gives everything to the keeper. clients: the descriptor of each client. */
int mux_hand_over(const struct mux_stay *stay, const struct mux_handover *handed, const int *fds, int count,
                  const int *clients);

/* Becomes what a plan of engine.sandbox.plan says: a container's process 1, and executes its command. Only for a process
 * that was just forked, as the launchers do it; does not return. furniture: as in mux_stay; place: if not NULL, first
 * prepares itself there and reports that; stdio: three descriptors, or -1 each with a terminal; report: the socket of
 * engine.wire.report. */
void mux_be_born(const uint8_t *plan, size_t size, const uint8_t *furniture, size_t furniture_size, const char *place,
                 const int *stdio, int report);

struct mux_proxy_limits {
    uint32_t leads;        /* sockets of the host */
    uint32_t streams;      /* connections at a time; each takes up to six descriptors */
    uint32_t streams_each; /* of one container */
    uint32_t flows;        /* clients of UDP ports at a time */
    uint32_t flows_each;   /* of one container */
    uint32_t idle_ms;      /* after so long without a datagram, a UDP client is forgotten */
    uint32_t linger_ms;    /* after so long without a container, the proxy ends, even if there is a daemon */
    uint32_t transparent;  /* whether containers may see their clients' own addresses */
};

/* Carries published ports to containers until it serves none (see engine/wire/leads.py). It owns the descriptors: the
 * link to the daemon, the socket at which later daemons connect, and the directory in which that socket is named
 * `proxy.sock`. 0 or a negative errno. */
int mux_proxy(int link, int daemons, int home, const struct mux_proxy_limits *limits);

/* Gives up each right of this process that mux_proxy does not need. transparent: as in the limits. 0 or a negative
 * errno. */
int mux_proxy_confine(int transparent);

/* Removes the directory `name` of `parent` with all that is in it, see engine/daemon/tar/trees.py. 0 or a negative
 * errno. */
int mux_remove_tree(int parent, const char *name);

struct mux_extract;

enum mux_extract_end {
    MUX_EXTRACT_MORE = 0,  /* the next bytes are wanted, those of a header first */
    MUX_EXTRACT_DATA = 1,  /* the next bytes are wanted, the contents of a file first */
    MUX_EXTRACT_OTHER = 2, /* the next bytes are a header whose member is the caller's, or the end of the archive */
    MUX_EXTRACT_FULL = 3   /* no more can be told at once: call again */
};

/* What one call has done. */
struct mux_extracted {
    uint64_t done;                /* bytes of the archive that were used */
    uint64_t size;                /* bytes that the new files take on the disk */
    uint64_t counted;             /* bytes and inodes that were taken, for the check of free space */
    uint32_t directories_size;    /* in the next field */
    uint8_t directories[16384];   /* of each new directory: its time, an int64_t of seconds, and its path, with a NUL */
};

/* Makes what unpacks the plain members of a layer's tar into a directory, see engine/daemon/tar/nativeextract.py. NULL:
 * out of memory. */
struct mux_extract *mux_extract_new(int root);
void mux_extract_free(struct mux_extract *extract);

/* Makes members of the next bytes of the archive. enum mux_extract_end, or the negative errno of a member that was
 * begun, whose name the third function returns. */
int mux_extract_feed(struct mux_extract *extract, const uint8_t *bytes, size_t size, struct mux_extracted *told);

/* Closes the open directories: the caller has removed something, and their paths may lead elsewhere. */
void mux_extract_forget(struct mux_extract *extract);
const char *mux_extract_name(const struct mux_extract *extract);

/* A sha256 that is being made. */
struct mux_sha256 {
    uint32_t words[8];
    uint64_t size; /* bytes hashed, those in `held` too */
    uint8_t held[64];
};

/* Whether the processor has instructions for sha256. Only then the other three are of use. */
int mux_sha256_fits(void);
void mux_sha256_begin(struct mux_sha256 *sum);
void mux_sha256_update(struct mux_sha256 *sum, const uint8_t *bytes, size_t size);

/* Writes the 32 bytes of the digest of all that was hashed, after which more may be hashed. */
void mux_sha256_digest(const struct mux_sha256 *sum, uint8_t *digest);

/* cffi end */

#endif
