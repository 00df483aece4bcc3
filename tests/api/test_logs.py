"""GET /containers/{id}/logs: every option, following, rotation, and loss of nothing."""

import re
import threading
import time
from collections.abc import Callable
from datetime import datetime

import pytest

from tests.api.logdrivers import driver, heard
from tests.harness import frames
from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = pytest.mark.usefixtures("busybox")

STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (.*)\n", re.DOTALL)
MANY_DIGITS = [("9" * 20, 5), ("9" * 5000, 5)]
FIVE = "for i in 1 2 3 4 5; do echo line $i; sleep 0.05; done"
BOTH = "for i in 1 2 3; do echo out $i; sleep 0.02; echo err $i >&2; sleep 0.02; done"


def lines(daemon: Daemon, container: str, query: str = "stdout=1&stderr=1") -> list[bytes]:
    """The payloads, one a frame."""
    return [payload for _, payload in frames.split(daemon.logs(container, query))]


def test_streams_are_chosen(daemon: Daemon, container: Callable[..., str]) -> None:
    """stdout, stderr, both in the order in which they were said."""
    one = heard(
        daemon, container, [(stream, f"{word} {n}") for n in (1, 2, 3) for stream, word in ((1, "out"), (2, "err"))]
    )
    assert frames.stdout(daemon.logs(one, "stdout=1")) == b"out 1\nout 2\nout 3\n"
    assert frames.stderr(daemon.logs(one, "stdout=1")) == b""
    assert frames.stderr(daemon.logs(one, "stderr=true")) == b"err 1\nerr 2\nerr 3\n"
    both = lines(daemon, one)
    assert both == [b"out 1\n", b"err 1\n", b"out 2\n", b"err 2\n", b"out 3\n", b"err 3\n"]


@pytest.mark.parametrize("query", ["", "?stdout=0&stderr=0", "?follow=1", "?stdout=no"])
def test_no_stream_is_refused(daemon: Daemon, ended: Callable[..., str], query: str) -> None:
    """The transcript, call 130."""
    answer = daemon.request("GET", f"/containers/{ended('true')}/logs{query}")
    assert (answer.status, answer.message) == (400, "must specify at least one of 'stdout' or 'stderr'")
    missing = daemon.request("GET", f"/containers/nosuch/logs{query}")
    assert (missing.status, missing.message) == (answer.status, answer.message)


@pytest.mark.parametrize(
    ("form", "version", "status"), [("x", "v1.54", 400), ("json", "v1.54", 501), ("x", "v1.53", 200)]
)
def test_a_form_of_logs_that_is_not_built_is_refused(
    daemon: Daemon, ended: Callable[..., str], form: str, version: str, status: int
) -> None:
    path = f"/{version}/containers/{ended('true')}/logs?stdout=1&format={form}"
    assert daemon.request("GET", path, checked=False).status == status


def test_the_content_type_says_how_it_is_framed(daemon: Daemon, container: Callable[..., str]) -> None:
    """Multiplexed from 1.42 on, raw for a terminal and for older clients."""
    plain, terminal = container("true"), container("true", Tty=True)
    kinds = {
        ("v1.54", plain): "application/vnd.docker.multiplexed-stream",
        ("v1.54", terminal): "application/vnd.docker.raw-stream",
        ("v1.41", plain): "application/vnd.docker.raw-stream",
    }
    for (version, identifier), kind in kinds.items():
        answer = daemon.request("GET", f"/{version}/containers/{identifier}/logs?stdout=1")
        assert answer.headers["content-type"] == kind


@pytest.mark.parametrize(
    ("tail", "count"),
    [("0", 0), ("1", 1), ("3", 3), ("99", 5), ("all", 5), ("bogus", 5), ("", 5), ("-1", 5), *MANY_DIGITS],
)
def test_tail_takes_the_last_lines(daemon: Daemon, ended: Callable[..., str], tail: str, count: int) -> None:
    """What is no number is all, as docker reads it."""
    wanted = [b"line %d\n" % number for number in range(1, 6)]
    assert lines(daemon, ended(FIVE), f"stdout=1&tail={tail}") == wanted[5 - count :]


def test_tail_counts_lines_of_the_streams_asked_for(daemon: Daemon, ended: Callable[..., str]) -> None:
    """Not those of the other, where the form is the engine's own; in docker's all are counted."""
    assert lines(daemon, ended(BOTH, **driver("local")), "stdout=1&tail=2") == [b"out 2\n", b"out 3\n"]
    assert lines(daemon, ended(BOTH), "stdout=1&tail=2") == [b"out 3\n"]


def test_timestamps_are_rfc3339_with_nine_digits(daemon: Daemon, ended: Callable[..., str]) -> None:
    """In front of each line, rising, between start and end."""
    one = ended(FIVE)
    found = [STAMP.fullmatch(line).groups() for line in lines(daemon, one, "stdout=1&timestamps=1")]
    assert [text for _, text in found] == [b"line %d" % number for number in range(1, 6)]
    stamps = [stamp.decode() for stamp, _ in found]
    assert stamps == sorted(stamps)
    state = daemon.inspect(one)["State"]
    assert state["StartedAt"][:19] <= stamps[0][:19] <= stamps[-1][:19] <= state["FinishedAt"][:19]


