"""engine.daemon.api.connection: requests and answers on one connection, over a real socket pair."""

import itertools
import os
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.daemon.api import connection
from engine.daemon.api.answers import Empty, Json, Text
from engine.daemon.api.connection import Connection
from engine.daemon.api.streams import ClientGone
from engine.errors import Invalid
from engine.settings.advertised import REPORTED_VERSION

GET = b"GET /a HTTP/1.1\r\n\r\n"


def echo(request):
    """What was asked, and how long the body was."""
    return Json([request.method, request.path, len(request.body.read())])


def ignore_body(request):
    return Text(request.path)


def test_one_connection_serves_request_after_request(connect):
    client = connect(echo)
    for number in range(3):
        assert client.ask("POST", f"/{number}", b"x" * number)[2] == ["POST", f"/{number}", number]


def test_requests_sent_in_one_go_are_answered_in_order(connect):
    client = connect(echo)
    client.send(b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nxy" + b"\r\n" + GET)
    client.send(b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n\r\n" + GET)
    assert [client.answer()[2] for _ in range(4)] == [
        b'["POST","/a",2]\n',
        b'["GET","/a",0]\n',
        b'["POST","/b",1]\n',
        b'["GET","/a",0]\n',
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=8))
def test_the_answers_are_the_same_however_the_requests_are_cut(cuts):
    data = (
        b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nxy"
        b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nA: b\r\n\r\n"
        b"GET /c HTTP/1.1\r\nConnection: close\r\n\r\n"
    )
    near, far = socket.socketpair()
    thread = threading.Thread(target=lambda: Connection(far, echo, lambda: False).serve() and far.close(), daemon=True)
    thread.start()
    with near:
        edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
        for start, end in itertools.pairwise(edges):
            near.sendall(data[start:end])
        answers = b"".join(iter(lambda: near.recv(65536), b""))
    thread.join(10)
    assert [part.splitlines()[0] for part in answers.split(b"\r\n\r\n")[1:]] == [
        b'["POST","/a",2]',
        b'["POST","/b",4]',
        b'["GET","/c",0]',
    ]


def test_every_answer_says_who_answers(connect):
    client = connect(ignore_body)
    for data in (GET, b"nonsense\r\n\r\n"):
        client.send(data)
        _, headers, _ = client.answer()
        assert headers["api-version"] == "1.54"
        assert headers["ostype"] == "linux"
        assert headers["docker-experimental"] == "false"
        assert headers["server"].startswith("Docker/29.")
        assert headers["date"].endswith(" GMT")


@pytest.mark.parametrize("data", [b"GET /\r\n\r\n", b"GET / HTTP/1.1\nA: b\n\n", b"GET /" + b"a" * 100_000])
def test_a_bad_request_is_told_and_ends_the_connection(connect, data):
    client = connect(echo)
    client.send(data)
    status, headers, body = client.answer()
    assert (status, headers["connection"], headers["content-type"]) == (400, "close", "application/json")
    assert b'"message"' in body
    client.finish_sending()
    assert client.is_closed()


def test_a_bad_chunk_is_a_bad_request_for_the_handler_and_ends_the_connection(connect):
    def tell(request):
        try:
            return echo(request)
        except Invalid as error:
            return Json({"message": str(error)}, 400)

    client = connect(tell)
    client.send(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + GET)
    status, headers, body = client.answer()
    assert (status, headers["connection"]) == (400, "close")
    assert b"invalid chunk size" in body
    client.finish_sending()
    assert client.is_closed()


def test_a_body_cut_short_is_an_error_and_no_request_follows(connect):
    seen = []

    def read(request):
        with pytest.raises(Invalid, match="unexpected EOF"):
            request.body.read()
        seen.append(request.path)
        return Empty()

    client = connect(read)
    client.send(b"POST /a HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")
    client.finish_sending()
    assert client.answer()[0] == 204
    assert client.is_closed()
    assert seen == ["/a"]


def test_an_unread_body_is_passed_over_before_the_next_request(connect):
    client = connect(ignore_body)
    client.send(b"POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello" + GET)
    client.send(b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + GET)
    assert [client.answer()[2] for _ in range(4)] == [b"/a", b"/a", b"/b", b"/a"]


def test_an_unread_body_too_large_to_pass_over_ends_the_connection(connect):
    client = connect(ignore_body)
    client.send(b"POST /a HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 100_000)
    status, headers, _ = client.answer()
    assert (status, headers["connection"]) == (200, "close")
    client.finish_sending()
    assert client.is_closed()


def test_a_client_can_send_a_large_body_that_nobody_reads_and_still_gets_its_answer(connect, monkeypatch):
    monkeypatch.setattr(connection, "_LINGER_SECONDS", 30.0)  # between two pieces of it
    client = connect(ignore_body)
    client.send(b"POST /a HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n" + b"x" * 4_000_000)
    assert client.answer()[2] == b"/a"


def test_continue_is_said_when_the_body_is_asked_for(connect):
    client = connect(echo)
    client.send(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert client.line() == b"HTTP/1.1 100 Continue"
    assert client.line() == b""
    client.send(b"ab" + GET)
    assert client.answer()[2] == b'["POST","/",2]\n'
    assert client.answer()[0] == 200


def test_a_request_refused_from_its_head_costs_no_body(connect):
    client = connect(lambda request: Json({"message": "no"}, 403))
    client.send(b"POST / HTTP/1.1\r\nContent-Length: 2000000000\r\nExpect: 100-continue\r\n\r\n")
    status, headers, _ = client.answer()
    assert (status, headers["connection"]) == (403, "close")
    client.finish_sending()
    assert client.is_closed()


def test_continue_is_not_said_to_one_who_did_not_wait(connect):
    client = connect(echo)
    client.send(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nab")
    assert client.answer()[2] == b'["POST","/",2]\n'


def test_a_half_closed_client_gets_its_answer(connect):
    client = connect(echo)
    client.send(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab")
    client.finish_sending()
    assert client.answer()[2] == b'["POST","/",2]\n'
    assert client.is_closed()


@pytest.mark.parametrize("lines", [b"HTTP/1.0\r\n", b"HTTP/1.1\r\nConnection: close\r\n"])
def test_a_client_that_wants_the_connection_closed_has_it_closed(connect, lines):
    client = connect(ignore_body)
    client.send(b"GET /a " + lines + b"\r\n")
    status, headers, body = client.answer()
    assert (status, headers["connection"], body) == (200, "close", b"/a")
    assert client.is_closed()


def test_head_has_the_length_and_not_the_body(connect):
    client = connect(ignore_body)
    client.send(b"HEAD /abc HTTP/1.1\r\n\r\n")
    status, headers, _ = client.answer(to_head=True)
    assert (status, headers["content-length"]) == (200, "4")
    assert client.ask("GET", "/next")[2] == b"/next"


@pytest.mark.parametrize("status", [204, 304])
def test_an_empty_answer_says_nothing_of_a_body(connect, status):
    client = connect(lambda request: Empty(status))
    client.send(GET + GET)
    for _ in range(2):
        got, headers, _ = client.answer()
        assert got == status
        assert not {"content-length", "content-type", "transfer-encoding"} & set(headers)


def test_a_stream_is_sent_in_chunks_as_it_is_written(connect):
    going_on = threading.Event()

    def stream(request):
        with request.stream(200, "application/json", (("X-A", "b"),)) as out:
            out.json({"a": 1})
            assert going_on.wait(10)
            out.write(b"")
            out.write(b"two")

    client = connect(stream)
    client.send(GET)
    status, headers = client.head()
    assert (status, headers["transfer-encoding"], headers["x-a"]) == (200, "chunked", "b")
    assert (client.line(), client.bytes(9), client.line()) == (b"9", b'{"a":1}\r\n', b"")
    going_on.set()
    assert client.chunks() == [b"two"]
    client.send(GET)
    assert client.answer()[2] == b'{"a":1}\r\ntwo'


def test_a_stream_for_http_1_0_ends_with_the_connection(connect):
    def stream(request):
        with request.stream(200, "text/plain") as out:
            assert not out.raw_chunks
            out.write(b"one")

    client = connect(stream)
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    _, headers, body = client.answer()
    assert "transfer-encoding" not in headers
    assert body == b"one"


def test_whoever_takes_a_streams_descriptor_writes_the_rest_himself(connect):
    def stream(request):
        with request.stream(200, "text/plain") as out:
            assert out.raw_chunks
            with socket.socket(fileno=socket.dup(out.fileno())) as direct:
                direct.sendall(b"2\r\nhi\r\n0\r\n\r\n")

    client = connect(stream)
    client.send(GET + GET)
    assert client.answer()[2] == b"hi"
    assert client.answer()[2] == b"hi"


def test_a_stream_that_fails_is_cut_off_without_its_last_chunk(connect):
    def fail(request):
        with pytest.raises(Invalid), request.stream(200, "text/plain") as out:
            out.write(b"one")
            raise Invalid("late")
        request.abort()

    client = connect(fail)
    client.send(GET)
    client.head()
    assert client.rest() == b"3\r\none\r\n"
    assert client.is_closed()


@pytest.mark.parametrize(
    ("ask", "status"),
    [(b"Connection: Upgrade\r\nUpgrade: tcp\r\n", 101), (b"", 200), (b"Upgrade: tcp\r\n", 101)],
)
def test_a_hijacked_connection_is_the_handlers_and_nothing_of_it_was_read(connect, ask, status):
    def take(request):
        with request.hijack(True, "application/x-multiplexed") as peer:
            peer.sendall(b"<")
            while data := peer.recv(100):
                peer.sendall(data)
            peer.sendall(b">")

    client = connect(take)
    client.send(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n" + ask + b"\r\n{}early ")
    assert client.head() == (status, client_headers(status))
    client.send(b"late")
    client.finish_sending()
    assert client.rest() == b"<early late>"


def test_a_stream_may_be_further_ahead_of_its_client_than_an_answer(connect):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ordinary:
        usual = ordinary.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    found = []

    def take(request):
        if request.path == "/stream":
            with request.stream(200, "text/plain") as body, socket.socket(fileno=os.dup(body.fileno())) as peer:
                found.append(peer.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
            return
        with request.hijack(True) as peer:
            found.append(peer.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))

    client = connect(take)
    client.send(b"GET /stream HTTP/1.1\r\n\r\n")
    client.head()
    client.send(b"POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
    client.rest()
    assert len(found) == 2
    assert all(room > usual for room in found)


def client_headers(status: int) -> dict[str, str]:
    upgraded = {"content-type": "application/x-multiplexed", "connection": "Upgrade", "upgrade": "tcp"}
    identity = {
        "api-version": "1.54",
        "docker-experimental": "false",
        "ostype": "linux",
        "server": f"Docker/{REPORTED_VERSION} (linux)",
    }
    plain = {"content-type": "application/vnd.docker.raw-stream"}
    return {**(upgraded if status == 101 else plain), **identity}


def test_a_client_that_hangs_up_is_noticed_and_one_that_only_stops_sending_is_not(connect):
    looked = threading.Barrier(2, timeout=10)
    seen = []

    def wait(request):
        for _ in range(3):
            looked.wait()
            seen.append(request.gone())
            looked.wait()
        return Empty()

    client = connect(wait)
    client.send(GET)
    for act in (lambda: None, client.finish_sending, client.socket.close):
        act()
        looked.wait()
        looked.wait()
    assert seen == [False, False, True]


def test_looking_for_the_client_takes_nothing_from_the_next_request(connect):
    def look(request):
        assert not request.gone()
        return Text(request.path)

    client = connect(look)
    client.send(GET + b"GET /b HTTP/1.1\r\n\r\n")
    assert [client.answer()[2], client.answer()[2]] == [b"/a", b"/b"]


def test_writing_to_a_client_that_has_gone_ends_the_work_for_it(connect):
    ended = threading.Event()
    begun = threading.Event()

    def pour(request):
        with request.stream(200, "text/plain") as out:
            begun.set()
            try:
                while True:
                    out.write(b"x" * 100_000)
            except ClientGone:
                ended.set()
                raise

    client = connect(pour)
    client.send(GET)
    assert begun.wait(10)
    client.socket.close()
    assert ended.wait(10)


def test_the_answer_under_way_is_the_last_one_when_the_server_ends(connect):
    closing = threading.Event()

    def close(request):
        closing.set()
        return Text("a")

    client = connect(close, closing.is_set)
    client.send(GET)
    assert client.answer()[2] == b"a"
    assert client.is_closed()
