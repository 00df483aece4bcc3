/* Marks a log's file where the clock has stepped back: the C version of engine/logs/order.py. */
#include "log/order.h"

#include "log/format.h"

#include <errno.h>
#include <sys/xattr.h>

#define ATTRIBUTE "user.engine.order"

static void put_attribute(int fd, uint64_t mark, int flags) {
    uint8_t bytes[ORDER_SIZE];
    order_pack(bytes, mark);
    /* A mark that cannot be changed is no longer true. */
    if (fsetxattr(fd, ATTRIBUTE, bytes, sizeof bytes, flags) < 0 && errno != ENODATA && errno != ENOTSUP)
        fremovexattr(fd, ATTRIBUTE);
}

void order_begin(int fd, uint64_t latest_ns) { put_attribute(fd, latest_ns, 0); }

uint64_t order_clock(struct mux_log *log) {
    uint64_t now = now_ns();
    bool late = now < log->last_ns;
    if (late && !log->late) {
        uint8_t bytes[ORDER_SIZE];
        order_pack(bytes, log->last_ns | ORDER_STEPPED);
        if (log->json)
            put_attribute(log->log_fd, log->last_ns | ORDER_STEPPED, XATTR_REPLACE);
        else
            write_at(log->index_fd, bytes, sizeof bytes, ORDER_PLACE);
    }
    log->late = late;
    if (!late) log->last_ns = now;
    return now;
}
