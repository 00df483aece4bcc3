"""The front of `resolving` that every daemon loads: passes on which containers have which DNS names.

Runs in the daemon, on any thread. The resolver is the process that answers DNS queries (see `engine.resolver`). An idle
daemon has loaded only this module. The first container of a user-defined network loads `resolving`, which speaks to the
resolver, and starts the process.
"""

from collections.abc import Iterable, Sequence

from engine.annotating import Protocol
from engine.daemon import locks
from engine.daemon.network.record import AskedDns, Endpoint, Links, Pair, Run, has_resolver
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.spawner import Spawner
from engine.late import TYPE_CHECKING, late
from engine.settings.every import Settings

if TYPE_CHECKING:  # loaded with the first container that has a name in a network
    from engine.daemon.network import resolving
else:
    resolving = late("engine.daemon.network.resolving")

NO_LINKS: Links = {}


class _Resolving(Protocol):
    """The part of `resolving.Resolving` that is used here; that module is loaded with the first name."""

    def join(
        self,
        pairs: Sequence[Pair],
        netns: int,
        pid: int,
        pid_start: int,
        host_config: AskedDns,
        links: Links,
    ) -> None: ...

    def leave(self, endpoints: Iterable[Endpoint]) -> None: ...

    def adopt(self, running: Sequence[Run]) -> None: ...

    def shown(self) -> str: ...


class Names:
    """The names that the resolver is to know.

    exec_root: where the resolver's socket is; spawner: starts the resolver; links: watches the link to it for its end
    """

    def __init__(self, exec_root: str, settings: Settings, spawner: Spawner, links: Monitors) -> None:
        self._made = exec_root, settings, spawner, links
        self._lock = locks.Lock("names")
        self._resolving: _Resolving | None = None

    def join(
        self,
        pairs: Sequence[Pair],
        netns: int,
        pid: int,
        pid_start: int,
        host_config: AskedDns,
        links: Links = NO_LINKS,
    ) -> None:
        """Have the resolver serve a container with these endpoints: answer for its names, and answer it at 127.0.0.11.

        pairs: all of its endpoints, in the order in which the resolver searches them. Nothing is done for a container
            that has only predefined networks and is not known yet.
        netns: a descriptor of its network namespace; pid, pid_start: of its process 1
        links: the aliases that only this container may ask for
        Raises SystemFailure.
        """
        resolving = self._resolving
        if resolving is None:
            if not has_resolver(pairs):
                return
            resolving = self._made_now()
        resolving.join(pairs, netns, pid, pid_start, host_config, links)

    def leave(self, endpoints: Iterable[Endpoint]) -> None:
        """Have the resolver forget these endpoints. Never raises."""
        if self._resolving is not None:
            self._resolving.leave(endpoints)

    def adopt(self, running: Sequence[Run]) -> None:
        """At the daemon's start: serve all running containers with an endpoint in a user-defined network.

        An earlier daemon's resolver goes on, and forgets all other containers. Never raises.
        """
        if running:
            self._made_now().adopt(running)

    def shown(self) -> str:
        """The state of the resolver in words, for an operator who inspects the daemon; takes no lock."""
        return "not started" if self._resolving is None else self._resolving.shown()

    def _made_now(self) -> _Resolving:
        with self._lock:
            if self._resolving is None:
                self._resolving = resolving.Resolving(*self._made)
            return self._resolving
