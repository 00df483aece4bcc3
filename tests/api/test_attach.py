"""POST /containers/{id}/attach: the hijacked connection, its streams, half-close, detaching, a terminal."""

import contextlib
import os
import threading
import time
from collections.abc import Callable

import pytest

from engine.daemon.containers.output.attach import MOST_WAITING
from tests.harness import frames
from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.listening import past, until

pytestmark = pytest.mark.usefixtures("busybox")

ALL = "stream=1&stdin=1&stdout=1&stderr=1"
INTERACTIVE = {"OpenStdin": True, "StdinOnce": True, "AttachStdin": True}


def attached(daemon: Daemon, container: str, query: str = ALL, upgrade: bool = True, timeout: float = 20) -> Connection:
    """A hijacked connection."""
    connection = daemon.connection(timeout)
    connection.hijack(f"/containers/{container}/attach?{query}", upgrade)
    return connection


@pytest.mark.parametrize("upgrade", [True, False], ids=["101", "200"])
def test_the_connection_becomes_the_stream(daemon: Daemon, container: Callable[..., str], upgrade: bool) -> None:
    """101 for who asks for an upgrade, 200 for who does not; both carry frames until the end."""
    one = container("sh", "-c", "echo out; echo err >&2")
    with daemon.connection() as connection:
        headers = connection.hijack(f"/containers/{one}/attach?{ALL}", upgrade)
        kind = "application/vnd.docker.multiplexed-stream" if upgrade else "application/vnd.docker.raw-stream"
        assert headers["content-type"] == kind
        if upgrade:
            assert (headers["connection"], headers["upgrade"]) == ("Upgrade", "tcp")
        daemon.begin(one)
        data = connection.read_to_end()
    assert (frames.stdout(data), frames.stderr(data)) == (b"out\n", b"err\n")


def test_only_the_streams_asked_for(daemon: Daemon, container: Callable[..., str]) -> None:
    """stdout alone."""
    one = container("sh", "-c", "echo out; echo err >&2")
    with attached(daemon, one, "stream=1&stdout=1") as connection:
        daemon.begin(one)
        assert connection.read_to_end() == b"\1\0\0\0\0\0\0\4out\n"


def test_input_goes_in_and_output_comes_out(daemon: Daemon, container: Callable[..., str]) -> None:
    """Line by line, while it runs."""
    one = container("cat", **INTERACTIVE)
    with attached(daemon, one) as connection:
        daemon.begin(one)
        for line in (b"one\n", b"two\n"):
            connection.send(line)
            assert connection.read(12) == b"\1\0\0\0\0\0\0\4" + line
        connection.half_close()
        assert connection.read_to_end() == b""
    assert daemon.wait(one) == 0


def test_a_half_closed_client_still_gets_everything(daemon: Daemon, container: Callable[..., str]) -> None:
    """End of input reaches the process after all of the input; its answer reaches the client."""
    one = container("sh", "-c", "cat | wc -c; echo done", **INTERACTIVE)
    with attached(daemon, one) as connection:
        daemon.begin(one)
        connection.send(b"x" * 1_000_000)
        connection.half_close()
        assert frames.stdout(connection.read_to_end()) == b"1000000\ndone\n"


def test_input_sent_before_the_start_is_not_lost(daemon: Daemon, container: Callable[..., str]) -> None:
    """Also when it came in one piece with the request."""
    one = container("cat", **INTERACTIVE)
    with daemon.connection() as connection:
        head = f"POST /containers/{one}/attach?{ALL} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        connection.send(head.encode() + b"early\n")
        connection.send(b"too\n")
        connection.half_close()
        assert connection.read_head()[0] == 101
        daemon.begin(one)
        assert frames.stdout(connection.read_to_end()) == b"early\ntoo\n"


def test_input_is_ignored_without_open_stdin(daemon: Daemon, container: Callable[..., str]) -> None:
    """The process reads end of file at once."""
    one = container("sh", "-c", "cat; echo end")
    with attached(daemon, one) as connection:
        connection.send(b"nobody reads this\n")
        daemon.begin(one)
        assert frames.stdout(connection.read_to_end()) == b"end\n"


def test_input_stays_open_without_stdin_once(daemon: Daemon, container: Callable[..., str]) -> None:
    """The first client's end is not the process's; the next client goes on."""
    one = container("cat", OpenStdin=True)
    daemon.begin(one)
    with attached(daemon, one) as first:
        first.send(b"1\n")
        assert first.read(10).endswith(b"1\n")
    with attached(daemon, one) as second:
        second.send(b"2\n")
        assert second.read(10).endswith(b"2\n")


