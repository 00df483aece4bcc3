"""The monitor's life after execve: move bytes, take in clients and daemons, and see the container's end through.

Runs in the monitor's one thread, nearly all of it inside `Pump.run`. Order at the end: the pipes are drained, the log
is closed, the exit file is in place, and only then is anyone told.
"""

import contextlib
import fcntl
import os
import socket
import struct
import termios
import time

from engine.errors import Invalid
from engine.logs.halves import Handed, Stayed
from engine.logs.twin import Twin
from engine.logs.writer import Writer
from engine.monitor import logs
from engine.monitor.launch import Launched
from engine.wire import codec, exitfile
from engine.wire.channel import Channel
from engine.wire.messages import Attach, Client, Detached, Exec, Exited, Resize, Start, Started, Warned


def begin(
    start: Start | Exec,
    launched: Launched,
    link: Channel,
    listener: socket.socket | None,
    clients: list[int],
    twin: Twin,
) -> None:
    """Serve what has just been launched by this process, until it has ended and its end is on disk.

    listener: None for an exec, which no other daemon finds again and which leaves nothing on disk
    """
    log = _open_log(start)
    pump = twin.Pump(log, start.tty)
    for stream, descriptor in launched.outputs:
        pump.add_output(stream, descriptor)
    pump.set_input(launched.input, _stdin_once(start))
    for client, descriptor in zip(start.clients, clients, strict=True):
        _add_client(pump, client, descriptor)
    for each in (link.fileno(), launched.pidfd, *([listener.fileno()] if listener else [])):
        pump.watch(each)
    greeting = Started(launched.pid, launched.pid_start, launched.started_ns)
    terminal = os.dup(launched.terminal) if launched.terminal >= 0 else -1  # the pump closes its own with the output
    _Life(_exec_dir(start), pump, log, greeting, launched.pidfd, terminal, link, listener).run(pump.run())


