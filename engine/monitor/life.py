"""The monitor's main loop from execve to the container's end: clients, daemons that connect, log rotation, exit status.

Runs in the monitor's one thread, nearly all of the time inside `Pump.run`. The order at the end: the pipes are drained,
the log is closed, the exit file is in place, and only then is anyone told.

An exec has a "home" once the daemon has sent it a record (a file for its exit status) and a listening socket, by which
the next daemon finds it.
"""

import contextlib
import fcntl
import os
import select
import socket
import struct
import termios
import time
from collections.abc import Callable

from engine.dataclass import dataclass, replace
from engine.errors import Invalid
from engine.logs.openlog import OpenLog
from engine.monitor import logs
from engine.monitor.adopting import Kept
from engine.monitor.contract import Event, Pump
from engine.monitor.handover import Handover
from engine.monitor.launch import Launched
from engine.monitor.parts import Parts
from engine.wire import codec, endpoint, exitfile, waits, wakeup
from engine.wire.channel import Channel, unpacked
from engine.wire.schema import Attach, Client, Detached, Exec, Exited, Message, Resize, Start, Started, Warned

_WORDS = waits.WORDS | {endpoint.HOME}
_MOST_UNHEARD = 4096  # datagrams; a daemon that goes on talking must not keep the end from being told


def begin(
    start: Start | Exec,
    launched: Launched,
    link: Channel,
    listener: socket.socket | None,
    clients: list[int],
    made_of: Parts,
) -> None:
    """Serve the process that this process has just launched, until it has ended and its end is on disk.

    listener: None for an exec. Until it gets a home, no other daemon finds it again and it leaves nothing on disk.
    """
    log = launched.log
    pump = made_of.Pump(log, start.tty)
    for stream, descriptor in launched.outputs:
        pump.add_output(stream, descriptor)
    pump.set_input(launched.input, _stdin_once(start))
    for client, descriptor in zip(start.clients, clients, strict=True):
        _add_client(pump, client, descriptor)
    for each in (link.fileno(), launched.pidfd, *([listener.fileno()] if listener else [])):
        pump.watch(each)
    greeting = Started(launched.pid, launched.pid_start, launched.started_ns, keeps_waiters=True, wakes=True)
    # The pump closes its own copy with the output.
    terminal = os.dup(launched.terminal) if launched.terminal >= 0 else -1
    waiters = Kept(pump, made_of.Waiters)
    held = _Held(launched.pidfd, terminal, launched.mounts)
    _Life(_exec_dir(start), pump, log, greeting, held, link, listener, waiters).run(pump.run())


def handed(start: Start, launched: Launched, link: int, listener: socket.socket, clients: list[int]) -> Handover:
    """Make what the launcher of a container gives to its keeper."""
    return Handover(
        launched.pid,
        launched.pid_start,
        launched.started_ns,
        launched.pidfd,
        listener.fileno(),
        link,
        os.open(start.exec_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC),
        launched.mounts,
        start.tty,
        start.stdin_once,
        launched.input if launched.terminal < 0 else os.dup(launched.input),
        dict(launched.outputs),
        [
            (descriptor, client.streams, client.framed, client.detach, client.replay)
            for client, descriptor in zip(start.clients, clients, strict=True)
        ],
        launched.log,
        os.path.basename(start.exec_dir),
    )


def _stdin_once(start: Start | Exec) -> bool:
    return True if isinstance(start, Exec) else start.stdin_once


def _exec_dir(start: Start | Exec) -> str:
    return "" if isinstance(start, Exec) else start.exec_dir