def test_logs_come_first_when_asked_for(daemon: Daemon, container: Callable[..., str]) -> None:
    """logs=1&stream=1: all so far, then live, without a gap and nothing twice."""
    one = container("sh", "-c", "echo before; read x; echo after $x", **{**INTERACTIVE, "StdinOnce": False})
    daemon.begin(one)
    with attached(daemon, one, f"{ALL}&logs=1") as connection:
        assert connection.read(15).endswith(b"before\n")
        connection.send(b"go\n")
        assert frames.stdout(connection.read_to_end()) == b"after go\n"


def test_logs_alone_end_at_once(daemon: Daemon, container: Callable[..., str]) -> None:
    """stream=0&logs=1, on a container that has ended."""
    one = container("sh", "-c", "echo out; echo err >&2")
    daemon.begin(one)
    daemon.wait(one)
    with attached(daemon, one, "stream=0&logs=1&stdout=1&stderr=1", upgrade=False) as connection:
        data = connection.read_to_end()
    assert (frames.stdout(data), frames.stderr(data)) == (b"out\n", b"err\n")


def test_who_attaches_before_the_start_misses_nothing(daemon: Daemon) -> None:
    """Not even when the start follows the 101 at once, on a busy machine."""
    missed: list[bytes] = []

    def often() -> None:
        for _ in range(15):
            one = daemon.create("sh", "-c", "echo first; sleep 0.005; echo last")
            with attached(daemon, one, "stream=1&stdout=1") as connection:
                daemon.begin(one)
                said = frames.stdout(connection.read_to_end())
            daemon.remove(one)
            if said != b"first\nlast\n":
                missed.append(said)

    threads = [threading.Thread(target=often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not missed


def test_many_clients_see_the_same(daemon: Daemon, container: Callable[..., str]) -> None:
    """Attached before the start, each gets every byte."""
    one = container("sh", "-c", "seq 1 50000")
    connections = [attached(daemon, one, "stream=1&stdout=1") for _ in range(4)]
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda c=c: results.append(c.read_to_end())) for c in connections]
    for thread in threads:
        thread.start()
    daemon.begin(one)
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.close()
    wanted = b"".join(b"%d\n" % number for number in range(1, 50_001))
    assert [frames.stdout(result) == wanted for result in results] == [True] * 4


def test_a_client_that_goes_away_stops_nobody(daemon: Daemon, container: Callable[..., str]) -> None:
    """In the middle of much output: the container runs on, the log is whole."""
    one = container("sh", "-c", "seq 1 300000")
    with attached(daemon, one, "stream=1&stdout=1") as connection:
        daemon.begin(one)
        connection.read(1000)
    assert daemon.wait(one) == 0
    assert frames.stdout(daemon.logs(one)).endswith(b"300000\n")


def test_a_client_that_stops_reading_slows_the_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """Back-pressure, never loss: it ends only once the client reads, and the client gets every byte."""
    one = container("sh", "-c", "seq 1 1000000")
    with attached(daemon, one, "stream=1&stdout=1") as connection:
        daemon.begin(one)
        with daemon.connection(timeout=1.0) as waiting, pytest.raises(TimeoutError):
            waiting.request("POST", f"/containers/{one}/wait")
        wanted = b"".join(b"%d\n" % number for number in range(1, 1_000_001))
        assert frames.stdout(connection.read_to_end()) == wanted
    assert daemon.wait(one) == 0


def test_a_client_that_stops_reading_holds_up_nobody_else(daemon: Daemon, container: Callable[..., str]) -> None:
    """What the container has said is with the others and in the log, and other containers go on."""
    one, other = container("sh", "-c", "seq 1 1000000"), container("echo", "hi")
    with attached(daemon, one, "stream=1&stdout=1") as deaf, attached(daemon, one, "stream=1&stdout=1") as reading:
        daemon.begin(one)
        kept = reading.read(100_000)
        assert len(kept) == 100_000  # although the other has read nothing
        assert frames.stdout(daemon.logs(one)).startswith(b"1\n2\n3\n")
        daemon.begin(other)
        assert daemon.wait(other) == 0
        wanted = b"".join(b"%d\n" % number for number in range(1, 1_000_001))
        results: list[bytes] = []
        rest = threading.Thread(target=lambda: results.append(kept + reading.read_to_end()))
        rest.start()
        assert frames.stdout(deaf.read_to_end()) == wanted
        rest.join(60)
        assert frames.stdout(results[0]) == wanted


