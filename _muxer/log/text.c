/* Escapes text for a line of JSON, and back: the C version of `escape` in engine/logs/jsonwriter.py, and of what
 * engine/logs/jsonlines.py has from Python's json.
 *
 * Most text stands for itself. It is copied sixteen bytes at a time while it is searched, or eight where the compiler
 * has no such vectors. */
#include "log/text.h"

#include <stdbool.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Whether the byte stands for itself in a JSON string; Go also escapes what is special in HTML. */
static inline bool plain(uint8_t byte, bool html) {
    if (html && (byte == '&' || byte == '<' || byte == '>')) return false;
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

#ifdef __SSE2__
#define STEP 16u

/* One bit for each of the bytes that is not plain, the first byte's is the lowest. */
static inline unsigned special(uint8_t *to, const uint8_t *from, bool html) {
    __m128i bytes = _mm_loadu_si128((const void *)from);
    __m128i found = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20)); /* signed: those from 0x80 on are too */
    found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    if (html) {
        found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('&')));
        /* '<' and '>' differ in one bit. */
        __m128i joined = _mm_or_si128(bytes, _mm_set1_epi8('<' ^ '>'));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(joined, _mm_set1_epi8('>')));
    }
    _mm_storeu_si128((void *)to, bytes);
    return (unsigned)_mm_movemask_epi8(found);
}

static inline size_t first(unsigned found) { return (size_t)__builtin_ctz(found); }
#else
#define STEP 8u
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t zeros(uint64_t bytes) { return (bytes - EACH(1)) & ~bytes & EACH(0x80); }

/* Not 0 if one of the bytes is not plain. */
static inline uint64_t special(uint8_t *to, const uint8_t *from, bool html) {
    uint64_t bytes, found;
    memcpy(&bytes, from, sizeof bytes);
    found = (bytes & EACH(0x80)) | ((bytes - EACH(0x20)) & ~bytes & EACH(0x80));
    found |= zeros(bytes ^ EACH('"')) | zeros(bytes ^ EACH('\\'));
    if (html) found |= zeros(bytes ^ EACH('&')) | zeros((bytes | EACH('<' ^ '>')) ^ EACH('>'));
    memcpy(to, &bytes, sizeof bytes);
    return found;
}

static inline size_t first(uint64_t found) {
    (void)found; /* the search below says which byte it is */
    return 0;
}
#endif

/* Copies bytes up to the first that is not plain; returns how many these are. It may write as many as there are. */
static inline size_t copy_plain(uint8_t *to, const uint8_t *from, size_t size, bool html) {
    size_t done = 0;
    while (size - done >= STEP) {
        __typeof__(special(to, from, html)) found = special(to + done, from + done, html);
        if (found) {
            done += first(found);
            break;
        }
        done += STEP;
    }
    while (done < size && plain(from[done], html)) {
        to[done] = from[done];
        done++;
    }
    return done;
}

/* The size of the UTF-8 character (RFC 3629) of several bytes that begins here, 0 when none does. */
static unsigned character(const uint8_t *from, const uint8_t *end) {
    unsigned first = from[0], size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint8_t low = 0x80, high = 0xbf; /* of the second byte */
    if (first < 0xc2 || first > 0xf4 || (size_t)(end - from) < size) return 0;
    if (first == 0xe0) low = 0xa0; /* overlong */
    if (first == 0xed) high = 0x9f; /* surrogates */
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f; /* past U+10FFFF */
    if (from[1] < low || from[1] > high) return 0;
    for (unsigned i = 2; i < size; i++)
        if ((from[i] & 0xc0) != 0x80) return 0;
    return size;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t size) {
    memcpy(to, bytes, size);
    return to + size;
}

#define PUT(to, text) put(to, text, sizeof(text) - 1)

