"""The daemon's link to the userland proxy: starts it, tells it which sockets lead where, replaces it when it dies.

Runs in the daemon, on any thread, under one lock: one thread sends a word at a time and waits for the answer. The
spawner starts the proxy, for the first port that the firewall's rules do not carry; an earlier daemon may have had it
started. The sockets are the daemon's too (`ports`), so that another proxy can be given them. The thread that watches
the monitors also notices the end of this link. `wire.leads` has the words.
"""

import contextlib
import logging
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.daemon import locks
from engine.daemon.runtime import signalling
from engine.daemon.runtime.background import later
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.spawner import Spawner
from engine.errors import EngineError, SystemFailure
from engine.kernel import syscalls
from engine.wire import channel, endpoint, exitfile, leads
from engine.wire.channel import Channel
from engine.wire.leads import Lead, Word
from engine.wire.schema import BeProxy

log = logging.getLogger(__name__)

_SECONDS = 5.0
"""How long the proxy may take for anything; a start of a container waits for it."""
_KILLED_SECONDS = 5.0
_MOST_DESCRIPTORS = 253
_PEER = struct.Struct("=iII")  # struct ucred

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


class Proxying:
    """The link to the proxy of one daemon."""

    def __init__(self, exec_root: str, spawner: Spawner, links: Monitors) -> None:
        self._exec_root, self._spawner, self._links = exec_root, spawner, links
        self._lock = locks.Lock("proxy")
        self._told: dict[str, Run] = {}
        self._found: dict[str, Run] = {}  # what an earlier daemon's proxy serves, until each is claimed
        self._link: Channel | None = None
        self._process = 0, 0

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
                self._serve(run, anew=before is not None)
            except BaseException:
                del self._told[run.container]
                raise

    def drop(self, container: str) -> None:
        """Have nothing lead to the container any more. A failure is logged; the caller may close the sockets then."""
        if container not in self._told and container not in self._found:
            return
        with self._lock:
            self._told.pop(container, None)
            self._found.pop(container, None)
            if self._link is None:
                return  # no proxy is started just to forget something
            try:
                self._ask(Word(leads.DROPS, container))
            except _Lost:
                if self._told:
                    self._try_anew()
            except SystemFailure as error:
                log.warning("container %s: the userland proxy still serves its ports: %s", container, error)

    def inherit(self) -> dict[str, dict[Place, socket.socket]]:
        """Connect to an earlier daemon's proxy: by containers, the sockets that it has; the caller owns them.

        Empty where no proxy answers.
        """
        with self._lock:
            self._log_crash()
            try:
                connection = endpoint.connect(self._exec_root, _SECONDS, endpoint.PROXY)
            except OSError:
                return {}
            pid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
            found = self._meet(Channel(connection))
            try:
                self._found = self._ask_all() if found else {}
            except SystemFailure as error:
                log.warning("the userland proxy of an earlier daemon does not tell what it serves: %s", error)
                found = False
                if self._link is not None:
                    self._lose(self._link)
            if not found:  # of another version, or hung: its ports are served anew
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended by itself
                    signalling.kill_and_wait(pid, syscalls.process_start(pid), _KILLED_SECONDS)
            return {
                container: {place: sock for place, (sock, _) in run.sockets.items()}
                for container, run in self._found.items()
            }

    def drop_the_rest(self) -> None:
        """Have the earlier daemon's proxy drop what it serves and no call of `lead` has named."""
        for container in list(self._found):
            self.drop(container)

    def shown(self) -> str:
        """The proxy's process, link and number of containers in words, read without the lock."""
        link = self._link
        if link is None:
            return "not running"
        return f"process {self._process[0]}, descriptor {link.fileno()}, serves {len(self._told)} containers"

    # The caller of each method below holds the lock.

    def _serve(self, run: Run, *, anew: bool) -> None:
        """Tell the proxy of a run, and start one if none runs. anew: it may serve other sockets of the container"""
        for last in (False, True):
            if self._link is None:
                self._begin(but=run)
                anew = False
            try:
                if anew:
                    self._ask(Word(leads.DROPS, run.container))
                self._put(run)
                return
            except _Lost:
                if last:
                    raise

    def _put(self, run: Run) -> None:
        with signalling.opened(run.pid, run.pid_start) as pidfd:
            if pidfd is None:
                raise SystemFailure("its process has ended")
            sockets = list(run.sockets.values())
            for part in leads.batches([lead for _, lead in sockets]):
                here, sockets = sockets[: len(part)], sockets[len(part) :]
                descriptors = [sock.fileno() for sock, _ in here]
                self._ask(Word(leads.LEADS, run.container, run.pid_start, 0, part), [*descriptors, pidfd])

    def _put_all(self, but: Run | None = None) -> None:
        """Tell the proxy of all runs but one; one container's failure does not keep it from the others.

        Raises _Lost.
        """
        for container, run in self._told.items():
            if run is but:
                continue
            try:
                self._put(run)
            except _Lost:
                raise
            except SystemFailure as error:
                log.error("container %s: the userland proxy does not serve its ports: %s", container, error)

    def _ask_all(self) -> dict[str, Run]:
        """What a proxy serves that an earlier daemon has told. Raises SystemFailure."""
        found: dict[str, Run] = {}
        serial = skipped = 0
        while True:
            word, descriptors = self._exchange(Word(leads.TELLS, number=serial, run=skipped))
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
        """Send a word and wait for the answer. Raises _Lost; SystemFailure with the reason that the proxy gives."""
        answer, stray = self._exchange(word, descriptors)
        _close_all(stray)
        if answer.number:
            raise SystemFailure(f"the userland proxy refuses: {os.strerror(answer.number).lower()}")

    def _exchange(self, word: Word, descriptors: Sequence[int] = ()) -> tuple[Word, list[int]]:
        link = self._link
        if link is None:
            raise _Lost("no userland proxy runs")
        try:
            link.send_word(leads.pack(word), list(descriptors))
            return _receive(link)
        except (OSError, ValueError) as error:  # a timeout counts as its end
            self._lose(link)
            raise _Lost(f"the userland proxy does not answer: {error}") from error

    def _begin(self, but: Run | None = None) -> None:
        """Have the spawner start a proxy, and tell it of all runs. Raises SystemFailure, Unavailable."""
        self._log_crash()
        path = os.path.join(self._exec_root, endpoint.PROXY)
        with contextlib.ExitStack() as passed:
            try:
                with contextlib.suppress(FileNotFoundError):  # the usual case
                    os.unlink(path)
                listener = passed.enter_context(endpoint.listen(self._exec_root, endpoint.PROXY))
                os.chmod(path, 0o600)
                home = os.open(self._exec_root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                passed.callback(os.close, home)
            except OSError as error:
                raise SystemFailure(f"the socket of the userland proxy cannot be made: {error}") from error
            ours, theirs = Channel.pair()
            passed.callback(theirs.close)
            try:
                self._spawner.send(BeProxy(), [theirs.fileno(), listener.fileno(), home], ordinary=False)
            except BaseException:
                ours.close()
                raise
        if not self._meet(ours):
            self._log_crash()
            raise SystemFailure("the userland proxy, which carries published ports, cannot be started")
        self._put_all(but)

    def _meet(self, link: Channel) -> bool:
        """Receive a proxy's greeting; whether it has come."""
        link.socket.settimeout(_SECONDS)
        try:
            greeting, stray = _receive(link)
            _close_all(stray)
            pid_start = syscalls.process_start(greeting.number) if greeting.mark == leads.GREETS else 0
        except (OSError, ValueError):
            pid_start = 0
        if not pid_start:
            link.close()
            return False
        self._link, self._process = link, (greeting.number, pid_start)
        self._links.on_end(link.fileno(), lambda: later(self._revive, link))
        return True

    def _lose(self, link: Channel) -> None:
        """Close the link and kill the proxy: one that hangs would keep the sockets."""
        self._links.off_end(link.fileno())
        link.close()
        self._link = None
        signalling.kill_and_wait(*self._process, _KILLED_SECONDS)

    def _revive(self, link: Channel) -> None:
        """The link has ended: start another proxy where there are ports to serve."""
        with self._lock:
            if self._link is not link:
                return
            self._lose(link)
            if self._told:
                log.warning("the userland proxy has died; another is started")
                self._try_anew()
            else:
                log.debug("the userland proxy has ended, as it served no container")
                self._log_crash()

    def _try_anew(self) -> None:
        """Start another proxy for all runs. A failure is logged: the next container with such a port tries again."""
        try:
            self._begin()
        except EngineError as error:
            log.error("published ports that the firewall does not carry are not served: %s", error)

    def _log_crash(self) -> None:
        text = exitfile.read(self._exec_root, exitfile.PROXY_CRASH)
        if text is not None:
            log.error("the userland proxy has failed: %s", text.decode("utf-8", "replace"))
            os.unlink(os.path.join(self._exec_root, exitfile.PROXY_CRASH))


class _Lost(SystemFailure):
    """The proxy has died, or does not answer."""


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
