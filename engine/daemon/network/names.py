"""The names of containers in user-defined networks: who is told of them, and when.

Runs in the daemon, on any thread. This much is loaded in an idle daemon; what speaks to the resolver (the process that
answers, see `engine.resolver`) is loaded, and that process started, with the first container of a user-defined network.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from engine.daemon import locks
from engine.daemon.network.record import Endpoint, Links, Pair, Run, has_resolver
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
    """The part of `resolving.Resolving` that is used here: that module is loaded with the first name."""

    def join(
        self,
        pairs: Sequence[Pair],
        netns: int,
        pid: int,
        pid_start: int,
        host_config: Mapping[str, Any],
        links: Links,
    ) -> None: ...

    def leave(self, endpoints: Iterable[Endpoint]) -> None: ...

    def adopt(self, running: Sequence[Run]) -> None: ...

    def shown(self) -> str: ...


class Names:
    """What the resolver is to know. exec_root: where it is found; spawner: who starts it; links: who hears its end."""

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
        host_config: Mapping[str, Any],
        links: Links = NO_LINKS,
    ) -> None:
        """A container has these endpoints from now on, and is found by their names and asks by 127.0.0.11.

        pairs: all of its endpoints, in the order in which they are asked; for one that has only predefined networks,
            and is not known yet, nothing is done
        netns: a descriptor of its network namespace; pid, pid_start: of its process 1
        links: the aliases that it alone may ask for
        Raises SystemFailure.
        """
        resolving = self._resolving
        if resolving is None:
            if not has_resolver(pairs):
                return
            resolving = self._made_now()
        resolving.join(pairs, netns, pid, pid_start, host_config, links)

    def leave(self, endpoints: Iterable[Endpoint]) -> None:
        """These endpoints are no more. Never raises."""
        if self._resolving is not None:
            self._resolving.leave(endpoints)

    def adopt(self, running: Sequence[Run]) -> None:
        """At start-up: all that run and have an endpoint in a user-defined network.

        An earlier daemon's resolver goes on, and forgets all others. Never raises.
        """
        if running:
            self._made_now().adopt(running)

    def shown(self) -> str:
        """What there is of the resolver, in words; under no lock, for an operator who looks inside."""
        return "none was asked for" if self._resolving is None else self._resolving.shown()

    def _made_now(self) -> _Resolving:
        with self._lock:
            if self._resolving is None:
                self._resolving = resolving.Resolving(*self._made)
            return self._resolving