def _add_client(pump: Pump, client: Client, descriptor: int, owed: bytes = b"") -> None:
    if client.head:
        # Where the client has gone, the pump will find out.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
            connection.send(client.head, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    pump.add_client(descriptor, client.streams, client.framed, client.detach, client.replay, owed)


@dataclass(slots=True)
class _Held:
    """The descriptors that a monitor holds of its process; -1 for none.

    record: for an exec with a home, the file in which it leaves its exit status. The daemon has set the file's position
        to where it belongs, and has left room for it.
    """

    pidfd: int
    terminal: int
    mounts: int
    record: int = -1


class _Life:
    """A running container, its pump, and the processes that are told of its end.

    Every watched descriptor has its handler.
    """

    def __init__(
        self,
        exec_dir: str,
        pump: Pump,
        log: OpenLog | None,
        greeting: Started,
        held: _Held,
        link: Channel | None,
        listener: socket.socket | None,
        waiters: Kept,
    ) -> None:
        self._exec_dir = exec_dir
        self._pump = pump
        self._log = log
        self._greeting = greeting
        self._held = held
        self._compression: logs.Compression | None = None
        self._link = link
        self._listener = listener
        self._waiters = waiters
        self._exited: Exited | None = None
        self._handlers: dict[int, Callable[[], None]] = {held.pidfd: self._finish}
        if waiters.fd >= 0:
            self._handlers[waiters.fd] = waiters.look
        if listener is not None:
            self._handlers[listener.fileno()] = self._meet
        if link is not None:
            self._handlers[link.fileno()] = self._listen

    def run(self, event: Event) -> None:
        """Handle this event and all that follow, until nothing is left to handle."""
        while True:
            match event:
                case ("readable", descriptor):
                    self._handlers[descriptor]()
                case ("rotated",) if self._log is not None and self._compression is None:
                    self._compress(self._log)
                case ("client", _, "detached"):
                    self._tell(Detached())
            if not self._handlers:
                return
            event = self._pump.run()

    def _meet(self) -> None:
        """Accept a connection of a new daemon: it replaces the earlier one, and is told the container's state."""
        assert self._listener is not None  # it is what is readable
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the daemon has gone again, or there is no free descriptor for it now
            return
        self._drop_link()
        self._link = Channel(connection)
        self._handlers[connection.fileno()] = self._listen
        if self._exited is None:
            self._pump.watch(connection.fileno())
        self._tell(self._greeting if self._exited is None else self._ended(self._exited))

    def _ended(self, exited: Exited) -> Exited:
        return replace(exited, waiters=len(self._waiters))

    def _drop_link(self) -> None:
        if self._link is not None:
            descriptor = self._link.fileno()
            if self._exited is None:
                self._pump.unwatch(descriptor)
            del self._handlers[descriptor]
            self._link.close()
            self._link = None
            self._waiters.lose_daemon(self._exited, self._exec_dir)

    def _tell(self, message: Message) -> None:
        if self._link is None:
            return
        try:
            self._link.send(message)
        except (BrokenPipeError, ConnectionResetError):
            self._drop_link()  # the daemon has died; the next daemon will ask

    def _listen(self) -> None:
        """Handle one message from the daemon, or the end of the link."""
        assert self._link is not None  # it is what is readable
        try:
            packed = self._link.receive_packed()
            if packed is not None and packed[0][:1] in _WORDS:
                self._hear_word(*packed)
                return
            received = None if packed is None else unpacked(*packed)
        except Invalid as error:
            self._tell(Warned(str(error)))
            return
        if received is None:
            self._drop_link()
            return
        message, descriptors = received
        try:
            self._obey(message, descriptors)
        # A container must not end because its monitor cannot carry out, or understand, a message.
        except Exception as error:
            self._tell(Warned(f"{type(message).__name__}: {type(error).__name__}: {error}"))
        for descriptor in descriptors:
            os.close(descriptor)

    def _obey(self, message: Message, descriptors: list[int]) -> None:
        """Carry out a message of the daemon. The caller closes the descriptors that are left in the list."""
        if self._exited is not None:
            pass  # the container has ended, so there is nothing that the message could be about
        elif isinstance(message, Attach):
            owed = logs.missed(self._log, self._pump, message)
            _add_client(self._pump, message.client, descriptors[-1], owed)
            descriptors.pop()
        elif isinstance(message, Resize):
            if self._held.terminal >= 0:
                size = struct.pack("HHHH", message.rows, message.columns, 0, 0)
                fcntl.ioctl(self._held.terminal, termios.TIOCSWINSZ, size)
        else:
            raise Invalid("unexpected message for a monitor")

    def _hear_word(self, datagram: bytes, descriptors: list[int]) -> None:
        word = datagram[:1]
        if word == endpoint.HOME:
            if len(descriptors) == 2 and self._listener is None and self._exited is None:
                self._held.record, listening = descriptors
                descriptors = []
                self._listener = socket.socket(fileno=listening)
                self._handlers[listening] = self._meet
                self._pump.watch(listening)
        elif word == waits.WAITS and len(descriptors) == 1:
            self._waiters.take(datagram, descriptors.pop())
            if self._waiters.fd >= 0:
                self._handlers[self._waiters.fd] = self._waiters.look
        elif word != waits.WAITS:
            self._waiters.hear(word, datagram, self._exited)
        for descriptor in descriptors:
            os.close(descriptor)

    def _compress(self, log: OpenLog) -> None:
        compression = self._compression = logs.Compression(log)
        self._handlers[compression.fd] = lambda: self._compressed(compression)
        self._pump.watch(compression.fd)

    def _compressed(self, compression: logs.Compression) -> None:
        self._pump.unwatch(compression.fd)
        del self._handlers[compression.fd]
        compression.end()
        self._compression = None

    def _finish(self) -> None:
        """Process 1 has ended (and with it, in a PID namespace of its own, all others): see the end through."""
        _, status = os.waitpid(self._greeting.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        exited = Exited(code if code >= 0 else 128 - code, time.time_ns(), self._greeting.started_ns)
        try:
            self._pump.drain()
            if self._compression is not None:
                self._compression.end(unwanted=True)
            if self._log is not None:
                self._log.close()
        finally:  # also when the host has refused one of these steps
            if self._exec_dir:
                # OSError even for the space that was reserved: the daemon is told all the same.
                with contextlib.suppress(OSError):
                    exitfile.write(self._exec_dir, codec.encode(exited))
            else:
                self._write_record(exited)
            self._exited = exited
            self._hear_the_rest()
            self._waiters.look()
            self._tell(self._ended(exited))
            if self._link is None:
                self._waiters.lose_daemon(exited, self._exec_dir)
                if self._exec_dir:
                    wakeup.call(self._exec_dir)
        self._pump.close_clients()
        if len(self._waiters):
            self._wait_with_them()
        self._handlers.clear()

    def _hear_the_rest(self) -> None:
        """Hear what the daemon had said before the end.

        The clients that it has entrusted have read the head of their answer: if the daemon dies now, only this process
        can answer them.
        """
        if self._link is None:
            return
        self._link.socket.setblocking(False)
        for _ in range(_MOST_UNHEARD):
            try:
                packed = self._link.receive_packed()
            except BlockingIOError:
                break
            except Invalid:  # one that was cut, as no descriptor was free for it
                continue
            if packed is None:
                break
            datagram, descriptors = packed
            if datagram[:1] in _WORDS:
                self._hear_word(datagram, descriptors)
                continue
            for descriptor in descriptors:  # a message about a container that runs
                os.close(descriptor)
        self._link.socket.setblocking(True)

    def _write_record(self, exited: Exited) -> None:
        """Write into an exec's record how it has ended.

        A short exec may not have read the daemon's word about its home yet, so that is done here first.
        """
        if self._held.record < 0 and self._link is not None:
            self._link.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError, Invalid):
                packed = self._link.receive_packed()
                if packed is not None and packed[0][:1] == endpoint.HOME:
                    self._hear_word(*packed)
            self._link.socket.setblocking(True)
        if self._held.record >= 0:
            with contextlib.suppress(OSError):  # the daemon is told all the same
                os.write(self._held.record, codec.encode(exited))

    def _wait_with_them(self) -> None:
        """Go on until each waiting client was answered, by the daemon or by this process, or has hung up.

        Nothing else of the container is held meanwhile.
        """
        self._pump.close()
        if self._held.mounts >= 0:
            os.close(self._held.mounts)
        while len(self._waiters):
            poll = select.poll()
            poll.register(self._waiters.fd, select.POLLIN)
            for each in (self._link, self._listener):
                if each is not None:
                    poll.register(each.fileno(), select.POLLIN)
            for descriptor, _ in poll.poll():
                if descriptor in self._handlers:  # an earlier handler of this round may have closed the link
                    self._handlers[descriptor]()
