"""Starts process 1 of a container in the monitor: its pipes, the fork of init, and the handshake of init with the
daemon.

Runs in the monitor, before its loop. Init reports on a SOCK_SEQPACKET pair (`wire.report`), and the daemon sends its
messages on the link; this file passes between the two. When the daemon dies before it has sent `Proceed`, the container
never starts. After `Proceed` the container does not need the daemon any more.
"""

import os
import select
import signal
import socket
import time

from engine.birth import init
from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid, SystemFailure
from engine.kernel import reasons, syscalls, title
from engine.late import TYPE_CHECKING, late
from engine.logs import opening
from engine.logs.openlog import OpenLog
from engine.logs.target import LogTarget
from engine.sandbox import namespaces
from engine.sandbox.spec import Device, Mount, Root, Sandbox
from engine.wire import channel, codec, packed, report
from engine.wire.channel import Channel, receive_with_descriptors
from engine.wire.schema import Failed, Message, NamespacesReady, Proceed, Start, Started, Warned

if TYPE_CHECKING:  # loaded by the child that calls another runtime
    from engine.birth import viaruntime
else:
    viaruntime = late("engine.birth.viaruntime")

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
"""An ordinary request, which a spare decodes to touch the pages that a real one touches."""
_SANDBOX_MAX = 128 * 1024  # larger than any sandbox that the daemon marks as ordinary


@dataclass(slots=True)
class Launched:
    """A process 1 that has come to execve, and the monitor's ends of its streams (-1: it has none).

    outputs: (stream, descriptor) pairs; input: the write end of its stdin; terminal: the master of its terminal
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
    """Both ends of a process's standard streams; `stdio` has the process's ends, which are closed here after the fork.

    outputs: the streams that some client or the log wants. A process with a terminal has no pipes here.
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
        """Returns the process's end of one output; it is /dev/null for an output that nobody wants."""
        if stream not in wanted:
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        self.outputs.append((stream, ours))
        return theirs

    def close_stdio(self) -> None:
        for descriptor in self.stdio or ():
            os.close(descriptor)

    def close(self) -> None:
        """Close both sides, for when no process was made."""
        self.close_stdio()
        for descriptor in (self.input, *(output for _, output in self.outputs)):
            if descriptor >= 0:
                os.close(descriptor)


def prepare(stage: str) -> Spare:
    """Fork an init ahead of time, in a PID namespace of its own.

    stage: an empty directory (see `init.prepare`)
    """
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
    """In a spare: touch the pages that a launch touches.

    A page is copied on its first touch; after this no start waits for that copy.
    """
    streams = Streams(tty=False, stdin=True)
    streams.close()
    channel.unpack(b"J" + codec.encode(REHEARSED), [])
    report.decode(report.READY)
    codec.encode(Started(0, syscalls.process_start(os.getpid()), 0))


def _wait_prepared(reports: socket.socket, place: str) -> None:
    """In the spare's init: prepare, wait for the sandbox, and build it.

    Returns when no sandbox will come any more.
    """
    title.become("init")
    try:
        staged = init.prepare(place)
        reports.send(report.READY)  # the datagram waits in the socket for the monitor, which tells the daemon at once
    except (EngineError, OSError):
        staged = None  # then all is made after the request has come, and a failure is told to the daemon that asked
    packed.unpack(REHEARSED.sandbox)
    data, passed, _ = receive_with_descriptors(reports, _SANDBOX_MAX, 3)
    if data:
        stdio = (passed[0], passed[1], passed[2]) if passed else None
        init.run(packed.unpack(data), stdio, reports.detach(), staged)


def launch(start: Start, link: Channel, spare: Spare | None = None) -> Launched | None:
    """Make process 1 and bring it to execve.

    Returns None when it failed, or when nobody wants it any more; the daemon was told.
    """
    streams = Streams(start.tty, start.stdin)
    if spare is None:
        try:
            spare = _fork_init(start, streams)
        except SystemFailure as error:  # the container whose namespace is to be joined is gone
            streams.close()
            link.send(Failed("namespaces", 0, str(error), _LOST))
            return None
    else:
        socket.send_fds(spare.reports, [start.sandbox], streams.stdio or ())
    streams.close_stdio()
    with spare.reports:
        handshake = _Handshake(link, spare.reports, spare.pid, os.pidfd_open(spare.pid), streams)
        try:
            log = opening.open_log(
                start.log
            )  # while init is at its work; nothing runs without the log that it writes to
        except OSError as error:
            text = opening.REFUSED + reasons.of(error)
            handshake.refuse(Failed("log", error.errno or 0, text, opening.NOT_TRIED))
            return None
        launched = handshake.run()
        if not start.own_pids and not start.pids:
            syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 0)
        if launched is not None:
            launched.log = log
        return launched


