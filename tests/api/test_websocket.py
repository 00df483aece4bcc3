"""GET /containers/{id}/attach/ws: a container's streams over a WebSocket."""

import base64
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness.daemon import Daemon
from tests.harness.descriptors import open_links
from tests.harness.http import Connection
from tests.harness.pace import patient

client = pytest.importorskip("websockets.sync.client", reason="needs websockets: pip install websockets")
exceptions = pytest.importorskip("websockets.exceptions")

pytestmark = pytest.mark.usefixtures("busybox")

ALL = "stream=1&stdin=1&stdout=1&stderr=1"
OPEN = {"OpenStdin": True, "StdinOnce": True}
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
}


@contextlib.contextmanager
def attached(daemon: Daemon, container: str, query: str = ALL, version: str = "1.54") -> Iterator:
    """A WebSocket of another implementation."""
    uri = f"ws://localhost/v{version}/containers/{container}/attach/ws?{query}"
    with client.unix_connect(str(daemon.socket), uri=uri, max_size=None, compression=None, close_timeout=3) as socket:
        yield socket


def read_to_end(socket: object) -> bytes:
    """All messages until the close, which must be an ordinary one."""
    data = b""
    with contextlib.suppress(exceptions.ConnectionClosedOK):
        while True:
            data += socket.recv(timeout=30)
    return data


def read_until(socket: object, mark: bytes) -> bytes:
    """Messages up to the one that ends with `mark`."""
    data = b""
    while mark not in data:
        data += socket.recv(timeout=30)
    return data


def test_output_comes_in_binary_frames_without_headers(daemon: Daemon, container: Callable[..., str]) -> None:
    """Both streams, and an ordinary close at the end."""
    one = container("sh", "-c", "echo out; echo err >&2")
    with attached(daemon, one) as socket:
        daemon.begin(one)
        assert sorted(read_to_end(socket).split()) == [b"err", b"out"]
        assert socket.close_code == 1000


def test_input_goes_in(daemon: Daemon, container: Callable[..., str]) -> None:
    """It may be text or bytes, and come in fragments."""
    one = container("sh", "-c", "while read line; do echo got $line; done", **OPEN)
    with attached(daemon, one) as socket:
        daemon.begin(one)
        socket.send("text\n")
        assert read_until(socket, b"got text\n")
        socket.send(b"bytes\n")
        assert read_until(socket, b"got bytes\n")
        socket.send(iter(["in ", "pie", "ces\n"]))
        assert read_until(socket, b"got in pieces\n")
        assert socket.ping(b"?").wait(30)


def test_a_close_ends_the_input(daemon: Daemon, container: Callable[..., str]) -> None:
    """After all that was sent, as its log shows."""
    one = container("sh", "-c", "wc -c; sleep 0.2", **OPEN)
    with attached(daemon, one) as socket:
        daemon.begin(one)
        for _ in range(10):
            socket.send(b"x" * 100_000)
    assert daemon.wait(one) == 0
    assert b"1000000\n" in daemon.logs(one)


def test_only_the_streams_asked_for(daemon: Daemon, container: Callable[..., str]) -> None:
    """And, for an old client that could not ask, all of them, in text frames before API 1.28."""
    for query, version, wanted in (("stream=1&stderr=1", "1.54", [b"err"]), ("stream=1", "1.27", ["err", "out"])):
        one = container("sh", "-c", f"echo out; sleep {patient(0.1)}; echo err >&2")
        with attached(daemon, one, query, version) as socket:
            daemon.begin(one)
            said = []
            with contextlib.suppress(exceptions.ConnectionClosedOK):
                while True:
                    said.append(socket.recv(timeout=30).strip())
        assert sorted(said) == wanted


def messages(connection: Connection) -> Iterator[bytes]:
    """What comes over a WebSocket's raw connection until its close, by this test's own reading of the frames."""
    while (head := connection.read(2)) and head[0] != 0x88:
        size = head[1]
        if size > 125:
            size = int.from_bytes(connection.read(2 if size == 126 else 8))
        yield connection.read(size)


def test_much_goes_both_ways_at_once(daemon: Daemon, container: Callable[..., str]) -> None:
    """Back-pressure in both directions, and not a byte is lost. Raw: a library's lock may hold up its own reading."""
    one = container("cat", **OPEN)
    data = os.urandom(1 << 20) * 8
    with daemon.connection() as connection:
        assert connection.open_stream("GET", f"/containers/{one}/attach/ws?{ALL}", headers=HANDSHAKE)[0] == 101
        daemon.begin(one)

        def send() -> None:
            for place in range(0, len(data), 1 << 18):
                connection.send(b"\x82\xff" + (1 << 18).to_bytes(8) + bytes(4) + data[place : place + (1 << 18)])

        sending = threading.Thread(target=send)
        sending.start()
        time.sleep(0.3)  # nobody reads meanwhile
        got = bytearray()
        for message in messages(connection):
            got += message
            if len(got) >= len(data):
                break
        sending.join(10)
    assert got == data


