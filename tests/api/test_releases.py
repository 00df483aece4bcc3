"""Containers over an upgrade and a downgrade: the release before, and this one, adopt what the other has started."""

import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import _muxer
from tests.api.logdrivers import attached, driver
from tests.api.networking import subnet
from tests.harness import execs, frames, released
from tests.harness.daemon import PROJECT, PYTHON
from tests.harness.fixtures import World
from tests.harness.released import Changing

pytestmark = pytest.mark.seldom
ALIVE = ("terminal", "paused", "talker", "named")
TALKER = "trap 'echo bye; exit 5' TERM; i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done"
# The C part of the release before is built for the Python of the tests, and not for another that runs the daemons.
MUXERS = ("auto", "python") if _muxer.built() and sys.executable == PYTHON else ("python",)
JSON = driver("json-file", max_size="1m", max_file="2")


@pytest.fixture(scope="module")
def before() -> Path:
    """The tree of the release before."""
    return released.before()


@pytest.fixture(params=MUXERS)
def changing(world: World, request: pytest.FixtureRequest) -> Iterator[Changing]:
    """A daemon that may change its tree, with either muxer; not started. In the end it is of this one."""
    daemon = Changing(world.directory(), world.namespaces, ("--muxer", request.param))
    yield daemon
    if daemon.process is not None and daemon.tree != PROJECT:
        daemon.kill9()
    daemon.tree = PROJECT
    daemon.close()


