"""From a request to a running process 1: the pipes, the fork, and the handshake between init and the daemon.

Runs in the monitor, before its loop. Init reports on a SOCK_SEQPACKET pair (`wire.report`), the daemon speaks on the
link; this is the place where the two meet. When the daemon dies before it has said `Proceed`, the container never
starts; once it has, the container needs it no more.
"""

import os
import select
import signal
import socket
import time
from dataclasses import dataclass

from engine.birth import init
from engine.errors import EngineError, Invalid, SystemFailure
from engine.kernel import syscalls, title
from engine.logs.openlog import OpenLog
from engine.monitor import logs
from engine.sandbox import namespaces
from engine.sandbox.spec import Device, Mount, Root, Sandbox
from engine.wire import channel, codec, packed, report
from engine.wire.channel import Channel, receive_with_descriptors
from engine.wire.schema import Failed, LogTarget, Message, NamespacesReady, Proceed, Start, Started, Warned

STDOUT, STDERR = 1, 2
_LOST = 125
REHEARSED = Start(
    packed.pack(
        Sandbox(
            id="rehearsed",
            root=Root("/", ("1",), "/upper", "/work"),
            namespaces=("mount", "pid", "uts", "ipc", "cgroup", "net"),
            argv=("true",),
            env=("PATH=/bin",) * 4,
            mounts=(Mount("tmpfs", "tmpfs", "/tmp", ("nosuid", "noexec", "nodev")),) * 12,
            devices=(Device("/dev/null", "c", 1, 3),) * 6,
            masked_paths=("/proc/kcore",) * 12,
            readonly_paths=("/proc/sys",) * 5,
            capabilities=("CAP_CHOWN",) * 14,
            seccomp=bytes(4096),
        )
    ),
    "/run/rehearsed",
    LogTarget("/log"),
    stdin=True,
)
"""A request like any other, for a spare to rehearse with."""
_SANDBOX_MAX = 128 * 1024  # above what the daemon calls ordinary


@dataclass(slots=True)
class Launched:
    """A process 1 that has come to execve, and the monitor's ends of its streams (-1: it has none).

    outputs: (stream, descriptor) pairs; input: the write end of its stdin; terminal: the pty's master
    mounts: its mount namespace, which the monitor holds until the end is told; -1 for an exec
    log: the open end of the container's log; None where it has none, and for an exec
    """

    pid: int
    pidfd: int
    pid_start: int
    started_ns: int
    outputs: list[tuple[int, int]]
    input: int
    terminal: int
    mounts: int
    log: OpenLog | None = None


@dataclass(slots=True)
class Spare:
    """An init that has prepared what every ordinary container has, and waits for its sandbox on the report socket."""

    pid: int
    reports: socket.socket


class Streams:
    """Both ends of a process's standard streams; `stdio` is its side, closed here after the fork.

    outputs: the streams that somebody wants; a terminal has none of its own here
    """

    def __init__(self, tty: bool, stdin: bool, outputs: tuple[int, ...] = (STDOUT, STDERR)) -> None:
        self.outputs: list[tuple[int, int]] = []
        self.input = -1
        self.stdio: tuple[int, int, int] | None = None
        if tty:
            return
        if stdin:
            given, self.input = os.pipe2(os.O_CLOEXEC)
        else:
            given = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.stdio = (given, self._output(STDOUT, outputs), self._output(STDERR, outputs))

    def _output(self, stream: int, wanted: tuple[int, ...]) -> int:
        """The process's end of one output; of one that nobody wants it is /dev/null."""
        if stream not in wanted:
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        self.outputs.append((stream, ours))
        return theirs

    def close_stdio(self) -> None:
        for descriptor in self.stdio or ():
            os.close(descriptor)

    def close(self) -> None:
        """Close both sides: nothing came of it."""
        self.close_stdio()
        for descriptor in (self.input, *(output for _, output in self.outputs)):
            if descriptor >= 0:
                os.close(descriptor)


def prepare(stage: str) -> Spare:
    """Fork an init ahead of time, in a PID namespace of its own. `stage`: an empty directory (see `init.prepare`)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    syscalls.unshare(syscalls.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _wait_prepared(theirs, stage)
        finally:
            os._exit(_LOST)
    theirs.close()
    rehearse()
    return Spare(pid, ours)


def rehearse() -> None:
    """In a spare: touch what a launch touches. A page is copied on its first touch; now nobody waits for that."""
    streams = Streams(tty=False, stdin=True)
    streams.close()
    channel.unpack(b"J" + codec.encode(REHEARSED), [])
    report.decode(report.READY)
    codec.encode(Started(0, syscalls.process_start(os.getpid()), 0))


def _wait_prepared(reports: socket.socket, place: str) -> None:
    """In the spare's init: prepare, wait for the sandbox, become it; return when nobody wants it any more."""
    title.become("init")
    try:
        staged = init.prepare(place)
        reports.send(report.READY)  # waits there for the monitor, who tells the daemon at once
    except (EngineError, OSError):
        staged = None  # then everything is made when it is asked for, and what fails is told to who asked
    packed.unpack(REHEARSED.sandbox)
    data, passed, _ = receive_with_descriptors(reports, _SANDBOX_MAX, 3)
    if data:
        stdio = (passed[0], passed[1], passed[2]) if passed else None
        init.run(packed.unpack(data), stdio, reports.detach(), staged)


