"""What an operation is given to work with: the engine, the build that it belongs to, and who waits for that.

Belongs to one node while it is solved, and to the thread that solves it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.telling import Telling
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass

HOST_NETWORK = "network.host"
"""The entitlement of a build that may be in the host's network, its loopback interface included."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who waits for a build. Any thread may call these.

    watch: sleeps until a descriptor is readable, and raises when nobody waits any more
    check: raises when nobody waits any more; gone: returns whether that is so
    """

    watch: Callable[[int], object]
    check: Callable[[], None]
    gone: Callable[[], bool]


Lend = Callable[[str, Keeper], Snapshot | None]
"""Gives what a step of that identity has made somewhere else, kept by the keeper; None where nobody has it."""


class Kept(Protocol):
    """identity, kind, title: of the result; make: makes the tree"""

    def __call__(self, identity: str, kind: str, title: str, make: Callable[[], Snapshot], /) -> Snapshot: ...


def _unkept(_identity: str, _kind: str, _title: str, make: Callable[[], Snapshot]) -> Snapshot:
    return make()


class Giver(Protocol):
    """A client that gives what a build names."""

    def secret(self, id: str, /) -> bytes | None:
        """The secret, None where the client has none of that name."""

    def agent(self, id: str, path: str, /) -> AbstractContextManager[bool]:
        """A socket at `path` that leads to the client's agent; False where the client has none of that name."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one node is solved with.

    keeper: keeps what the build makes and uses; told: is told what happens; scratch: descriptor of the build's
    directory for intermediate files
    watch: sleeps until a descriptor is readable; it and check raise once nobody waits, or another node has failed
    waiting: a context in which the node waits for somebody else (a client, a server) and needs no processor
    giver: gives secrets and agents, None for a client that cannot
    allowed: entitlements of the build, None where it needs none
    kept: gives the tree that is kept under an identity, or makes it and keeps it: for an operation that knows what
    decides its outcome only while it makes it
    hold: keeps what a failed command has left for a look until the function is called, which drops it; None where
    nobody can look
    """

    engine: ContainerParts
    keeper: Keeper
    told: Telling
    scratch: int
    watch: Callable[[int], object]
    check: Callable[[], None]
    waiting: Callable[[], AbstractContextManager[None]]
    giver: Giver | None = None
    allowed: frozenset[str] | None = frozenset()
    kept: Kept = _unkept
    hold: Callable[[Callable[[], None]], None] | None = None

    def may(self, entitlement: str) -> bool:
        """Whether the build has it, or needs none."""
        return self.allowed is None or entitlement in self.allowed
