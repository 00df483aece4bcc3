"""What the daemon tells the proxy: which sockets lead where; what the proxy tells the next daemon; and when it ends.

One process for each daemon, one thread. The Python version of `_muxer/proxy/orders.c`, and of `mux_proxy` in
`_muxer/proxy/turns.c`. `engine.wire.leads` describes the datagrams. The proxy needs the daemon only to learn what to
serve. It sees by itself when a container has ended, and the next daemon finds it by its socket in the exec root. It
ends when it serves no container: at once without a daemon, else after a while. No answer is waited with: a daemon that
does not read loses its link.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Sequence

from engine.proxy.bounds import Limits
from engine.proxy.datagram import Flows, prepare
from engine.proxy.record import Lead, Owner
from engine.proxy.stream import Streams
from engine.proxy.turns import Loop
from engine.wire import endpoint, leads
from engine.wire.channel import receive_with_descriptors
from engine.wire.leads import Word

_MOST_WORDS = 16  # handled in one turn, before others have theirs
_MOST_DESCRIPTORS = 253
_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def run(link: int, daemons: int, home: int, limits: Limits) -> None:
    """Carry published ports to containers until none is served. Raises OSError.

    link: the socket to the daemon; daemons: the one at which later daemons connect; home: the directory in which that
    one is named. The descriptors are closed in the end.
    """
    proxy = _Proxy(socket.socket(fileno=link), socket.socket(fileno=daemons), home, limits)
    try:
        proxy.run()
    finally:
        proxy.close()


class _Proxy:
    def __init__(self, link: socket.socket, daemons: socket.socket, home: int, limits: Limits) -> None:
        self._loop = Loop()
        self._limits = limits
        self._streams, self._flows = Streams(self._loop, limits), Flows(self._loop, limits)
        self._owners: dict[str, Owner] = {}  # by their serial numbers
        self._serial = self._leads = 0
        self._daemons, self._home = daemons, home
        self._link: socket.socket | None = None
        daemons.setblocking(False)
        self._loop.add(daemons.fileno(), lambda _: self._meet())
        self._greet(link)

    def run(self) -> None:
        while True:
            self._end_if_idle()
            if self._loop.ended:
                return
            self._loop.turn()

    def close(self) -> None:
        self._part()
        for owner in list(self._owners.values()):
            self._drop(owner)
        self._streams.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(endpoint.PROXY, dir_fd=self._home)
        self._daemons.close()
        os.close(self._home)
        self._loop.close()

    def _end_if_idle(self) -> None:
        if self._owners:
            self._loop.never(self._end)
        elif self._link is None:
            self._loop.ended = True
        else:
            self._loop.after(self._limits.linger_ms, self._end)

    def _end(self) -> None:
        self._loop.ended = not self._owners

    # The link to the daemon

    def _meet(self) -> None:
        """Accept a connection of a new daemon, which replaces the earlier daemon."""
        try:
            link, _ = self._daemons.accept()
        except OSError:  # that daemon has gone again
            return
        self._greet(link)

    def _greet(self, link: socket.socket) -> None:
        self._part()
        self._link = link
        link.setblocking(False)
        self._loop.add(link.fileno(), lambda _: self._hear())
        self._tell(Word(leads.GREETS, number=os.getpid()))

    def _part(self) -> None:
        if self._link is not None:
            self._loop.drop(self._link.fileno())
            self._link.close()
            self._link = None

    def _tell(self, word: Word, descriptors: Sequence[int] = ()) -> None:
        if self._link is None:
            return
        try:
            socket.send_fds(self._link, [leads.pack(word)], descriptors, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        except OSError:  # the daemon has gone, or reads nothing
            self._part()

    def _answer(self, error: int) -> None:
        self._tell(Word(leads.ANSWERS, number=error))

    def _hear(self) -> None:
        for _ in range(_MOST_WORDS):
            if self._link is None:
                return
            try:
                data, descriptors, flags = receive_with_descriptors(self._link, leads.LARGEST + 1, _MOST_DESCRIPTORS)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            if not data:
                self._part()
                return
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):  # its length, or no room for its descriptors
                _close_all(descriptors)
                self._answer(errno.EMSGSIZE)
                continue
            self._obey(data, descriptors)

    def _obey(self, data: bytes, descriptors: list[int]) -> None:
        """Carry out one datagram, whose descriptors are this function's."""
        try:
            word = leads.unpack(data)
        except leads.Unserved:
            _close_all(descriptors)
            self._answer(errno.EINVAL)
            return
        except ValueError:
            _close_all(descriptors)
            self._answer(errno.EPROTO)
            return
        if word.mark == leads.LEADS:
            self._answer(self._lead(word, descriptors))
            return
        _close_all(descriptors)
        if word.mark == leads.DROPS:
            owner = self._owners.get(word.container)
            if owner is not None and word.run in (0, owner.run):
                self._drop(owner)
            self._answer(0)
        elif word.mark == leads.TELLS:
            self._tell_leads(word.number, word.run)
        else:
            self._answer(errno.EPROTO)

    # What is served

    def _lead(self, word: Word, descriptors: list[int]) -> int:
        """Serve these sockets: all of them, or none and the container's others neither. Returns an errno."""
        good = bool(word.leads) and len(descriptors) == len(word.leads) + 1
        if not good or not all(map(_is_good, word.leads, descriptors)):
            _close_all(descriptors)
            return errno.EINVAL
        if self._leads + len(word.leads) > self._limits.leads:
            _close_all(descriptors)
            return errno.EMFILE
        owner = self._owners.get(word.container)
        if owner is not None and owner.run != word.run:
            self._drop(owner)
            owner = None
        *sockets, pidfd = descriptors
        if owner is not None:
            os.close(pidfd)
        else:
            owner = self._add(word, pidfd)
            if owner is None:
                _close_all(descriptors)
                return errno.ENOMEM
        made = [socket.socket(fileno=each) for each in sockets]
        try:
            for lead, sock in zip(word.leads, made, strict=True):
                self._add_lead(Lead(owner, lead.protocol, sock, lead.address, lead.port))
        except OSError as error:
            self._drop(owner)
            for sock in made:
                sock.close()
            return error.errno or errno.EINVAL
        return 0

    def _add(self, word: Word, pidfd: int) -> Owner | None:
        self._serial += 1
        owner = Owner(word.container, word.run, self._serial, pidfd)
        try:
            self._loop.add(pidfd, lambda _: self._drop(owner))
        except OSError:
            return None
        self._owners[word.container] = owner
        return owner

    def _add_lead(self, lead: Lead) -> None:
        lead.socket.setblocking(False)
        if lead.protocol == "udp":
            prepare(lead.socket)
            self._loop.add(lead.socket.fileno(), lambda _: self._flows.hear(lead))
        else:
            self._loop.add(lead.socket.fileno(), lambda _: self._streams.accept(lead))
        lead.owner.leads.append(lead)
        self._leads += 1

    def _drop(self, owner: Owner) -> None:
        """Stop serving a container: its sockets and all that they carry are closed."""
        del self._owners[owner.container]
        for flow in list(owner.flows):
            flow.abort()
        for lead in owner.leads:
            self._streams.forget(lead)
            self._loop.drop(lead.socket.fileno())
            lead.socket.close()
        self._leads -= len(owner.leads)
        self._loop.drop(owner.pidfd)
        os.close(owner.pidfd)

    def _tell_leads(self, serial: int, skipped: int) -> None:
        """Tell the daemon the leads of one container, a part at a time."""
        for owner in self._owners.values():
            if owner.serial < serial or (owner.serial == serial and skipped >= len(owner.leads)):
                continue
            first = skipped if owner.serial == serial else 0
            part = owner.leads[first : first + leads.MOST]
            told = tuple(leads.Lead(each.protocol, each.address, each.port) for each in part)
            word = Word(leads.LEADS, owner.container, owner.run, owner.serial, told)
            self._tell(word, [each.socket.fileno() for each in part])
            return
        self._answer(errno.ENOENT)


def _is_good(lead: leads.Lead, descriptor: int) -> bool:
    """Whether the descriptor is a socket that the record may be about."""
    copy = os.dup(descriptor)
    try:
        looked_at = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return False
    with looked_at:
        return looked_at.type == _KINDS[lead.protocol] and looked_at.family in _FAMILIES


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
