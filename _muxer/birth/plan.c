/* Walks a plan: reads its records, does their steps in order, and tells of the step that fails (engine/birth/process.py).
 */
#include "birth/birth.h"

#include "muxer.h"
#include "wire.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_SIZE 8
#define MOST_CHARACTERS 1000 /* of the words of a failure */

static const struct {
    int (*step)(struct birth *birth);
    const char *name;
    bool ahead; /* an init that was prepared ahead has done it already */
} steps[] = {
#define STEP_ROW(number, function, name, ahead) [number] = {do_##function, name, ahead},
    WIRE_PLAN_STEPS(STEP_ROW)
#undef STEP_ROW
};

static bool take(struct cursor *from, void *to, size_t size) {
    if (from->broken || (size_t)(from->end - from->at) < size) {
        from->broken = true;
        return false;
    }
    memcpy(to, from->at, size);
    from->at += size;
    return true;
}

int64_t number(struct cursor *from) {
    int64_t value;
    return take(from, &value, sizeof value) ? value : 0;
}

const uint8_t *blob(struct cursor *from, uint32_t *size) {
    if (!take(from, size, sizeof *size) || (size_t)(from->end - from->at) <= *size || from->at[*size] != 0) {
        from->broken = true;
        *size = 0;
        return (const uint8_t *)"";
    }
    const uint8_t *value = from->at;
    from->at += *size + 1;
    return value;
}

const char *text(struct cursor *from) {
    uint32_t size;
    return (const char *)blob(from, &size);
}

const char *words_of(int failed, char *to, size_t size) {
    const char *words = NULL;
    switch (abs(failed)) {
#define REASON_ROW(number, said) \
    case number: words = said; break;
        WIRE_REASONS(REASON_ROW)
#undef REASON_ROW
    }
    snprintf(to, size, "%s", words ? words : strerror(abs(failed)));
    for (char *place = to; *place; place++) *place = (char)tolower((unsigned char)*place);
    return to;
}

int refuse(struct birth *birth, int number, int status, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(birth->said, sizeof birth->said, format, values);
    va_end(values);
    birth->number = number;
    birth->status = status;
    return REFUSED;
}

int failure_at(struct birth *birth, const char *path, int failed) {
    char reason[128];
    size_t length = strlen(path);
    while (length > 0 && *path == '/') path++, length--;
    while (length > 0 && path[length - 1] == '/') length--;
    return refuse(birth, -failed, BIRTH_FAILED, "%s: %.*s %s", birth->step, (int)length, path,
                  words_of(failed, reason, sizeof reason));
}

int system_failure(struct birth *birth, int failed, const char *before) {
    char reason[128];
    return refuse(birth, -failed, BIRTH_FAILED, "%s%s", before, words_of(failed, reason, sizeof reason));
}

