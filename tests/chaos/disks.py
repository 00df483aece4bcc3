"""Small file systems for a daemon's roots, mounted in the mount namespace of a test's machine and nowhere else.

Run by the test process, which comes to the files through /proc/PID/root of the process that keeps the namespace.
"""

import contextlib
import errno
import os
import subprocess
from pathlib import Path

from tests.harness.listening import until
from tests.harness.namespaces import Namespaces

MEGABYTE = 1 << 20
_STEPS = (16 * MEGABYTE, MEGABYTE, 64 << 10, 4 << 10)


class Disk:
    """A file system of `size` bytes at `place`, which a machine alone sees. kind: `tmpfs`, `ext4` or `btrfs`

    The last two are the file `image` beside `place`, made unless it is there, behind a loop device that goes with its
    mount.
    options: of mount(8)
    """

    def __init__(
        self, machine: Namespaces, place: Path, size: int, kind: str = "ext4", *, options: str = "loop"
    ) -> None:
        self.machine = machine
        self.place = place
        self.size = size
        self.kind = kind
        self.options = options
        self.image = place.with_name(f"{place.name}.img")

    def __enter__(self) -> "Disk":
        self.place.mkdir(exist_ok=True)
        if self.kind == "tmpfs":
            self._run("mount", "-t", "tmpfs", "-o", f"size={self.size}", "tmpfs", str(self.place))
        else:
            if not self.image.exists():
                _format(self.image, self.size, self.kind)
            self._run("mount", "-o", self.options, str(self.image), str(self.place))
        return self

    def __exit__(self, *_: object) -> None:
        # A container that is just being removed may hold it for a moment more; the namespace forgets it at once.
        self._run("umount", "--lazy", str(self.place))

    def abort(self) -> None:
        """Make ext4 take nothing any more, as it does when the disk below it fails."""
        self._run("mount", "-o", "remount,abort", str(self.place))

    def again(self) -> None:
        """Mount it once more, as soon as nobody has it open any more."""
        until(lambda: subprocess.run(self.machine.command(["umount", str(self.place)]), check=False).returncode == 0)
        self.__enter__()

    def _run(self, *argv: str) -> None:
        done = subprocess.run(self.machine.command(argv), capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"

    def path(self, *parts: str) -> Path:
        """A path on the disk, for this process."""
        return Path(f"/proc/{self.machine.keeper.pid}/root{self.place}", *parts)

    @property
    def room(self) -> int:
        """The bytes that are free for root."""
        found = os.statvfs(self.path())
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Take every block that is free, but for so many bytes."""
        with contextlib.ExitStack() as stack:
            reserved = os.open(self.path("leave"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, reserved)
            with contextlib.suppress(OSError):
                if leave:
                    os.posix_fallocate(reserved, 0, leave)
            filler = os.open(self.path("filler"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, filler)
            end = os.fstat(filler).st_size
            for step in _STEPS:
                while self._take(filler, end, step):
                    end += step
            os.unlink(self.path("leave"))

    @staticmethod
    def _take(filler: int, end: int, step: int) -> bool:
        try:
            os.posix_fallocate(filler, end, step)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
        return True

    def free(self) -> None:
        """Give back what `fill` has taken."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("filler"))


_OPTIONS = {
    "ext4": ("-q", "-F", "-m", "0", "-O", "^resize_inode", "-E", "lazy_itable_init=0,nodiscard"),  # none kept for root
    "btrfs": ("-q",),
}


def _format(image: Path, size: int, kind: str) -> None:
    """Make a file a file system."""
    with open(image, "wb") as file:
        file.truncate(size)
    subprocess.run([f"mkfs.{kind}", *_OPTIONS[kind], str(image)], check=True, capture_output=True)


def unable(kind: str = "ext4") -> str:
    """Why no file system of this kind can be had here; empty when it can."""
    with open("/proc/filesystems") as known:
        if f"\t{kind}\n" not in known.read():
            return f"the kernel has no {kind}"
    return "" if os.path.exists("/dev/loop-control") else "there are no loop devices"
