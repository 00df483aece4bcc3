"""The daemon's link to the userland proxy: has it started, and tells it which sockets lead where.

The first port that the firewall's rules do not carry has the proxy started. The sockets are the daemon's too (`ports`),
so that another proxy can be given them. `wire.leads` has the words, `runtime.serviceprocess` the life of the process.
"""

import contextlib
import logging
import os
import socket
from collections.abc import Collection, Mapping, Sequence

from engine.daemon.network import returning
from engine.daemon.runtime import signalling
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.serviceprocess import Birth, Kind, Lost, ServiceProcess
from engine.daemon.runtime.spawner import Spawner
from engine.dataclass import dataclass, replace
from engine.errors import EngineError, SystemFailure
from engine.kernel import reasons, syscalls
from engine.wire import channel, endpoint, exitfile, leads
from engine.wire.channel import Channel
from engine.wire.leads import Lead, Word
from engine.wire.schema import BeProxy, BeTransparentProxy

log = logging.getLogger(__name__)

_KIND = Kind(
    "userland proxy",
    deed="carries published ports",
    harm="the userland proxy does not serve published ports",
    socket=endpoint.PROXY,
    crash=exitfile.PROXY_CRASH,
)
_MOST_DESCRIPTORS = 253

Place = tuple[str, str, int]
"""Protocol, address and port of the host."""


@dataclass(frozen=True, slots=True)
class Run:
    """What leads to one run of a container: its process 1, and for each socket of the host where it leads."""

    container: str
    pid: int
    pid_start: int
    sockets: Mapping[Place, tuple[socket.socket, Lead]]

    def same(self, other: "Run | None") -> bool:
        """Whether a proxy that serves the other run need not be told of this one."""
        if other is None or self.pid_start != other.pid_start:
            return False
        ours, theirs = ({place: lead for place, (_, lead) in run.sockets.items()} for run in (self, other))
        return ours == theirs


