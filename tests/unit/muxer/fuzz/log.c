/* The files of a log, read back: a sound one in which some bytes are others, cut anywhere, asked any question. */
#include "place.h"

#define MOST_FRAMES 24u
#define MOST_PAYLOAD 600u

static size_t fill(uint8_t *to, struct choices *choices, size_t size) {
    static const char TEXT[] = "ab\n\0\xff\xc3\xa4\r\"\\\n<&>\xe2\x80\xa8";
    for (size_t i = 0; i < size; i++) to[i] = (uint8_t)TEXT[(i * 7 + choices->left) % (sizeof TEXT - 1)];
    return size;
}

static void segment(int directory, uint32_t number_, struct choices *choices, uint64_t *time_ns) {
    static uint8_t frames[MOST_FRAMES * (FRAME_SIZE + 70000u)], index[INDEX_HEADER_SIZE + MOST_FRAMES * RECORD_SIZE];
    char name[NAME_SIZE];
    size_t size = 0, indexed = INDEX_HEADER_SIZE;
    index_header_pack(index, number_);
    for (unsigned count = number(choices, MOST_FRAMES); count > 0; count--) {
        unsigned stream = 1 + number(choices, 1), length = number(choices, MOST_PAYLOAD);
        if (length == MOST_PAYLOAD) length = LARGEST_CHUNK;
        *time_ns += number(choices, 255) * UINT64_C(100000007);
        struct record record = {size, *time_ns, length, (uint8_t)stream, (uint8_t)number(choices, 3)};
        record_pack(index + indexed, &record);
        frame_pack(frames + size, stream, length);
        size += FRAME_SIZE + fill(frames + size + FRAME_SIZE, choices, length);
        indexed += RECORD_SIZE;
    }
    for (unsigned count = number(choices, 6); count > 0; count--) {
        uint8_t *of = number(choices, 1) ? frames : index;
        size_t all = of == frames ? size : indexed;
        unsigned at = number(choices, 0xffff), value = number(choices, 255);
        if (all > 0) of[at % all] = (uint8_t)value;
    }
    if (number(choices, 3) == 3) size -= number(choices, 0xffff) % (size + 1);
    if (number(choices, 3) == 3) indexed -= number(choices, 255) % (indexed + 1);
    log_name(name, number_);
    close(make(directory, name, frames, size));
    index_name(name, number_);
    close(make(directory, name, index, indexed));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct choices choices = {bytes, size};
    int directory = open(place(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    uint64_t time_ns = UINT64_C(1700000000000000000);
    struct mux_query query = {
        .want_stdout = number(&choices, 3) != 0,
        .want_stderr = number(&choices, 3) != 0,
        .timestamps = (int)number(&choices, 1),
        .tty = (int)number(&choices, 1),
        .chunked = (int)number(&choices, 1),
        .first_ns = number(&choices, 1) ? time_ns + number(&choices, 0xffff) * UINT64_C(10000000) : 0,
        .last_ns = number(&choices, 1) ? time_ns + number(&choices, 0xffff) * UINT64_C(10000000) : UINT64_MAX,
        .tail = number(&choices, 1) ? (int64_t)number(&choices, 40) : -1,
        .prefix = (const uint8_t *)"a=b,c ",
        .prefix_size = number(&choices, 1) ? 6 : 0,
    };
    for (uint32_t each = 1 + number(&choices, 2), last = each + number(&choices, 2); each <= last; each++)
        segment(directory, each, &choices, &time_ns);
    if (mux_send(place(), sink, &query, -1) > 1) abort();
    tidy(directory);
    close(sink);
    close(directory);
    return 0;
}
