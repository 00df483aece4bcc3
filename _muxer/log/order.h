/* The order mark of a log's file: the C version of engine/logs/order.py. Internal to the muxer. */
#ifndef MUXER_ORDER_H
#define MUXER_ORDER_H

#include "muxer.h"

#define ORDER_STEPPED (UINT64_C(1) << 63)

/* The clock's time for what is written next. Where it has stepped back, the present file is marked first. */
uint64_t order_clock(struct mux_log *log);

/* Marks a file of JSON lines that has no lines yet, behind others up to this time. */
void order_begin(int fd, uint64_t latest_ns);

#endif
