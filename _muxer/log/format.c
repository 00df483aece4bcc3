/* The on-disk format of the engine's own logs: bytes to values and back, the same on every byte order and word size. */
#include "log/format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const uint8_t MAGIC[8] = {'m', 'u', 'x', 'i', 'd', 'x', 0, 1};

static void put_little(uint8_t *to, uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; i++) to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_little(const uint8_t *from, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

void frame_pack(uint8_t *to, unsigned stream, uint32_t length) {
    to[0] = (uint8_t)stream;
    to[1] = to[2] = to[3] = 0;
    for (unsigned i = 0; i < 4; i++) to[4 + i] = (uint8_t)(length >> (24 - 8 * i));
}

bool frame_unpack(const uint8_t *from, unsigned *stream, uint32_t *length) {
    *stream = from[0];
    *length = (uint32_t)from[4] << 24 | (uint32_t)from[5] << 16 | (uint32_t)from[6] << 8 | from[7];
    return (*stream == 1 || *stream == 2) && !(from[1] | from[2] | from[3]) && *length > 0 && *length <= LARGEST_CHUNK;
}

void record_pack(uint8_t *to, const struct record *record) {
    put_little(to, record->offset, 8);
    put_little(to + 8, record->time_ns, 8);
    put_little(to + 16, record->length, 4);
    to[20] = record->stream;
    to[21] = record->open_lines;
    to[22] = to[23] = 0;
}

bool record_unpack(const uint8_t *from, uint64_t log_size, struct record *record) {
    record->offset = get_little(from, 8);
    record->time_ns = get_little(from + 8, 8);
    record->length = (uint32_t)get_little(from + 16, 4);
    record->stream = from[20];
    record->open_lines = from[21];
    if ((record->stream != 1 && record->stream != 2) || record->length == 0 || record->length > LARGEST_CHUNK)
        return false;
    /* Written so that no hostile offset can make the sum wrap. */
    uint64_t size = (uint64_t)FRAME_SIZE + record->length;
    return size <= log_size && record->offset <= log_size - size;
}

void index_header_pack(uint8_t *to, uint32_t number) {
    memcpy(to, MAGIC, sizeof MAGIC);
    put_little(to + 8, number, 8);
    order_pack(to + ORDER_PLACE, 0);
}

void order_pack(uint8_t *to, uint64_t order) { put_little(to, order, ORDER_SIZE); }

uint64_t index_order(const uint8_t *header) { return get_little(header + ORDER_PLACE, ORDER_SIZE); }

bool index_is_ours(const uint8_t *header) { return memcmp(header, MAGIC, sizeof MAGIC) == 0; }

void log_name(char *to, uint32_t number) { snprintf(to, NAME_SIZE, "%08lu.log", (unsigned long)number); }

void index_name(char *to, uint32_t number) { snprintf(to, NAME_SIZE, "%08lu.idx", (unsigned long)number); }

uint32_t segment_number(const char *name) {
    uint64_t number = 0;
    char made[NAME_SIZE];
    for (const char *digit = name; *digit >= '0' && *digit <= '9' && number <= UINT32_MAX; digit++)
        number = number * 10 + (uint64_t)(*digit - '0');
    if (number == 0 || number > UINT32_MAX) return 0;
    index_name(made, (uint32_t)number);
    return strcmp(name, made) == 0 ? (uint32_t)number : 0;
}

static uint8_t *put_digits(uint8_t *to, uint64_t value, unsigned digits) {
    for (unsigned i = digits; i-- > 0; value /= 10) to[i] = (uint8_t)('0' + value % 10);
    return to + digits;
}

void stamp(uint8_t *to, uint64_t time_ns) {
    uint64_t seconds = time_ns / 1000000000u;
    uint32_t second = (uint32_t)(seconds % 86400u), days = (uint32_t)(seconds / 86400u) + 719468u;
    /* civil_from_days, as in engine/logs/format.py: gmtime(3) ends in 2038 where time_t has 32 bits. */
    uint32_t era = days / 146097u, day = days % 146097u;
    uint32_t year = (day - day / 1460u + day / 36524u - day / 146096u) / 365u;
    day -= 365u * year + year / 4u - year / 100u;
    uint32_t month = (5u * day + 2u) / 153u;
    day -= (153u * month + 2u) / 5u;
    month = month < 10 ? month + 3 : month - 9;
    year += era * 400u + (month <= 2);
    to = put_digits(to, year, 4);
    *to++ = '-';
    to = put_digits(to, month, 2);
    *to++ = '-';
    to = put_digits(to, day + 1, 2);
    *to++ = 'T';
    to = put_digits(to, second / 3600u, 2);
    *to++ = ':';
    to = put_digits(to, second / 60u % 60u, 2);
    *to++ = ':';
    to = put_digits(to, second % 60u, 2);
    *to++ = '.';
    to = put_digits(to, time_ns % 1000000000u, 9);
    *to++ = 'Z';
    *to = ' ';
}

int64_t read_at(int fd, void *to, size_t size, uint64_t offset) {
    size_t done = 0;
    if (offset > INT64_MAX - size) return 0;
    while (done < size) {
        ssize_t got = pread(fd, (uint8_t *)to + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -errno;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

int write_at(int fd, const void *from, size_t size, uint64_t offset) {
    size_t done = 0;
    while (done < size) {
        ssize_t put = pwrite(fd, (const uint8_t *)from + done, size - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return -errno;
        done += (size_t)put;
    }
    return 0;
}

/* Calls `take` with each number above `after` of which there is an index, in no order, until it fails. 0 or a negative
 * errno.
 *
 * getdents64(2) by hand: opendir(3) allocates, and the monitor's memory is counted. */
static int scan(int directory_fd, uint32_t after, int (*take)(void *holder, uint32_t number), void *holder) {
    struct entry {
        uint64_t inode;
        int64_t offset;
        uint16_t size;
        uint8_t kind;
        char name[];
    };
    _Alignas(struct entry) char block[2048];
    /* A descriptor of its own, because the position in the directory belongs to the descriptor. */
    int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), failed = 0;
    if (fd < 0) return errno == ENOENT ? 0 : -errno; /* the directory was removed, and all in it */
    long got = 0;
    while (failed == 0 && (got = syscall(SYS_getdents64, fd, block, sizeof block)) > 0) {
        for (long place = 0; place < got && failed == 0;) {
            const struct entry *entry = (const void *)(block + place);
            uint32_t number = segment_number(entry->name);
            if (number > after) failed = take(holder, number);
            place += entry->size;
        }
    }
    if (got < 0 && errno != ENOENT) failed = -errno; /* like readdir(3), which takes a removed directory for empty */
    close(fd);
    return failed;
}

static int take_smallest(void *holder, uint32_t number) {
    uint32_t *found = holder;
    if (*found == 0 || number < *found) *found = number;
    return 0;
}

int64_t next_segment(int directory_fd, uint32_t after) {
    uint32_t found = 0;
    int failed = scan(directory_fd, after, take_smallest, &found);
    return failed < 0 ? failed : (int64_t)found;
}

static int take_each(void *holder, uint32_t number) {
    struct numbers *numbers = holder;
    if (numbers->count == numbers->room) {
        size_t room = numbers->room * 2 + 16;
        void *grown = realloc(numbers->each, room * sizeof *numbers->each);
        if (!grown) return -ENOMEM;
        numbers->each = grown;
        numbers->room = room;
    }
    numbers->each[numbers->count++] = number;
    return 0;
}

static int compare(const void *one, const void *other) {
    uint32_t left = *(const uint32_t *)one, right = *(const uint32_t *)other;
    return left < right ? -1 : left > right;
}

int list_segments(int directory_fd, uint32_t after, struct numbers *numbers) {
    int failed = scan(directory_fd, after, take_each, numbers);
    if (failed == 0 && numbers->count > 1) qsort(numbers->each, numbers->count, sizeof *numbers->each, compare);
    return failed;
}

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
