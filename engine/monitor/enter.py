"""Starts an exec in its monitor by making the pipes and the joiner process, which enters the running container.

Runs in the monitor of an exec. The daemon takes no part in the start and is only told how it ended; when the daemon
dies meanwhile, the process runs all the same. Where a monitor is two processes (`monitor.nativeprocess`), the launcher
hands everything over to the keeper and becomes the joiner itself (`engine.birth.join`); the joiner then reports to the
keeper. A monitor that is one process forks a joiner and reads its reports here.
"""

import os
import socket
import time

from engine.birth import join
from engine.errors import Invalid
from engine.kernel import syscalls
from engine.late import TYPE_CHECKING, late
from engine.monitor.handover import Handover, Processes
from engine.monitor.launch import REHEARSED, STDERR, STDOUT, Launched, Streams, is_child
from engine.wire import channel, packed, report
from engine.wire.channel import Channel, receive_with_descriptors
from engine.wire.schema import Client, Exec, Failed, Message, Started, Warned

if TYPE_CHECKING:  # loaded by the joiner of a container that has a kernel of its own
    from engine.birth import joinviaruntime
else:
    joinviaruntime = late("engine.birth.joinviaruntime")

_LOST = 125
_MOST_DIGITS = 9  # of the number of a process
_OUTPUTS = {STDOUT: 2, STDERR: 4}  # the bit of each output in `Client.streams`
_REHEARSED = channel.datagram(Exec(REHEARSED.sandbox, 1, clients=(Client(6, True),)))


def prepare() -> None:
    """Prepare this process to become a joiner before a request comes, and touch every page that a joiner touches."""
    join.prepare()
    asked, _ = channel.unpack(_REHEARSED, [])
    assert isinstance(asked, Exec)
    packed.unpack(asked.process)
    _streams(asked).close()
    join.rehearse()


def become_joiner(asked: Exec, descriptors: list[int], processes: Processes, prepared: bool) -> None:
    """In the launcher: hand over to the keeper, join the container, and execute the command.

    descriptors: those of the request. Raises only before the handover is done.
    """
    link, pidfd, *clients = descriptors
    process = packed.unpack(asked.process)
    streams = _streams(asked)
    handed = Handover(
        pid=0,
        pid_start=0,
        started_ns=0,
        pidfd=-1,
        listener=-1,
        link=link,
        exec_dir=-1,
        mounts=-1,
        tty=asked.tty,
        stdin_once=True,
        input=streams.input,
        outputs=dict(streams.outputs),
        clients=[
            (descriptor, client.streams, client.framed, client.detach, client.replay)
            for client, descriptor in zip(asked.clients, clients, strict=True)
        ],
        log=None,
        container=process.id,
        head=asked.clients[0].head if asked.clients else b"",
    )
    processes.name("launch", process.id[:12])
    processes.hand_over(handed)
    # `wants` stays open until this process ends, as after a container's start: there the spawner forks the next spare
    # only at that end, so that the fork takes no processor from the start. After an exec it does not wait for that.
    held = (processes.wants,) if prepared else ()
    if process.runtime:
        joinviaruntime.run(process, streams.stdio, processes.reports, prepared, held)
    newborn = None if asked.traced else processes.newborn
    join.run(process, streams.stdio, processes.reports, join.Target(pidfd, asked.pid), newborn, prepared, held)


def enter(asked: Exec, link: Channel, pidfd: int) -> Launched | None:
    """In a monitor that is one process: make the exec's process and bring it to execve.

    Returns None when it failed; the daemon was told then.
    """
    streams = _streams(asked)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    joiner = os.fork()
    if joiner == 0:
        try:
            process = packed.unpack(asked.process)
            if process.runtime:
                joinviaruntime.run(process, streams.stdio, theirs.detach())
            join.run(process, streams.stdio, theirs.detach(), join.Target(pidfd, asked.pid))
        finally:
            os._exit(_LOST)
    theirs.close()
    streams.close_stdio()
    os.close(pidfd)
    with ours:
        return _await(ours, joiner, link, streams)


def _streams(asked: Exec) -> Streams:
    wanted = 0
    for client in asked.clients:
        wanted |= client.streams
    return Streams(asked.tty, asked.stdin, tuple(stream for stream, bit in _OUTPUTS.items() if wanted & bit))


def _await(reports: socket.socket, joiner: int, link: Channel, streams: Streams) -> Launched | None:
    """Read the reports to their end: the socket closes at execve, or when the joiner and its child have ended."""
    pid = terminal = -1
    bears = failed = False
    while True:
        data, passed, _ = receive_with_descriptors(reports, report.LARGEST, 1)
        kind, rest = data[:1], data[1:]
        if not kind:
            break
        if kind == report.TERMINAL and passed and not bears:
            terminal = passed.pop()
        for descriptor in passed:
            os.close(descriptor)
        if kind == report.BORN and rest.isdigit() and len(rest) <= _MOST_DIGITS:
            bears, pid = True, int(rest)
        elif kind == report.FAILED and not failed:
            failed = _pass_on_as(link, rest, Failed)
        elif kind == report.WARNED and not bears:
            _pass_on_as(link, rest, Warned)
    os.waitpid(joiner, 0)  # the joiner's child then becomes a child of this process, which is its subreaper
    if failed or pid <= 0 or not is_child(pid):
        return None  # the daemon hears at least the end of the link
    started = Started(pid, syscalls.process_start(pid), time.time_ns())
    _pass_on(link, channel.datagram(started))
    if terminal >= 0:
        streams.outputs, streams.input = [(STDOUT, terminal)], terminal
    return Launched(
        pid,
        os.pidfd_open(pid),
        started.pid_start,
        started.started_ns,
        streams.outputs,
        streams.input,
        terminal,
        mounts=-1,
    )


def _pass_on_as(link: Channel, datagram: bytes, kind: type[Message]) -> bool:
    """Pass a message of this class on; False for another one, which a tracer of the process may have sent."""
    try:
        message, _ = channel.unpack(datagram, [])
    except Invalid:
        return False
    if type(message) is kind:
        _pass_on(link, channel.datagram(message))
    return type(message) is kind


def _pass_on(link: Channel, datagram: bytes) -> None:
    try:
        link.socket.send(datagram, socket.MSG_NOSIGNAL)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the daemon has died, and the next daemon will not know of this process
