"""HTTP/1.1 as the daemon speaks it: what is accepted, what is refused, and that a bad client harms nobody."""

import socket
import threading

import pytest

from tests.harness.daemon import Daemon
from tests.harness.http import Connection

CREATE = b'{"Image": "no-such-image", "Cmd": ["true"]}'
BAD_REQUESTS = {
    "no version": b"GET /_ping\r\n\r\n",
    "no such protocol": b"GET /_ping SPDY/3\r\nHost: x\r\n\r\n",
    "not a request": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a header without a colon": b"GET /_ping HTTP/1.1\r\nHost x\r\n\r\n",
    "a space before the colon": b"GET /_ping HTTP/1.1\r\nHost : x\r\n\r\n",
    "a folded header": b"GET /_ping HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "a control character in a header": b"GET /_ping HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n",
    "a length that is no number": b"POST /containers/create HTTP/1.1\r\nContent-Length: ten\r\n\r\n",
    "a negative length": b"POST /containers/create HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "a length with a sign": b"POST /containers/create HTTP/1.1\r\nContent-Length: +2\r\n\r\n{}",
    "two lengths that differ": b"POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "a length and chunks": b"POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding we do not know": b"POST /containers/create HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    "a target with a space": b"GET /_pi ng HTTP/1.1\r\nHost: x\r\n\r\n",
}
BAD_CHUNKS = {
    "a size that is no number": b"zz\r\n{}\r\n0\r\n\r\n",
    "a negative size": b"-2\r\n{}\r\n0\r\n\r\n",
    "a size with a prefix": b"0x2\r\n{}\r\n0\r\n\r\n",
    "an enormous size": b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    "a chunk longer than its size": b"2\r\n{}}\r\n0\r\n\r\n",
    "an empty size": b"\r\n{}\r\n0\r\n\r\n",
    "an endless size line": b"2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n",
}


def pong(daemon: Daemon) -> None:
    """The daemon is unharmed."""
    assert daemon.request("GET", "/_ping").body == b"OK"


