/* What the parts of the staying half share. Internal to the muxer. */
#ifndef MUXER_STAY_H
#define MUXER_STAY_H

#include "muxer.h"

#define MUX_MOST_FDS 253 /* SCM_MAX_FD */

/* Waits for the launching half, unless that has been done. */
void reap_launcher(struct mux_stay *stay);

/* Process 1 has ended: see its end through as engine.monitor.life does, and exit. */
_Noreturn void finish(struct mux_stay *stay);

#endif
