"""A loss of power: what a daemon's disk holds at one moment, and a daemon that starts on it after the next boot.

Run by the test process. The data root is an ext4 on a loop device. What its page cache has not sent to the device is
not in the file behind it: a copy of that file, taken while the daemon is halted, is what a loss of power would leave.
Not shown is what a device loses of what it was sent without a flush.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.chaos.disks import Disk
from tests.harness import mortal
from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.namespaces import Namespaces

SECONDS = 60.0
PATIENCE = 1800.0
# The kernel's own writing back within a test would hide what the engine has not synced: its journal waits for minutes.
OPTIONS = "loop,commit=300"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Halting(Daemon):
    """A daemon that halts at steps of its work; `harness.mortal` says which there are."""

    program = "tests.harness.mortal"

    @property
    def environment(self) -> dict[str, str]:
        """Also its clients', who do not mind."""
        return {**super().environment, mortal.ORDERS: str(self.root / "orders")}

    def connection(self, timeout: float = 30.0) -> Connection:
        """Its clients are patient, as it halts within their calls."""
        return super().connection(max(timeout, PATIENCE))

    left = -1
    """How many steps it makes before it halts again; -1 before the first time."""

    def at_steps(self, verb: Callable[[], None], gaps: Iterator[int], look: Callable[[str], None]) -> None:
        """Do something; the daemon halts at each step that `gaps` chooses, and `look` is told what it was about to do.

        gaps: steps that are made between two such, over all verbs. What `verb` raises is raised.
        """
        failures: list[BaseException] = []

        def run() -> None:
            try:
                verb()
            except BaseException as error:  # it is raised where the test can see it
                failures.append(error)

        thread = threading.Thread(target=run)
        self._order(next(gaps) if self.left < 0 else self.left)
        thread.start()
        try:
            end = time.monotonic() + SECONDS
            while thread.is_alive():
                assert time.monotonic() < end, "the verb does not come to its end"
                if self._halted():
                    try:
                        look((self.root / "orders.steps").read_text().splitlines()[-1])
                        self._order(next(gaps))
                    finally:
                        os.kill(self.pid, signal.SIGCONT)
                    end = time.monotonic() + SECONDS
                thread.join(0.002)
        finally:
            (self.root / "orders").unlink()
            self.left = max(self.left - len((self.root / "orders.steps").read_text().splitlines()), 0)
            self._wake()
            thread.join(SECONDS)
        if failures:
            raise failures[0]

    def _order(self, gap: int) -> None:
        self.left = gap
        (self.root / "orders.steps").write_text("")
        (self.root / "new").write_text(f"{gap} halt")
        (self.root / "new").rename(self.root / "orders")

    def _halted(self) -> bool:
        with open(f"/proc/{self.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"

    def _wake(self) -> None:
        """A step that began before the orders were taken away may halt it yet."""
        for _ in range(20):
            if self._halted():
                os.kill(self.pid, signal.SIGCONT)
            time.sleep(0.002)


def snapshot(disk: Disk, to: Path) -> None:
    """Copy what has reached the disk; nobody may be writing to it."""
    command = ["cp", "--sparse=always", "--reflink=auto", str(disk.image), str(to)]
    subprocess.run(command, check=True, timeout=SECONDS)


@contextlib.contextmanager
def hierarchies(machine: Namespaces) -> Iterator[None]:
    """Cgroups of a machine's own, in the places of the host's: the containers of two daemons have the same ids here."""
    name = f"outage-{os.getpid()}-{machine.keeper.pid}"
    version2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    mounts = [Path("/sys/fs/cgroup")] if version2 else _controllers()
    made: list[Path] = []
    try:
        for mount in mounts:
            own = mount / name
            own.mkdir()
            made.append(own)
            for inherited in ("cpuset.cpus", "cpuset.mems"):  # of version 1; empty, nothing could be put in
                if (own / inherited).exists() and (own.parent / inherited).exists():
                    (own / inherited).write_text((own.parent / inherited).read_text())
            if not version2:  # another engine, of a test beside this one, may remove what is empty
                (own / "cgroup.procs").write_text(str(machine.keeper.pid))
            _mount(machine, "--bind", str(own), str(own.parent))
        yield
    finally:
        for own in made:
            subprocess.run(machine.command(["umount", "--lazy", str(own.parent)]), check=False, capture_output=True)
            for below in sorted(own.rglob("*/"), reverse=True):
                if below.is_dir():
                    below.rmdir()
            if not version2:
                (own.parent / "cgroup.procs").write_text(str(machine.keeper.pid))
            own.rmdir()


def _controllers() -> list[Path]:
    return [Path(entry.path) for entry in os.scandir("/sys/fs/cgroup") if os.path.ismount(entry.path)]


def _mount(machine: Namespaces, *arguments: str) -> None:
    done = subprocess.run(machine.command(["mount", *arguments]), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def rebooted(machine: Namespaces, image: Path) -> Iterator[Daemon]:
    """A daemon on such a copy, as after the next boot of its host: its exec root is empty, the boot has another id.

    machine: another than that of the first daemon, whose network and containers are still there
    """
    root = image.with_suffix("")
    after = Daemon(root, machine)
    boot = root / "boot"
    boot.write_text(f"{os.urandom(16).hex()}\n")
    disk = Disk(machine, after.data_root, 0, options=OPTIONS)
    image.rename(disk.image)
    with disk, covered(machine, boot, _BOOT_ID):
        try:
            after.start()
            yield after
        finally:
            if after.process is None or after.process.poll() is None:
                after.close()
    disk.image.unlink()


@contextlib.contextmanager
def covered(machine: Namespaces, file: Path, place: str) -> Iterator[None]:
    """Another file in the place of one, for those on the machine."""
    _mount(machine, "--bind", str(file), place)
    try:
        yield
    finally:
        subprocess.run(machine.command(["umount", place]), check=True)
