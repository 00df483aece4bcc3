/* Text as a line of JSON has it: escaped as Go's encoding/json does it, and back. Internal to the muxer. */
#ifndef MUXER_TEXT_H
#define MUXER_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define LONGEST_ESCAPE 6u

/* Writes the text as Go's encoding/json does, each byte that is no UTF-8 as U+FFFD. `to` has room for LONGEST_ESCAPE
 * times its size. Returns the end of what was written. */
uint8_t *text_escape(uint8_t *to, const uint8_t *from, size_t size);

/* Reads a JSON string, whose opening quote is before `from`, up to its closing quote; `to` has room for what is left of
 * it. Returns the place of that quote and sets *to to the end of the text; NULL for what Go never writes: a control
 * character, an escape that there is not, bytes that are no UTF-8, no closing quote. */
const uint8_t *text_unescape(uint8_t **to, const uint8_t *from, const uint8_t *end);

#endif