def test_since_and_until_cut_by_time(daemon: Daemon, container: Callable[..., str]) -> None:
    """With fractions to the nanosecond, taken from the lines' own stamps."""
    one = heard(daemon, container, [(1, f"line {number}") for number in range(1, 6)])
    stamps = [STAMP.fullmatch(line)[1].decode() for line in lines(daemon, one, "stdout=1&timestamps=1")]
    third = f"{int(datetime.fromisoformat(stamps[2][:19] + '+00:00').timestamp())}.{stamps[2][20:29]}"
    assert lines(daemon, one, f"stdout=1&since={third}") == [b"line 3\n", b"line 4\n", b"line 5\n"]
    assert lines(daemon, one, f"stdout=1&until={third}")[:2] == [b"line 1\n", b"line 2\n"]
    assert b"line 4\n" not in lines(daemon, one, f"stdout=1&until={third}")
    assert lines(daemon, one, f"stdout=1&since={third}&tail=1") == [b"line 5\n"]
    assert lines(daemon, one, "stdout=1&since=1") == [b"line %d\n" % number for number in range(1, 6)]
    assert lines(daemon, one, "stdout=1&until=1") == []
    assert lines(daemon, one, f"stdout=1&since={int(time.time()) + 3600}") == []


def test_a_bad_time_is_refused(daemon: Daemon, ended: Callable[..., str]) -> None:
    """The transcript, call 144."""
    one = ended("true")
    for name in ("since", "until"):
        answer = daemon.request("GET", f"/containers/{one}/logs?stdout=1&{name}=bogus")
        wanted = f'invalid value for "{name}": invalid timestamp "bogus": invalid seconds "bogus": invalid syntax'
        assert (answer.status, answer.message) == (400, wanted)


def test_details_are_put_in_front(daemon: Daemon, ended: Callable[..., str]) -> None:
    """The log's labels; none here, so a space alone, as in the transcript, call 149."""
    assert lines(daemon, ended("echo out"), "stdout=1&details=1") == [b" out\n"]


def test_a_long_line_is_cut_in_frames_and_lost_nothing(daemon: Daemon, ended: Callable[..., str]) -> None:
    """16 KiB a frame at most, the stamp only at the line's start; in docker's form each piece has that of the first."""
    script = "head -c 100000 /dev/zero | tr '\\0' x; echo; echo next"
    for form, stamps in (("local", 2), ("json-file", 8)):
        one = ended(script, **driver(form))
        found = lines(daemon, one, "stdout=1")
        assert b"".join(found) == b"x" * 100_000 + b"\nnext\n"
        assert max(map(len, found)) <= 16384 + 1
        stamped = b"".join(lines(daemon, one, "stdout=1&timestamps=1"))
        assert len(re.findall(rb"\d{4}-\d\d-\d\dT\S+Z ", stamped)) == stamps


def test_an_unterminated_last_line_is_there(daemon: Daemon, ended: Callable[..., str]) -> None:
    """Without a newline made up for it."""
    assert lines(daemon, ended("echo one; printf two"), "stdout=1") == [b"one\n", b"two"]


def test_bytes_are_passed_as_they_are(daemon: Daemon, ended: Callable[..., str]) -> None:
    """Zero bytes, no UTF-8, carriage returns; but docker's form has text, and bytes that are none are U+FFFD in it."""
    script = "printf 'a\\0b\\377\\r\\n\\n\\n'"
    assert b"".join(lines(daemon, ended(script, **driver("local")), "stdout=1")) == b"a\0b\xff\r\n\n\n"
    assert b"".join(lines(daemon, ended(script), "stdout=1")) == b"a\0b\xef\xbf\xbd\r\n\n\n"


def test_a_terminals_log_is_raw(daemon: Daemon, ended: Callable[..., str]) -> None:
    """No frames, and the terminal's own line ends."""
    assert daemon.logs(ended("echo out; echo err >&2", Tty=True)) == b"out\r\nerr\r\n"


def test_a_megabyte_is_whole_and_in_order(daemon: Daemon, ended: Callable[..., str]) -> None:
    """Every line, once."""
    one = ended("seq 1 200000")
    assert frames.stdout(daemon.logs(one)) == b"".join(b"%d\n" % number for number in range(1, 200_001))


def test_following_ends_with_the_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """Lines come as they are said, and the answer ends after the last of them."""
    one = container("sh", "-c", FIVE)
    daemon.begin(one)
    assert lines(daemon, one, "stdout=1&follow=1") == [b"line %d\n" % number for number in range(1, 6)]


def test_following_delivers_a_line_when_it_is_said(daemon: Daemon, container: Callable[..., str]) -> None:
    """Not at the end, and not only when the next one comes."""
    one = container("sh", "-c", "echo first; sleep 60")
    daemon.begin(one)
    with daemon.connection() as connection:
        connection.open_stream("GET", f"/containers/{one}/logs?stdout=1&follow=1")
        assert next(connection.chunks()) == b"\1\0\0\0\0\0\0\6first\n"


