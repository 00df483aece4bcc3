"""The two DNS sockets at 127.0.0.11 in one container's network, for one run of it, and the clients that send queries.

One thread. A datagram is answered at once where the container's networks know the name, else when another server has
answered. All input is treated as hostile: the number of queries handled in one turn, the number of connections and
their idle time are bounded, and the thread waits for no client. The sockets keep the container's network namespace
alive, so they are closed when its process 1 has ended (see `service`).
"""

import errno
import functools
import os
import socket
import time
from collections.abc import Callable

from engine.kernel import netns
from engine.kernel.netlink.socket import Netlink
from engine.resolver import nat, packets, redirect
from engine.resolver.forward import Asker, Forwarder
from engine.resolver.loop import READABLE, Loop
from engine.resolver.packets import Malformed, Query
from engine.resolver.streams import Stream
from engine.resolver.zones import View
from engine.sandbox.resolvconf import RESOLVER

MOST_STREAMS = 16
IDLE_SECONDS = 10.0
_AT_ONCE = 32  # datagrams or connections, before other descriptors have their turn
_BACKLOG = 128
_NO_SUCH_PART = (errno.ENOENT, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT)
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS = 1.0
_KINDS = {socket.IPPROTO_UDP: socket.SOCK_DGRAM, socket.IPPROTO_TCP: socket.SOCK_STREAM}
_SO_BINDTODEVICE = 25
_BUFFER = bytearray(packets.LARGEST)
_BYTES = memoryview(_BUFFER)


class Served:
    """A container that is served.

    view: the names that it sees; asker: its state in the forwarding; forwards, dotted: as in `wire.schema.Serve`
    """

    _lacking = False  # whether the kernel has refused dockerd's rules, which it may try to load modules for

    def __init__(self, loop: Loop, forwarder: Forwarder, network: int, pidfd: int, ended: Callable[[], None]) -> None:
        """network, pidfd: descriptors, which this object owns from now on, also when it raises OSError.

        ended: called when the process behind pidfd has ended
        """
        self._loop, self._forwarder = loop, forwarder
        self._descriptors = [network, pidfd]
        self._sockets: list[socket.socket] = []
        self._netlink: Netlink | None = None
        self._streams: dict[Stream, None] = {}
        self.asker = Asker(network)
        self.view = View([])
        self.forwards = self.dotted = False
        try:
            with netns.entered(network):
                self._open()
            udp, tcp = self._sockets
            tcp.listen(_BACKLOG)
            loop.add(udp.fileno(), self._hear)
            loop.add(tcp.fileno(), self._accept)
            loop.add(pidfd, lambda _: ended())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close everything in the container's network, and drop the queries of its clients."""
        self._forwarder.forget(self.asker)
        for stream in list(self._streams):
            stream.close()
        self._close_sockets()
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None
        for descriptor in self._descriptors:
            self._loop.drop(descriptor)
            os.close(descriptor)
        self._descriptors = []

    def _close_idle(self) -> None:
        """Close the connections that have been idle for too long."""
        old = time.monotonic() - IDLE_SECONDS
        for stream in [stream for stream in self._streams if stream.used < old]:
            stream.close()
        if self._streams:
            self._loop.after(IDLE_SECONDS / 2, self._close_idle)

    def _open(self) -> None:
        """Bind ports and lead port 53 to them, by dockerd's rules or else by others; without nf_tables bind port 53."""
        if not Served._lacking:
            for port in (nat.USUAL_PORT, 0):
                try:
                    self._netlink = nat.lead(self._bind(port))
                    return
                except OSError as error:
                    self._close_sockets()
                    Served._lacking = error.errno in _NO_SUCH_PART
                    if error.errno != errno.EADDRINUSE:
                        break
        try:
            self._netlink = redirect.redirect(self._bind(0, only_lo=True))
        except OSError as refused:
            self._close_sockets()
            try:
                self._bind(redirect.PORT, only_lo=True)
            except OSError:
                raise refused from None  # a program of the container has that port

    def _bind(self, port: int, *, only_lo: bool = False) -> dict[int, int]:
        """Make both sockets; returns the port that each protocol has.

        only_lo: no other host's packet gets in here, however the container changes its own network
        """
        for kind in _KINDS.values():
            made = socket.socket(socket.AF_INET, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            self._sockets.append(made)
            if only_lo:
                made.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, b"lo\0")
            if kind == socket.SOCK_STREAM:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # an earlier resolver's ended connections
            made.bind((RESOLVER, port))
        return {protocol: made.getsockname()[1] for protocol, made in zip(_KINDS, self._sockets, strict=True)}

    def _close_sockets(self) -> None:
        while self._sockets:
            each = self._sockets.pop()
            self._loop.drop(each.fileno())
            each.close()

    def _hear(self, _: int) -> None:
        """Answer the datagrams that have come."""
        udp = self._sockets[0]
        for _ in range(_AT_ONCE):
            try:
                size, client = udp.recvfrom_into(_BUFFER)
            except OSError:  # there is no more; or an error of the network, which is over once it was returned
                return
            data = bytes(_BYTES[:size])
            self._answer(data, client, functools.partial(self._say, client))

    def _say(self, client: tuple[str, int], answer: bytes) -> None:
        if answer and self._sockets:
            try:
                self._sockets[0].sendto(answer, client)
            except OSError:
                pass  # a datagram may be lost; if the container's own firewall refuses it, only the container loses it

    def _accept(self, _: int) -> None:
        """Accept connections; those above the limit are closed at once."""
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._sockets[1].accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_ROOM:  # without the pause, epoll would report it again and again
                    self._loop.change(self._sockets[1].fileno(), 0)
                    self._loop.after(_PAUSE_SECONDS, self._accept_again)
                return  # any other error: the client has gone already
            connection.setblocking(False)
            if len(self._streams) < MOST_STREAMS:
                stream = Stream(self._loop, connection, self._asked, self._streams.pop)
                self._streams[stream] = None
                if not self._loop.waits_for(self._close_idle):
                    self._loop.after(IDLE_SECONDS / 2, self._close_idle)
            else:
                connection.close()

    def _accept_again(self) -> None:
        if self._sockets:
            self._loop.change(self._sockets[1].fileno(), READABLE)

    def _asked(self, stream: Stream, data: bytes) -> None:
        self._answer(data, stream, stream.reply)

    def _answer(self, data: bytes, client: Stream | tuple[str, int], reply: Callable[[bytes], None]) -> None:
        """Answer a query, or forward it.

        client: the sender of the query; reply: takes the answer, an empty one for none
        """
        try:
            query = Query(data)
        except Malformed as malformed:
            reply(malformed.reply)
            return
        streamed = isinstance(client, Stream)
        limit = packets.LARGEST if streamed else query.size
        records = self.view.records(query)
        if records is not None:
            reply(query.answer(records, limit=limit))
        elif not self.forwards:
            reply(query.answer([], packets.FAILED))
        elif self.dotted and query.single and query.kind in (packets.A, packets.AAAA):
            reply(query.answer([]))  # the client asks again with a domain of its search list
        else:
            key = client, query.number, query.question
            self._forwarder.ask(
                self.asker, key, query, data, streamed, functools.partial(_fitting, query, limit, reply)
            )


def _fitting(query: Query, limit: int, reply: Callable[[bytes], None], answer: bytes) -> None:
    """Pass a server's answer on. If it is longer than the client takes, only say that it was cut."""
    reply(answer if len(answer) <= limit else query.answer([], packets.code_of(answer), cut=True))
