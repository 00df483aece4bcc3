"""The monitor's life after execve: move bytes, take in clients and daemons, and see the container's end through.

Runs in the monitor's one thread, nearly all of it inside `Pump.run`. Order at the end: the pipes are drained, the log
is closed, the exit file is in place, and only then is anyone told.
"""

import fcntl
import os
import socket
import struct
import termios
import time

from engine.errors import Invalid
from engine.logs import twin
from engine.logs.writer import Writer
from engine.monitor.launch import Launched
from engine.wire import codec, exitfile
from engine.wire.channel import Channel
from engine.wire.messages import Attach, Client, Exited, Resize, Start, Started


def live(start: Start, launched: Launched, link: Channel, listener: socket.socket, clients: list[int]) -> None:
    """Serve a running container until it has ended and its end is on disk."""
    _Life(start, launched, link, listener).run(zip(start.clients, clients, strict=True))


class _Life:
    def __init__(self, start: Start, launched: Launched, link: Channel, listener: socket.socket) -> None:
        self._start = start
        self._launched = launched
        self._link: Channel | None = link
        self._listener = listener
        self._log = (
            Writer(start.log.directory, start.log.max_size, start.log.max_files) if start.log.directory else None
        )
        self._pump = twin.select(start.muxer).Pump(self._log, start.sandbox.tty)
        self._handlers = {
            listener.fileno(): self._meet,
            link.fileno(): self._listen,
            launched.pidfd: self._finish,
        }

    def run(self, clients: object) -> None:
        pump = self._pump
        for stream, descriptor in self._launched.outputs:
            pump.add_output(stream, descriptor)
        pump.set_input(self._launched.input, self._start.stdin_once)
        for client, descriptor in clients:
            self._add_client(client, descriptor)
        for descriptor in self._handlers:
            pump.watch(descriptor)
        while self._handlers:
            event = pump.run()
            if event[0] == "readable":
                self._handlers[event[1]]()
            elif event[0] == "full":
                self._log.rotate()

    def _add_client(self, client: Client, descriptor: int) -> None:
        self._pump.add_client(descriptor, client.streams, client.framed, client.detach, client.replay)

    def _meet(self) -> None:
        """A daemon has connected: it is the daemon from now on, and learns how things stand."""
        connection, _ = self._listener.accept()
        self._drop_link()
        self._link = Channel(connection)
        self._handlers[connection.fileno()] = self._listen
        self._pump.watch(connection.fileno())
        self._tell(Started(self._launched.pid, self._launched.pid_start, self._launched.started_ns))

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
        except (ConnectionResetError, Invalid):
            received = None
        if received is None:
            self._drop_link()
            return
        message, descriptors = received
        if isinstance(message, Attach):
            self._add_client(message.client, descriptors.pop())
        elif isinstance(message, Resize) and self._launched.terminal >= 0:
            size = struct.pack("HHHH", message.rows, message.columns, 0, 0)
            fcntl.ioctl(self._launched.terminal, termios.TIOCSWINSZ, size)
        for descriptor in descriptors:
            os.close(descriptor)

    def _finish(self) -> None:
        """Process 1 has ended (and with it, in a namespace of its own, every process of the container)."""
        _, status = os.waitpid(self._launched.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        exited = Exited(code if code >= 0 else 128 - code, time.time_ns(), self._launched.started_ns)
        self._pump.drain()
        if self._log is not None:
            self._log.close()
        exitfile.write(self._start.exec_dir, codec.encode(exited))
        self._tell(exited)
        self._pump.close_clients()
        self._handlers.clear()
