"""An exec root without any room, as the tmpfs that it mostly is: no exit code is lost to it, and a start says so."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.test_crash import monitor_of
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World
from tests.harness.listening import until

SCRIPT = "trap 'exit 7' USR1; echo up; while :; do sleep 0.02; done"


class Small:
    """A daemon on a small tmpfs of an exec root; `place` is that, as it is seen from here."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.place = Path(f"/proc/{daemon.namespaces.keeper.pid}/root{daemon.exec_root}")

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Not a byte more fits."""
        filler = self.place / "filler"
        with open(filler, "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while file.write(bytes(65536)):
                    pass
            with contextlib.suppress(OSError):
                while file.write(bytes(4096)):
                    pass
        try:
            with pytest.raises(OSError, match="No space left"):
                (self.place / "filler.too").write_bytes(b"x")
            yield
        finally:
            for each in self.place.glob("filler*"):
                each.unlink()

    def running(self) -> tuple[str, int]:
        """A container that ends with 7 at SIGUSR1, once it would: its id and its process."""
        one = self.daemon.create("sh", "-c", SCRIPT)
        self.daemon.begin(one)
        until(lambda: b"up" in self.daemon.logs(one))
        monitor_of(self.daemon, one)  # the half that has launched it is no parent any more
        return one, self.daemon.inspect(one)["State"]["Pid"]


@pytest.fixture(scope="module", params=["auto", "python"])
def small(world: World, request: pytest.FixtureRequest) -> Iterator[Small]:
    """A daemon of this file's own, with either muxer."""
    daemon = world.daemon(("--muxer", request.param))
    daemon.exec_root.mkdir()
    inside = daemon.namespaces.command
    subprocess.run(inside(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(daemon.exec_root)]), check=True)
    try:
        daemon.start()
        daemon.import_busybox()
        yield Small(daemon)
        daemon.close()
    finally:
        # Lazily: the spawner, whose stage is in it, ends a moment after its daemon.
        subprocess.run(inside(["umount", "--lazy", str(daemon.exec_root)]), check=True)


def gone(pid: int) -> None:
    """Wait until a process and its parent, which is its monitor, are no more."""
    with open(f"/proc/{pid}/stat") as file:
        monitor = os.pidfd_open(int(file.read().rpartition(")")[2].split()[1]))
    try:
        os.kill(pid, signal.SIGUSR1)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                signal.pidfd_send_signal(monitor, 0)
            except ProcessLookupError:
                return
            time.sleep(0.01)
        raise AssertionError("the monitor goes on")
    finally:
        os.close(monitor)


def test_an_end_on_a_full_exec_root_is_told(small: Small) -> None:
    one, pid = small.running()
    with small.full():
        gone(pid)
        assert small.daemon.wait(one) == 7
    small.daemon.remove(one)


def test_an_end_is_told_even_where_the_exit_file_cannot_be_written(small: Small) -> None:
    one, pid = small.running()
    (small.place / "containers" / one / "exit.new").unlink()
    with small.full():
        gone(pid)
        assert small.daemon.wait(one) == 7
    small.daemon.remove(one)


def test_an_end_on_a_full_exec_root_while_the_daemon_is_away_is_kept(small: Small) -> None:
    one, pid = small.running()
    with small.full():
        small.daemon.kill9()
        gone(pid)
        small.daemon.start()
        state = small.daemon.inspect(one)["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 7)
    small.daemon.remove(one)


def test_a_start_on_a_full_exec_root_says_that_there_is_no_space(small: Small) -> None:
    one = small.daemon.create("sh", "-c", "exit 5")
    with small.full():
        answer = small.daemon.request("POST", f"/containers/{one}/start")
        assert answer.status == 500 and "no space left on device" in answer.message, answer
        state = small.daemon.inspect(one)["State"]
        assert (state["Status"], state["ExitCode"]) == ("created", 128)
    assert os.listdir(small.place / "containers") == []
    small.daemon.begin(one)
    assert small.daemon.wait(one) == 5
    small.daemon.remove(one)