uint8_t *text_escape(uint8_t *to, const uint8_t *from, size_t size) {
    static const char HEX[] = "0123456789abcdef";
    const uint8_t *end = from + size;
    for (;;) {
        size_t copied = copy_plain(to, from, (size_t)(end - from), true);
        to += copied;
        from += copied;
        if (from == end) return to;
        uint8_t byte = *from;
        if (byte < 0x80) {
            from++;
            *to++ = '\\';
            if (byte == '"' || byte == '\\') {
                *to++ = byte;
            } else if (byte == '\r') {
                *to++ = 'r';
            } else {
                to = PUT(to, "u00");
                *to++ = (uint8_t)HEX[byte >> 4];
                *to++ = (uint8_t)HEX[byte & 15];
            }
            continue;
        }
        do { /* text of another script goes on in it */
            unsigned length = character(from, end);
            if (length == 0) {
                to = PUT(to, "\\ufffd");
                length = 1;
            } else if (length == 3 && from[0] == 0xe2 && from[1] == 0x80 && (from[2] & 0xfe) == 0xa8) {
                to = from[2] == 0xa8 ? PUT(to, "\\u2028") : PUT(to, "\\u2029");
            } else {
                to = put(to, from, length);
            }
            from += length;
        } while (from < end && *from >= 0x80);
    }
}

/* The number in four hexadecimal digits, -1 for others. */
static int32_t four_digits(const uint8_t *from, const uint8_t *end) {
    int32_t number = 0;
    if (end - from < 4) return -1;
    for (unsigned i = 0; i < 4; i++) {
        uint8_t digit = from[i], letter = digit | 0x20;
        if (digit >= '0' && digit <= '9')
            number = number * 16 + digit - '0';
        else if (letter >= 'a' && letter <= 'f')
            number = number * 16 + letter - 'a' + 10;
        else
            return -1;
    }
    return number;
}

static uint8_t *put_character(uint8_t *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (uint8_t)code;
        return to;
    }
    if (code < 0x800) {
        *to++ = (uint8_t)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (uint8_t)(0xe0 | code >> 12);
        } else {
            *to++ = (uint8_t)(0xf0 | code >> 18);
            *to++ = (uint8_t)(0x80 | (code >> 12 & 0x3f));
        }
        *to++ = (uint8_t)(0x80 | (code >> 6 & 0x3f));
    }
    *to++ = (uint8_t)(0x80 | (code & 0x3f));
    return to;
}

/* Reads the escape behind a backslash; returns its end, or NULL. */
static const uint8_t *unescape_one(uint8_t **to, const uint8_t *from, const uint8_t *end) {
    static const char NAMES[] = "\"\\/bfnrt", BYTES[] = "\"\\/\b\f\n\r\t";
    if (from == end) return NULL;
    uint8_t name = *from++;
    if (name != 'u') {
        const char *found = memchr(NAMES, name, sizeof NAMES - 1);
        if (!found) return NULL;
        *(*to)++ = (uint8_t)BYTES[found - NAMES];
        return from;
    }
    int32_t code = four_digits(from, end);
    if (code < 0) return NULL;
    from += 4;
    if (code >= 0xd800 && code < 0xdc00 && end - from >= 6 && from[0] == '\\' && from[1] == 'u') {
        int32_t low = four_digits(from + 2, end);
        if (low < 0) return NULL;
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            from += 6;
        }
    }
    *to = put_character(*to, code >= 0xd800 && code < 0xe000 ? 0xfffd : (uint32_t)code);
    return from;
}

const uint8_t *text_unescape(uint8_t **to, const uint8_t *from, const uint8_t *end) {
    for (;;) {
        size_t copied = copy_plain(*to, from, (size_t)(end - from), false);
        *to += copied;
        from += copied;
        if (from == end) return NULL;
        if (*from == '"') return from;
        if (*from == '\\') {
            from = unescape_one(to, from + 1, end);
            if (!from) return NULL;
        } else {
            unsigned length = *from >= 0x80 ? character(from, end) : 0;
            if (length == 0) return NULL;
            *to = put(*to, from, length);
            from += length;
        }
    }
}
