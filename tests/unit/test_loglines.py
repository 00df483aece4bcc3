"""A message of the daemon's log is one line."""

import json
import logging
import sys

import pytest

from engine.daemon import busy, loglines
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


def test_a_line_in_json_has_dockerds_keys():
    record = logging.LogRecord("engine.x", logging.WARNING, "", 0, "found:\n%s", ("x",), None)
    record.created = 1.5
    assert json.loads(loglines.Json().format(record)) == {
        "level": "warning",
        "logger": "engine.x",
        "msg": "found:\nx",
        "time": "1970-01-01T00:00:01.5Z",
    }


def test_a_line_in_json_is_one_line_whatever_it_tells():
    try:
        raise ValueError("a\nb")
    except ValueError:
        record = logging.LogRecord("engine.x", logging.CRITICAL, "", 0, "c\nd\x1b", (), sys.exc_info())
    text = loglines.Json().format(record)
    assert len(text.splitlines()) == 1 and "\x1b" not in text
    assert json.loads(text)["level"] == "fatal" and json.loads(text)["error"].endswith("ValueError: a\nb")


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ("", '""'),
        ('a "b"\n\x1b[31m\u2028', r'"a \"b\"\n\u001b[31m\u2028"'),
        ("größer", '"größer"'),
    ],
)
def test_a_line_of_keys_and_values_is_as_dockerds(text, quoted):
    record = logging.LogRecord("engine.x", logging.WARNING, "", 0, "%s", (text,), None)
    record.created = 1.5
    line = loglines.KeyValue().format(record)
    assert line == f'time="1970-01-01T00:00:01.5Z" level=warning msg={quoted} logger=engine.x'


CONTAINER = "0123456789ab" + "c" * 52


@pytest.fixture
def web():
    """A daemon's only container, called web."""
    loglines.name_by(lambda asked: (CONTAINER, "web") if asked in (CONTAINER, "web", "0123") else None)
    yield
    loglines.name_by(lambda _: None)


def line(text, *arguments):
    """What is logged of this message, from the logger's name on."""
    record = logging.LogRecord("engine.x", logging.INFO, "", 0, text, arguments, None)
    return OneLine(FORMAT).format(record).partition("INFO ")[2]


def test_a_line_about_a_container_has_twelve_digits_of_its_id_and_its_name(web):
    assert line("container %s: it ends", CONTAINER) == "engine.x: container 0123456789ab web: it ends"
    assert line("container %s was not found", CONTAINER) == "engine.x: container 0123456789ab web was not found"
    assert line("container %s: it ends", "f" * 64) == f"engine.x: container {'f' * 12}: it ends"
    assert line("no container %s", CONTAINER) == f"engine.x: no container {CONTAINER}"


def test_a_line_that_is_logged_while_a_request_is_served_names_it(web):
    busy.serve("POST", "/containers/web/start")
    try:
        number = busy.now().number
        assert line("bad") == f"engine.x: [request {number} POST /containers/web/start] bad"
        busy.concern("web")
        begin = f"engine.x: [request {number} POST /containers/web/start] container 0123456789ab web: "
        assert line("bad") == f"{begin}bad"
        assert line("container %s: bad", CONTAINER) == f"{begin}bad"
    finally:
        busy.rest()
    assert line("bad") == "engine.x: bad"


def test_what_a_client_has_put_into_its_request_forges_no_line(web):
    busy.serve("POST", "/x\n2026-01-01 ERROR engine: forged" + "y" * 1000)
    try:
        text = line("bad")
    finally:
        busy.rest()
    assert r"/x\n2026-01-01 ERROR engine: forgedyyy" in text and "\n" not in text and len(text) < 300


def test_work_in_the_background_names_its_container(web):
    with busy.about("0123", "probe"):
        assert line("bad") == "engine.x: container 0123456789ab web: bad"
