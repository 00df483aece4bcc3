/* Made by `python3 -m engine.wire.header` from what engine/wire declares; a test compares the two. */
#ifndef MUXER_WIRE_H
#define MUXER_WIRE_H

#include <inttypes.h>

/* The first byte of what the spawner is asked for. */
#define WIRE_ORDINARY 'O'
#define WIRE_EXEC 'E'
#define WIRE_RESOLVER 'R'
#define WIRE_PROXY 'P'

/* The first byte of what a daemon says to a monitor beside messages. */
#define WIRE_WAITS 'W'
#define WIRE_ANSWERED 'A'
#define WIRE_SETTLED 'S'
#define WIRE_REMOVED 'R'
#define WIRE_HOME 'H'

/* The first byte of what a daemon and the proxy say to each other. */
#define WIRE_LEADS_LEADS 'L'
#define WIRE_LEADS_DROPS 'D'
#define WIRE_LEADS_TELLS 'T'
#define WIRE_LEADS_ANSWERS 'A'
#define WIRE_LEADS_GREETS 'G'

/* The first byte of what a joiner, and the process that it makes, say to the keeper. */
#define WIRE_BORN 'B'
#define WIRE_EXECUTED 'X'
#define WIRE_TERMINAL 'T'
#define WIRE_FAILED 'F'
#define WIRE_WARNED 'W'

/* In bytes. */
#define WIRE_WAIT_HEAD_SIZE 14
#define WIRE_EXIT_DIGITS_SIZE 3
#define WIRE_REPORT_SIZE 8192
#define WIRE_LEADS_HEAD_SIZE 80
#define WIRE_LEADS_RECORD_SIZE 20

/* Of the words of the proxy. */
#define WIRE_LEADS_FORM 1
#define WIRE_LEADS_MOST 64

/* The message Started for printf(3), with int64_t for: pid, pid_start, started_ns. */
#define WIRE_STARTED "J{\"@\":\"Started\",\"#\":\"b985dd11\",\"pid\":%" PRId64 ",\"pid_start\":%" PRId64 ",\"started_ns\":%" PRId64 ",\"warnings\":[],\"keeps_waiters\":true,\"wakes\":true}"

/* The message Exited for printf(3), with int64_t for: exit_code, finished_ns, started_ns, waiters. */
#define WIRE_EXITED "J{\"@\":\"Exited\",\"#\":\"2ace27af\",\"exit_code\":%" PRId64 ",\"finished_ns\":%" PRId64 ",\"started_ns\":%" PRId64 ",\"waiters\":%" PRId64 "}"

#endif
