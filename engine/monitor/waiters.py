"""Keeps connections of clients that wait for a container's end, to answer them if the daemon dies; the Python version.

Owned by the monitor, in its one thread; tests compare `_muxer/pump/waiters.c` with it. It never blocks, and it reads
from a connection only to end it.

The daemon has each of these connections too, and as long as the daemon lives, it answers: only then does a client find
the end recorded when it is answered. The daemon tells the monitor of each answer (`answered`), and the monitor forgets
that client. When the daemon dies, the clients that it has not answered become orphans. The monitor answers only
orphans: when the container has ended and there is no daemon, or when the next daemon, which does not know them, says
    that it has recorded the end. So no client gets two answers, with one exception: a daemon that dies after its last
    byte to a client and before its word to the monitor. That client has its whole answer by then, and looks at nothing
    that follows on a connection of a dead daemon.
"""

import os
import resource
import select
import socket

from engine.monitor import contract
from engine.wire import waits

_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_PIECE = 4096


class _Waiter:
    """A waiting client: its connection, and what it waits for."""

    __slots__ = ("connection", "orphan", "wait")

    def __init__(self, wait: waits.Wait, connection: socket.socket) -> None:
        self.wait, self.connection, self.orphan = wait, connection, False


class Waiters(contract.Waiters):
    """All clients that wait for the end of one container, in Python."""

    def __init__(self) -> None:
        self._hang_ups = select.epoll()  # one descriptor for the pump to watch, however many clients there are
        self._by_fd: dict[int, _Waiter] = {}
        self.fd = self._hang_ups.fileno()
        # The usual limit of 1024 is soon reached. The container was forked before and keeps its own limit.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def __len__(self) -> int:
        return len(self._by_fd)

    def take(self, datagram: bytes, fd: int) -> None:
        wait = waits.unpack(datagram)
        self._hang_ups.register(fd, 0 if wait.full_close else select.EPOLLRDHUP)
        self._by_fd[fd] = _Waiter(wait, socket.socket(fileno=fd))

    def answered(self, datagram: bytes) -> None:
        number = waits.unpack_answered(datagram)
        for fd, waiter in self._by_fd.items():
            if not waiter.orphan and waiter.wait.number == number:
                self._forget(fd)
                return

    def look(self) -> None:
        for fd, _ in self._hang_ups.poll(0):
            self._forget(fd)

    def orphan(self) -> None:
        for waiter in self._by_fd.values():
            waiter.orphan = True

    def answer(self, code: int, removed: bool) -> None:
        for fd, waiter in list(self._by_fd.items()):
            if not waiter.orphan or (waiter.wait.for_removal and not removed):
                continue
            try:
                # So short a text always fits beside the head, which is all that was sent before.
                waiter.connection.send(waiter.wait.answer(code), _FLAGS)
                # If it is closed while bytes in it are unread, a Unix socket's peer gets ECONNRESET instead of the end.
                waiter.connection.shutdown(socket.SHUT_RDWR)
                while waiter.connection.recv(_PIECE, _FLAGS):
                    pass
            except OSError:
                pass  # whatever the error is, the client has gone, or there is nothing unread
            self._forget(fd)

    def close(self) -> None:
        for fd in list(self._by_fd):
            self._forget(fd)
        self._hang_ups.close()

    def _forget(self, fd: int) -> None:
        # The connection may stay open in the daemon, and epoll would go on reporting it.
        self._hang_ups.unregister(fd)
        os.close(self._by_fd.pop(fd).connection.detach())
