/* Tells when a log's file is full, and syncs files before a rotation: the C version of engine/logs/lasting.py. */
#include "log/lasting.h"

#include "log/format.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

bool log_full(const struct mux_log *log) { return log && log->limit > 0 && log->position >= log->limit; }

/* A file that was written within this time may be only in memory, see engine/logs/lasting.py. */
#define YOUNG_NS (30 * UINT64_C(1000000000))

bool log_is_old(const struct mux_log *log, const char *name) {
    struct stat found;
    if (fstatat(log->directory_fd, name, &found, AT_SYMLINK_NOFOLLOW) < 0) return false;
    uint64_t written = (uint64_t)found.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)found.st_mtim.tv_nsec;
    uint64_t now = now_ns();
    return written > now || now - written >= YOUNG_NS;
}

int log_sync(const struct mux_log *log, const char *name) {
    int fd = openat(log->directory_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? 0 : -errno;
    int failed = fdatasync(fd) < 0 ? -errno : 0;
    close(fd);
    return failed;
}
