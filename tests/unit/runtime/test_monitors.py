"""The daemon's side of the handshake and of a container's end, against a monitor played by the test."""

import contextlib
import os
import queue
import signal
import struct
import subprocess
import threading
import time

import pytest

from engine.daemon.runtime import handshake
from engine.daemon.runtime import monitors as module
from engine.daemon.runtime import spawner as spawning
from engine.daemon.runtime.handshake import SilentMonitor, StartFailure
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.spawner import Spawner
from engine.errors import Conflict, SystemFailure, Unavailable
from engine.kernel import syscalls
from engine.wire import codec, endpoint, exitfile
from engine.wire.channel import Channel
from engine.wire.schema import (
    Attach,
    Client,
    Detached,
    Exited,
    Failed,
    LogTarget,
    NamespacesReady,
    Proceed,
    Start,
    Started,
    Warned,
)

REQUEST = Start(b"", "/nowhere", LogTarget(""))
SECONDS = 30


class Monitor:
    """Says the given messages, each after the one of the daemon's that it waits for."""

    def __init__(self, spawner: Channel, script):
        self.heard, self.unheard = [], None
        self.script = script
        self.spawner = spawner
        self.link = None
        self.thread = threading.Thread(target=self._play)
        self.thread.start()

    def _play(self):
        _, (link, *_) = self.spawner.receive()
        self.link = Channel.adopt(link)
        for message in self.script:
            if message is None:
                self.heard.append(self.link.receive()[0])
            else:
                self._say(message)

    def _say(self, message):
        try:
            if isinstance(message, bytes):
                self.link.socket.send(message)
            else:
                self.link.send(message)
        except BrokenPipeError as error:
            self.unheard = type(error)


@pytest.fixture
def links():
    ours, theirs = Channel.pair()
    ended = queue.Queue()
    with ours, theirs:
        links = Monitors(Spawner(ours, 0, "auto", "/nowhere"), lambda *arguments: ended.put(arguments))
        links.spawner_for_tests, links.ended_for_tests = theirs, ended
        yield links


def play(links, *script):
    return Monitor(links.spawner_for_tests, script)


def test_a_start_does_the_daemons_part_before_proceed(links):
    monitor = play(links, NamespacesReady(7, 8), None, Started(7, 8, 9))
    done = []
    assert links.start("c1", REQUEST, [], lambda: done.append(list(monitor.heard))) == Started(7, 8, 9)
    monitor.thread.join()
    assert done == [[]]
    assert monitor.heard == [Proceed()]


def test_the_end_is_heard_once_the_link_is_kept(links):
    monitor = play(links, NamespacesReady(7, 8), None, Started(7, 8, 9), Exited(3, 10))
    links.start("c1", REQUEST, [], lambda: None)
    monitor.thread.join()
    threading.Thread(target=links.watch, daemon=True).start()
    assert links.ended_for_tests.empty()
    links.keep("c1")
    assert links.ended_for_tests.get(timeout=SECONDS) == ("c1", Exited(3, 10))
    with pytest.raises(Conflict):
        links.send("c1", Attach(Client(1, True)), [])


def test_a_monitor_that_dies_is_an_end_without_a_word(links):
    monitor = play(links, NamespacesReady(7, 8), None, Started(7, 8, 9))
    links.start("c1", REQUEST, [], lambda: None)
    threading.Thread(target=links.watch, daemon=True).start()
    links.keep("c1")
    monitor.thread.join()
    monitor.link.close()
    assert links.ended_for_tests.get(timeout=SECONDS) == ("c1", None)


ALIEN = (b'J{"@":"FromTomorrow"}', b'J{"@":"Exited"}', b"M", b"\xff")


def test_what_is_not_understood_of_a_monitor_is_logged_and_no_end(links, caplog):
    """Of a newer one, that a later daemon has left."""
    script = [*ALIEN, NamespacesReady(7, 8), None, *ALIEN, Started(7, 8, 9), *ALIEN, Warned("said so"), Exited(3, 10)]
    monitor = play(links, *script)
    assert links.start("c1", REQUEST, [], lambda: None) == Started(7, 8, 9)
    threading.Thread(target=links.watch, daemon=True).start()
    links.keep("c1")
    assert links.ended_for_tests.get(timeout=SECONDS) == ("c1", Exited(3, 10))
    monitor.thread.join()
    told = [each.getMessage() for each in caplog.records]
    assert len(
        [each for each in told if each.startswith("c1: a message of its monitor cannot be decoded: ")]
    ) == 3 * len(ALIEN)
    assert "c1: said so" in told


