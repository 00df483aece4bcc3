/* Waiting for more of a log that is followed. Internal to the muxer. */
#ifndef MUXER_WAITING_H
#define MUXER_WAITING_H

#include "muxer.h"

#include <stdbool.h>

/* Waits for a change. changes: an inotify descriptor, -1 where there is none, and then it waits a short time; it is
 * read empty, and *made says whether a file was made. most_ms: it waits no longer; negative: as long as it takes. 1: look
 * again; 0: the client has left; else a negative errno. */
int wait_for_change(const struct mux_query *query, int sink_fd, int changes, int ended_fd, int64_t most_ms,
                    bool *made);

/* Whether the log is complete, or the query's end is past. */
bool log_over(const struct mux_query *query, int ended_fd);

#endif
