"""The verb `engine system dial-stdio`: joins this process's standard input and output to the daemon's socket.

Runs in the client's one thread, as one poll loop. ssh starts it on the host of a daemon, for a client of another host
(`docker -H ssh://HOST`). The end of the input is passed on as a half-close. The verb ends when the daemon has ended its
side.
"""

import os
import select
import socket
from collections.abc import Sequence

from engine.client.api import Api
from engine.client.door.dialling import connected
from engine.commandline import Given

_PIECE = 64 * 1024
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


def dial_stdio_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine system dial-stdio`. Raises Unavailable."""
    with connected(api.place) as daemon:
        join(daemon, 0, 1)
    return 0


def join(daemon: socket.socket, source: int, sink: int) -> None:
    """Move bytes from `source` to the daemon and from the daemon to `sink`, until the daemon ends or `sink` is gone.

    A direction whose receiver is slow waits for it, and keeps the other one going.
    """
    upward = downward = b""
    sending = True
    daemon.setblocking(False)
    while True:
        wanted = {daemon.fileno(): (0 if downward else select.POLLIN) | (select.POLLOUT if upward else 0)}
        if sending and not upward:
            wanted[source] = select.POLLIN
        if downward:
            wanted[sink] = select.POLLOUT
        ready = _polled({fd: events for fd, events in wanted.items() if events})
        if source in ready and source in wanted:
            upward = os.read(source, _PIECE)
            if not upward:
                sending = False
                _half_close(daemon)
        if upward and ready.get(daemon.fileno(), 0) & (select.POLLOUT | select.POLLERR):
            try:
                upward = upward[daemon.send(upward, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                continue
            except (BrokenPipeError, ConnectionResetError):  # it takes no more, but its answer may be on the way
                upward, sending = b"", False
        if not downward and ready.get(daemon.fileno(), 0) & _READABLE:
            try:
                downward = daemon.recv(_PIECE)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                return
            if not downward:
                return
        if downward and ready.get(sink, 0):
            downward = downward[os.write(sink, downward[: select.PIPE_BUF]) :]


def _polled(wanted: dict[int, int]) -> dict[int, int]:
    poll = select.poll()
    for fd, events in wanted.items():
        poll.register(fd, events)
    return dict(poll.poll())


def _half_close(daemon: socket.socket) -> None:
    try:
        daemon.shutdown(socket.SHUT_WR)
    except OSError:  # ENOTCONN: the daemon has closed just now
        return


FUNCTIONS = {"system dial-stdio": (dial_stdio_verb, ())}