@pytest.mark.alone
def test_a_client_that_vanishes_is_gone_within_a_second(daemon: Daemon, container: Callable[..., str]) -> None:
    """One that had stopped reading, and held the container up: it goes on at once."""
    one = container("sh", "-c", "seq 1 300000; echo end")
    connection = attached(daemon, one, "stream=1&stdout=1")
    daemon.begin(one)
    with daemon.connection(timeout=0.5) as waiting, pytest.raises(TimeoutError):
        waiting.request("POST", f"/containers/{one}/wait")
    connection.close()
    began = time.monotonic()
    assert daemon.wait(one, timeout=5) == 0
    assert time.monotonic() - began < 1.0


def test_the_log_so_far_comes_before_the_next_start(daemon: Daemon, container: Callable[..., str]) -> None:
    """logs=1&stream=1 on a container that has ended: what it said comes at once, what it says next comes then."""
    one = container("sh", "-c", "echo out; echo err >&2")
    daemon.begin(one)
    daemon.wait(one)
    with attached(daemon, one, f"{ALL}&logs=1") as connection:
        said = connection.read(2 * 12)
        assert sorted(frames.split(said)) == [(1, b"out\n"), (2, b"err\n")]
        daemon.begin(one)
        assert sorted(frames.split(connection.read_to_end())) == [(1, b"out\n"), (2, b"err\n")]


@pytest.mark.alone
def test_a_start_does_not_wait_for_a_reader_of_the_log(daemon: Daemon, container: Callable[..., str]) -> None:
    """A slow one gets the log, then the new run, whole and in order, though that ran meanwhile."""
    one = container("sh", "-c", "seq 1 300000; echo end; cat", **INTERACTIVE)
    with attached(daemon, one) as first:
        daemon.begin(one)
        first.half_close()
        run = frames.stdout(first.read_to_end())
    daemon.wait(one)
    with attached(daemon, one, f"{ALL}&logs=1") as connection:
        began = time.monotonic()
        daemon.begin(one)
        assert time.monotonic() - began < 5
        connection.send(b"typed\n")
        connection.half_close()
        assert frames.stdout(connection.read_to_end()) == run + run + b"typed\n"


def test_attaching_is_told_to_listeners(daemon: Daemon, container: Callable[..., str]) -> None:
    """attach, detach, resize with its size, top; docker's names."""
    one = container("cat", Tty=True, OpenStdin=True)
    daemon.begin(one)
    with attached(daemon, one) as connection:
        connection.send(b"\x10\x11")
        connection.read_to_end()
    assert daemon.request("POST", f"/containers/{one}/resize?h=31&w=79").status == 200
    assert daemon.request("GET", f"/containers/{one}/top").status == 200

    def heard() -> dict[str, dict]:
        return {event["Action"]: event["Actor"]["Attributes"] for event in past(daemon, filters={"container": [one]})}

    until(lambda: {"attach", "detach", "resize", "top"} <= heard().keys())  # the client's end is seen before the event
    told = heard()
    assert (told["resize"]["height"], told["resize"]["width"]) == ("31", "79")


def test_a_terminal_has_no_frames_and_echoes(daemon: Daemon, container: Callable[..., str]) -> None:
    """What is typed comes back, control characters work."""
    one = container("sh", "-c", "read x; echo got $x; read y", Tty=True, OpenStdin=True)
    with attached(daemon, one) as connection:
        daemon.begin(one)
        connection.send(b"abc\n")
        assert connection.read_until(b"got abc\r\n").startswith(b"abc\r\n")
        connection.send(b"\x03")  # ctrl-c: the terminal's line discipline makes the signal
        connection.read_to_end()
    assert daemon.wait(one) == 130


@pytest.mark.parametrize(("query", "keys"), [("", b"\x10\x11"), ("&detachKeys=ctrl-a,x", b"\x01x")])
def test_the_detach_keys_detach(daemon: Daemon, container: Callable[..., str], query: str, keys: bytes) -> None:
    """The client is let go, the container runs on."""
    one = container("cat", Tty=True, OpenStdin=True)
    daemon.begin(one)
    with attached(daemon, one, ALL + query) as connection:
        connection.send(b"hi\n")
        connection.read_until(b"hi\r\nhi\r\n")
        connection.send(keys)
        connection.read_to_end()
    assert daemon.inspect(one)["State"]["Running"] is True


def test_bad_detach_keys_are_refused(daemon: Daemon, container: Callable[..., str]) -> None:
    """Before the stream begins."""
    one = container("cat", Tty=True, OpenStdin=True)
    daemon.begin(one)
    answer = daemon.request("POST", f"/containers/{one}/attach?{ALL}&detachKeys=nonsense", checked=False)
    assert answer.status == 400


