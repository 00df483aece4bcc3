"""engine.protocols.http: the parser takes what RFC 9112 allows, in any pieces, and refuses all else in one way."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.protocols.http import (
    HEAD_LIMIT,
    BadRequest,
    ChunkDecoder,
    end_of_head,
    field,
    parse_head,
    response_head,
    split_target,
)

HEAD = b"POST /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a:  2 \r\nContent-Length: 3\r\n\r\n"
TOKENS = st.text("abcXYZ0129-_!~", min_size=1, max_size=8)
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=12)
# Bytes that are nearly HTTP reach further into the parser than noise does.
NEARLY = st.lists(
    st.sampled_from(
        [b"GET ", b"/", b"http://h", b" HTTP/1.1", b"\r\n", b"\n", b"\r", b": ", b"Host", b"Content-Length: 5", b"0"]
        + [b"Transfer-Encoding: chunked", b"5;a=b", b"ffffffffffffffff", b"%zz", b"%41", b"\0", b"\xff", b" ", b"a"]
    )
    | st.binary(max_size=3),
    max_size=24,
).map(b"".join)


def parse(data: bytes):
    """The head at the start of `data`, or None while it is not whole."""
    end = end_of_head(data)
    return None if end < 0 else parse_head(data[:end])


def test_a_head_is_taken_apart():
    head = parse(HEAD + b"abc")
    assert (head.method, head.path, head.query, head.minor) == ("POST", "/a b", "x=1", 1)
    assert head.headers == {"host": "h", "x-a": "1, 2", "content-length": "3"}
    assert head.length == 3
    assert head.keep_alive
    assert not head.expects_continue


@given(TOKENS, st.lists(st.tuples(TOKENS, VALUES), max_size=5))
def test_whatever_is_written_as_a_head_is_read_back(method, fields):
    fields = [pair for pair in fields if pair[0].lower() not in ("content-length", "transfer-encoding")]
    data = f"{method} /x HTTP/1.1\r\n" + "".join(f"{name}:{value}\r\n" for name, value in fields) + "\r\n"
    head = parse(data.encode("latin-1"))
    expected: dict[str, str] = {}
    for name, value in fields:
        key = name.lower()
        expected[key] = f"{expected[key]}, {value}" if key in expected else value
    assert head.method == method
    assert head.headers == expected


@given(NEARLY)
def test_any_bytes_are_a_head_or_a_bad_request(data):
    with contextlib.suppress(BadRequest):
        parse(data)


@given(NEARLY, st.integers(0, 60))
def test_what_came_first_never_changes_what_a_head_is(data, cut):
    """A server that looks at each piece as it comes must decide as one that sees all at once."""

    def outcome(pieces):
        seen = b""
        for piece in pieces:
            seen += piece
            try:
                head = parse(seen)
            except BadRequest:
                return "bad"
            if head is not None:
                return (head.method, head.path, head.query, head.headers, head.length)
        return None

    whole = outcome([data])
    assert outcome([data[:cut], data[cut:]]) == whole
    assert outcome([data[each : each + 1] for each in range(len(data))]) == whole


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1 \r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\n: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: a\rb\r\n\r\n",
        b"GET nowhere HTTP/1.1\r\n\r\n",
        b"CONNECT host:80 HTTP/1.1\r\n\r\n",
        b"GET /%4 HTTP/1.1\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b" GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_head_that_could_be_read_in_two_ways_is_refused(data):
    with pytest.raises(BadRequest):
        parse(data)


def test_a_head_past_the_limit_is_refused_as_soon_as_it_is():
    start = b"GET / HTTP/1.1\r\nA: "
    assert end_of_head(start + b"a" * (HEAD_LIMIT - len(start) - 1)) == -1
    with pytest.raises(BadRequest):
        end_of_head(start + b"a" * (HEAD_LIMIT - len(start)))
    with pytest.raises(BadRequest):
        end_of_head(start + b"a" * HEAD_LIMIT + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("lines", "keep_alive"),
    [
        (b"HTTP/1.1\r\n", True),
        (b"HTTP/1.1\r\nConnection: close\r\n", False),
        (b"HTTP/1.1\r\nConnection: Upgrade, Close\r\n", False),
        (b"HTTP/1.1\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.0\r\n", False),
        (b"HTTP/1.0\r\nConnection: keep-alive\r\n", False),
    ],
)
def test_a_connection_is_kept_for_http_1_1_that_does_not_close_it(lines, keep_alive):
    assert parse(b"GET / " + lines + b"\r\n").keep_alive is keep_alive


@pytest.mark.parametrize(
    ("target", "split"),
    [
        ("/a?b=c?d", ("/a", "b=c?d")),
        ("http://docker/a", ("/a", "")),
        ("http://docker", ("/", "")),
        ("http+unix://%2Frun%2Fx.sock/v1.54/info?x", ("/v1.54/info", "x")),
        ("*", ("*", "")),
        ("/a%2Fb%C3%A9", ("/a/bé", "")),
        ("/a%ff", ("/a\ufffd", "")),
        ("/caf\xc3\xa9", ("/café", "")),
        ("//a", ("//a", "")),
    ],
)
def test_a_target_is_split_into_path_and_query(target, split):
    assert split_target(target) == split


def chunked(pieces: list[bytes], trailer: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n" + trailer + b"\r\n"


def decode(data: bytes, cuts: list[int]) -> tuple[bytes, bytes, bool]:
    """The payload, the bytes behind the body, and whether it ended, when `data` comes in pieces."""
    decoder = ChunkDecoder()
    payload, rest = b"", b""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        pieces, used = decoder.feed(data[start:end])
        payload += b"".join(pieces)
        rest += data[start + used : end]
    return payload, rest, decoder.ended


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 400), max_size=6), st.binary(max_size=10))
def test_a_chunked_body_is_the_same_however_it_is_cut(pieces, cuts, behind):
    data = chunked(pieces, b"A: b\r\n") + behind
    assert decode(data, cuts) == (b"".join(pieces), behind, True)
    assert decode(data, list(range(len(data)))) == (b"".join(pieces), behind, True)


@given(NEARLY, st.lists(st.integers(0, 60), max_size=4))
def test_any_bytes_are_chunks_or_a_bad_request_however_they_are_cut(data, cuts):
    def outcome(cuts):
        try:
            return decode(data, cuts)
        except BadRequest:
            return "bad"

    assert outcome(cuts) == outcome([])


@pytest.mark.parametrize(
    "data",
    [
        b"x\r\n",
        b"\r\n",
        b"-1\r\n",
        b"0x1\r\na\r\n",
        b" 1\r\na\r\n",
        b"1\na\r\n",
        b"1\r\nab\r\n",
        b"ffffffffffffffff\r\n",
        b"1;" + b"a" * 2000,
        b"0\r\nno field\r\n",
        b"0\r\n" + b"A: b\r\n" * 2000,
    ],
)
def test_a_bad_chunk_is_refused(data):
    with pytest.raises(BadRequest):
        decode(data, [])


def test_a_response_head_is_a_status_line_and_fields():
    assert response_head(204, field("A", "b")) == b"HTTP/1.1 204 No Content\r\nA: b\r\n\r\n"
    assert response_head(101, "").startswith(b"HTTP/1.1 101 UPGRADED\r\n")


def test_a_header_cannot_be_broken_out_of():
    with pytest.raises(ValueError, match="line end"):
        field("A", "b\r\nC: d")