@pytest.mark.parametrize("request_bytes", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_bad_request_is_400_and_the_connection_closes(daemon: Daemon, request_bytes: bytes) -> None:
    """The answer is whole HTTP, then the daemon closes: after a bad request nobody knows where the next one starts."""
    with daemon.connection(timeout=10) as connection:
        connection.send(request_bytes)
        answer = connection.read_answer()
        assert answer.status in (400, 501, 505), answer
        assert answer.headers["connection"] == "close"
        assert connection.read_to_end() == b""
    pong(daemon)


@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
def test_bad_chunks_are_400_and_the_connection_closes(daemon: Daemon, body: bytes) -> None:
    """A chunked body that cannot be read."""
    with daemon.connection(timeout=10) as connection:
        connection.send(
            b"POST /containers/create HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        try:
            connection.send(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent: the answer is still there to read
        answer = connection.read_answer()
        assert answer.status == 400, answer
        assert connection.read_to_end() == b""
    pong(daemon)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /_ping HTTP/1.1\r\nA: " + b"b" * 2_000_000 + b"\r\n\r\n",
        b"GET /_ping HTTP/1.1\r\n" + b"".join(b"A%d: b\r\n" % n for n in range(100_000)) + b"\r\n",
    ],
    ids=["target", "header", "many headers"],
)
def test_an_over_long_head_is_refused(daemon: Daemon, head: bytes) -> None:
    """Bounded memory for each connection: 400 or 431 (414), then closed."""
    with daemon.connection(timeout=10) as connection:
        try:
            connection.send(head)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent: the answer is still there to read
        try:
            answer = connection.read_answer()
        except ConnectionResetError:
            pass  # closed with our bytes unread, which takes the answer along on a Unix socket
        else:
            assert answer.status in (400, 414, 431), answer
    pong(daemon)


def test_a_client_that_goes_in_the_middle_harms_nobody(daemon: Daemon) -> None:
    """Half a head, half a body, nothing at all."""
    for part in (b"", b"GET /_pi", b"POST /containers/create HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"):
        with daemon.connection() as connection:
            connection.send(part)
    pong(daemon)


def test_a_connection_is_kept_alive_over_many_requests(daemon: Daemon) -> None:
    """Errors do not end it either."""
    with daemon.connection() as connection:
        for _ in range(3):
            assert connection.request("GET", "/_ping").body == b"OK"
            assert connection.request("GET", "/nonexistent").status == 404
            assert connection.request("POST", "/containers/create", CREATE, {"Content-Type": "text/x"}).status == 400
            assert connection.request("HEAD", "/_ping").status == 200


def test_requests_in_one_piece_are_answered_in_order(daemon: Daemon) -> None:
    """Pipelining: what came behind the first request is not lost."""
    with daemon.connection() as connection:
        connection.send(b"GET /_ping HTTP/1.1\r\n\r\nGET /nonexistent HTTP/1.1\r\n\r\nGET /_ping HTTP/1.1\r\n\r\n")
        assert [connection.read_answer().status for _ in range(3)] == [200, 404, 200]


def test_a_request_in_single_bytes_is_read(daemon: Daemon) -> None:
    """A slow client."""
    with daemon.connection() as connection:
        for byte in b"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n":
            connection.send(bytes([byte]))
        assert connection.read_answer().body == b"OK"


def test_connection_close_is_honoured(daemon: Daemon) -> None:
    """And so is HTTP/1.0, which closes by default."""
    for head in (b"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"GET /_ping HTTP/1.0\r\n\r\n"):
        with daemon.connection() as connection:
            connection.send(head)
            answer = connection.read_answer()
            assert answer.body == b"OK"
            assert connection.read_to_end() == b""


@pytest.mark.parametrize(
    "host", ["Host: x\r\n", "Host:\r\n", "Host: [::1]:2375\r\n", "Host: %2Frun%2Fdocker.sock\r\n", ""]
)
def test_any_host_header_is_accepted(daemon: Daemon, host: str) -> None:
    """Clients on a Unix socket put anything there."""
    with daemon.connection() as connection:
        connection.send(f"GET /_ping HTTP/1.1\r\n{host}\r\n".encode())
        assert connection.read_answer().status == 200


@pytest.mark.parametrize("target", ["http://docker/_ping", "http://localhost/v1.54/_ping", "http://x:2375/_ping?a=b"])
def test_an_absolute_target_is_accepted(daemon: Daemon, target: str) -> None:
    """Proxies send it."""
    assert daemon.request("GET", target, checked=False).body == b"OK"


def test_header_names_are_in_any_case(daemon: Daemon) -> None:
    """And values may have spaces around them."""
    with daemon.connection() as connection:
        connection.send(b"POST /containers/create HTTP/1.1\r\ncOnTeNt-TyPe:  application/json \r\n")
        connection.send(b"CONTENT-LENGTH:%d\r\n\r\n" % len(CREATE) + CREATE)
        assert connection.read_answer().message == "No such image: no-such-image:latest"


def test_a_chunked_body_is_read(daemon: Daemon) -> None:
    """In odd pieces, with an extension and a trailer."""
    with daemon.connection() as connection:
        connection.send(
            b"POST /containers/create HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        connection.send(b"1;name=value\r\n" + CREATE[:1] + b"\r\n")
        connection.send(b"%X\r\n" % (len(CREATE) - 1) + CREATE[1:] + b"\r\n0\r\nTrailer: x\r\n\r\n")
        assert connection.read_answer().status == 404
        assert connection.request("GET", "/_ping").status == 200


def test_continue_is_said_before_the_body_is_sent(daemon: Daemon) -> None:
    """Expect: 100-continue."""
    with daemon.connection(timeout=10) as connection:
        connection.send(
            b"POST /containers/create HTTP/1.1\r\nContent-Type: application/json\r\n"
            b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(CREATE)
        )
        assert connection.read_head()[0] == 100
        connection.send(CREATE)
        assert connection.read_answer().status == 404
        assert connection.request("GET", "/_ping").status == 200


def test_a_refused_request_is_answered_without_its_body(daemon: Daemon) -> None:
    """Who expects 100-continue learns of the error first, and never sends the body."""
    with daemon.connection(timeout=10) as connection:
        connection.send(b"POST /nonexistent HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n")
        assert connection.read_head()[0] == 404


def test_an_unread_body_does_not_become_the_next_request(daemon: Daemon) -> None:
    """The answer to a request with an ignored body is followed by the next answer, or by the close; by nothing else."""
    with daemon.connection(timeout=10) as connection:
        inner = b"GET /info HTTP/1.1\r\n\r\n"
        connection.send(b"POST /nonexistent HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(inner) + inner)
        connection.send(b"GET /_ping HTTP/1.1\r\n\r\n")
        assert connection.read_answer().status == 404
        try:
            assert connection.read_answer().body == b"OK"
        except (EOFError, ConnectionResetError):
            pass  # closing is the other honest way


def test_a_half_closed_client_gets_its_answer(daemon: Daemon) -> None:
    """A client may say that it is done sending before it reads."""
    with daemon.connection() as connection:
        connection.send(b"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.half_close()
        assert connection.read_answer().body == b"OK"


def test_head_has_the_headers_and_no_body(daemon: Daemon) -> None:
    """HEAD answers as GET, without the body; the next answer follows at once."""
    with daemon.connection() as connection:
        head = connection.request("HEAD", "/_ping")
        get = connection.request("GET", "/_ping")
        assert head.status == 200 and head.body == b"" and get.body == b"OK"
        assert {"api-version", "ostype", "server", "content-type"} <= set(head.headers)


def test_every_answer_names_the_api_and_the_server(daemon: Daemon) -> None:
    """So that clients can negotiate from whatever they get."""
    for method, path in (
        ("GET", "/_ping"),
        ("GET", "/info"),
        ("GET", "/containers/nope/json"),
        ("GET", "/v1.54/_ping"),
    ):
        headers = daemon.request(method, path).headers
        assert headers["api-version"] == "1.54"
        assert headers["ostype"] == "linux"
        assert headers["server"]
        assert headers["docker-experimental"] == "false"


def test_options_is_answered(daemon: Daemon) -> None:
    """The answer is 200 without a body (transcript)."""
    answer = daemon.request("OPTIONS", "/v1.54/containers/json")
    assert (answer.status, answer.body) == (200, b"")


def test_escapes_in_the_path_are_decoded_once(daemon: Daemon) -> None:
    """%2F is part of a name here, not a separator; %25 is a percent sign."""
    assert daemon.request("GET", "/containers/no%20pe/json").message == "No such container: no pe"
    assert daemon.request("GET", "/containers/a%2525/json").message == "No such container: a%25"


def test_many_connections_at_once(daemon: Daemon) -> None:
    """100 idle ones do not keep the next from being answered."""
    held = [Connection(daemon.socket) for _ in range(100)]
    try:
        pong(daemon)
        answers: list[int] = []

        def ask(one: Connection) -> None:
            answers.append(one.request("GET", "/version").status)

        threads = [threading.Thread(target=ask, args=(one,)) for one in held]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [200] * 100
    finally:
        for one in held:
            one.close()


def test_a_body_of_the_wrong_kind_is_refused(daemon: Daemon) -> None:
    """Content-Type is looked at where JSON is expected."""
    answer = daemon.request("POST", "/containers/create", b"Image=x", {"Content-Type": "text/plain"})
    assert answer.status == 400
    assert answer.message == "unsupported Content-Type header (text/plain): must be 'application/json'"


def test_a_json_content_type_may_have_parameters(daemon: Daemon) -> None:
    """`application/json; charset=utf-8`."""
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert daemon.request("POST", "/containers/create", CREATE, headers).status == 404


def test_keys_are_read_in_any_case_and_unknown_ones_ignored(daemon: Daemon) -> None:
    """Go's decoder does so."""
    body = {"image": "no-such-image", "CMD": ["true"], "NoSuchField": {"a": [1]}}
    assert daemon.request("POST", "/containers/create", body).message == "No such image: no-such-image:latest"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"Image": 1}, "Image"),
        ({"Image": "busybox", "Tty": "yes"}, "Tty"),
        ({"Image": "busybox", "Env": {"A": "b"}}, "Env"),
        ({"Image": "busybox", "Labels": ["a"]}, "Labels"),
        ({"Image": "busybox", "HostConfig": []}, "HostConfig"),
        ({"Image": "busybox", "HostConfig": {"Memory": "1m"}}, "Memory"),
        ({"Image": "busybox", "HostConfig": {"Memory": 1.5}}, "Memory"),
        ({"Image": "busybox", "HostConfig": {"LogConfig": {"Config": {"max-size": 1}}}}, "Config"),
    ],
)
def test_a_wrong_type_is_400_and_names_the_field(daemon: Daemon, body: dict, field: str) -> None:
    """The text is Go's."""
    answer = daemon.request("POST", "/containers/create", body)
    assert answer.status == 400
    assert "cannot unmarshal" in answer.message and field in answer.message


@pytest.mark.parametrize("depth", [100, 5_000, 200_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deeply_nested_json_harms_nobody(daemon: Daemon, opening: bytes, depth: int) -> None:
    """A decoder that recurses must not take the daemon's stack with it."""
    body = b'{"Image": "no-such-image", "Labels": ' + opening * depth
    answer = daemon.request("POST", "/containers/create", body, {"Content-Type": "application/json"})
    assert answer.status == 400
    filters = (opening * min(depth, 5_000)).decode().replace('"', "%22").replace("{", "%7B").replace("[", "%5B")
    assert daemon.request("GET", f"/containers/json?filters={filters}", checked=False).status in (400, 414, 431)
    pong(daemon)


def test_a_descriptor_flood_is_survived(daemon: Daemon) -> None:
    """Connections opened and dropped without a word."""
    for _ in range(500):
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(str(daemon.socket))
    pong(daemon)
