"""What is shown has no credentials of a URL, wherever the URL stands in it."""

import logging
import time

import pytest

from engine import errors, redact
from engine.daemon import loglines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:secret@git.test/x.git#main", "https://xxxxx:xxxxx@git.test/x.git#main"),
        ("https://secret@host/a.git", "https://xxxxx@host/a.git"),
        ("https://a:b@c:secret@host/a.git", "https://xxxxx:xxxxx@host/a.git"),
        ("http://:secret@h", "http://:xxxxx@h"),
        ("http://me:sec/ret@h/x", "http://xxxxx:xxxxx@h/x"),
        ("http://me:sec ret@h/x", "http://xxxxx:xxxxx@h/x"),
        *(
            (f"http://me:{odd}/ret@h/x", "http://xxxxx:xxxxx@h/x")
            for odd in ("1-2", "$ec", "12$", "1.2", "1:2", "${", "8o")
        ),
        ("ssh://git:secret@h/x", "ssh://git:xxxxx@h/x"),
        (
            'Get "http://u:secret@h/": moved to ftp://v:secret@i',
            'Get "http://xxxxx:xxxxx@h/": moved to ftp://xxxxx:xxxxx@i',
        ),
    ],
)
def test_credentials_are_hidden(text, shown):
    assert redact.redacted(text) == shown
    assert str(errors.NotFound(f"no {text}")) == f"no {shown}"
    assert redact.redacted(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("ssh://git@host/a", "git@host:a", "http://h/a@b", "a@b", "h", "", "http://[::1]:80/a@b", "http://[bad"),
        *("docker-image://busybox:latest@sha256:ab", "oci-layout://x@sha256:ab", 'Get "http://h:5000": by a@b'),
        *(
            "http://h:80 a@b",
            "http://@h",
            "curl 'http://h:8080' -u me@x",
            "http://h:80; mail a@b",
            "(see http://h:80) a@b",
        ),
        *(
            "http://h:80, ftp://i:21, a@b",
            "get http://h:80: a@b",
            "http://h:80. a@b",
            "`http://h:80` a@b",
            "<http://h:1> @",
        ),
        *(
            "curl http://h:${PORT}/x && npm install @scope/pkg",
            "http://$HOST:$PORT/x @scope/pkg",
            "http://h:${p:-80} @x",
        ),
        *(r"sh -c \"curl http://h:80\" a@b", "http://h:80|mail a @b", "http://h:80&& x @b", "['http://h:80', 'a@b']"),
    ],
)
def test_what_has_none_is_shown_whole(text):
    assert redact.redacted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("http://" * 10_000 + "@", "://a:b" * 10_000 + "@", "://" + ":" * 60_000 + " @", "://a:b " * 600_000 + "@"),
        *("://a:${b" * 100_000 + " @", "://a:$A" * 100_000 + " @", "://" + ":$A" * 60_000 + " @"),
        *("://a:b" * 100_000 + "\n@", ("://a:b " * 36 + '"@') * 10_000, ("://a:b " * 40 + " " * 300 + "@") * 5_000),
    ],
    ids=("schemes", "colons", "user", "far", "braces", "dollars", "users", "line", "quoted", "often"),
)
def test_a_hostile_text_takes_no_time(text):
    before = time.process_time()
    redact.redacted(text)
    assert time.process_time() - before < 2


def test_a_line_of_the_log_and_its_traceback_have_none():
    for form in (loglines.OneLine(loglines.FORMAT), loglines.Json()):
        try:
            raise ValueError("http://me:secret@h/")
        except ValueError as error:
            what = (type(error), error, error.__traceback__)
        line = form.format(logging.LogRecord("x", logging.INFO, "", 1, "see %s", ("http://me:secret@h/",), what))
        assert "secret" not in line and "http://xxxxx:xxxxx@h/" in line
