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
import signal
import socket
import struct
from collections.abc import Callable
from fcntl import ioctl
from termios import TIOCSWINSZ

from engine.birth.process import FAILED, Process, default_signals, place, seclude
from engine.errors import SystemFailure
from engine.kernel import syscalls
from engine.kernel.beneath import make_directories
from engine.kernel.descriptors import close_on_exec
from engine.sandbox import capabilities, command, mounts, sources
from engine.sandbox.spec import Mount, Sandbox
from engine.wire import report as protocol

_STATE, _CONFIG, _PID, _LOG, _CONSOLE = "state", "config.json", "pid", "log", "tty"
_HIERARCHIES = "/sys/fs/cgroup"
# Another container is still in it, or the runtime has made none in this hierarchy, which may be a plain file.
_NOT_TO_REMOVE = frozenset({errno.EBUSY, errno.ENOTEMPTY, errno.ENOENT, errno.ENOTDIR, errno.EROFS})
_LARGEST_LOG = 1 << 16
_CONSOLE_SECONDS = 30.0
_PATH = os.environ.get("PATH") or os.defpath
_NOT_FOUND = ("executable file not found", "no such file or directory")


class _ViaRuntime(Process):
    """One run of the steps, and the state that steps hand to each other."""

    def __init__(self, sandbox: Sandbox, stdio: tuple[int, int, int] | None, report: int) -> None:
        super().__init__(sandbox, stdio, report)
        self.bundle, self.program, *self.arguments = sandbox.runtime
        self.name = os.path.basename(self.bundle)
        self.config = json.loads(sandbox.config)
        self.sources: dict[Mount, int] = {}
        self.pid = 0
        self.proceeding = False

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
        if self.pid:
            self.wait()
        self.forget()

    def forget(self) -> None:
        """Have the runtime end what it has made, and remove the bundle."""
        if not os.path.isdir(self.bundle):
            return
        self.call("delete", "--force", self.name)
        self.leave_cgroup()
        for directory, _, files in os.walk(self.bundle, topdown=False):
            for name in files:
                os.unlink(os.path.join(directory, name))
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
        if not any(each.startswith("HOME=") for each in self.sandbox.env):
            process["env"].append(f"HOME={who.home}")
        held = list(capabilities.names(self.granted()))
        process["capabilities"] = dict.fromkeys(process["capabilities"], held)
        with open(self.path(_CONFIG), "w") as file:
            json.dump(self.config, file)

    def create(self) -> None:
        words = ["create", "--bundle", self.bundle, "--pid-file", self.path(_PID)]
        with socket.socket(socket.AF_UNIX) as console:
            if self.sandbox.tty:
                console.bind(self.path(_CONSOLE))
                console.listen(1)
                words += ["--console-socket", self.path(_CONSOLE)]
            self.must(self.call(*words, self.name, stdio=self.stdio))
            with open(self.path(_PID)) as file:
                self.pid = int(file.read())
            if self.sandbox.tty:
                self.take_terminal(console)
        os.write(self.report, protocol.READY + b"%d" % self.pid)

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

    def cgroup(self) -> None:
        self.wait()
        for path in self.sandbox.cgroups:
            # Not `tasks`, which takes one thread: another one of the runtime's may execute the command.
            with open(os.path.join(os.path.dirname(path), "cgroup.procs"), "w") as file:
                file.write(f"{self.pid}")
        self.leave_cgroup()

    def leave_cgroup(self) -> None:
        """Remove the cgroups in which the runtime has begun, and their parent where no other container is in it."""
        own = self.config["linux"]["cgroupsPath"]
        for hierarchy, here in _own_cgroups():
            if self.is_in(f"{hierarchy}{own}"):  # no controller of this hierarchy counts: it goes where this process is
                with open(f"{hierarchy}{here}/cgroup.procs", "w") as file:
                    file.write(f"{self.pid}")
            for path in (own, os.path.dirname(own)):
                try:
                    os.rmdir(f"{hierarchy}{path}")
                except OSError as error:
                    if error.errno not in _NOT_TO_REMOVE:
                        raise

    def is_in(self, cgroup: str) -> bool:
        """Whether process 1 is in this cgroup."""
        try:
            with open(f"{cgroup}/cgroup.procs") as file:
                return f"{self.pid}" in file.read().split()
        except (FileNotFoundError, NotADirectoryError):
            return False

    def start(self) -> None:
        self.must(self.call("start", self.name))

    # Parts of the steps.

    def path(self, name: str) -> str:
        """The path of a file of the bundle."""
        return os.path.join(self.bundle, name)

    def call(self, *words: str, stdio: tuple[int, int, int] | None = None) -> int:
        """Run the runtime's program with these words; returns its exit status."""
        log = ("--log", self.path(_LOG), "--log-format", "json")
        line = [self.program, *self.arguments, "--root", self.path(_STATE), *log, *words]
        pid = os.fork()
        if pid == 0:
            try:
                null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                place(stdio or (null, null, null))
                close_on_exec()
                default_signals()
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                os.execve(self.program, line, {"PATH": _PATH})
            finally:
                os._exit(command.NOT_FOUND)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def must(self, status: int) -> None:
        """Raise what the runtime has said where it has failed: Refusal for a command that is not there."""
        if not status:
            return
        said = self.said() or f"exit status {status}"
        text = f"{os.path.basename(self.program)}: {said}"
        if any(words in said.lower() for words in _NOT_FOUND):
            raise command.Refusal(errno.ENOENT, text, command.NOT_FOUND)
        if "permission denied" in said.lower():
            raise command.Refusal(errno.EACCES, text, command.NOT_RUNNABLE)
        raise SystemFailure(text)

    def said(self) -> str:
        """The last error in the runtime's log."""
        try:
            with open(self.path(_LOG), "rb") as file:
                lines = file.read(_LARGEST_LOG).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return ""
        for line in reversed(lines):
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and told.get("level") in ("error", "fatal"):
                return str(told.get("msg", ""))
        return ""


def _own_cgroups() -> list[tuple[str, str]]:
    """(where a hierarchy is mounted, the path of this process's cgroup in it) of each (cgroups(7))."""
    with open("/proc/self/cgroup") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    found = [(names.removeprefix("name="), path) for _, names, path in lines]
    second = f"{_HIERARCHIES}/unified"
    if not os.path.isdir(second):
        second = _HIERARCHIES
    return [(f"{_HIERARCHIES}/{names}" if names else second, path) for names, path in found]


STEPS: tuple[tuple[str, Callable[[_ViaRuntime], None]], ...] = (
    ("seclude", _ViaRuntime.seclude),
    ("namespaces", _ViaRuntime.unshare),
    ("root", _ViaRuntime.root),
    ("mounts", _ViaRuntime.mount),
    ("user", _ViaRuntime.user),
    ("directory", _ViaRuntime.directory),
    ("bundle", _ViaRuntime.describe),
    ("create", _ViaRuntime.create),
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
