"""What follows the head of a connection that was taken over: never in the same read as the head.

The docker SDK for Python throws away whatever it reads along with the head. Each client here reads its head only when
all has been said that it is to hear.
"""

from collections.abc import Callable

import pytest

from tests.harness import execs
from tests.harness.daemon import Daemon
from tests.harness.frames import frame
from tests.harness.http import HEAD_END, Connection
from tests.harness.listening import past, until

pytestmark = pytest.mark.usefixtures("busybox")

UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}


def one_read(connection: Connection) -> bytes:
    """What a client gets with its first read, which has room for more than the head."""
    return connection.socket.recv(1 << 16)


def is_head(data: bytes) -> bool:
    """Whether these bytes are one head of an answer and nothing else."""
    return data.startswith(b"HTTP/1.1 101 ") and data.endswith(HEAD_END) and data.count(HEAD_END) == 1


def attached(daemon: Daemon, container: str) -> int:
    """How many clients have been attached so far."""
    return len(past(daemon, filters={"container": [container], "event": ["attach"]}))


@pytest.fixture
def box(daemon: Daemon, container: Callable[..., str]) -> str:
    """A container that runs."""
    one = container("sleep", "600")
    daemon.begin(one)
    return one


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("sh", "-c", "echo out"), 0, frame(1, b"out\n")),
        (
            ("nosuch",),
            127,
            frame(
                1,
                b"OCI runtime exec failed: exec failed: unable to start container process: "
                b'exec: "nosuch": executable file not found in $PATH\r\n',
            ),
        ),
    ],
)
def test_an_exec(daemon: Daemon, box: str, argv: tuple[str, ...], code: int, said: bytes) -> None:
    """What it says, and why it cannot be run."""
    one = execs.create(daemon, box, *argv)
    with daemon.connection() as connection:
        connection.send_request("POST", f"/exec/{one}/start", {"Tty": False}, UPGRADE)
        until(lambda: execs.inspect(daemon, one)["ExitCode"] == code)
        assert is_head(one_read(connection))
        assert connection.read_to_end() == said


def test_an_attach_to_what_runs(daemon: Daemon, container: Callable[..., str]) -> None:
    """A second client has had the word when the first client's head is read."""
    one = container("cat", OpenStdin=True)
    daemon.begin(one)
    target = f"/containers/{one}/attach?stream=1&stdout=1&stdin=1"
    with daemon.connection() as late, daemon.connection() as early:
        late.send_request("POST", target, headers=UPGRADE)
        assert early.open_stream("POST", target, headers=UPGRADE)[0] == 101
        until(lambda: attached(daemon, one) == 2)
        early.send(b"word\n")
        assert early.read(13) == frame(1, b"word\n")
        assert is_head(one_read(late))
        assert late.read(13) == frame(1, b"word\n")


@pytest.mark.parametrize("logs", ["0", "1"])
def test_an_attach_before_the_start(daemon: Daemon, container: Callable[..., str], logs: str) -> None:
    """The container has ended before the head is read."""
    one = container("echo", "said")
    with daemon.connection() as connection:
        connection.send_request("POST", f"/containers/{one}/attach?stream=1&stdout=1&logs={logs}", headers=UPGRADE)
        until(lambda: attached(daemon, one) == 1)
        daemon.begin(one)
        assert daemon.wait(one) == 0
        assert is_head(one_read(connection))
        assert connection.read_to_end() == frame(1, b"said\n")


@pytest.mark.parametrize("driver", ["local", "json-file"])
@pytest.mark.parametrize("stream", ["0", "1"])
def test_an_attach_with_the_log(daemon: Daemon, container: Callable[..., str], driver: str, stream: str) -> None:
    """Of a container that runs; other calls do not wait for the client that does not read."""
    one = container("sh", "-c", "echo said; exec sleep 600", HostConfig={"LogConfig": {"Type": driver, "Config": {}}})
    daemon.begin(one)
    until(lambda: b"said" in daemon.request("GET", f"/containers/{one}/logs?stdout=1").body)
    with daemon.connection() as connection:
        target = f"/containers/{one}/attach?stream={stream}&stdout=1&logs=1"
        connection.send_request("POST", target, headers=UPGRADE)
        until(lambda: attached(daemon, one) == 1)
        assert daemon.request("POST", f"/containers/{one}/kill").status == 204
        assert is_head(one_read(connection))
        assert connection.read_to_end() == frame(1, b"said\n")
