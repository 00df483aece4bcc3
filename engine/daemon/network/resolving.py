"""The daemon's link to the resolver process: starts it, tells it of containers' names, and replaces it when it dies.

Runs in the daemon, on any thread, under one lock: one thread sends a message at a time and waits for the answer. The
spawner starts the resolver, at the first name; an earlier daemon may have had it started. All that the resolver was
told is kept here too, so that a new one can be told. The thread that watches the monitors also notices the end of this
link.
"""

import contextlib
import logging
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.daemon import locks
from engine.daemon.network.drivers import parents
from engine.daemon.network.record import AskedDns, Endpoint, Links, Pair, Run, has_resolver
from engine.daemon.runtime import signalling
from engine.daemon.runtime.background import later
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.spawner import Spawner
from engine.errors import EngineError, Invalid, SystemFailure
from engine.kernel import syscalls
from engine.sandbox import resolvconf
from engine.settings.every import Settings
from engine.wire import endpoint, exitfile
from engine.wire.channel import Channel
from engine.wire.schema import BeResolver, Forget, Message, Place, Resolves, Serve, Served

log = logging.getLogger(__name__)

_SECONDS = 5.0
"""How long the resolver may take for anything; a start of a container waits for it."""
_KILLED_SECONDS = 5.0
_LARGEST = 65536
_PEER = struct.Struct("=iII")  # struct ucred


@dataclass(frozen=True, slots=True)
class _Told:
    """What the resolver was told of one run of a container, before it becomes a `wire.schema.Serve`."""

    pairs: tuple[Pair, ...]
    pid: int
    pid_start: int
    servers: tuple[str, ...]
    dotted: bool
    links: Links

    def serve(self) -> Serve:
        """All of it as one message."""
        return Serve(
            container=self.pairs[0][1].container,
            pid_start=self.pid_start,
            places=tuple(
                Place(
                    network.id,
                    network.name,
                    each.names,
                    tuple(filter(None, (each.ipv4, each.ipv6))),
                    tuple(self.links.get(network.id, {}).items()),
                )
                for network, each in self.pairs
                if has_resolver(((network, each),))
            ),
            forwards=any(map(_leads_out, self.pairs)),
            servers=self.servers,
            dotted=self.dotted,
        )


def _leads_out(pair: Pair) -> bool:
    """Whether queries may go out to other name servers here: from an internal network they never do (CVE-2024-29018).

    Nor do they go out from a macvlan or ipvlan network without a named parent: its link is the engine's, and leads
    nowhere.
    """
    network, each = pair
    nowhere = network.driver in ("ipvlan", "macvlan") and parents.own(network)
    return not (network.internal or nowhere) and (bool(each.gateway4 or each.gateway6) or network.driver == "ipvlan")


