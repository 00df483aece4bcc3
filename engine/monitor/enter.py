"""From a request to one more process in a container that runs: the pipes, the joiner's fork, and its reports.

Runs in the monitor of an exec, before its loop. The daemon has no part in it, so it is only told how it ended; when the
daemon dies meanwhile, the process runs all the same. A joiner (see `engine.join`) makes the process and ends; what it
has made becomes the child of the subreaper above, which in a monitor of two halves is the half that stays.
"""

import os
import socket
import time

from engine import join
from engine.kernel import syscalls
from engine.monitor.launch import REHEARSED, STDERR, STDOUT, Launched, Spare, Streams, rehearse
from engine.wire import packed, report
from engine.wire.channel import Channel, receive_with_descriptors
from engine.wire.messages import Exec, Failed, Started

_LOST = 125
_PID_SIZE = 8
_PROCESS_MAX = 128 * 1024  # above what travels to a spare
_OUTPUTS = {STDOUT: 2, STDERR: 4}  # what stands for them in `Client.streams`


def prepare() -> Spare:
    """Fork a joiner ahead of time: it waits for its process on the report socket."""
    ours, theirs = _sockets()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _wait_prepared(theirs)
        finally:
            os._exit(_LOST)
    theirs.close()
    rehearse()
    return Spare(pid, ours)


def _wait_prepared(reports: socket.socket) -> None:
    """In the spare's joiner: wait for the process, become it; return when nobody wants it any more."""
    join.prepare()
    packed.unpack(REHEARSED.sandbox)
    data, descriptors, _ = receive_with_descriptors(reports, _PID_SIZE + _PROCESS_MAX, 4)
    if data:
        pidfd, *stdio = descriptors
        pid = int.from_bytes(data[:_PID_SIZE], "little")
        join.run(packed.unpack(data[_PID_SIZE:]), tuple(stdio) or None, reports.detach(), pidfd, pid, prepared=True)


def enter(asked: Exec, link: Channel, pidfd: int, spare: Spare | None = None) -> Launched | None:
    """Make the process and bring it to execve; None when it failed (the daemon was told). Consumes `pidfd`."""
    wanted = 0
    for client in asked.clients:
        wanted |= client.streams
    streams = Streams(asked.tty, asked.stdin, tuple(stream for stream, bit in _OUTPUTS.items() if wanted & bit))
    if spare is None:
        spare = _fork_joiner(asked, streams, pidfd)
    else:
        packet = asked.pid.to_bytes(_PID_SIZE, "little") + asked.process
        socket.send_fds(spare.reports, [packet], [pidfd, *(streams.stdio or ())])
    streams.close_stdio()
    os.close(pidfd)
    with spare.reports:
        return _await(spare, link, streams)


def _sockets() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


def _fork_joiner(asked: Exec, streams: Streams, pidfd: int) -> Spare:
    """A joiner that is not spare: it begins with its process."""
    ours, theirs = _sockets()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            join.run(packed.unpack(asked.process), streams.stdio, theirs.detach(), pidfd, asked.pid)
        finally:
            os._exit(_LOST)
    theirs.close()
    return Spare(pid, ours)


def _await(joiner: Spare, link: Channel, streams: Streams) -> Launched | None:
    """Hear the reports to their end, which is the execve."""
    pid = pidfd = terminal = -1
    failure = None
    warnings = []
    while True:
        data, passed, _ = receive_with_descriptors(joiner.reports, report.LARGEST, 1)
        if not data:
            break
        said = report.decode(data)
        match said:
            case report.Born():
                pid, pidfd = said.pid, os.pidfd_open(said.pid)  # its end is nobody's to take before the handover
            case report.Terminal():
                (terminal,) = passed
            case report.Warned():
                warnings.append(said.text)
            case report.Failure():
                failure = said
    os.waitpid(joiner.pid, 0)  # then its child is not its child any more
    if failure is not None:
        _tell(link, Failed(failure.step, failure.errno, failure.text, failure.status))
        return None
    if pid < 0:
        return None  # the joiner was killed: the end of the link says it
    started = Started(pid, syscalls.process_start(pid), time.time_ns(), tuple(warnings))
    _tell(link, started)
    if terminal >= 0:
        streams.outputs, streams.input = [(STDOUT, terminal)], terminal
    return Launched(
        pid, pidfd, started.pid_start, started.started_ns, streams.outputs, streams.input, terminal, mounts=-1
    )


def _tell(link: Channel, message: object) -> None:
    try:
        link.send(message)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the daemon has died, and the next one will not know of this process
