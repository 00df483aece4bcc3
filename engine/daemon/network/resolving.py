"""The daemon's link to the resolver process: has it started, and tells it of containers' names.

The first name has the resolver started. `runtime.serviceprocess` has the life of the process.
"""

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from engine.daemon.network.drivers import parents
from engine.daemon.network.record import AskedDns, Endpoint, Links, Pair, Run, has_resolver
from engine.daemon.runtime import signalling
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.serviceprocess import Birth, Kind, Lost, ServiceProcess
from engine.daemon.runtime.spawner import Spawner
from engine.dataclass import dataclass
from engine.errors import EngineError, SystemFailure
from engine.kernel import reasons
from engine.sandbox import resolvconf
from engine.settings.every import Settings
from engine.wire import endpoint, exitfile
from engine.wire.channel import Channel
from engine.wire.schema import BeResolver, Forget, Message, Place, Resolves, Serve, Served

log = logging.getLogger(__name__)

_KIND = Kind(
    "resolver",
    deed="answers the names of containers",
    harm="the resolver does not know the names of containers",
    socket=endpoint.RESOLVER,
    crash=exitfile.RESOLVER_CRASH,
)
_LARGEST = 65536


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


class Resolving(ServiceProcess[_Told]):
    """The link to the resolver, which does the work of `names.Names` once there is a name."""

    def __init__(self, exec_root: str, settings: Settings, spawner: Spawner, links: Monitors) -> None:
        super().__init__(_KIND, exec_root, spawner, links)
        self._settings = settings
        self._known: set[str] = set()  # the containers that the resolver served when it greeted

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
                self._serve(told, lambda _: self._put(told, netns))
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
                if not self._find():
                    self._begin()
                    return
                try:
                    for container in self._known - self._told.keys():
                        self._ask(Forget(container))
                    self._put_all()
                except Lost:
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
                self._serve(told, lambda _: self._put(told))
            else:
                del self._told[container]
                if self._link is None:
                    return  # no resolver is started just to forget something
                try:
                    self._ask(Forget(container))
                except Lost:
                    if self._told:
                        self._begin()

    # The caller of each method below holds the lock.

    def _put(self, told: _Told, netns: int = -1) -> None:
        """Tell the resolver of one run. netns: a descriptor of the container's network namespace, -1 for none."""
        with signalling.opened(told.pid, told.pid_start) as pidfd:
            if pidfd is None:
                raise SystemFailure("its process has ended")
            with _namespace(told.pid, netns) as namespace:
                self._ask(told.serve(), (namespace, pidfd))

    def _ask(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message and wait for the answer. Raises Lost; SystemFailure with the resolver's own words."""

        def exchange(link: Channel) -> str:
            link.send(message, list(descriptors))
            received = link.receive()
            if received is None or not isinstance(received[0], Served):
                raise SystemFailure("it has died")
            return received[0].text

        if refusal := self._exchange(exchange):
            raise SystemFailure(refusal)

    def _birth(self, passed: contextlib.ExitStack) -> tuple[Birth, list[int]]:
        return BeResolver(self._exec_root), []

    def _greeting(self, link: Channel) -> tuple[int, int] | None:
        received = link.receive()
        if received is None or not isinstance(received[0], Resolves):
            return None
        greeting = received[0]
        self._known = {container for container, _ in greeting.serves}
        return greeting.pid, greeting.pid_start


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
        raise SystemFailure(f"its network cannot be entered: {reasons.whole(error)}") from error
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