class Resolving:
    """The link to the resolver, which does the work of `names.Names` once there is a name."""

    def __init__(self, exec_root: str, settings: Settings, spawner: Spawner, links: Monitors) -> None:
        self._exec_root, self._settings, self._spawner, self._links = exec_root, settings, spawner, links
        self._lock = locks.Lock("resolver")
        self._told: dict[str, _Told] = {}
        self._link: Channel | None = None
        self._process = 0, 0

    def join(
        self,
        pairs: Sequence[Pair],
        netns: int,
        pid: int,
        pid_start: int,
        host_config: AskedDns,
        links: Links,
    ) -> None:
        """Have the resolver answer for this run of a container. The parameters are those of `Names.join`."""
        if not pairs:
            return
        container = pairs[0][1].container
        if container not in self._told and not has_resolver(pairs):
            return
        told = self._telling(pairs, pid, pid_start, host_config, links)
        with self._lock:
            before = self._told.get(container)
            self._told[container] = told
            try:
                self._serve(told, netns)
            except BaseException:
                if before is None:
                    del self._told[container]
                else:
                    self._told[container] = before
                raise

    def leave(self, endpoints: Iterable[Endpoint]) -> None:
        """Have the resolver forget these endpoints. A failure is logged."""
        gone = {each.id: each.container for each in endpoints}
        # This is looked up without the lock: a container that the resolver does not know need not wait while the
        # resolver is slow with others.
        for container in [each for each in dict.fromkeys(gone.values()) if each in self._told]:
            try:
                self._leave(container, gone)
            except (EngineError, OSError) as error:
                log.warning("container %s: the resolver did not forget its names: %s", container, error)

    def adopt(self, running: Sequence[Run]) -> None:
        """Take over an earlier daemon's resolver, or start one, to serve exactly these runs. A failure is logged."""
        with self._lock:
            for pairs, pid, pid_start, host_config, links in running:
                told = self._telling(pairs, pid, pid_start, host_config, links)
                self._told[pairs[0][1].container] = told
            try:
                self._log_crash()
                known = self._find()
                if known is None:
                    self._begin()
                    return
                try:
                    for container in known - self._told.keys():
                        self._ask(Forget(container))
                    self._put_all()
                except _Lost:
                    self._begin()
            except (EngineError, OSError) as error:
                log.error("the resolver does not know the names of containers: %s", error)

    def _telling(
        self,
        pairs: Sequence[Pair],
        pid: int,
        pid_start: int,
        host_config: AskedDns,
        links: Links,
    ) -> _Told:
        settings = self._settings
        of_daemon = resolvconf.AskedNames(settings.dns, settings.dns_search, settings.dns_opts)
        asked = host_config["Dns"], host_config["DnsSearch"], host_config["DnsOptions"]
        wishes = resolvconf.asked(*asked, of_daemon)
        text = "" if wishes.options else _host_file()
        return _Told(tuple(pairs), pid, pid_start, wishes.servers, resolvconf.dotted(text, wishes), links)

    def _leave(self, container: str, gone: Mapping[str, str]) -> None:
        with self._lock:
            told = self._told.get(container)
            if told is None:
                return
            pairs = tuple(pair for pair in told.pairs if pair[1].id not in gone)
            if pairs:
                told = _Told(pairs, told.pid, told.pid_start, told.servers, told.dotted, told.links)
                self._told[container] = told
                self._serve(told)
            else:
                del self._told[container]
                if self._link is None:
                    return  # no resolver is started just to forget something
                try:
                    self._ask(Forget(container))
                except _Lost:
                    if self._told:
                        self._begin()

    def _serve(self, told: _Told, netns: int = -1) -> None:
        """Tell the resolver of a run, and start one if none runs.

        The caller of this and of all methods below holds the lock.
        """
        for last in (False, True):
            if self._link is None:
                self._begin(told)
            try:
                self._put(told, netns)
                return
            except _Lost:
                if last:
                    raise

    def _put(self, told: _Told, netns: int = -1) -> None:
        """Tell the resolver of one run. netns: a descriptor of the container's network namespace, -1 for none."""
        with signalling.opened(told.pid, told.pid_start) as pidfd:
            if pidfd is None:
                raise SystemFailure("its process has ended")
            with _namespace(told.pid, netns) as namespace:
                self._ask(told.serve(), (namespace, pidfd))

    def _put_all(self, but: _Told | None = None) -> None:
        """Tell the resolver of all runs but one; one container's failure does not keep it from the others.

        Raises _Lost.
        """
        for container, told in self._told.items():
            if told is but:
                continue
            try:
                self._put(told)
            except _Lost:
                raise
            except SystemFailure as error:
                log.error("container %s: the resolver does not know its names: %s", container, error)

    def shown(self) -> str:
        """The resolver's process, link and number of containers in words, read without the lock."""
        link = self._link
        if link is None:
            return "not running"
        return f"process {self._process[0]}, descriptor {link.fileno()}, serves {len(self._told)} containers"

    def _ask(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message and wait for the answer. Raises _Lost; SystemFailure with the resolver's own words."""
        link = self._link
        if link is None:
            raise _Lost("no resolver runs")
        try:
            link.send(message, list(descriptors))
            received = link.receive()
        except (OSError, Invalid) as error:  # a timeout counts as its end
            self._lose(link)
            raise _Lost(f"the resolver does not answer: {error}") from error
        if received is None or not isinstance(received[0], Served):
            self._lose(link)
            raise _Lost("the resolver has died")
        if received[0].text:
            raise SystemFailure(received[0].text)

    def _begin(self, but: _Told | None = None) -> None:
        """Have the spawner start a resolver, and tell it of all runs. Raises SystemFailure, Unavailable."""
        self._log_crash()
        ours, theirs = Channel.pair()
        with theirs:
            try:
                self._spawner.send(BeResolver(self._exec_root), [theirs.fileno()], ordinary=False)
            except BaseException:
                ours.close()
                raise
        if self._meet(ours) is None:
            self._log_crash()
            raise SystemFailure("the resolver, which answers the names of containers, cannot be started")
        self._put_all(but)

    def _find(self) -> set[str] | None:
        """Connect to an earlier daemon's resolver: the containers that it serves; None where none answers."""
        try:
            connection = endpoint.connect(self._exec_root, _SECONDS, endpoint.RESOLVER)
        except OSError:
            return None
        pid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
        found = self._meet(Channel(connection))
        if found is None:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended by itself
                signalling.kill_and_wait(pid, syscalls.process_start(pid), _KILLED_SECONDS)
        return found

    def _meet(self, link: Channel) -> set[str] | None:
        """Receive a resolver's greeting: the containers that it serves already; None where none comes."""
        link.socket.settimeout(_SECONDS)
        try:
            received = link.receive()
        except (OSError, Invalid):
            received = None
        if received is None or not isinstance(received[0], Resolves):
            link.close()
            return None
        greeting = received[0]
        self._link, self._process = link, (greeting.pid, greeting.pid_start)
        self._links.on_end(link.fileno(), lambda: later(self._revive, link))
        return {container for container, _ in greeting.serves}

    def _lose(self, link: Channel) -> None:
        """Close the link and kill the resolver: one that hangs would stand in the way of the next."""
        self._links.off_end(link.fileno())
        link.close()
        self._link = None
        signalling.kill_and_wait(*self._process, _KILLED_SECONDS)

    def _revive(self, link: Channel) -> None:
        """The link has ended: start another resolver where there are containers to serve."""
        with self._lock:
            if self._link is not link:
                return
            self._lose(link)
            self._drop_ended()
            if self._told:
                log.warning("the resolver has died; another is started")
                self._begin()
            else:
                log.debug("the resolver has ended, as it served no container")
                self._log_crash()

    def _drop_ended(self) -> None:
        """Forget the runs whose process has ended: no new resolver is needed for them."""
        for container, told in list(self._told.items()):
            with signalling.opened(told.pid, told.pid_start) as pidfd:
                if pidfd is None:
                    del self._told[container]

    def _log_crash(self) -> None:
        text = exitfile.read(self._exec_root, exitfile.RESOLVER_CRASH)
        if text is not None:
            log.error("the resolver has failed: %s", text.decode("utf-8", "replace"))
            os.unlink(os.path.join(self._exec_root, exitfile.RESOLVER_CRASH))


class _Lost(SystemFailure):
    """The resolver has died, or does not answer."""


@contextlib.contextmanager
def _namespace(pid: int, netns: int) -> Iterator[int]:
    """A descriptor of a process's network namespace: `netns`, or one opened by the pid.

    The caller holds a pidfd of it.
    """
    if netns >= 0:
        yield netns
        return
    try:
        opened = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SystemFailure(f"its network cannot be entered: {error}") from error
    try:
        yield opened
    finally:
        os.close(opened)


def _host_file() -> str:
    try:
        with open(resolvconf.HOST, errors="replace") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""  # the file need not exist
