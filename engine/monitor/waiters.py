"""The clients that wait for a container's end, kept for the case that the daemon dies. The Python twin.

Owned by the monitor, in its one thread; the oracle of `_muxer/pump/waiters.c`. It never blocks and reads nothing.

The daemon has each of these connections too, and as long as it lives it is the daemon that answers: only then does who
waits find the end recorded. It says so (`answered`), and the monitor forgets that one. When the daemon dies, those whom
it has not answered are orphans, and only orphans are ever answered from here: when the container has ended and there is
no daemon, or when the next daemon, which does not know them, says that it has recorded the end. So nobody is answered
by two, but where a daemon dies between its last byte to a client and its word about it; the client has its whole answer
by then, and looks at nothing that follows on a connection of a dead daemon's.
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
    """One who waits: its connection, and what it waits for."""

    __slots__ = ("connection", "orphan", "wait")

    def __init__(self, wait: waits.Wait, connection: socket.socket) -> None:
        self.wait, self.connection, self.orphan = wait, connection, False


class Waiters(contract.Waiters):
    """All who wait for one container, in Python."""

    def __init__(self) -> None:
        self._hang_ups = select.epoll()  # one descriptor for the pump to look at, however many they are
        self._by_fd: dict[int, _Waiter] = {}
        self.fd = self._hang_ups.fileno()
        # The usual 1024 are soon gone. What the container may have is its own since it was forked.
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
                # So little always has room beside the head alone.
                waiter.connection.send(waiter.wait.answer(code), _FLAGS)
                # Closed with bytes unread, a Unix socket would tell its peer ECONNRESET instead of the end.
                waiter.connection.shutdown(socket.SHUT_RDWR)
                while waiter.connection.recv(_PIECE, _FLAGS):
                    pass
            except OSError:
                pass  # whatever it is, it has gone, or has nothing unread
            self._forget(fd)

    def close(self) -> None:
        for fd in list(self._by_fd):
            self._forget(fd)
        self._hang_ups.close()

    def _forget(self, fd: int) -> None:
        self._hang_ups.unregister(fd)  # the connection may live on in the daemon, and with it what epoll has of it
        os.close(self._by_fd.pop(fd).connection.detach())