def test_a_newer_monitors_fields_are_passed_over(links):
    newer = b'J{"@":"Started","pid":7,"pid_start":8,"started_ns":9,"mood":{"@bytes":"aGk="},"pets":[1]}'
    monitor = play(links, NamespacesReady(7, 8), None, newer)
    assert links.start("c1", REQUEST, [], lambda: None) == Started(7, 8, 9)
    monitor.thread.join()


@pytest.mark.parametrize("content", [b'{"@":"Left"}', codec.encode(Started(1, 2, 3))], ids=["unknown", "of no end"])
def test_an_exit_file_that_is_not_understood_is_none(links, tmp_path, caplog, content):
    exitfile.write(str(tmp_path), content)
    assert links.adopt("c1", str(tmp_path)) is None
    assert "exit cannot be decoded" in caplog.text


def test_a_failure_carries_what_init_said(links):
    monitor = play(links, NamespacesReady(7, 8), None, Failed("exec", 2, "no such thing", 127))
    with pytest.raises(StartFailure, match="no such thing") as caught:
        links.start("c1", REQUEST, [], lambda: None)
    monitor.thread.join()
    assert caught.value.failed.exit_code == 127


def test_a_start_that_never_comes_to_its_end_is_given_up_and_its_process_killed(links, monkeypatch):
    """It was told to go on, and would, without anybody to hear of it."""

    def no_longer(*_):  # from now on: until here the monitor may take its time
        monkeypatch.setattr(handshake, "START_SECONDS", 0.1)

    with subprocess.Popen(["sleep", "60"]) as process, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(process.kill)
        monitor = play(links, NamespacesReady(process.pid, syscalls.process_start(process.pid)), None)
        with pytest.raises(SystemFailure, match=r"given up after 0 seconds without a sign of life"):
            links.start("c1", REQUEST, [], lambda: None, no_longer)
        monitor.thread.join()
        assert monitor.heard == [Proceed()] and process.wait(SECONDS) == -signal.SIGKILL
        assert monitor.link.receive() is None
    assert not links.shown()


@pytest.mark.parametrize("verb", ["start", "enter"])
def test_a_monitor_that_never_says_a_word_is_given_up(links, monkeypatch, verb):
    monkeypatch.setattr(handshake, "START_SECONDS", 0.1)
    monitor = play(links)
    with pytest.raises(SystemFailure, match="does not answer"):
        links.start("c1", REQUEST, [], lambda: None) if verb == "start" else links.enter("e1", REQUEST, [])
    monitor.thread.join()
    assert monitor.link.receive() is None


def test_a_monitor_that_takes_nothing_holds_nobody_up(links, monkeypatch):
    """It may be stopped: its socket's buffer is full then, after some hundred messages."""
    monkeypatch.setattr(module, "_SEND_LIMIT", struct.pack("ll", 0, 10_000))
    monitor = play(links, NamespacesReady(7, 8), None, Started(7, 8, 9))
    links.start("c1", REQUEST, [], lambda: None)
    monitor.thread.join()
    with pytest.raises(SystemFailure, match="does not answer"):
        for _ in range(100_000):
            links.send("c1", Proceed(), [])


def test_a_spawner_that_takes_nothing_is_told_of(monkeypatch):
    monkeypatch.setattr(spawning, "_SEND_LIMIT", struct.pack("ll", 0, 10_000))
    ours, theirs = Channel.pair()
    with ours, theirs:
        spawner = Spawner(ours, 0, "auto", "/nowhere")
        with pytest.raises(Unavailable, match="does not answer"):
            for _ in range(100_000):
                spawner.send(REQUEST, [], ordinary=False)


def test_a_link_that_was_dropped_is_no_more(links):
    monitor = play(links, NamespacesReady(7, 8), None, Started(7, 8, 9))
    links.start("c1", REQUEST, [], lambda: None)
    links.keep("c1")
    monitor.thread.join()
    links.drop("c1")
    assert monitor.link.receive() is None and not links.shown()
    links.drop("c1")