def _fork_init(start: Start, streams: Streams) -> Spare:
    """Fork an init without preparation: it begins with its sandbox."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    if not start.own_pids and not start.pids:
        # Where another runtime makes process 1, that is to become a child of this process, and so of the monitor.
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    if start.own_pids:
        syscalls.unshare(syscalls.CLONE_NEWPID)
    elif start.pids:
        namespaces.enter([("pid", namespaces.open_one("pid", *start.pids))])
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            title.become("init")
            wanted = packed.unpack(start.sandbox)
            (viaruntime if wanted.runtime else init).run(wanted, streams.stdio, theirs.detach())
        finally:
            os._exit(_LOST)
    theirs.close()
    return Spare(pid, ours)


def is_child(pid: int) -> bool:
    """Whether this is a child of the caller; one that has ended too counts as a child.

    A pid in a report need not be true, because a process that may trace a newborn can send reports in its name.
    """
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OverflowError):
        return False
    return True


class _Handshake:
    """The exchange of messages from the fork to execve.

    `run` ends with the process running, failed, or killed as unwanted.
    """

    def __init__(self, link: Channel, reports: socket.socket, pid: int, pidfd: int, streams: Streams) -> None:
        self._link = link
        self._reports = reports
        self._pid = pid
        self._pid_start = syscalls.process_start(pid)
        self._pidfd = pidfd
        self._streams = streams
        self._terminal = self._mounts = -1
        self._caller = 0  # the child that has called another runtime, which has made process 1
        self._proceeded = False
        self._warnings: list[str] = []

    def run(self) -> Launched | None:
        """Run the exchange to its end; returns the running process, or None when it failed or is unwanted."""
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
                    # The socket is close-on-exec: its end means execve, or the end of an init that was not even ready.
                    return self._started() if self._mounts >= 0 else None
                said = report.decode(data)
                if isinstance(said, report.Failure):
                    self._failed(said)
                    return None
                self._take(said, passed)

    def _take(self, said: report.Ready | report.Terminal | report.Warned, passed: list[int]) -> None:
        if isinstance(said, report.Ready):
            if said.pid:
                self._take_born(said.pid)
            self._ready()
        elif isinstance(said, report.Terminal):
            self._terminal = passed[0]
        else:
            self._warnings.append(said.text)

    def _take_born(self, pid: int) -> None:
        """Go on with the process 1 that a runtime has made. Raises SystemFailure for one that is not this monitor's."""
        started, descriptor = syscalls.process_start(pid), os.pidfd_open(pid)
        with open(f"/proc/{pid}/stat") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
        if parent != os.getpid():
            os.close(descriptor)
            raise SystemFailure(f"the runtime has left process {pid} to process {parent}, and not to the monitor")
        os.close(self._pidfd)
        self._caller, self._pid, self._pid_start, self._pidfd = self._pid, pid, started, descriptor

    def _ready(self) -> None:
        self._mounts = os.open(f"/proc/{self._pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self._tell(NamespacesReady(self._pid, self._pid_start))

    def _hear_daemon(self) -> bool:
        """Take one message of the daemon; False when the daemon is gone."""
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
            pass  # the daemon has died: the link's end of file says the same, and `run` acts on that

    def _started(self) -> Launched:
        if self._caller:
            os.waitpid(self._caller, 0)
        warnings = tuple(self._warnings)
        started = Started(self._pid, self._pid_start, time.time_ns(), warnings, keeps_waiters=True, wakes=True)
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
        os.waitpid(self._caller or self._pid, 0)
        self._tell(Failed(failure.step, failure.errno, failure.text, failure.status))

    def refuse(self, failure: Failed) -> None:
        """Kill the process, which is not to run, and tell the daemon why."""
        self._abandon()
        self._tell(failure)

    def _abandon(self) -> None:
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        if self._caller:
            self._reports.close()  # it sees the end, and has the runtime forget the container
        os.waitpid(self._caller or self._pid, 0)
