"""HTTP over a Unix socket: bodies of every framing, chunked requests, hijacked connections, a daemon that goes away."""

import pytest

from engine.client.door.destination import Destination
from engine.client.transport import Connection, parse_head
from engine.errors import SystemFailure, Unavailable

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        ([HEAD + b"Content-Length: 5\r\n\r\nhello"], b"hello"),
        ([HEAD + b"Content-Length: 5\r\n\r\nhe", b"llo"], b"hello"),
        ([HEAD + b"\r\nhel", b"lo"], b"hello"),
        ([CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"], b"hello"),
        ([CHUNKED, b"5\r", b"\nhel", b"lo\r\n", b"0\r\nTrailer: x\r\n\r\n"], b"hello"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"content-length:0\r\n\r\n"], b""),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
        ([b"HTTP/1.1 304 Not Modified\r\n\r\n"], b""),
    ],
)
def test_a_body_is_read_in_every_framing(canned, answer, body):
    canned.answers.append(answer)
    with Connection(canned.place).request("GET", "/x") as response:
        assert response.read() == body


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [b"HTTP/1.1 2"],
        [HEAD + b"Content-Length: 9\r\n\r\nhello"],
        [CHUNKED + b"9\r\nhello"],
        [CHUNKED + b"1\r\nx\r\n"],
    ],
)
def test_an_answer_that_is_cut_short_is_an_error(canned, answer):
    canned.answers.append(answer)
    with Connection(canned.place) as connection, pytest.raises(SystemFailure, match="closed the connection"):
        connection.request("GET", "/x").read()


def test_what_is_no_http_is_an_error():
    with pytest.raises(SystemFailure, match=r"not an HTTP answer: SSH-2\.0"):
        parse_head(b"SSH-2.0-x")


def test_a_head_keeps_its_headers_in_lower_case():
    assert parse_head(b"HTTP/1.1 101 UPGRADED\r\nUPGRADE: tcp\r\nA:b:c") == (101, {"upgrade": "tcp", "a": "b:c"})


def test_pieces_are_sent_chunked_and_bytes_with_their_length(canned):
    canned.answers += [[b"HTTP/1.1 204 x\r\n\r\n"]] * 2
    for body in (iter([b"he", b"", b"llo"]), b"hello"):
        with Connection(canned.place) as connection:
            connection.request("POST", "/x", {"A": "b"}, body)
    (streamed, chunks), (sized, whole) = canned.asked
    assert chunks == b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
    assert "Transfer-Encoding: chunked" in streamed
    assert "Content-Length" not in streamed
    assert (whole, "Content-Length: 5" in sized, "A: b" in sized) == (b"hello", True, True)


def test_progress_documents_come_one_by_one_however_they_are_cut(canned):
    canned.answers.append([CHUNKED + b'9\r\n{"a":1}\r\n\r\n', b'8\r\n\n{"a":2}\r\n', b"0\r\n\r\n"])
    with Connection(canned.place).request("POST", "/x") as response:
        assert list(response.documents()) == [{"a": 1}, {"a": 2}]


def test_a_hijacked_connection_comes_with_what_was_read_past_the_head(canned):
    canned.answers.append([b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\nearly"])
    response = Connection(canned.place).request("POST", "/x")
    assert (response.status, response.ready) == (101, True)
    connection, first = response.take_over()
    with connection:
        assert first == b"early"
        assert connection.recv(1) == b""


def test_a_missing_daemon_is_named_with_its_address(tmp_path):
    with pytest.raises(Unavailable, match=f"unix://{tmp_path}/none: No such file"):
        Connection(Destination("unix", path=f"{tmp_path}/none"))
