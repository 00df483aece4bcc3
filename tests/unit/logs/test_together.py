"""Followers of one log that go on together: each gets what it would get alone, and one of them reads for all."""

import contextlib
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import _muxer
from engine.logs import jsonreader, sending
from engine.logs.jsonwriter import JsonWriter
from engine.logs.openlog import OpenLog
from engine.logs.query import Query
from engine.logs.writer import Writer
from tests.harness.descriptors import all_open
from tests.harness.listening import until

pytestmark = pytest.mark.skipif(not _muxer.built(), reason="the Python reader reads for one client each")
SECONDS = 60.0
FORMS = pytest.mark.parametrize("form", ["local", "json-file"])
NAME, SIZE, FILES = "x", 400_000, 200
OUT, ERR = 1, 2


@dataclass
class Follower:
    """A client, and the thread that sends it the log."""

    near: socket.socket
    thread: threading.Thread
    got: bytearray = field(default_factory=bytearray)
    result: list[bool] = field(default_factory=list)

    def receive(self, enough: int | None = None) -> bytes:
        """All that comes, or so many bytes of it."""
        while enough is None or len(self.got) < enough:
            data = self.near.recv(65536)
            if not data:
                assert enough is None, "its end has come"
                break
            self.got += data
        return bytes(self.got)

    def receive_up_to(self, last: bytes) -> None:
        """Receive until these bytes are the last that came."""
        while not self.got.endswith(last):
            self.receive(len(self.got) + 1)


class Crowd:
    """One log of a form, and its followers."""

    def __init__(self, directory: Path, form: str) -> None:
        self._directory, self._json = str(directory), form == "json-file"
        self.log: OpenLog = (
            JsonWriter(self._directory, NAME, SIZE, FILES) if self._json else Writer(self._directory, SIZE, FILES)
        )
        self._ended = os.eventfd(0)
        self.followers: list[Follower] = []

    def _send(self, muxer: str, fd: int, query: Query, chunked: bool, ended: int | None) -> bool:
        if not self._json:
            return sending.sender(muxer)(self._directory, fd, query, chunked, ended)
        make = sending.lines(muxer)
        sent = jsonreader.send(self._directory, NAME, fd, query, chunked=chunked, ended_fd=ended, make=make)
        return sent is not None

    def follow(self, query: Query, chunked: bool = False, room: int | None = None) -> Follower:
        """One more follower. room: of its socket, in bytes"""
        near, far = socket.socketpair()
        near.settimeout(SECONDS)
        if room is not None:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)

        def send() -> None:
            with far:
                follower.result.append(self._send("c", far.fileno(), query, chunked, self._ended))

        follower = Follower(near, threading.Thread(target=send))
        self.followers.append(follower)
        follower.thread.start()
        return follower

    def say(self, stream: int, data: bytes) -> None:
        """The container writes this."""
        if self.log.full:
            self.log.rotate()
        self.log.append(stream, data)

    def whole(self, query: Query) -> bytes:
        """What the Python reader sends of the whole log."""
        near, far = socket.socketpair()
        with near, ThreadOf(lambda: Follower(near, threading.current_thread()).receive()) as receiving:
            with far:
                assert self._send("python", far.fileno(), query, False, None)
            return receiving.result()

    def end(self) -> None:
        """The log is complete."""
        os.eventfd_write(self._ended, 1)

    def close(self) -> None:
        """End everything."""
        self.end()
        for follower in self.followers:
            follower.near.close()
            follower.thread.join(SECONDS)
            assert not follower.thread.is_alive()
        self.log.close()
        os.close(self._ended)


