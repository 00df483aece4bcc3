/* Takes apart a line of a log of JSON lines if it is written as docker writes it.
 *
 * engine/logs/jsonlines.py is the Python version, and is asked about every other line. What is read here, it reads in
 * the same way. */
#include "log/jsonlines.h"

#include "log/text.h"

#include <string.h>

/* Whether the text stands at *place; then *place moves behind it. */
static bool passed(const uint8_t **place, const uint8_t *end, const void *text, size_t size) {
    if ((size_t)(end - *place) < size || memcmp(*place, text, size) != 0) return false;
    *place += size;
    return true;
}

#define PASSED(place, end, text) passed(place, end, text, sizeof(text) - 1)

/* The number of so many digits; -1 when there are others. */
static int32_t digits(const uint8_t *from, unsigned count) {
    int32_t number = 0;
    for (unsigned i = 0; i < count; i++) {
        if (from[i] < '0' || from[i] > '9') return -1;
        number = number * 10 + from[i] - '0';
    }
    return number;
}

/* Reads RFC 3339 in UTC, `2026-11-22T00:30:17[.123456789]Z`, of the years in which 64 bits of nanoseconds are right. */
static bool read_time(const uint8_t *text, size_t size, uint64_t *time_ns) {
    if (size < 20 || size > 30 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
        text[16] != ':' || text[size - 1] != 'Z' || (size > 20 && (text[19] != '.' || size == 21)))
        return false;
    int32_t year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);
    int32_t hour = digits(text + 11, 2), minute = digits(text + 14, 2), second = digits(text + 17, 2);
    if (year < 1970 || year > 2500 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || minute < 0 ||
        second < 0)
        return false;
    uint64_t fraction = 0;
    for (unsigned i = 20; i < 29; i++) {
        bool inside = i < size - 1;
        if (inside && (text[i] < '0' || text[i] > '9')) return false;
        fraction = fraction * 10 + (inside ? (uint64_t)(text[i] - '0') : 0);
    }
    /* days_from_civil, as in engine/logs/jsonlines.py. */
    year -= month <= 2;
    int32_t era = year / 400, of_era = year % 400;
    int32_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t days = (int64_t)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
    *time_ns = (uint64_t)(((days * 24 + hour) * 60 + minute) * 60 + second) * UINT64_C(1000000000) + fraction;
    return true;
}

bool jsonline_read(struct jsonlines *known, const uint8_t *line, const uint8_t *end, uint8_t *to,
                   struct message *message) {
    if (!PASSED(&line, end, "{\"log\":\"")) return false;
    line = text_unescape(&to, line, end);
    if (!line || !PASSED(&line, end, "\",\"stream\":\"std")) return false;
    message->end = to;
    if (PASSED(&line, end, "out\","))
        message->stream = 1;
    else if (PASSED(&line, end, "err\","))
        message->stream = 2;
    else
        return false;
    message->attributes = known->attributes_size > 0 && passed(&line, end, known->attributes, known->attributes_size);
    if (!PASSED(&line, end, "\"time\":\"") || end - line < 2 || end[-1] != '}' || end[-2] != '"') return false;
    size_t size = (size_t)(end - 2 - line);
    if (size != known->time_size || memcmp(line, known->time, size) != 0) {
        if (!read_time(line, size, &known->time_ns)) {
            known->time_size = 0;
            return false;
        }
        memcpy(known->time, line, size);
        known->time_size = size;
    }
    message->time_ns = known->time_ns;
    return true;
}
