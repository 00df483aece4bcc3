"""The names of containers in user-defined networks: who is told of them, and when.

Runs in the daemon, on any thread. This much is loaded in an idle daemon; what speaks to the resolver (the process that
answers, see `engine.resolver`) is loaded, and that process started, with the first container of a user-defined network.
"""

from collections.abc import Iterable, Mapping, Sequence

from engine.daemon import locks
from engine.daemon.network.record import Endpoint, Pair, has_resolver
from engine.settings.every import Settings

NO_LINKS: Mapping[str, Mapping[str, str]] = {}


class Names:
    """What the resolver is to know. exec_root: where it is found; spawner: who starts it; links: who hears its end."""

    def __init__(self, exec_root: str, settings: Settings, spawner: object, links: object) -> None:
        self._made = exec_root, settings, spawner, links
        self._lock = locks.Lock("names")
        self._resolving: object | None = None

    def join(
        self,
        pairs: Sequence[Pair],
        netns: int,
        pid: int,
        pid_start: int,
        host_config: Mapping,
        links: Mapping[str, Mapping[str, str]] = NO_LINKS,
    ) -> None:
        """A container has these endpoints from now on, and is found by their names and asks by 127.0.0.11.

        pairs: all of its endpoints, in the order in which they are asked; for one that has only predefined networks,
            and is not known yet, nothing is done
        netns: a descriptor of its network namespace; pid, pid_start: of its process 1
        links: by a network's id, the aliases that it alone may ask for, with the names behind them
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

    def adopt(
        self, running: Sequence[tuple[Sequence[Pair], int, int, Mapping, Mapping[str, Mapping[str, str]]]]
    ) -> None:
        """At start-up: all that run and have an endpoint in a user-defined network, each as `join` takes it but for
        the descriptor. An earlier daemon's resolver goes on, and forgets all others. Never raises."""
        if running:
            self._made_now().adopt(running)

    def shown(self) -> str:
        """What there is of the resolver, in words; under no lock, for an operator who looks inside."""
        return "none was asked for" if self._resolving is None else self._resolving.shown()

    def _made_now(self) -> object:
        from engine.daemon.network.resolving import Resolving  # with the first name

        with self._lock:
            if self._resolving is None:
                self._resolving = Resolving(*self._made)
            return self._resolving