class ThreadOf:
    """Runs a function in a thread while its block runs."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        self._found: list[bytes] = []
        self._thread = threading.Thread(target=lambda: self._found.append(work()))

    def __enter__(self) -> "ThreadOf":
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._thread.join(SECONDS)

    def result(self) -> bytes:
        """What it has returned, once it has ended."""
        self._thread.join(SECONDS)
        return self._found[0]


@pytest.fixture
def crowd(tmp_path: Path, form: str) -> Iterator[Crowd]:
    made = Crowd(tmp_path, form)
    yield made
    made.close()


def body(sent: bytes) -> bytes:
    """What chunks of HTTP hold (RFC 9112, section 7.1)."""
    found = b""
    while head := re.match(rb"([0-9a-f]+)\r\n", sent):
        size = int(head[1], 16)
        found += sent[head.end() : head.end() + size]
        sent = sent[head.end() + size :]
        assert sent.startswith(b"\r\n")
        sent = sent[2:]
        if size == 0:
            break
    assert sent == b""
    return found


def chatter(chance: random.Random) -> Iterator[tuple[int, bytes]]:
    """What a container writes: mostly lines, some of them in pieces, sometimes very much at once."""
    for number in range(400):
        stream = chance.choice((OUT, OUT, ERR))
        kind = chance.random()
        if kind < 0.7:
            yield stream, b"line %d\n" % number * chance.choice((1, 1, 1, 5))
        elif kind < 0.9:
            yield stream, b"piece %d " % number
        elif kind < 0.95:
            yield stream, b"y" * chance.randrange(40_000) + b"\n"
        else:
            for _ in range(5):
                yield stream, b"much %06d\n" % number * 2000


@pytest.mark.parametrize("chunked", [False, True])
@FORMS
def test_each_gets_what_it_would_get_alone(crowd: Crowd, chunked: bool) -> None:
    """Whatever is written, and whenever a follower comes and how slowly its client takes it."""
    chance = random.Random(7)
    with contextlib.ExitStack() as stack:
        receiving = []

        def follow(room: int | None) -> None:
            follower = crowd.follow(Query(), chunked, room)
            receiving.append(stack.enter_context(ThreadOf(follower.receive)))

        for number in range(6):
            follow(4096 if number % 3 == 0 else None)
        late = crowd.follow(Query(), chunked, 4096)  # nobody receives from it until the end
        for number, (stream, data) in enumerate(chatter(chance)):
            crowd.say(stream, data)
            if number % 60 == 30:
                follow(None)
            if chance.random() < 0.5:
                time.sleep(0.001)
        crowd.end()
        got = [late.receive(), *(each.result() for each in receiving)]
    wanted = crowd.whole(Query())
    assert len(wanted) > 1_000_000
    for each in got:
        assert (body(each) if chunked else each) == wanted


def framed(line: bytes) -> bytes:
    """A line of the standard output as a client gets it."""
    return b"\1\0\0\0" + len(line).to_bytes(4, "big") + line


def reads() -> int:
    """How often this process has called read(2) or pread(2) (proc_pid_io(5))."""
    found = re.search(r"^syscr: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def instances() -> int:
    """How many watches of inotify(7) this process has."""
    return all_open()["anon_inode:inotify"]


def settle(crowd: Crowd, before: int) -> None:
    """Write lines until one follower watches for all."""

    def together() -> bool:
        crowd.say(OUT, b"settle\n")
        time.sleep(0.05)
        return instances() == before + 1

    until(together)


@FORMS
def test_a_hundred_followers_cost_one_read(crowd: Crowd) -> None:
    before = instances()
    for _ in range(100):
        crowd.follow(Query(tail=0))
    settle(crowd, before)
    lines, begun = 40, reads()
    for number in range(lines):
        crowd.say(OUT, b"line %d\n" % number)
        time.sleep(0.005)
    wanted = b"".join(framed(b"line %d\n" % number) for number in range(lines))
    for follower in crowd.followers:
        follower.receive_up_to(wanted)
    taken = reads() - begun
    assert taken < lines * 12, taken  # at most twelve for each line; alone each follower takes three or four
    assert instances() == before + 1


@FORMS
def test_the_others_go_on_when_one_leaves(crowd: Crowd) -> None:
    """Also when it is the one that reads, and one after the other is that once."""
    before = instances()
    for _ in range(8):
        crowd.follow(Query(tail=0))
    settle(crowd, before)
    left = list(crowd.followers)
    while left:
        gone = left.pop(len(left) // 2)
        gone.near.close()
        gone.thread.join(SECONDS)
        assert gone.result == [False]
        line = framed(b"%d are left\n" % len(left))
        crowd.say(OUT, line[8:])
        for follower in left:
            follower.receive_up_to(line)


@FORMS
def test_nobody_waits_for_a_client_that_takes_nothing(crowd: Crowd) -> None:
    """Whoever of them reads. In the end that client gets everything too."""
    before = instances()
    for _ in range(3):
        crowd.follow(Query(), room=4096)
    for stuck in crowd.followers:
        settle(crowd, before)
        for number in range(100):
            line = framed(b"%d " % number * 30 + b"\n")
            crowd.say(OUT, line[8:])
            for follower in crowd.followers:
                if follower is not stuck:
                    follower.receive_up_to(line)
        wanted = crowd.whole(Query())
        for follower in crowd.followers:
            assert follower.receive(len(wanted)) == wanted


@FORMS
def test_who_wants_something_else_gets_it(crowd: Crowd) -> None:
    later = time.time_ns() + 10**15
    queries = [Query(), Query(timestamps=True), Query(tty=True), Query(stdout=False), Query(until_ns=later)]
    followers = [(query, crowd.follow(query)) for query in queries * 2]
    for number in range(50):
        crowd.say(OUT if number % 2 else ERR, b"line %d\n" % number)
        time.sleep(0.002)
    crowd.end()
    for query, follower in followers:
        assert follower.receive() == crowd.whole(query)
        follower.thread.join(SECONDS)
        assert follower.result == [True]


@FORMS
def test_what_is_too_much_for_those_who_wait_is_read_by_each(crowd: Crowd) -> None:
    """A chunk of 64 KiB that has nothing but ends of lines becomes 40 times as long with a time before each."""
    before = instances()
    prefix = b"p" * 60
    for _ in range(4):
        crowd.follow(Query(timestamps=True, tail=0, prefix=prefix))
    settle(crowd, before)
    with contextlib.ExitStack() as stack:
        receiving = [stack.enter_context(ThreadOf(each.receive)) for each in crowd.followers]
        crowd.say(OUT, b"\n" * 60_000)
        crowd.say(OUT, b"the end\n")
        crowd.end()
        got = [each.result() for each in receiving]
    wanted = crowd.whole(Query(timestamps=True, prefix=prefix))
    assert all(len(each) > 60_000 * 40 and wanted.endswith(each) for each in got)


def test_pieces_of_a_line_from_before_since_are_not_shared(tmp_path: Path) -> None:
    """In a log of JSON lines each piece of a long line has the time of the first."""
    crowd = Crowd(tmp_path, "json-file")
    try:
        before = instances()
        crowd.say(OUT, b"a" * 20_000)
        time.sleep(0.01)
        since = Query(since_ns=time.time_ns())
        later, all_of_it = crowd.follow(since), crowd.follow(Query())
        until(lambda: instances() == before + 2)
        time.sleep(0.1)
        crowd.say(OUT, b"b" * 20_000 + b"\n")
        crowd.say(OUT, b"the end\n")
        crowd.end()
        assert all_of_it.receive().count(b"b") == 20_000
        assert later.receive() == crowd.whole(since)
    finally:
        crowd.close()
