"""Searching: what is asked, what an index may answer, and what a client may filter."""

import json
import socket

import pytest

from engine.daemon.images.verbs.search import _split, search
from engine.errors import EngineError, Invalid, SystemFailure
from tests.harness.parts import settings
from tests.unit.images.fakeregistry import answer, serving

SETTINGS = settings()
FOUND = [
    {"name": "busybox", "description": "small", "star_count": 3000, "is_official": True, "is_automated": False},
    {"name": "me/busybox", "description": None, "star_count": 2, "is_automated": True, "is_trusted": True},
]


@pytest.fixture
def index():
    with serving() as served:
        document = {"num_results": 2, "query": "x", "results": FOUND}
        served.hook = lambda handler: (
            handler.path.startswith("/v1/search?") and answer(handler, 200, json.dumps(document).encode())
        )
        yield served


def ask(index, words: str = "busybox", limit: str = "", auth: dict | None = None, **filters: list[str]) -> list[dict]:
    named = {name.replace("_", "-"): values for name, values in filters.items()}
    return search(SETTINGS, f"{index.address}/{words}", limit, named, auth)


def test_what_an_index_finds(index):
    assert ask(index) == [
        {"star_count": 3000, "is_official": True, "name": "busybox", "is_automated": False, "description": "small"},
        {"star_count": 2, "is_official": False, "name": "me/busybox", "is_automated": False, "description": ""},
    ]
    assert index.asked[-1][1] == "/v1/search?q=busybox&n=25"


def test_words_and_limit_are_sent(index):
    ask(index, "a b/&c", "7")
    assert index.asked[-1][1] == "/v1/search?q=a+b%2F%26c&n=7"


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"is_official": ["true"]}, ["busybox"]),
        ({"is_official": ["0"]}, ["me/busybox"]),
        ({"stars": ["3"]}, ["busybox"]),
        ({"stars": ["1", "3001"]}, []),
        ({"is_automated": ["false"]}, ["busybox", "me/busybox"]),
        ({"is_automated": ["1"]}, []),
    ],
)
def test_filters(index, filters, names):
    assert [found["name"] for found in ask(index, **filters)] == names


@pytest.mark.parametrize(
    ("limit", "filters", "words"),
    [
        ("x", {}, 'invalid limit specified: strconv.Atoi: parsing "x": invalid syntax'),
        ("101", {}, "limit 101 is outside the range of [1, 100]"),
        ("-1", {}, "limit -1 is outside the range of [1, 100]"),
        ("", {"foo": ["x"]}, "invalid filter 'foo'"),
        ("", {"is_official": ["x"]}, "invalid filter 'is-official=[x]'"),
        ("", {"is_official": ["true", "false"]}, "invalid filter 'is-official=[true false]'"),
        ("", {"is_automated": ["x"]}, "invalid filter 'is-automated=[x]'"),
        ("", {"stars": ["x"]}, "invalid filter 'stars=x': strconv.Atoi: parsing \"x\": invalid syntax"),
    ],
)
def test_what_is_refused_before_anybody_is_asked(index, limit, filters, words):
    with pytest.raises(Invalid) as failure:
        ask(index, "x", limit, **filters)
    assert str(failure.value) == words
    assert not index.asked


@pytest.mark.parametrize(
    ("term", "host", "words"),
    [
        ("busybox", "index.docker.io", "busybox"),
        ("library/busybox", "index.docker.io", "busybox"),
        ("me/busybox", "index.docker.io", "me/busybox"),
        ("docker.io/library/busybox", "index.docker.io", "busybox"),
        ("localhost/a/b", "localhost", "a/b"),
        ("r.example:5000/a", "r.example:5000", "a"),
    ],
)
def test_whom_to_ask(term, host, words):
    assert _split(term) == (host, words)


@pytest.mark.parametrize("term", ["https://r.example/x", "a b.c/x", "-a.b/x", "u@h.example/x", "a.b?c/x"])
def test_terms_that_name_no_host(term):
    with pytest.raises(EngineError):
        search(SETTINGS, term, "", {}, None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"<html>",
        b'{"results": 1}',
        b'{"results": [1]}',
        b'{"results": [{"star_count": true}]}',
        b'{"results": [{"name": ["a"]}]}',
        b'{"results": [' + b" " * (5 << 20) + b"]}",
        b"[" * 100_000,
    ],
)
def test_answers_that_are_none(index, body):
    index.hook = lambda handler: handler.path.startswith("/v1/") and answer(handler, 200, body)
    with pytest.raises(SystemFailure, match="search"):
        ask(index)


def test_a_registry_that_is_no_index(index):
    index.hook = lambda handler: False
    with pytest.raises(SystemFailure, match=r"^Unexpected status code 404$"):
        ask(index)


def test_an_index_that_asks_for_a_password(index):
    honest = index.hook
    index.hook = lambda handler: (
        honest(handler)
        if handler.headers.get("Authorization") == "Basic dTpw" or handler.path == "/v2/"
        else answer(handler, 401, WWW_Authenticate='Basic realm="x"')
    )
    assert len(ask(index, auth={"username": "u", "password": "p"})) == 2


def test_nobody_there(index):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(Invalid) as failure:
            search(SETTINGS, f"{address}/x", "", {}, None)
    refused = f'://{address}/v1/_ping": dial tcp {address}: connect: connection refused'
    assert str(failure.value) == (
        f'invalid registry endpoint "http://{address}/v1/".'
        f' HTTPS attempt: Get "https{refused}. HTTP attempt: Get "http{refused}'
    )
