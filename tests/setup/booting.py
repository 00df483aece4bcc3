"""Boots a guest that was built: qemu's command for its architecture, a disk for one boot, its console in a file.

The guest runs under software emulation, since a machine for tests seldom has KVM. Its disk is a file; a boot writes to
a copy of its own. It has no network. A directory of this host, the share, is at /share in it.
"""

import hashlib
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SHARE = "/share"
OF_THE_MACHINE = "machine"
LONGEST = 900  # seconds for one boot
# Each message takes a piece of the guest's memory that is as long as this: a small guest has no long ones.
MOUNT = f"mount -t 9p -o trans=virtio,version=9p2000.L,msize=32768 share {SHARE}"


@dataclass(frozen=True)
class Machine:
    """How an architecture is emulated: Debian's name for it, the packages of its kernel and of qemu, qemu's command."""

    debian: str
    package: str
    kernel: str
    qemu: tuple[str, ...]
    console: str


MACHINES = {
    "x86_64": Machine("amd64", "qemu-system-x86", "linux-image-amd64", ("qemu-system-x86_64",), "ttyS0"),
    "aarch64": Machine(
        "arm64",
        "qemu-system-arm",
        "linux-image-arm64",
        ("qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a57"),
        "ttyAMA0",
    ),
}


@dataclass(frozen=True)
class Guest:
    """A guest that was built: the directory `files` has its kernel, its initrd and its disk."""

    machine: Machine
    files: Path

    def disk(self, at: Path) -> Path:
        """A disk for one boot, or for several that follow each other: what is written stays in this file alone."""
        run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", self.files / "disk.img", at)
        return at

    def boot(
        self,
        at: Path,
        share: Path,
        log: Path,
        memory: int = 1024,
        kernel: Sequence[str] = (),
        shown: bool = False,
        longest: float = LONGEST,
    ) -> float:
        """Boot from this disk, have SHARE/run.sh run as root, and wait until the guest is off; the seconds it was on.

        memory: in MB; kernel: more arguments for it; shown: this machine's files can be mounted, read-only, by the tag
            `machine`. The console is in `log`. TimeoutExpired after `longest` seconds.
        """
        # On a busy machine an emulated timer is late, and the kernel would take it for broken.
        arguments = f"root=/dev/vda rw console={self.machine.console} systemd.show_status=false loglevel=4"
        arguments += " no_timer_check"
        command = [
            *(*self.machine.qemu, "-accel", "tcg,thread=multi", "-m", str(memory), "-smp", "2", "-nographic"),
            *("-nic", "none", "-no-reboot"),
            *("-kernel", str(self.files / "vmlinuz"), "-initrd", str(self.files / "initrd")),
            *("-append", " ".join((arguments, *kernel))),
            *("-drive", f"file={at},if=virtio,format=qcow2"),
            *("-virtfs", f"local,path={share},mount_tag=share,security_model=none,multidevs=remap"),
        ]
        if shown:
            files = f"local,path=/,mount_tag={OF_THE_MACHINE},security_model=none,multidevs=remap,readonly=on"
            command += ["-virtfs", files]
        began = time.monotonic()
        with open(log, "ab") as file:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=True, timeout=longest)
        return time.monotonic() - began


def marked(recipe: str) -> str:
    """A mark for what this file builds with the help of this module."""
    return hashlib.sha256(Path(recipe).read_bytes() + Path(__file__).read_bytes()).hexdigest()[:12]


def archive() -> str:
    """The archive from which apt of this host installs."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=True
    )
    return next(line for line in listed.stdout.splitlines() if "security" not in line)


def run(*argv: str | Path) -> None:
    """A command of a build; what it says goes to stderr when it fails."""
    done = subprocess.run([str(part) for part in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(done.stdout[-4000:], file=sys.stderr)
        done.check_returncode()
