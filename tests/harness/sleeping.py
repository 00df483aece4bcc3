"""Daemons that end when they have nothing to do, and who starts them again: a stand-in for systemd, or `engine listen`.

Run by the test process. Both hold the daemon's socket from before its first start until after its last one.
"""

import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.harness.daemon import Daemon
from tests.harness.pace import patient

SECONDS = 60.0
# A shell makes the socket descriptor 3, and says whom it is for (sd_listen_fds(3)).
_PASSED = 'exec 3<&{0} {0}<&-; export LISTEN_PID=$$; exec "$@"'

_WITHOUT_SLEEPER = (
    "import sys; from engine.listen import main; main._program = lambda: None; sys.exit(main.main(sys.argv[1:]))"
)

_HANGUP = 1  # the bit of SIGHUP in a set of signals (proc_pid_status(5))


def until(true: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Return when it has come true."""
    end = time.monotonic() + patient(seconds)
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.01)


UNTIL_TOLD = "trap 'exit 3' USR1; while :; do sleep 0.02; done"
"""The command of a shell that ends with 3 once it is sent SIGUSR1."""


def first_process(daemon: Daemon, container: str) -> int:
    """The process 1 of a container that runs UNTIL_TOLD, once it can be told.

    Its own command names `sleep` too, and a signal that comes before the trap is there is lost.
    """

    def waits() -> bool:
        shown = daemon.request("GET", f"/containers/{container}/top", checked=False).json()
        return any(row[-1].startswith("sleep") for row in shown.get("Processes") or ())

    until(waits, "the shell does not wait")
    return daemon.inspect(container)["State"]["Pid"]


def until_asleep(daemon: Daemon, running: Callable[[], int], seconds: float = SECONDS) -> None:
    """Return when the daemon has ended by itself. running: the process that it is now, 0 for none"""
    end = time.monotonic() + patient(seconds)
    while pid := running():
        if time.monotonic() > end:
            os.kill(pid, signal.SIGUSR1)  # it writes into its log what it is doing
            time.sleep(1)
            raise AssertionError(f"it does not end: {daemon.log[-6000:]}")
        time.sleep(0.01)


def woken(sleeper: int) -> int:
    """The process of the daemon that this process of `engine listen` has started; 0 while there is none."""
    with open(f"/proc/{sleeper}/task/{sleeper}/children") as file:
        return int((file.read().split() or ["0"])[0])


class Activated:
    """What systemd does for a service with a socket, for a daemon: starts it when a client connects, and whenever it
    has ended; counts the starts. A start that is to be held back waits for `gate`.
    """

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.starts = 0
        self.statuses: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(daemon.socket))
        there = daemon.socket.parent.stat()  # root's, or a user's whose systemd it stands for
        os.chown(daemon.socket, there.st_uid, there.st_gid)
        self._listener.listen(4096)
        self._end, self._bell = os.pipe2(os.O_CLOEXEC)
        self._process: subprocess.Popen | None = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def asleep(self) -> bool:
        """Whether no daemon runs, and none is about to."""
        return self._process is None

    @property
    def pid(self) -> int:
        """The daemon's process."""
        assert self._process is not None, "it is asleep"
        return self._process.pid

    def _serve(self) -> None:
        while True:
            told, _, _ = select.select([self._listener, self._end], [], [])
            self.gate.wait()
            if self._end in told:
                return
            self.starts += 1
            self._process = self._start()
            self.statuses.append(self._process.wait())
            self._process = None

    def _start(self) -> subprocess.Popen:
        descriptor = self._listener.fileno()
        command = ["bash", "-c", _PASSED.format(descriptor), "sh", *self.daemon.arguments()]
        with open(self.daemon.log_file, "ab") as log:
            return subprocess.Popen(
                self.daemon.namespaces.command(command),
                env={**self.daemon.environment, "LISTEN_FDS": "1"},
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def sleeps(self, seconds: float = SECONDS) -> None:
        """Return when the daemon has ended by itself."""
        until_asleep(self.daemon, self._running, seconds)

    def _running(self) -> int:
        process = self._process
        return process.pid if process is not None else 0

    def close(self) -> None:
        """Remove all containers, and end."""
        for container in self.daemon.request("GET", "/containers/json?all=1").json():
            self.daemon.remove(container["Id"])
        os.write(self._bell, b"x")
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGTERM)
        self.gate.set()
        self._thread.join()
        self._listener.close()
        os.close(self._end)
        os.close(self._bell)


@contextmanager
def activated(daemon: Daemon) -> Iterator[Activated]:
    """The daemon behind a socket, emptied and ended afterwards."""
    manager = Activated(daemon)
    try:
        yield manager
    finally:
        manager.close()


class Listening:
    """`engine listen` for a daemon. python: as on a host where the sleeper was not built"""

    def __init__(self, daemon: Daemon, python: bool = False) -> None:
        self.daemon = daemon
        words = daemon.arguments()
        words[words.index("daemon")] = "listen"
        if python:
            words[words.index("-m") : words.index("listen") + 1] = ["-c", _WITHOUT_SLEEPER]
        with open(daemon.log_file, "ab") as log:
            self.process = subprocess.Popen(
                daemon.namespaces.command(words),
                env=daemon.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(lambda: self.process.poll() is not None or self._listens(), "it does not listen")

    def _listens(self) -> bool:
        """Whether it has its sockets and takes its signals. A connection would wake it."""
        pid = self.process.pid
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as words, open(f"/proc/{pid}/status") as lines:
                caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
                return words.read().startswith(b"engine listen\0") or int(caught, 16) & _HANGUP != 0
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            return False

    @property
    def pid(self) -> int:
        """The daemon's process; 0 while there is none."""
        return woken(self.process.pid)

    @property
    def asleep(self) -> bool:
        """Whether no daemon runs."""
        return not self.pid

    def sleeps(self, seconds: float = SECONDS) -> None:
        """Return when the daemon has ended by itself."""
        until_asleep(self.daemon, lambda: self.pid, seconds)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it; its exit status."""
        self.process.send_signal(number)
        return self.process.wait(patient(SECONDS))

    def close(self) -> None:
        """Remove all containers, and end, unless it has ended."""
        if self.process.poll() is None:
            for container in self.daemon.request("GET", "/containers/json?all=1").json():
                self.daemon.remove(container["Id"])
            self.stop()