/* Reads one character of UTF-8; a byte that begins none is what Python's surrogateescape makes of it. */
static uint32_t character(const uint8_t **at) {
    const uint8_t *text = *at;
    uint32_t first = text[0], more = first >= 0xf0 && first < 0xf5 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
    if (first < 0x80) return (*at)++, first;
    uint32_t code = more == 3 ? first & 7 : more == 2 ? first & 15 : first & 31;
    bool whole = more > 0 && first < 0xf5;
    for (uint32_t i = 1; whole && i <= more; i++) {
        whole = (text[i] & 0xc0) == 0x80;
        code = code << 6 | (text[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (!whole || code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return (*at)++, 0xdc00 + first;
    *at += more + 1;
    return code;
}

size_t put_quoted(char *to, size_t size, const char *text, size_t most) {
    const uint8_t *at = (const uint8_t *)text;
    size_t done = 0;
    for (; *at && most > 0 && done + 13 < size; most--) {
        uint32_t code = character(&at);
        if (code == '"' || code == '\\')
            done += (size_t)sprintf(to + done, "\\%c", (char)code);
        else if (code >= 0x20 && code < 0x7f)
            to[done++] = (char)code;
        else if (code < 0x10000)
            done += (size_t)sprintf(to + done, "\\u%04x", (unsigned)code);
        else
            done += (size_t)sprintf(to + done, "\\u%04x\\u%04x", 0xd800 + (unsigned)((code - 0x10000) >> 10),
                                    0xdc00 + (unsigned)((code - 0x10000) & 0x3ff));
    }
    to[done] = 0;
    return done;
}

void warn(struct birth *birth, const char *format, ...) {
    char said[1024], quoted[4096], told[sizeof quoted + 128] = {WIRE_WARNED};
    va_list values;
    va_start(values, format);
    vsnprintf(said, sizeof said, format, values);
    va_end(values);
    put_quoted(quoted, sizeof quoted, said, MOST_CHARACTERS);
    int size = birth->joins ? snprintf(told + 1, sizeof told - 1, WIRE_WARNING, quoted)
                            : snprintf(told + 1, sizeof told - 1, "%s", said);
    send(birth->report, told, (size_t)size + 1, MSG_NOSIGNAL);
}

/* Sends the message Failed of engine.wire.schema. */
static void tell_failure(struct birth *birth) {
    char quoted[6 * MOST_CHARACTERS + 64], told[sizeof quoted + 256] = {WIRE_FAILED};
    put_quoted(quoted, sizeof quoted, birth->said, MOST_CHARACTERS);
    int size = snprintf(told + 1, sizeof told - 1, WIRE_FAILURE, birth->step, (int64_t)birth->number, quoted,
                        (int64_t)birth->status);
    send(birth->report, told, (size_t)size + 1, MSG_NOSIGNAL);
}

int walk(struct birth *birth, const uint8_t *plan, size_t size) {
    struct cursor rest = {plan, plan + size, false};
    struct cursor outer = birth->fields; /* a step may walk a plan of its own */
    const char *step = birth->step;
    while (rest.at < rest.end) {
        uint32_t head[2];
        const uint8_t *record = rest.at;
        if (!take(&rest, head, sizeof head) || head[0] < HEAD_SIZE || head[0] > (size_t)(rest.end - record)) break;
        if (head[1] >= sizeof steps / sizeof *steps || !steps[head[1]].step) break;
        rest.at = record + head[0];
        if (birth->staged && steps[head[1]].ahead) continue;
        birth->step = steps[head[1]].name;
        birth->fields = (struct cursor){record + HEAD_SIZE, rest.at, false};
        int failed = steps[head[1]].step(birth);
        if (failed == 0 && birth->fields.broken) failed = -EBADMSG;
        if (failed == REFUSED) return REFUSED;
        if (failed < 0) {
            char reason[128];
            words_of(failed, reason, sizeof reason);
            return refuse(birth, -failed, BIRTH_FAILED, "%s: %s", birth->step, reason);
        }
    }
    birth->fields = outer;
    if (rest.at == rest.end) {
        birth->step = step;
        return 0;
    }
    birth->step = "monitor";
    return refuse(birth, EBADMSG, BIRTH_FAILED, "a plan of another version of the engine");
}

void be_born(struct birth *birth, const uint8_t *plan, size_t size) {
    birth->step = "monitor";
    if (birth->staged) birth->ready = true;
    if (walk(birth, plan, size) == 0) refuse(birth, 0, BIRTH_FAILED, "%s: the plan has no command", birth->step);
    /* A failure after N is told only after P was received (engine.wire.report). */
    if (birth->ready) do_WAIT(birth);
    tell_failure(birth);
    _exit(birth->status);
}

void mux_be_born(const uint8_t *plan, size_t size, const uint8_t *furniture, size_t furniture_size, const char *place,
                 const int *stdio, int report) {
    static const char ready = WIRE_READY;
    struct birth birth;
    begin_birth(&birth, report, stdio);
    birth.furniture = furniture;
    birth.furniture_size = furniture_size;
    if (place) {
        if (do_SECLUDE(&birth) || be_staged(&birth, place)) _exit(BIRTH_FAILED);
        send(report, &ready, 1, MSG_NOSIGNAL);
    }
    be_born(&birth, plan, size);
}
