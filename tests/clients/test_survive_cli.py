"""The docker CLI in the foreground lives through kills of the daemon: every line, and the container's own exit code."""

import os
import pty
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness.daemon import Daemon

pytestmark = pytest.mark.skipif(shutil.which("docker") is None, reason="needs the docker CLI")

KILLS = 3
SECONDS = 60
# Says a line every few milliseconds until there is a file, then how many there were, and ends with 23.
TALKER = "i=0; until [ -e /{0} ]; do i=$((i+1)); echo line $i; sleep 0.005; done; echo $i in all; exit 23"
RUNS = {
    "plain": ("run",),
    "removed": ("run", "--rm"),
    "input": ("run", "--rm", "-i"),
    "terminal": ("run", "-t"),
    "both": ("run", "--rm", "-it"),
}


class Foreground:
    """A CLI that runs; `said` is what it has shown so far, errors too."""

    def __init__(self, daemon: Daemon, *words: str, terminal: bool) -> None:
        ours, theirs = pty.openpty() if terminal else os.pipe()
        given, self._typing = (os.dup(theirs), -1) if terminal else os.pipe()
        command = ["docker", *words]
        self.process = subprocess.Popen(
            command, env=daemon.environment, stdin=given, stdout=theirs, stderr=theirs, start_new_session=True
        )
        for descriptor in (given, theirs):
            os.close(descriptor)
        self.said = b""
        self._reader = threading.Thread(target=self._read, args=(ours,))
        self._reader.start()

    def _read(self, descriptor: int) -> None:
        try:
            while data := os.read(descriptor, 1 << 16):
                self.said += data
        except OSError:
            pass  # EIO: the terminal's last user has closed it
        finally:
            os.close(descriptor)

    def ended(self) -> tuple[int, list[str]]:
        """The exit status and all lines, once it has ended."""
        status = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return status, self.said.decode().replace("\r\n", "\n").splitlines()

    def close(self) -> None:
        """End it, if a failed test has not."""
        self.process.kill()
        self.process.wait()
        self._reader.join(SECONDS)
        if self._typing >= 0:
            os.close(self._typing)


@pytest.fixture
def killed(make_daemon: Callable[..., Daemon], request: pytest.FixtureRequest) -> Daemon:
    """A daemon for one test, with one of the two muxers, with busybox."""
    daemon = make_daemon("--muxer", request.param)
    daemon.import_busybox()
    return daemon


@pytest.fixture
def foreground(killed: Daemon) -> Iterator[Callable[..., Foreground]]:
    """Begin a CLI and see the first of what it shows."""
    begun = []

    def begin(*words: str, terminal: bool) -> Foreground:
        begun.append(Foreground(killed, *words, terminal=terminal))
        until(lambda: b"line 1" in begun[-1].said, begun[-1])
        return begun[-1]

    yield begin
    for each in begun:
        each.close()


def until(true: Callable[[], object], what: object) -> None:
    """Return when it has come true."""
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, vars(what)
        time.sleep(0.01)


def whole(lines: list[str]) -> bool:
    """Whether these are all lines of a talk, by its own count."""
    count = len(lines) - 1
    return count > 0 and lines == [*(f"line {number}" for number in range(1, count + 1)), f"{count} in all"]


def enough(pid: int, name: str) -> None:
    """Have a talker end, without any daemon."""
    with open(f"/proc/{pid}/root/{name}", "w"):
        pass


@pytest.mark.parametrize(
    ("killed", "alone"),
    [
        pytest.param("c", False, id="the last daemon is there"),
        pytest.param("c", True, id="no daemon is there"),
        pytest.param("python", True, id="no daemon is there, in Python"),
    ],
    indirect=["killed"],
)
def test_foreground_runs(killed: Daemon, foreground: Callable[..., Foreground], alone: bool) -> None:
    """With and without --rm, a terminal and input; the end comes under a new daemon, or between two."""
    clients = {
        name: foreground(
            *words,
            "--name",
            name,
            "--network",
            "none",
            "busybox",
            "sh",
            "-c",
            TALKER.format("enough"),
            terminal=name in ("terminal", "both"),
        )
        for name, words in RUNS.items()
    }
    pids = [killed.inspect(name)["State"]["Pid"] for name in RUNS]
    for kill in range(KILLS):
        killed.kill9()
        if alone and kill == KILLS - 1:
            break
        killed.start()
    for pid in pids:
        enough(pid, "enough")
    if alone:
        for name in ("plain", "terminal"):
            assert clients[name].ended()[0] == 23
        killed.start()
    for name, client in clients.items():
        status, lines = client.ended()
        assert (name, status, whole(lines)) == (name, 23, True), lines[-3:]
    left = {each["Names"][0] for each in killed.request("GET", "/containers/json?all=1").json()}
    assert left == {"/plain", "/terminal"}