def handed(
    start: Start | Exec, launched: Launched, link: int, listener: socket.socket | None, clients: list[int]
) -> Handed:
    """What the half of the monitor that has launched a container gives to the half that stays."""
    return Handed(
        launched.pid,
        launched.pid_start,
        launched.started_ns,
        launched.pidfd,
        listener.fileno() if listener else -1,
        link,
        os.open(start.exec_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if listener else -1,
        launched.mounts,
        start.tty,
        _stdin_once(start),
        launched.input if launched.terminal < 0 else os.dup(launched.input),
        dict(launched.outputs),
        [
            (descriptor, client.streams, client.framed, client.detach, client.replay)
            for client, descriptor in zip(start.clients, clients, strict=True)
        ],
        _open_log(start),
        os.path.basename(start.exec_dir),
    )


def go_on(stayed: Stayed) -> None:
    """Serve, as the half that stays, from the first event on that is not only bytes to move."""
    greeting = Started(stayed.pid, stayed.pid_start, stayed.started_ns)
    link = Channel.adopt(stayed.link) if stayed.link >= 0 else None
    listener = socket.socket(fileno=stayed.listener) if stayed.listener >= 0 else None
    exec_dir = f"/proc/self/fd/{stayed.exec_dir}" if stayed.exec_dir >= 0 else ""
    life = _Life(exec_dir, stayed.pump, stayed.log, greeting, stayed.pidfd, stayed.terminal, link, listener)
    life.run(stayed.event)


def _stdin_once(start: Start | Exec) -> bool:
    return True if isinstance(start, Exec) else start.stdin_once


def _exec_dir(start: Start | Exec) -> str:
    return "" if isinstance(start, Exec) else start.exec_dir


def _open_log(start: Start | Exec) -> Writer | None:
    return None if isinstance(start, Exec) else logs.open_log(start.log)


def _add_client(pump: object, client: Client, descriptor: int, owed: bytes = b"") -> None:
    pump.add_client(descriptor, client.streams, client.framed, client.detach, client.replay, owed)


class _Life:
    """A running container, its pump, and who is told of its end. Every watched descriptor has its handler."""

    def __init__(
        self,
        exec_dir: str,
        pump: object,
        log: Writer | None,
        greeting: Started,
        pidfd: int,
        terminal: int,
        link: Channel | None,
        listener: socket.socket | None,
    ) -> None:
        self._exec_dir = exec_dir
        self._pump = pump
        self._log = log
        self._greeting = greeting
        self._terminal = terminal
        self._compression: logs.Compression | None = None
        self._link = link
        self._listener = listener
        self._handlers = {pidfd: self._finish}
        if listener is not None:
            self._handlers[listener.fileno()] = self._meet
        if link is not None:
            self._handlers[link.fileno()] = self._listen

    def run(self, event: tuple) -> None:
        """Decide this event, and all that follow."""
        while True:
            if event[0] == "readable":
                self._handlers[event[1]]()
            elif event[0] == "rotated" and self._compression is None:
                self._compression = logs.Compression(self._log)
                self._handlers[self._compression.fd] = self._compressed
                self._pump.watch(self._compression.fd)
            elif event[0] == "client" and event[2] == "detached":
                self._tell(Detached())
            if not self._handlers:
                return
            event = self._pump.run()

    def _meet(self) -> None:
        """A daemon has connected: it is the daemon from now on, and learns how things stand."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it has gone again, or there is no room for it now
            return
        self._drop_link()
        self._link = Channel(connection)
        self._handlers[connection.fileno()] = self._listen
        self._pump.watch(connection.fileno())
        self._tell(self._greeting)

    def _drop_link(self) -> None:
        if self._link is not None:
            descriptor = self._link.fileno()
            self._pump.unwatch(descriptor)
            del self._handlers[descriptor]
            self._link.close()
            self._link = None

    def _tell(self, message: object) -> None:
        if self._link is None:
            return
        try:
            self._link.send(message)
        except (BrokenPipeError, ConnectionResetError):
            self._drop_link()  # the daemon has died; the next one will ask

    def _listen(self) -> None:
        """One message from the daemon, or its end."""
        try:
            received = self._link.receive()
        except Invalid as error:
            self._tell(Warned(str(error)))
            return
        if received is None:
            self._drop_link()
            return
        message, descriptors = received
        try:
            self._obey(message, descriptors)
        except Exception as error:  # a container must not end with a monitor that cannot do, or understand, a word
            self._tell(Warned(f"{type(message).__name__}: {type(error).__name__}: {error}"))
        for descriptor in descriptors:
            os.close(descriptor)

    def _obey(self, message: object, descriptors: list[int]) -> None:
        """Do what the daemon says; the descriptors that are left are closed by the caller."""
        if isinstance(message, Attach):
            owed = logs.missed(self._log, self._pump, message)
            _add_client(self._pump, message.client, descriptors[-1], owed)
            descriptors.pop()
        elif isinstance(message, Resize):
            if self._terminal >= 0:
                size = struct.pack("HHHH", message.rows, message.columns, 0, 0)
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        else:
            raise Invalid("a monitor does not know what to do with it")

    def _compressed(self) -> None:
        self._pump.unwatch(self._compression.fd)
        del self._handlers[self._compression.fd]
        self._compression.end()
        self._compression = None

    def _finish(self) -> None:
        """Process 1 has ended (and with it, in a namespace of its own, every process of the container)."""
        _, status = os.waitpid(self._greeting.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        exited = Exited(code if code >= 0 else 128 - code, time.time_ns(), self._greeting.started_ns)
        try:
            self._pump.drain()
            if self._compression is not None:
                self._compression.end(unwanted=True)
            if self._log is not None:
                self._log.close()
        finally:  # whatever the host refuses
            if self._exec_dir:
                with contextlib.suppress(OSError):  # even the space that was reserved: the daemon is told all the same
                    exitfile.write(self._exec_dir, codec.encode(exited))
            self._tell(exited)
        self._pump.close_clients()
        self._handlers.clear()
