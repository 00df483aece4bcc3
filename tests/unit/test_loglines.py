"""A message of the daemon's log is one line."""

import logging
import sys

from engine.daemon.loglines import FORMAT, OneLine


def shown(text, error=None):
    record = logging.LogRecord("engine.x", logging.INFO, "", 0, "found: %s", (text,), error)
    return OneLine(FORMAT).format(record)


def test_a_message_with_line_ends_and_escapes_is_one_harmless_line():
    text = shown("x\n2026-01-01 ERROR engine: forged\r\x1b[31m\x9b\u2028\t")
    assert text.endswith(r"INFO engine.x: found: x\n2026-01-01 ERROR engine: forged\r\x1b[31m\x9b\u2028\t")


def test_what_can_be_printed_is_left_as_it_is():
    assert shown("größer 大 'a' \\ x").endswith("found: größer 大 'a' \\ x")


def test_a_traceback_keeps_its_lines():
    try:
        raise ValueError("x")
    except ValueError:
        text = shown("a\nb", sys.exc_info())
    assert r"found: a\nb" in text and text.endswith("\nValueError: x")