def test_one_end_that_takes_long_holds_up_no_other(links):
    """A container that is paused may take 10 seconds to die."""
    gate, told = threading.Event(), queue.Queue()

    def ended(container, message):
        if container == "slow":
            assert gate.wait(3 * SECONDS)
        told.put((container, message))

    links._ended = ended
    threading.Thread(target=links.watch, daemon=True).start()
    for name in ("slow", "quick"):
        monitor = play(links, NamespacesReady(7, 8), None, Started(7, 8, 9), Exited(3, 10))
        links.start(name, REQUEST, [], lambda: None)
        links.keep(name)
        monitor.thread.join()
    assert told.get(timeout=SECONDS) == ("quick", Exited(3, 10))
    gate.set()
    assert told.get(timeout=SECONDS) == ("slow", Exited(3, 10))


def test_a_link_to_a_monitor_that_stays_is_not_closed_by_the_end_of_another_one(links):
    """Several threads hear of one end. The descriptor's number may be a new link's when the last of them comes to it,
    and a monitor whose link is closed answers its waiting clients itself, who have had their answer."""
    monitor = play(links, NamespacesReady(7, 8), None, Started(7, 8, 9, keeps_waiters=True), Exited(3, 10, 0, 1))
    links.start("c1", REQUEST, [], lambda: None)
    [(_, descriptor, _)] = links.shown()
    links.keep("c1")
    monitor.thread.join()
    assert links.look("c1")
    assert links.ended_for_tests.get(timeout=SECONDS) == ("c1", Exited(3, 10, 0, 1))
    links._hear(descriptor)
    links.removed("c1")
    assert monitor.link.receive_packed() == (b"R", [])
    monitor.link.close()
    links._hear(descriptor)
    assert not links._ends and not links._parting


def watching():
    """The threads that help to watch."""
    return {thread for thread in threading.enumerate() if thread.name == "links"}


def end(links, name):
    """A container that starts and ends."""
    monitor = play(links, NamespacesReady(7, 8), None, Started(7, 8, 9), Exited(3, 10))
    links.start(name, REQUEST, [], lambda: None)
    links.keep(name)
    monitor.thread.join()


def test_helpers_leave_when_there_is_nothing_and_one_always_watches(links, monkeypatch):
    """Also the first one may be busy for long: then the last helper stays."""
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.05)
    gate, told, others = threading.Event(), queue.Queue(), watching()
    links._ended = lambda container, _: (told.put(container), container == "slow" and gate.wait(3 * SECONDS))
    threading.Thread(target=links.watch, daemon=True).start()
    end(links, "slow")
    assert told.get(timeout=SECONDS) == "slow"
    time.sleep(0.2)
    end(links, "quick")
    assert told.get(timeout=SECONDS) == "quick" and watching() - others
    gate.set()
    latest = time.monotonic() + SECONDS
    while watching() - others:
        assert time.monotonic() < latest
        time.sleep(0.01)
    end(links, "later")
    assert told.get(timeout=SECONDS) == "later"


def test_there_are_never_more_helpers_than_are_allowed(links, monkeypatch):
    monkeypatch.setattr(module, "_MOST_HELPERS", 2)
    gate, told, others = threading.Event(), queue.Queue(), watching()
    links._ended = lambda container, _: (told.put(container), gate.wait(3 * SECONDS))
    threading.Thread(target=links.watch, daemon=True).start()
    for number in range(6):
        end(links, f"c{number}")
    first = {told.get(timeout=SECONDS) for _ in range(3)}
    assert told.empty() and len(watching() - others) == 2
    gate.set()
    assert len(first | {told.get(timeout=SECONDS) for _ in range(3)}) == 6


def test_a_link_keeps_its_order_however_many_watch(links):
    """An end is not heard beside what came before it on the same link."""
    told = queue.Queue()
    links._detached = lambda _: (time.sleep(0.1), told.put("detached"))
    links._ended = lambda *_: told.put("ended")
    for _ in range(3):
        threading.Thread(target=links.watch, daemon=True).start()
    monitor = play(links, NamespacesReady(7, 8), None, Started(7, 8, 9), Detached(), Detached(), Exited(3, 10))
    links.start("c1", REQUEST, [], lambda: None)
    links.keep("c1")
    monitor.thread.join()
    assert [told.get(timeout=SECONDS) for _ in range(3)] == ["detached", "detached", "ended"]


