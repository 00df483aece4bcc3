"""Has another OCI runtime make a container: mounts its files, writes its bundle, and calls the runtime's program.

Runs in a forked child of a monitor only, single-threaded, which ends in os._exit. The program of the runtime (`create`,
then `start`, as runc(8) has them) makes namespaces, process 1 and its rights; that process becomes a child of the
monitor when `create` has ended, because the monitor is a subreaper. All files of the container are mounted here, in a
mount namespace that the runtime copies. As with `init`, the daemon connects the network and the cgroups between both
calls. The runtime's own cgroup holds process 1 until then, and is removed.
"""

import errno
import json
import os
import socket
import struct
from collections.abc import Callable
from fcntl import ioctl
from termios import TIOCSWINSZ

from engine.birth.ociprogram import Program
from engine.birth.process import FAILED, Process, seclude
from engine.errors import SystemFailure
from engine.kernel import syscalls
from engine.kernel.beneath import make_directories
from engine.kernel.netlink import loopback
from engine.sandbox import capabilities, mounts, sources
from engine.sandbox.spec import Mount, Sandbox
from engine.sandbox.users import with_home
from engine.wire import report as protocol

_CONFIG, _PID, _LOG, _CONSOLE = "config.json", "pid", "log", "tty"
_HIERARCHIES = "/sys/fs/cgroup"
# Another container is still in it, or the runtime has made none in this hierarchy, which may be a plain file.
_NOT_TO_REMOVE = frozenset({errno.EBUSY, errno.ENOTEMPTY, errno.ENOENT, errno.ENOTDIR, errno.EROFS})
_CONSOLE_SECONDS = 30.0


class _ViaRuntime(Process):
    """One run of the steps, and the state that steps hand to each other."""

    def __init__(self, sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int) -> None:
        super().__init__(sandbox, stdio, report)
        self.bundle, *_ = sandbox.runtime
        self.program = Program(sandbox.runtime, _LOG)
        self.config = json.loads(sandbox.config)
        self.sources: dict[Mount, int] = {}
        self.pid = 0
        self.told = self.proceeding = False

    def go(self) -> None:
        for self.step, step in STEPS:
            step(self)
        os._exit(0)

    def wait(self) -> None:
        """Wait for PROCEED, once; an end of file instead means that nobody wants this container any more."""
        if not self.proceeding:
            if os.read(self.report, 16) != protocol.PROCEED:
                self.forget()
                os._exit(FAILED)
            self.proceeding = True

    def before_failure(self) -> None:
        """A failure after N is told only after P was received (`wire.report`)."""
        if self.told:
            self.wait()
        self.forget()

    def forget(self) -> None:
        """Have the runtime end what it has made, and remove the bundle."""
        if not os.path.isdir(self.bundle):
            return
        self.program.call("delete", "--force", self.program.name)
        self.leave_cgroup()
        for directory, _, files in os.walk(self.bundle, topdown=False):
            for name in files:
                _remove(os.path.join(directory, name))
            os.rmdir(directory)

    # The steps, in the order of STEPS.

    def seclude(self) -> None:
        seclude()

    def unshare(self) -> None:
        syscalls.unshare(syscalls.CLONE_NEWNS)

    def root(self) -> None:
        self.sources = sources.of_host(self.sandbox.mounts)
        mounts.leave_peers()
        self.sources |= sources.made_here(self.sandbox.mounts)
        self.root_fd = mounts.mount_root(self.sandbox.root)

    def mount(self) -> None:
        for mount in self.sandbox.mounts:
            mounts.add(self.root_fd, mount, self.sources.get(mount, -1))

    def directory(self) -> None:
        os.close(make_directories(self.root_fd, self.sandbox.cwd or "/"))

    def describe(self) -> None:
        """Write the bundle: the daemon's part of its config, and the user, whom the image's files name."""
        os.mkdir(self.bundle, 0o700)
        who, process = self.identity, self.config["process"]
        process["user"] = {"uid": who.uid, "gid": who.gid, "additionalGids": list(who.groups)}
        process["env"] = with_home(self.sandbox.env, who.home)
        held = list(capabilities.names(self.granted()))
        process["capabilities"] = dict.fromkeys(process["capabilities"], held)
        with open(self.program.path(_CONFIG), "w") as file:
            json.dump(self.config, file)

    def create(self) -> None:
        words = ["create", "--bundle", self.bundle, "--pid-file", self.program.path(_PID)]
        with socket.socket(socket.AF_UNIX) as console:
            if self.sandbox.tty:
                console.bind(self.program.path(_CONSOLE))
                console.listen(1)
                words += ["--console-socket", self.program.path(_CONSOLE)]
            self.program.must(self.program.call(*words, self.program.name, stdio=self.stdio))
            with open(self.program.path(_PID)) as file:
                self.pid = int(file.read())
            if self.sandbox.tty:
                self.take_terminal(console)

    def take_terminal(self, console: socket.socket) -> None:
        """Pass the terminal's master on, which the runtime has sent."""
        console.settimeout(_CONSOLE_SECONDS)
        peer, _ = console.accept()
        with peer:
            _, (master, *_), _, _ = socket.recv_fds(peer, 4096, 1)
        if self.sandbox.rows and self.sandbox.columns:
            ioctl(master, TIOCSWINSZ, struct.pack("HHHH", self.sandbox.rows, self.sandbox.columns, 0, 0))
        with socket.socket(fileno=os.dup(self.report)) as channel:
            socket.send_fds(channel, [protocol.TERMINAL], [master])
        os.close(master)

    def network(self) -> None:
        """Set up the loopback interface, which a runtime with a kernel of its own only reads."""
        if "net" not in self.sandbox.namespaces:
            return
        helper = os.fork()
        if helper == 0:
            try:
                syscalls.setns(os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC), syscalls.CLONE_NEWNET)
                loopback.set_up()
                os._exit(0)
            finally:
                os._exit(FAILED)
        if os.waitpid(helper, 0)[1]:
            raise SystemFailure("the loopback interface of the container cannot be set up")

    def tell(self) -> None:
        os.write(self.report, protocol.READY + b"%d" % self.pid)
        self.told = True

    def cgroup(self) -> None:
        self.wait()
        for path in self.sandbox.cgroups:
            # Not `tasks`, which takes one thread: another one of the runtime's may execute the command.
            with open(os.path.join(os.path.dirname(path), "cgroup.procs"), "w") as file:
                file.write(f"{self.pid}")
        self.leave_cgroup()

    def leave_cgroup(self) -> None:
        """Remove the cgroups in which the runtime has begun, and their parent where no other container is in it.

        All that is in them goes to process 1, or where this process is in a hierarchy of which no controller counts:
        a runtime may have more processes than that one.
        """
        own = self.config["linux"]["cgroupsPath"]
        places = _cgroups(self.pid) if self.pid else {}
        for hierarchy, here in _cgroups("self").items():
            there = places.get(hierarchy, own)
            for pid in _members(f"{hierarchy}{own}"):
                _move(pid, f"{hierarchy}{here if there == own else there}")
            for path in (own, os.path.dirname(own)):
                try:
                    os.rmdir(f"{hierarchy}{path}")
                except OSError as error:
                    if error.errno not in _NOT_TO_REMOVE:
                        raise

    def start(self) -> None:
        self.program.must(self.program.call("start", self.program.name))


