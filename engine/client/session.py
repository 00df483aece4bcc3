"""Moves bytes between the user's stdin, stdout, stderr and the hijacked connection to an attached container.

Runs in the client's one thread, as one poll loop: input that the container does not take yet never delays its output,
and a signal is seen at once. It knows bytes and descriptors only; the caller says what a signal does.
"""

import os
import select
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from engine.client.frames import Demultiplexer, Plain
from engine.client.terminal import DetachKeys
from engine.client.writing import write_all

_PIECE = 64 * 1024
_GONE = select.POLLIN | select.POLLHUP | select.POLLERR


@contextmanager
def caught(signals: Iterable[signal.Signals]) -> Iterator[int]:
    """Turn these signals into bytes (their numbers) on the descriptor that is yielded."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    found = {number: signal.signal(number, lambda *_: None) for number in signals}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in found.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


class Session:
    """The session with one attached container.

    connection: the hijacked connection, which the session owns; first: the bytes already read from it
    tty:        True when the output has no frames
    stdin:      the descriptor to read input from, or None; its end is passed on as a half-close
    detach:     looks for the detach keys in the input, or None
    """

    def __init__(
        self,
        connection: socket.socket,
        first: bytes,
        tty: bool,
        stdin: int | None,
        detach: DetachKeys | None = None,
    ) -> None:
        self._connection = connection
        self._frames: Plain | Demultiplexer = Plain() if tty else Demultiplexer()
        self._stdin = stdin
        self._detach = detach
        self._pending = b""
        self._detached = False
        self._show(first)

    def run(self, ended: int | None, signals: int, on_signal: Callable[[int], None]) -> bool:
        """Move bytes until the container's output has ended and `ended` is readable; False when the user detached.

        ended:   a descriptor that becomes readable when the container has ended; None where the output's end is enough
        signals: the descriptor of `caught`; each number read from it is given to `on_signal`
        """
        self._connection.setblocking(False)
        output, over = True, ended is None
        with self._connection:
            while (output or not over) and not self._detached:
                ready = self._wait(output, None if over else ended, signals)
                if signals in ready:
                    for number in os.read(signals, 64):
                        on_signal(number)
                over = over or ended in ready
                if ready.get(self._connection.fileno(), 0) & select.POLLOUT:
                    self._send()
                if output and ready.get(self._connection.fileno(), 0) & _GONE:
                    output = self._receive()
                if self._stdin is not None and self._stdin in ready:
                    self._read_input(self._stdin)
        return not self._detached

    def _wait(self, output: bool, ended: int | None, signals: int) -> dict[int, int]:
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        if ended is not None:
            poll.register(ended, select.POLLIN)
        if output:
            poll.register(self._connection, select.POLLIN | (select.POLLOUT if self._pending else 0))
            if self._stdin is not None and not self._pending:
                poll.register(self._stdin, select.POLLIN)
        return dict(poll.poll())

    def _receive(self) -> bool:
        """Show the output that has come in; False at its end."""
        try:
            data = self._connection.recv(_PIECE)
        except BlockingIOError:
            return True
        except ConnectionResetError:  # the daemon or the monitor was killed: no more output will come
            return False
        self._show(data)
        return bool(data)

    def _show(self, data: bytes) -> None:
        for stream, piece in self._frames.feed(data):
            write_all(2 if stream == 2 else 1, piece)

    def _read_input(self, stdin: int) -> None:
        data = os.read(stdin, _PIECE)
        ended = not data
        if self._detach is not None and data:
            data, self._detached = self._detach.feed(data)
        self._pending = data
        if self._pending:
            self._send()
        if ended:
            self._stdin = None
            self._half_close()

    def _send(self) -> None:
        try:
            self._pending = self._pending[self._connection.send(self._pending, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):  # the container takes no more input, but its output may go on
            self._pending, self._stdin = b"", None

    def _half_close(self) -> None:
        try:
            self._connection.shutdown(socket.SHUT_WR)
        except OSError:  # ENOTCONN: the container has ended just now
            return
