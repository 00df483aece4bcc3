/* What the parts of the staying half share. Internal to the muxer. */
#ifndef MUXER_STAY_H
#define MUXER_STAY_H

#include "muxer.h"

#define MUX_MOST_FDS 253 /* SCM_MAX_FD */

/* Process 1 has ended: see its end through as engine.monitor.life does, and exit. */
_Noreturn void finish(struct mux_stay *stay);

#endif