def _remove(path: str) -> None:
    """Remove a file of the bundle, on which the runtime may have mounted a namespace that it keeps."""
    try:
        os.unlink(path)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        syscalls.umount2(path, syscalls.MNT_DETACH)
        os.unlink(path)


def _cgroups(pid: int | str) -> dict[str, str]:
    """Where a hierarchy is mounted → the path of a process's cgroup in it (cgroups(7)); empty once it has ended."""
    try:
        with open(f"/proc/{pid}/cgroup") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except (FileNotFoundError, ProcessLookupError):
        return {}
    found = [(names.removeprefix("name="), path) for _, names, path in lines]
    second = f"{_HIERARCHIES}/unified"
    if not os.path.isdir(second):
        second = _HIERARCHIES
    return {f"{_HIERARCHIES}/{names}" if names else second: path for names, path in found}


def _members(cgroup: str) -> list[str]:
    """The pids in this cgroup; none where the runtime has made none."""
    try:
        with open(f"{cgroup}/cgroup.procs") as file:
            return file.read().split()
    except (FileNotFoundError, NotADirectoryError):
        return []


def _move(pid: str, cgroup: str) -> None:
    try:
        with open(f"{cgroup}/cgroup.procs", "w") as file:
            file.write(pid)
    except ProcessLookupError:
        pass  # it has ended meanwhile


STEPS: tuple[tuple[str, Callable[[_ViaRuntime], None]], ...] = (
    ("seclude", _ViaRuntime.seclude),
    ("namespaces", _ViaRuntime.unshare),
    ("root", _ViaRuntime.root),
    ("mounts", _ViaRuntime.mount),
    ("user", _ViaRuntime.user),
    ("directory", _ViaRuntime.directory),
    ("bundle", _ViaRuntime.describe),
    ("create", _ViaRuntime.create),
    ("network", _ViaRuntime.network),
    ("network", _ViaRuntime.tell),
    ("cgroup", _ViaRuntime.cgroup),
    ("start", _ViaRuntime.start),
)
"""Every step, in order: its name in a failure, and what it does."""


def run(sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int) -> None:
    """Have the sandbox made and its command started, and end. The parameters are those of `init.run`."""
    try:
        _ViaRuntime(sandbox, stdio, report).run()
    finally:
        os._exit(FAILED)