def until(check: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def heard(client: socket.socket, wanted: bytes) -> bytes:
    """Read until this was said."""
    got = b""
    while wanted not in got:
        more = client.recv(1 << 16)
        assert more, got
        got += more
    return got


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for this signal."""
    found = re.search(r"^SigCgt:\s+(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(found[1], 16) & 1 << number - 1)


class Left:
    """What a daemon has started, of every kind, and what is open to it. Each method is one kind's life afterwards."""

    def __init__(self, daemon: Changing) -> None:
        self.daemon = daemon
        daemon.import_busybox()
        # The new size and the next bytes take different ways to the terminal.
        script = "read x; until stty size | grep '33 44'; do sleep 0.02; done; read x; exit 3"
        self.terminal = self._begun("sh", "-c", script, name="terminal", Tty=True, OpenStdin=True)
        self.client = attached(daemon, self.terminal, "stream=1&stdin=1&stdout=1")
        self.paused = self._begun("sh", "-c", TALKER, name="paused")
        self.talker = self._begun("sh", "-c", TALKER, name="talker", **JSON)
        self.short = self._begun(
            "sh", "-c", "trap 'echo last; exit 9' USR1; while :; do sleep 0.02; done", name="short"
        )
        assert daemon.request("POST", "/networks/create", {"Name": "places", **subnet("10.78.0.0/24")}).status == 201
        self._begun("sleep", "1000", name="named", HostConfig={"NetworkMode": "places"})
        until(lambda: catches(daemon.inspect("short")["State"]["Pid"], signal.SIGUSR1))
        self.created = daemon.create("sh", "-c", "exit 4", name="created")
        for one in (self.paused, self.talker):
            until(lambda one=one: b"line 3\n" in daemon.logs(one))
        assert daemon.request("POST", "/containers/paused/pause").status == 204
        running = execs.create(daemon, self.talker, "sh", "-c", "echo up; cat; exit 6", AttachStdin=True)
        self.exec = execs.attached(daemon, running)
        self.exec.read_until(b"up\n")
        self.pids = {name: daemon.inspect(name)["State"]["Pid"] for name in ALIVE}

    def _begun(self, *argv: str, **body: object) -> str:
        one = self.daemon.create(*argv, **body)
        self.daemon.begin(one)
        return one

    def end_unseen(self) -> None:
        """While there is no daemon, a container ends."""
        pid = self.daemon.inspect("short")["State"]["Pid"]
        monitor = released.monitor_of(pid)
        self.daemon.kill9()
        os.kill(pid, signal.SIGUSR1)
        until(lambda: not released.exists(monitor))

    def are_listed(self) -> None:
        """Each is listed unchanged, with its process; and what has ended has its exit code."""
        daemon = self.daemon
        listed = {each["Names"][0]: each["State"] for each in daemon.request("GET", "/containers/json?all=1").json()}
        assert listed == {
            "/terminal": "running",
            "/paused": "paused",
            "/talker": "running",
            "/named": "running",
            "/short": "exited",
            "/created": "created",
        }
        for name, pid in self.pids.items():
            assert daemon.inspect(name)["State"]["Pid"] == pid and released.exists(pid)
        assert daemon.inspect("short")["State"]["ExitCode"] == 9
        assert frames.stdout(daemon.logs("short")) == b"last\n"

    def terminal_lives(self) -> None:
        """The client of before is served, another comes, and the size of the terminal is changed."""
        daemon = self.daemon
        with self.client, attached(daemon, "terminal", "stream=1&stdin=1&stdout=1") as client:
            assert daemon.request("POST", "/containers/terminal/resize?h=33&w=44").status == 200
            client.sendall(b"\n")
            heard(client, b"33 44")
            heard(self.client, b"33 44")
            self.client.sendall(b"\n")
            assert daemon.wait("terminal") == 3

    def execs_live(self) -> None:
        """The one of before goes on to its end, and others are made."""
        self.exec.send(b"still here\n")
        self.exec.read_until(b"still here\n")
        assert execs.run(self.daemon, "talker", "sh", "-c", "echo new; exit 2") == (2, "new\n", "")
        self.exec.half_close()
        self.exec.read_to_end()

    def names_live(self) -> None:
        """They are answered by the resolver of before, that of one more container too."""
        found = execs.run(self.daemon, "named", "nslookup", "-type=a", "named.")
        assert "Address: 10.78.0.2" in found.out, found
        other = self._begun("sleep", "1000", name="other", HostConfig={"NetworkMode": "places"})
        assert "Address: 10.78.0.3" in execs.run(self.daemon, "named", "nslookup", "-type=a", "other.").out
        self.daemon.remove(other)

    def talker_lives(self) -> None:
        """Its log has every line; a client that wants them all gets them all; it is stopped."""
        daemon = self.daemon
        with attached(daemon, "talker", "logs=1&stream=1&stdout=1") as client:
            got = heard(client, b"line 5\n")
            assert got.count(b"line 1\n") == 1
        assert daemon.request("POST", "/containers/talker/stop").status == 204
        assert daemon.inspect("talker")["State"]["ExitCode"] == 5
        lines = frames.stdout(daemon.logs("talker")).splitlines()
        assert lines[-1] == b"bye"
        assert lines[:-1] == [b"line %d" % (number + 1) for number in range(len(lines) - 1)]

    def paused_lives(self) -> None:
        """It goes on when it is told to, and ends as ever."""
        daemon = self.daemon
        count = len(frames.stdout(daemon.logs("paused")).splitlines())
        assert daemon.request("POST", "/containers/paused/unpause").status == 204
        until(lambda: len(frames.stdout(daemon.logs("paused")).splitlines()) > count)
        assert daemon.request("POST", "/containers/paused/kill?signal=TERM").status == 204
        assert daemon.wait("paused") == 5

    def start_again(self) -> None:
        """What has ended, and what was only made, runs with this daemon; and all can be removed."""
        daemon = self.daemon
        daemon.begin("created")
        assert daemon.wait("created") == 4
        daemon.begin("talker")
        for name in (*ALIVE, "short", "created"):
            assert daemon.request("DELETE", f"/containers/{name}?force=1").status == 204
        assert daemon.request("DELETE", "/networks/places").status == 204
        assert os.listdir(daemon.exec_root / "containers") == []


def live_on(left: Left) -> None:
    """All that is left lives and ends with the daemon that there is now."""
    left.are_listed()
    left.terminal_lives()
    left.execs_live()
    left.names_live()
    left.talker_lives()
    left.paused_lives()
    left.start_again()


def test_this_release_adopts_what_the_one_before_has_started(changing: Changing, before: Path) -> None:
    changing.tree = before
    changing.start()
    assert changing.runs() == str(before)
    left = Left(changing)
    left.end_unseen()
    changing.tree = PROJECT
    changing.start()
    assert changing.runs() == str(PROJECT)
    live_on(left)


def test_the_release_before_adopts_what_this_one_has_started_or_leaves_it_alone(
    changing: Changing, before: Path
) -> None:
    """It refuses a database of a schema that it does not know, and this release finds all as it was."""
    changing.start()
    if changing.request("GET", "/info").json()["CgroupDriver"] == "systemd":
        pytest.skip("the release before does not find a container's cgroup in a scope of systemd")
    left = Left(changing)
    left.end_unseen()
    changing.tree = before
    if released.schema(before) == released.schema(PROJECT):
        changing.start()
        assert changing.runs() == str(before)
    else:
        changing.start(wait=False)
        assert changing.process.wait(60) == 1
        assert "was written by a newer engine" in changing.log
        changing.process, changing.tree = None, PROJECT
        changing.start()
    live_on(left)


@pytest.mark.parametrize("changing", MUXERS[:1], indirect=True)
def test_a_spawner_of_another_version_makes_no_container(changing: Changing, tmp_path: Path) -> None:
    """The tree was replaced under a daemon that runs, and its spawner has died: it says so, and all else goes on."""
    for name in ("engine", "_muxer"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    changing.tree = tmp_path
    changing.start()
    changing.import_busybox()
    running = changing.create("sh", "-c", TALKER)
    changing.begin(running)
    with open(tmp_path / "engine/wire/packed.py", "a") as file:
        file.write("# of another version\n")
    for pid in Path(f"/proc/{changing.pid}/task/{changing.pid}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    one = changing.create("sh", "-c", "exit 4")
    for _ in range(2):
        answer = changing.request("POST", f"/containers/{one}/start")
        assert answer.status == 503 and "of another version than this daemon" in answer.message, answer
    assert changing.inspect(running)["State"]["Running"]
    changing.becomes(tmp_path)
    changing.begin(one)
    assert changing.wait(one) == 4
    assert changing.inspect(running)["State"]["Running"]