class Proxying(ServiceProcess[Run]):
    """The link to the proxy of one daemon.

    transparent: whether containers are to see their clients' own addresses, which needs a network of the daemon's own
    """

    def __init__(self, exec_root: str, spawner: Spawner, links: Monitors, transparent: bool) -> None:
        super().__init__(_KIND, exec_root, spawner, links)
        self._transparent = transparent
        self._found: dict[str, Run] = {}  # what an earlier daemon's proxy serves, until each is claimed

    def lead(self, run: Run) -> None:
        """Have the proxy carry what comes to these sockets to the container, and nothing else there.

        Raises SystemFailure, Unavailable; then nothing leads there.
        """
        with self._lock:
            before = self._told.get(run.container) or self._found.pop(run.container, None)
            self._told[run.container] = run
            if self._link is not None and run.same(before):
                return
            try:
                self._serve(run, lambda begun: self._replace(run, before is not None and not begun))
            except BaseException:
                del self._told[run.container]
                raise

    def drop(self, container: str, places: Collection[Place] | None = None) -> None:
        """Have nothing lead to the container from these places, or from any, any more.

        A failure is logged; the caller may close the sockets then.
        """
        if container not in self._told and container not in self._found:
            return
        run = self._told.get(container)
        if places is not None and run is not None:
            staying = {place: run.sockets[place] for place in run.sockets if place not in places}
            if len(staying) == len(run.sockets):
                return
            if staying:
                try:
                    self.lead(replace(run, sockets=staying))
                except EngineError as error:
                    log.warning("container %s: some of its ports are not served: %s", container, error)
                return
        with self._lock:
            self._told.pop(container, None)
            self._found.pop(container, None)
            if self._link is None:
                return  # no proxy is started just to forget something
            try:
                self._ask(Word(leads.DROPS, container))
            except Lost:
                if self._told:
                    self._try_to_begin()
            except SystemFailure as error:
                log.warning("container %s: the userland proxy still serves its ports: %s", container, error)

    def inherit(self) -> dict[str, dict[Place, socket.socket]]:
        """Connect to an earlier daemon's proxy: by containers, the sockets that it has; the caller owns them.

        Empty where no proxy answers.
        """
        with self._lock:
            try:
                self._found = self._ask_all() if self._find() else {}
            except SystemFailure as error:  # its ports are served anew
                log.warning("the userland proxy of an earlier daemon does not tell what it serves: %s", error)
                if self._link is not None:
                    self._lose(self._link)
            return {
                container: {place: sock for place, (sock, _) in run.sockets.items()}
                for container, run in self._found.items()
            }

    def drop_the_rest(self) -> None:
        """Have the earlier daemon's proxy drop what it serves and no call of `lead` has named."""
        for container in list(self._found):
            self.drop(container)

    # The caller of each method below holds the lock.

    def _replace(self, run: Run, before: bool) -> None:
        """Tell the proxy of a run. before: it may serve other sockets of the container"""
        if before:
            self._ask(Word(leads.DROPS, run.container))
        self._put(run)

    def _put(self, told: Run) -> None:
        with signalling.opened(told.pid, told.pid_start) as pidfd:
            if pidfd is None:
                raise SystemFailure("its process has ended")
            sockets = list(told.sockets.values())
            for part in leads.batches([lead for _, lead in sockets]):
                here, sockets = sockets[: len(part)], sockets[len(part) :]
                descriptors = [sock.fileno() for sock, _ in here]
                self._ask(Word(leads.LEADS, told.container, told.pid_start, 0, part), [*descriptors, pidfd])

    def _ask_all(self) -> dict[str, Run]:
        """What a proxy serves that an earlier daemon has told. Raises SystemFailure."""
        found: dict[str, Run] = {}
        serial = skipped = 0
        while True:
            word, descriptors = self._say(Word(leads.TELLS, number=serial, run=skipped))
            if word.mark != leads.LEADS or len(descriptors) != len(word.leads):
                _close_all(descriptors)
                return found
            made = [socket.socket(fileno=each) for each in descriptors]
            known = dict(found[word.container].sockets) if word.container in found else {}
            known |= {_place(sock): (sock, lead) for sock, lead in zip(made, word.leads, strict=True)}
            found[word.container] = Run(word.container, 0, word.run, known)
            skipped = len(word.leads) + (skipped if word.number == serial else 0)
            serial = word.number

    def _ask(self, word: Word, descriptors: Sequence[int] = ()) -> None:
        """Send a word and wait for the answer. Raises Lost; SystemFailure with the reason that the proxy gives."""
        answer, stray = self._say(word, descriptors)
        _close_all(stray)
        if answer.number:
            raise SystemFailure(f"the userland proxy refuses: {reasons.of(answer.number)}")

    def _say(self, word: Word, descriptors: Sequence[int] = ()) -> tuple[Word, list[int]]:
        def exchange(link: Channel) -> tuple[Word, list[int]]:
            link.send_word(leads.pack(word), list(descriptors))
            return _receive(link)

        return self._exchange(exchange)

    def _birth(self, passed: contextlib.ExitStack) -> tuple[Birth, list[int]]:
        path = os.path.join(self._exec_root, endpoint.PROXY)
        try:
            with contextlib.suppress(FileNotFoundError):  # the usual case
                os.unlink(path)
            listener = passed.enter_context(endpoint.listen(self._exec_root, endpoint.PROXY))
            os.chmod(path, 0o600)
            home = os.open(self._exec_root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            passed.callback(os.close, home)
        except OSError as error:
            raise SystemFailure(f"the socket of the userland proxy cannot be made: {reasons.whole(error)}") from error
        return self._being(), [listener.fileno(), home]

    def _being(self) -> Birth:
        if self._transparent:
            try:
                returning.make()
                return BeTransparentProxy()
            except OSError as error:
                log.warning("containers see no client's own address at published ports: %s", error)
        return BeProxy()

    def _greeting(self, link: Channel) -> tuple[int, int] | None:
        greeting, stray = _receive(link)
        _close_all(stray)
        return (greeting.number, syscalls.process_start(greeting.number)) if greeting.mark == leads.GREETS else None


def _receive(link: Channel) -> tuple[Word, list[int]]:
    """One word and its descriptors. Raises OSError; ValueError for none, or for one of another version."""
    data, descriptors, flags = channel.receive_with_descriptors(link.socket, leads.LARGEST + 1, _MOST_DESCRIPTORS)
    try:
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ValueError("a word of the proxy came in truncated")
        return leads.unpack(data), descriptors
    except ValueError:
        _close_all(descriptors)
        raise


def _place(sock: socket.socket) -> Place:
    """The place on the host that a socket is bound to."""
    address, port = sock.getsockname()[:2]
    return "tcp" if sock.type == socket.SOCK_STREAM else "udp", address, port


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