def test_attaching_to_what_has_ended_ends(daemon: Daemon, container: Callable[..., str]) -> None:
    """A stream of nothing, that closes."""
    one = container("sh", "-c", "echo gone")
    daemon.begin(one)
    daemon.wait(one)
    with attached(daemon, one, "stream=1&stdout=1&stderr=1", timeout=5) as connection:
        try:
            assert connection.read_to_end() == b""
        except TimeoutError:
            pass  # docker keeps it for the next start; either is no harm


def test_removal_lets_a_waiting_client_go(daemon: Daemon, container: Callable[..., str]) -> None:
    """Attached to a container that is never started."""
    one = container("cat")
    with attached(daemon, one, "stream=1&stdout=1") as connection:
        daemon.remove(one)
        assert connection.read_to_end() == b""


def test_clients_that_hang_up_before_the_start_are_forgotten(daemon: Daemon, container: Callable[..., str]) -> None:
    """However many: their connections are not kept, and the start goes on without them."""
    one = container("echo", "hi")
    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    for _ in range(300):
        attached(daemon, one).close()
    with attached(daemon, one) as waiting:
        until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) < before + 20)
        daemon.begin(one)
        assert frames.stdout(waiting.read_to_end()) == b"hi\n"


def test_more_clients_than_one_message_carries_cannot_wait(daemon: Daemon, container: Callable[..., str]) -> None:
    """The one too many is told so, and the others get what they wait for."""
    one = container("echo", "hi")
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(attached(daemon, one)) for _ in range(MOST_WAITING)]
        answer = daemon.request("POST", f"/containers/{one}/attach?{ALL}", checked=False)
        assert answer.status == 409 and b"clients that wait" in answer.body
        daemon.begin(one)
        assert [frames.stdout(each.read_to_end()) for each in waiting] == [b"hi\n"] * MOST_WAITING


def test_a_terminal_takes_a_new_size(daemon: Daemon, container: Callable[..., str]) -> None:
    """While the container runs, and for the programs in it."""
    # The new size and the next bytes take different ways to the terminal.
    one = container("sh", "-c", "read x; until stty size | grep '31 79'; do sleep 0.1; done", Tty=True, OpenStdin=True)
    assert daemon.request("POST", f"/containers/{one}/resize?h=10&w=20").status == 409
    with attached(daemon, one) as connection:
        daemon.begin(one)
        assert daemon.request("POST", f"/containers/{one}/resize?h=31&w=79").status == 200
        connection.send(b"\n")
        assert b"31 79" in connection.read_to_end()


@pytest.mark.parametrize("asks", ["inspect", "list", "remove", "start"])
def test_who_saw_the_stream_end_meets_the_end(daemon: Daemon, container: Callable[..., str], asks: str) -> None:
    """The client asks as soon as it has read the last byte, and waits for nothing."""
    for _ in range(8):
        one = container("sh", "-c", "sleep 0.05; exit 3")
        with attached(daemon, one) as connection:
            daemon.begin(one)
            connection.read_to_end()
        if asks == "inspect":
            state = daemon.inspect(one)["State"]
            assert (state["Status"], state["ExitCode"]) == ("exited", 3)
        elif asks == "list":
            listed = daemon.request("GET", "/containers/json?all=1").json()
            assert [each["State"] for each in listed if each["Id"] == one] == ["exited"]
        elif asks == "remove":
            assert daemon.request("DELETE", f"/containers/{one}").status == 204
        else:
            assert daemon.request("POST", f"/containers/{one}/start").status == 204
            assert daemon.wait(one) == 3


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("h=x&w=1", 'invalid resize height "x": invalid syntax'),
        ("h=-1&w=1", 'invalid resize height "-1": value out of range'),
        ("h=1&w=65536", 'invalid resize width "65536": value out of range'),
        ("h=1", 'invalid resize width "": invalid syntax'),
        ("w=1", 'invalid resize height "": invalid syntax'),
    ],
)
def test_a_size_that_no_terminal_has_is_refused(
    daemon: Daemon, container: Callable[..., str], size: str, words: str
) -> None:
    """Before the monitor hears of it, in docker's words."""
    one = container("sleep", "60", Tty=True)
    daemon.begin(one)
    for each in (one, "nope"):
        answer = daemon.request("POST", f"/containers/{each}/resize?{size}")
        assert (answer.status, answer.message) == (400, words)
