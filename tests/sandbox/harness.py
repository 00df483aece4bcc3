"""Starting sandboxes the way a monitor does, and collecting all that comes out. For tests only."""

import errno
import os
import pickle
import shutil
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from engine.birth import init
from engine.dataclass import replace
from engine.kernel import beneath, syscalls
from engine.sandbox import capabilities, masks, mounts, plan, stage
from engine.sandbox.spec import Root, Sandbox
from engine.wire import codec, report
from engine.wire.schema import Failed
from tests.sandbox import natively

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BUSYBOX = shutil.which("busybox")
_LARGEST_OUTPUT = 1 << 20


@dataclass
class Result:
    """What a sandbox did: its exit status (negative: a signal), output, and what init reported."""

    status: int = -1
    out: str = ""
    err: str = ""
    terminal: str = ""
    reports: list = field(default_factory=list)

    @property
    def failure(self) -> report.Failure:
        """Init's failure; an AssertionError if it did not fail."""
        assert isinstance(self.reports[-1], report.Failure), self
        return self.reports[-1]

    @property
    def warnings(self) -> list[str]:
        """The texts of init's warnings."""
        return [one.text for one in self.reports if isinstance(one, report.Warned)]


def make_layer(path: Path) -> None:
    """A small image: busybox with its applets, a passwd and a group file."""
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "root", "home/foo"):
        (path / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, path / "bin/busybox")
    for applet in subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if applet != "busybox":
            (path / "bin" / applet).symlink_to("busybox")
    (path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nfoo:x:1000:1001:Foo:/home/foo:/bin/sh\n")
    (path / "etc/group").write_text("root:x:0:root\nwheel:x:10:root,foo\nfoo:x:1001:\nextra:x:2000:\n")


class Bench:
    """Makes sandboxes over one shared layer, with a fresh writable directory each."""

    def __init__(self, base: Path, way: str = "plain") -> None:
        """base: an empty directory on a file system that can carry an overlay.

        way: `plain`; `staged`: prepare each init first; `old`: the kernel lacks what came after Linux 5.1; `native` and
            `native staged`: the first two by the C muxer, as far as it knows how to
        """
        self.base = base
        self.way = way
        self.layers = base / "layers"
        self.stage = base / "stage"
        self.stage.mkdir()
        make_layer(self.layers / "1")
        self._made = 0

    def layer(self, name: str) -> Path:
        """One more layer, empty, to lie on top of the first: `Root.layers` names it."""
        path = self.layers / name
        path.mkdir()
        return path

    def sandbox(self, *argv: str, layers: tuple[str, ...] = ("1",), readonly: bool = False, **changes) -> Sandbox:
        """Docker's defaults, less cgroups and seccomp, with these changes."""
        self._made += 1
        upper, work = self.base / f"c{self._made}/upper", self.base / f"c{self._made}/work"
        upper.mkdir(parents=True)
        work.mkdir()
        plain = Sandbox(
            id="0" * 64,
            root=Root(str(self.layers), layers, str(upper), str(work), readonly),
            namespaces=("mount", "pid", "uts", "ipc", "net", "cgroup"),
            argv=argv,
            env=(PATH,),
            hostname="box",
            mounts=tuple(mount for mount in mounts.DEFAULT_MOUNTS if mount.kind != "cgroup"),
            devices=mounts.DEFAULT_DEVICES,
            masked_paths=masks.MASKED_PATHS,
            readonly_paths=masks.READONLY_PATHS,
            capabilities=capabilities.DEFAULT,
        )
        return replace(plain, **changes)

    def shell(self, script: str, **changes) -> Result:
        """Run a script in a sandbox of `sandbox()`."""
        return self.run(self.sandbox("sh", "-c", script, **changes))

    def run(self, sandbox: Sandbox, **how) -> Result:
        """`run`, in the way of this bench."""
        place = str(self.stage) if self.way.endswith("staged") else ""
        return run(sandbox, place=place, old=self.way == "old", native=self.way.startswith("native"), **how)


def run(
    sandbox: Sandbox,
    *,
    stdin: bytes = b"",
    proceed: bool = True,
    leak: tuple[int, ...] = (),
    place: str = "",
    old: bool = False,
    native: bool = False,
) -> Result:
    """Start it in a monitor of its own, wait for its end, and return everything.

    proceed: False closes the monitor's end where it would say PROCEED; leak: inheritable descriptors to try to keep;
    place: where init is to prepare its stage, if it is to; old: make believe that the kernel is an old one;
    native: C is to make what a plan can say.
    """
    reader, writer = os.pipe()
    monitor = os.fork()
    if monitor == 0:
        os.close(reader)
        try:
            for fd in leak:
                os.set_inheritable(fd, True)
            if old:
                _forget_new_calls()
            with os.fdopen(writer, "wb") as file:
                pickle.dump(_monitor(sandbox, stdin, proceed, place, native), file)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    os.waitpid(monitor, 0)
    return pickle.loads(data)


def _forget_new_calls() -> None:
    """In the forked monitor: answer as a kernel does that has never heard of these calls."""

    def unknown(*_: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    for name in ("_close_range", "_openat2", "_open_tree", "_move_mount", "_mount_setattr", "_fsopen"):
        assert callable(getattr(syscalls, name))
        setattr(syscalls, name, unknown)
    beneath._open = beneath._open_by_walk


def _monitor(sandbox: Sandbox, stdin: bytes, proceed: bool, place: str, native: bool) -> Result:
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    files = [os.memfd_create(name) for name in ("in", "out", "err")]
    os.write(files[0], stdin)
    os.lseek(files[0], 0, os.SEEK_SET)
    if "pid" in sandbox.namespaces:
        syscalls.unshare(syscalls.CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        mine.close()  # else it would wait for itself
        try:
            if native and (wanted := plan.compiled(sandbox)) is not None:
                ahead = place if place and stage.suits(sandbox) else ""
                natively.be_born(wanted, ahead, (-1, -1, -1) if sandbox.tty else tuple(files), its.fileno())
            staged = init.prepare(place) if place and stage.suits(sandbox) else None
            if staged is not None:
                os.write(its.fileno(), report.READY)
            init.run(sandbox, None if sandbox.tty else tuple(files), its.fileno(), staged)
        finally:
            os._exit(99)
    its.close()
    result = Result()
    master = -1
    while True:
        datagram, descriptors, _, _ = socket.recv_fds(mine, report.LARGEST, 1)
        if not datagram:
            break
        result.reports.append(_decoded(datagram))
        master = descriptors[0] if descriptors else master
        if isinstance(result.reports[-1], report.Ready):
            if not proceed:
                break
            mine.send(report.PROCEED)
    mine.close()
    if master >= 0:
        result.terminal = _read_terminal(master)
    result.status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    result.out, result.err = (os.pread(fd, _LARGEST_OUTPUT, 0).decode() for fd in files[1:])
    return result


def _decoded(datagram: bytes) -> report.Report:
    """A report; the failure that C tells is the daemon's message already."""
    if datagram[:2] != report.FAILED + b"J":
        return report.decode(datagram)
    failed = codec.decode(datagram[2:])
    assert isinstance(failed, Failed)
    return report.Failure(failed.step, failed.errno, failed.text, failed.exit_code)


def _read_terminal(master: int) -> str:
    text = b""
    while True:
        try:
            chunk = os.read(master, 4096)
        except OSError:  # EIO: the last slave is closed
            return text.decode()
        text += chunk