def launch(start: Start, link: Channel, spare: Spare | None = None) -> Launched | None:
    """Make process 1 and bring it to execve; None when it failed or nobody wants it any more (the daemon was told)."""
    streams = Streams(start.tty, start.stdin)
    if spare is None:
        try:
            spare = _fork_init(start, streams)
        except SystemFailure as error:  # the container to be joined is not there any more
            streams.close()
            link.send(Failed("namespaces", 0, str(error), _LOST))
            return None
    else:
        socket.send_fds(spare.reports, [start.sandbox], streams.stdio or ())
    streams.close_stdio()
    with spare.reports:
        handshake = _Handshake(link, spare.reports, spare.pid, os.pidfd_open(spare.pid), streams)
        try:
            log = logs.open_log(start.log)  # while init is at its work; without a log nothing runs that writes to one
        except OSError as error:
            text = logs.REFUSED + (error.strerror or "").lower()
            handshake.refuse(Failed("log", error.errno or 0, text, logs.NOT_TRIED))
            return None
        launched = handshake.run()
        if launched is not None:
            launched.log = log
        return launched


def _fork_init(start: Start, streams: Streams) -> Spare:
    """An init that is not spare: it begins with its sandbox."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    if start.own_pids:
        syscalls.unshare(syscalls.CLONE_NEWPID)
    elif start.pids:
        namespaces.enter([("pid", namespaces.open_one("pid", *start.pids))])
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            title.become("init")
            init.run(packed.unpack(start.sandbox), streams.stdio, theirs.detach())
        finally:
            os._exit(_LOST)
    theirs.close()
    return Spare(pid, ours)


def is_child(pid: int) -> bool:
    """Whether this is a child of the caller, one that has ended too: who may trace a newborn can report in its name."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OverflowError):
        return False
    return True


class _Handshake:
    """The talk from the fork to execve; `run` ends with the process running, failed, or killed as unwanted."""

    def __init__(self, link: Channel, reports: socket.socket, pid: int, pidfd: int, streams: Streams) -> None:
        self._link = link
        self._reports = reports
        self._pid = pid
        self._pid_start = syscalls.process_start(pid)
        self._pidfd = pidfd
        self._streams = streams
        self._terminal = self._mounts = -1
        self._proceeded = False
        self._warnings: list[str] = []

    def run(self) -> Launched | None:
        """Talk to its end: the process that runs; None when it failed or is unwanted."""
        waiting = select.poll()
        waiting.register(self._reports, select.POLLIN)
        waiting.register(self._link, select.POLLIN)
        while True:
            for descriptor, _ in waiting.poll():
                if descriptor == self._link.fileno():
                    if not self._hear_daemon():
                        if not self._proceeded:
                            self._abandon()
                            return None
                        waiting.unregister(self._link)
                    continue
                data, passed, _ = receive_with_descriptors(self._reports, report.LARGEST, 1)
                if not data:
                    # Close-on-exec: the report's end is the execve, or the end of an init that was not even ready.
                    return self._started() if self._mounts >= 0 else None
                said = report.decode(data)
                if isinstance(said, report.Failure):
                    self._failed(said)
                    return None
                self._take(said, passed)

    def _take(self, said: report.Ready | report.Terminal | report.Warned, passed: list[int]) -> None:
        if isinstance(said, report.Ready):
            self._ready()
        elif isinstance(said, report.Terminal):
            self._terminal = passed[0]
        else:
            self._warnings.append(said.text)

    def _ready(self) -> None:
        self._mounts = os.open(f"/proc/{self._pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self._tell(NamespacesReady(self._pid, self._pid_start))

    def _hear_daemon(self) -> bool:
        """Take one message of the daemon's; False when the daemon is gone."""
        try:
            received = self._link.receive()
        except Invalid as error:
            self._tell(Warned(str(error)))
            return True
        if received is None:
            return False
        if isinstance(received[0], Proceed):
            self._proceeded = True
            self._reports.send(report.PROCEED, socket.MSG_NOSIGNAL)
        return True

    def _tell(self, message: Message) -> None:
        try:
            self._link.send(message)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the daemon has died: the link's end of file says the same and decides

    def _started(self) -> Launched:
        started = Started(self._pid, self._pid_start, time.time_ns(), tuple(self._warnings), keeps_waiters=True)
        self._tell(started)
        outputs = self._streams.outputs if self._terminal < 0 else [(STDOUT, self._terminal)]
        return Launched(
            self._pid,
            self._pidfd,
            self._pid_start,
            started.started_ns,
            outputs,
            self._streams.input if self._terminal < 0 else self._terminal,
            self._terminal,
            self._mounts,
        )

    def _failed(self, failure: report.Failure) -> None:
        os.waitpid(self._pid, 0)
        self._tell(Failed(failure.step, failure.errno, failure.text, failure.status))

    def refuse(self, failure: Failed) -> None:
        """It is not to run: the daemon is told why."""
        self._abandon()
        self._tell(failure)

    def _abandon(self) -> None:
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        os.waitpid(self._pid, 0)