def test_following_before_the_start(daemon: Daemon, container: Callable[..., str]) -> None:
    """A created container has an empty log; who follows it sees the end of it, or what it says once it runs."""
    one = container("sh", "-c", "echo late")
    assert lines(daemon, one, "stdout=1") == []


def test_following_with_a_tail(daemon: Daemon, container: Callable[..., str]) -> None:
    """The last lines so far, then what comes."""
    one = container("sh", "-c", "echo a; echo b; echo c; read x; echo d", OpenStdin=True)
    daemon.begin(one)
    with daemon.connection() as connection, daemon.connection() as stdin:
        stdin.hijack(f"/containers/{one}/attach?stream=1&stdin=1&stdout=1&logs=1")
        stdin.read_until(b"c\n")
        connection.open_stream("GET", f"/containers/{one}/logs?stdout=1&follow=1&tail=1")
        chunks = connection.chunks()
        assert next(chunks).endswith(b"c\n")
        stdin.send(b"go\n")
        assert b"".join(chunks).endswith(b"d\n")


def test_following_until_a_time_ends(daemon: Daemon, container: Callable[..., str]) -> None:
    """?until= in the past with follow ends though the container runs."""
    one = container("sh", "-c", "echo a; sleep 60")
    daemon.begin(one)
    answer = daemon.request("GET", f"/containers/{one}/logs?stdout=1&follow=1&until=1")
    assert answer.body == b""


def test_a_follower_that_goes_is_forgotten(daemon: Daemon, container: Callable[..., str]) -> None:
    """No thread stays for it, though the container says nothing."""
    one = container("sleep", "60")
    daemon.begin(one)

    def threads() -> int:
        with open(f"/proc/{daemon.pid}/status") as text:
            return next(int(line.split()[1]) for line in text if line.startswith("Threads:"))

    before = threads()
    for _ in range(10):
        with daemon.connection() as connection:
            connection.open_stream("GET", f"/containers/{one}/logs?stdout=1&follow=1")
    until(lambda: threads() <= before + 1)


def test_many_followers_see_the_same(daemon: Daemon, container: Callable[..., str]) -> None:
    """Eight at once, each everything."""
    one = container("sh", "-c", "seq 1 20000")
    daemon.begin(one)
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(daemon.logs(one, "stdout=1&follow=1"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = b"".join(b"%d\n" % number for number in range(1, 20_001))
    assert [frames.stdout(result) == wanted for result in results] == [True] * 8


def test_rotation_keeps_the_newest(daemon: Daemon, ended: Callable[..., str]) -> None:
    """max-size and max-file of the local driver bound what is kept. The first line may have begun in what is gone."""
    options = {"Type": "local", "Config": {"max-size": "100k", "max-file": "3"}}
    one = ended("seq 100000 299999", HostConfig={"LogConfig": options, "NetworkMode": "none"})
    found = frames.stdout(daemon.logs(one))
    assert found.endswith(b"299999\n")
    assert re.fullmatch(rb"\d{0,6}\n(\d{6}\n)+", found)
    assert 50_000 < len(found) < 1_000_000
    whole = [int(line) for line in found.split()[1:]]
    assert whole == list(range(whole[0], 300_000))


@pytest.mark.parametrize("most", ["1000000000", "4294967296", "9223372036854775807"])
@pytest.mark.parametrize("kind", ["local", "json-file"])
def test_a_log_may_have_more_files_than_there_can_be(
    daemon: Daemon, ended: Callable[..., str], kind: str, most: str
) -> None:
    """A rotation touches those that exist."""
    options = {"Type": kind, "Config": {"max-size": "200k", "max-file": most}}
    one = ended("seq 1 20000", HostConfig={"LogConfig": options, "NetworkMode": "none"})
    assert frames.stdout(daemon.logs(one)) == b"".join(b"%d\n" % number for number in range(1, 20_001))


def test_a_container_without_a_log_says_so(daemon: Daemon, ended: Callable[..., str]) -> None:
    """The driver none keeps nothing, and reading it is an error in docker's words."""
    one = ended("echo lost", HostConfig={"LogConfig": {"Type": "none"}, "NetworkMode": "none"})
    answer = daemon.request("GET", f"/containers/{one}/logs?stdout=1")
    assert answer.status >= 400
    assert "configured logging driver does not support reading" in answer.message


def test_a_slow_reader_keeps_nobody_waiting(daemon: Daemon, container: Callable[..., str]) -> None:
    """Neither the container nor another reader."""
    one = container("sh", "-c", "seq 1 500000")
    with daemon.connection() as slow:
        daemon.begin(one)
        slow.open_stream("GET", f"/containers/{one}/logs?stdout=1&follow=1")
        assert daemon.wait(one) == 0
        assert frames.stdout(daemon.logs(one)).endswith(b"500000\n")
        assert b"".join(slow.chunks()).endswith(b"500000\n")