def test_logs_come_first(daemon: Daemon, container: Callable[..., str]) -> None:
    """Of a running container, and alone of one that has ended."""
    one = container("sh", "-c", "echo before; read x; echo after", OpenStdin=True)
    daemon.begin(one)
    while b"before" not in daemon.logs(one):
        time.sleep(0.01)
    with attached(daemon, one, f"{ALL}&logs=1") as socket:
        assert read_until(socket, b"before\n") == b"before\n"
        socket.send(b"\n")
        assert read_to_end(socket) == b"after\n"
    with attached(daemon, one, "logs=1&stdout=1") as socket:
        assert read_to_end(socket) == b"before\nafter\n"


def test_the_detach_keys_detach(daemon: Daemon, container: Callable[..., str]) -> None:
    """An ordinary close, and the container runs on."""
    one = container("cat", Tty=True, OpenStdin=True)
    daemon.begin(one)
    with attached(daemon, one, f"{ALL}&detachKeys=ctrl-a,x") as socket:
        socket.send(b"hi\n")
        read_until(socket, b"hi\r\nhi\r\n")
        socket.send(b"\x01x")
        read_to_end(socket)
        assert socket.close_code == 1000
    assert daemon.inspect(one)["State"]["Running"] is True


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Upgrade": "tcp"}, 400),
        ({"Connection": "close"}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Sec-WebSocket-Version": "8"}, 426),
    ],
)
def test_a_bad_handshake_is_refused(
    daemon: Daemon, container: Callable[..., str], changes: dict[str, str], status: int
) -> None:
    """Before anything is upgraded, with the version that is spoken where that was wrong."""
    path = f"/containers/{container('true')}/attach/ws?{ALL}"
    answer = daemon.request("GET", path, headers={**HANDSHAKE, **changes}, checked=False)
    assert answer.status == status and "websocket" in answer.message
    assert answer.headers.get("sec-websocket-version") == ("13" if status == 426 else None)


def test_errors_before_the_upgrade_are_dockers(daemon: Daemon, container: Callable[..., str]) -> None:
    """They are JSON, with their statuses."""
    answer = daemon.request("GET", f"/containers/nope/attach/ws?{ALL}", headers=HANDSHAKE)
    assert (answer.status, answer.message) == (404, "No such container: nope")
    one = container("cat")
    path = f"/containers/{one}/attach/ws?{ALL}&detachKeys=nonsense"
    assert daemon.request("GET", path, headers=HANDSHAKE).status == 400


def test_a_client_that_breaks_the_protocol_is_told_so(daemon: Daemon, container: Callable[..., str]) -> None:
    """An unmasked frame: a close with the code for it, and the end."""
    one = container("cat", **OPEN)
    daemon.begin(one)
    with daemon.connection() as connection:
        assert connection.open_stream("GET", f"/containers/{one}/attach/ws?{ALL}", headers=HANDSHAKE)[0] == 101
        connection.send(b"\x82\1x")
        assert connection.read(4)[:1] + b"" == b"\x88"
        connection.read_to_end()


def sockets(daemon: Daemon) -> int:
    """How many the daemon has. What else it opens may be for a program that connects a user's containers."""
    return sum(each.startswith("socket:") for each in open_links(daemon.pid))


def gone(daemon: Daemon, before: int, seconds: float = 30.0) -> bool:
    """Whether the daemon's sockets are as few as before in time."""
    end = time.monotonic() + seconds
    while sockets(daemon) > before:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("script", ["cat", "sleep 60", "while :; do echo much; done"])
def test_a_client_that_vanishes_is_gone(own_daemon: Daemon, script: str) -> None:
    """Whatever the container does, and the container goes on."""
    one = own_daemon.create("sh", "-c", script, OpenStdin=True)
    own_daemon.begin(one)
    own_daemon.inspect(one)
    before = sockets(own_daemon)
    connection = Connection(own_daemon.socket, 30)
    assert connection.open_stream("GET", f"/containers/{one}/attach/ws?{ALL}", headers=HANDSHAKE)[0] == 101
    connection.send(b"\x82\xfe\xff\xff" + bytes(4) + b"y" * 65535)
    time.sleep(0.2)
    connection.close()
    assert gone(own_daemon, before)
    assert own_daemon.inspect(one)["State"]["Running"] is True
    if script.startswith("while"):
        size = len(own_daemon.logs(one, "stdout=1&tail=all&until=1"))
        assert size == 0  # the log is served meanwhile
