/* A log of JSON lines, read back: lines that docker writes in which some bytes are others, cut into any pieces, in a
 * file or in memory, asked any question; and text that is escaped comes back. */
#include "place.h"

#include "log/text.h"

static const char *const PIECES[] = {
    "{\"log\":\"", "\\n\",\"stream\":\"stdout\",\"time\":\"2024-02-29T12:00:00.25Z\"}\n",
    "\",\"stream\":\"stderr\",\"time\":\"2024-02-29T12:00:00Z\"}\n",
    "\",\"stream\":\"stderr\",\"attrs\":{\"a\":\"b\"},\"time\":\"2024-02-29T12:00:00.123456789Z\"}\n",
    "\\ud83d\\ude00", "\\ud83d", "\\u12", "\\", "\xc3\xa4", "\xe2\x80\xa8", "\xff", "a plain text of some length", "\n", "{}",
};

static void escaped(const uint8_t *bytes, size_t size) {
    static uint8_t made[LONGEST_ESCAPE * 4096 + 1], back[sizeof made];
    if (size > 4096) size = 4096;
    uint8_t *end = text_escape(made, bytes, size), *to = back;
    *end = '"';
    if (text_unescape(&to, made, end + 1) != end) abort();
    if (text_unescape(&to, made, end) != NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static uint8_t text[1u << 16];
    struct choices choices = {bytes, size};
    int directory = open(place(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    uint64_t time_ns = UINT64_C(1709208000000000000);
    struct mux_query query = {
        .want_stdout = number(&choices, 3) != 0,
        .want_stderr = number(&choices, 3) != 0,
        .timestamps = (int)number(&choices, 1),
        .tty = (int)number(&choices, 1),
        .chunked = (int)number(&choices, 1),
        .first_ns = number(&choices, 1) ? time_ns + number(&choices, 0xffff) * UINT64_C(10000) : 0,
        .last_ns = number(&choices, 1) ? time_ns + number(&choices, 0xffff) * UINT64_C(10000) : UINT64_MAX,
        .prefix = (const uint8_t *)"a=b ",
        .prefix_size = number(&choices, 1) ? 4 : 0,
    };
    escaped(bytes, size);
    struct mux_lines *lines = mux_lines_new(sink, &query);
    if (!lines) abort();
    size_t all = 0, line_size, done;
    for (unsigned count = number(&choices, 60); count > 0; count--) {
        const char *piece = PIECES[number(&choices, 255) % (sizeof PIECES / sizeof *PIECES)];
        memcpy(text + all, piece, strlen(piece));
        all += strlen(piece);
    }
    for (unsigned count = number(&choices, 4); count > 0 && all > 0; count--)
        text[number(&choices, 0xffff) % all] = (uint8_t)number(&choices, 255);
    if (number(&choices, 1)) mux_lines_learn(lines, (const uint8_t *)"\"attrs\":{\"a\":\"b\"},", 18, (const uint8_t *)"x ", 2);
    int file = make(directory, "json", text, all), result;
    uint64_t offset = 0;
    while ((result = mux_lines_read(lines, file, &offset)) == MUX_LINES_OTHER) {
        const uint8_t *line = mux_lines_other(lines, &line_size);
        if (mux_lines_put(lines, 1, time_ns, line, 0, line, line_size) < 0) abort();
    }
    if (result < 0 || offset > all || mux_lines_flush(lines, 0) < 0) abort();
    for (size_t from = 0; from < all; from += done)
        if (mux_lines_feed(lines, text + from, all - from, &done) != MUX_LINES_OTHER || done == 0) break;
    if (mux_lines_flush(lines, 1) < 0) abort();
    mux_lines_free(lines);
    close(file);
    tidy(directory);
    close(sink);
    close(directory);
    return 0;
}