def test_a_monitor_that_dies_while_it_starts_is_a_failure(links):
    monitor = play(links)
    monitor.thread.join(0)
    threading.Thread(target=lambda: (monitor.thread.join(), monitor.link.close())).start()
    with pytest.raises(SystemFailure):
        links.start("c1", REQUEST, [], lambda: None)


def test_a_daemons_part_that_fails_ends_the_monitor_before_the_start_has_failed(links):
    """The next start has the same exec directory, in which a late monitor would make its socket."""
    monitor = play(links, NamespacesReady(7, 8))
    ended = []

    def leave():
        monitor.thread.join()
        ended.append(monitor.link.receive())
        monitor.link.close()

    leaving = threading.Thread(target=leave)

    def meanwhile():
        leaving.start()
        raise SystemFailure("no cgroup")

    with pytest.raises(SystemFailure, match="no cgroup"):
        links.start("c1", REQUEST, [], meanwhile)
    assert ended == [None]
    leaving.join()


def test_a_monitor_that_does_not_end_is_not_waited_for_long(links, monkeypatch, caplog):
    monkeypatch.setattr(handshake, "_KILLED_SECONDS", 0.05)
    monitor = play(links, NamespacesReady(7, 8), Warned("still here"))

    def connect(pid, pid_start):
        raise SystemFailure("no bridge")

    with pytest.raises(SystemFailure, match="no bridge"):
        links.start("c1", REQUEST, [], lambda: None, connect)
    assert "c1: the monitor of its failed start does not end" in caplog.text
    monitor.link.close()


def test_without_a_spawner_nothing_starts(links, monkeypatch):
    monkeypatch.setattr("sys.executable", "/no/such/python")
    links.spawner_for_tests.close()
    with pytest.raises(Unavailable):
        links.start("c1", REQUEST, [], lambda: None)


def test_adopting_finds_the_exit_file_or_nothing(links, tmp_path):
    assert links.adopt("c1", str(tmp_path)) is None
    exitfile.write(str(tmp_path), codec.encode(Exited(5, 6)))
    assert links.adopt("c1", str(tmp_path)) == Exited(5, 6)
    assert os.listdir(tmp_path) == [exitfile.EXIT]


def test_adopting_does_not_wait_for_a_monitor_that_does_not_answer(links, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_GREETING_SECONDS", 0.05)
    with endpoint.listen(str(tmp_path)) as listener:
        with pytest.raises(SilentMonitor) as caught:
            links.adopt("c1", str(tmp_path))
        assert caught.value.linked
        links.keep("c1")
        threading.Thread(target=links.watch, daemon=True).start()
        with Channel(listener.accept()[0]) as late:
            late.send(Started(7, 8, 9))
            late.send(Exited(3, 10))
            assert links.ended_for_tests.get(timeout=SECONDS) == ("c1", Exited(3, 10))


@pytest.mark.alone
def test_monitors_that_do_not_answer_are_waited_for_side_by_side(links, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_GREETING_SECONDS", 0.3)
    silent = {f"c{number}": str(tmp_path / str(number)) for number in range(10)}
    with contextlib.ExitStack() as stack:
        for path in silent.values():
            os.mkdir(path)
            stack.enter_context(endpoint.listen(path))
        begun = time.monotonic()
        links.call((*each, endpoint.NAME) for each in (*silent.items(), ("gone", str(tmp_path / "gone"))))
        for container, path in silent.items():
            with pytest.raises(SilentMonitor):
                links.adopt(container, path)
        assert links.adopt("gone", str(tmp_path / "gone")) is None
        assert time.monotonic() - begun < 5 * 0.3


def test_adopting_does_not_wait_where_too_many_daemons_have_waited_before(links, tmp_path):
    with endpoint.listen(str(tmp_path)):
        waiting = []
        with pytest.raises(BlockingIOError):
            while True:
                waiting.append(endpoint.connect(str(tmp_path), 0.05))
        with pytest.raises(SilentMonitor) as caught:
            links.adopt("c1", str(tmp_path))
        assert not caught.value.linked
        for connection in waiting:
            connection.close()
