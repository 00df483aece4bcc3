"""A container as the daemon knows it: what was asked for, and the state it is in.

Owned by the daemon; shared by its threads. Every field of `Container.state`, and `name`, is read and written under
`Container.changed`, a condition that is notified at each change, so that a waiter needs no thread and no poll of its
own. What a caller wants to show of a container it takes with `Container.snapshot()`.

Which lock is held when, outermost first:

`Container.operation` makes the verbs of one container take turns: start (by hand or by its policy, until it runs or has
    failed), kill (and the signals of stop and remove), pause, unpause, rename, update, remove, attach, connect and
    disconnect. The locks of networks, wires and the firewall are taken under it (see `network.networks`). Whoever holds
    it knows that no verb changes the state meanwhile; only an end may come (`end.ended`), which does not take it. So
    nobody waits for an end holding it: stop and remove send their signal, let go, and wait for `exits` to grow.
    No client is waited for under it (attach takes the body before, and its head must find room at once), and no copy of
    an image (`copied`). What a start does wait for is bounded: its monitor (`handshake.START_SECONDS` from one message
    to the next), the sources of binds (`answering.SECONDS`), the resolver (5 seconds, then it is replaced), a spawner
    or monitor that takes no message (10 seconds), the freezer (10 seconds), an end that settles (the same waits). Only
    copying files into a stopped container takes as long as they are many: they are all here by then.
`Container.changed` is held for a look or a change, with the state's row written under it, so that rows are written in
    the order of the changes. Nothing that may take long is done under it. An end sets `settling` until what only a run
    has is gone, which a start waits for; its networks go before it says so under `changed` (the event `die`, the state,
    all who wait), the rest after.
The roster's, the database's, the schedule's and the event bus's own locks come last; none of them is held while one
    of the two above is asked for.

A run is named by `exits` as it was when it began: what was decided about one run (a signal, a retry) is dropped when
`exits` is another by then.
"""

import os
import socket
import threading
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

from engine.daemon.containers.shapes import MountPoint
from engine.daemon.jsontext import Object
from engine.daemon.locks import Lock
from engine.wire.schema import Client
from engine.wire.waits import Wait


@dataclass(frozen=True, slots=True)
class Probe:
    """One run of a health check: when, how it ended (-1: it was not run to its end), and the first of what it said."""

    start_ns: int
    end_ns: int
    exit_code: int
    output: str


@dataclass(frozen=True, slots=True)
class Health:
    """What a container's health check has found; a new one at each change. status: starting, healthy or unhealthy."""

    status: str
    failing_streak: int = 0
    log: tuple[Probe, ...] = ()


@dataclass(slots=True)
class State:
    """Where a container is in its life; times are nanoseconds since the epoch, 0 for "never"."""

    status: str = "created"
    pid: int = 0
    pid_start: int = 0
    exit_code: int = 0
    error: str = ""
    oom_killed: bool = False
    started_ns: int = 0
    finished_ns: int = 0
    restart_count: int = 0
    stopped_by_hand: bool = False
    health: Health | None = None

    @property
    def running(self) -> bool:
        """What docker calls running: a process 1 exists, or is to exist again after a pause for breath."""
        return self.status in ("running", "paused", "restarting")

    @property
    def alive(self) -> bool:
        """True while a process 1 exists: running, paused, or dying of a stop."""
        return self.status in ("running", "paused")

    def copy(self) -> "State":
        """Another one of the same values; asked for at every look at a container, and so not by the module copy."""
        return State(*_values(self))


_values = attrgetter(*State.__slots__)


class Bell:
    """An eventfd for all who wait for one container's end along with their own sockets; under `Container.changed`."""

    __slots__ = ("_users", "descriptor")

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._users = 0

    def join(self) -> "Bell":
        """One more uses the descriptor, until he leaves."""
        self._users += 1
        return self

    def leave(self) -> bool:
        """One fewer; the last one closes it. True when it was closed."""
        self._users -= 1
        if not self._users:
            os.close(self.descriptor)
        return not self._users


@dataclass(slots=True, eq=False)
class Entrusted:
    """The connection of one who waits, of which the container's monitor has one too; under `Container.changed`.

    descriptor: the daemon's own; run: the one (see `Container.exits`) whose monitor has it, None for none yet
    """

    wait: Wait
    descriptor: int
    run: int | None = None


class Retry(Protocol):
    """The next run, while it is waited for."""

    def cancel(self) -> bool:
        """Have it not take place; False when its time has come already."""


class Probing(Protocol):
    """Who runs a container's health check."""

    def drop(self) -> None:
        """Begin no more probes."""


@dataclass(slots=True, eq=False)
class Container:
    """One container.

    id: 64 hex digits; name: without the slash; image: the reference as the client gave it; image_id: `sha256:...`
    config, host_config, networking: the API's Config, HostConfig and EndpointsConfig, complete (every key of the
        definition is there, with docker's default where the client said nothing)
    path, args: Entrypoint and Cmd joined, as inspect shows them
    layers: the directories of the image's layers, relative to the layer root, lowest first
    mounts: its mount points as the API's MountPoint, each with what the engine needs under `Spec`
    log_asked: whether the client has named a log driver
    manifest: digest of the manifest of the image's platform that it runs; empty without an image
    settling: its end is known, and what only a running container has is still being taken away; under `changed`
    exits: how often a run, or the wait for another one, has ended since the daemon started; removed: it is no more
    last_exit: the exit code of the last run that ended; what waiters are told, however soon the next one begins
    held: its end was asked for since its last start by hand, so no policy runs it again; not kept over a daemon
    doomed: SIGKILL was sent to this run, so nothing may stop it from dying
    delay: seconds that were waited before this run (see `policy`); retry: the handle of the next one while it is waited
    passing: where it is paused, that is the engine's own doing and ends with its work; a later daemon lets it go on
    preparing: a thread copies what its runs stand on, where images are copied (see `copied`); under `changed`
    being_restarted: how many `restart` calls are between their stop and their start; it is not removed by itself then
    bell: rung at each end for those who wait with a socket, and replaced then; None while nobody does
    entrusted: by its number, each of those who wait whose connection its monitor is to have too; under `changed`
    waiting: clients that attached before the start, each with how it wants to be served; under `operation`
    followers: eventfds that are made readable when the container has ended; under `changed`
    probing: who runs its health check, while it is run (see `health.probing`); under `changed`
    execs: those (see `exec.known`) that have been created or run and not ended, by id
    operation: held by the verbs that must not overlap, see above
    """

    id: str
    name: str
    created_ns: int
    image: str
    image_id: str
    config: Object
    host_config: Object
    networking: Object
    path: str
    args: list[str]
    layers: tuple[str, ...]
    mounts: tuple[MountPoint, ...] = ()
    log_asked: bool = True
    manifest: str = ""
    state: State = field(default_factory=State)
    settling: bool = False
    exits: int = 0
    last_exit: int = 0
    removed: bool = False
    held: bool = False
    doomed: bool = False
    delay: float = 0.0
    retry: Retry | None = field(default=None, repr=False)
    passing: bool = False
    preparing: bool = False
    being_restarted: int = 0
    bell: Bell | None = field(default=None, repr=False)
    entrusted: dict[int, Entrusted] = field(default_factory=dict, repr=False)
    waiting: list[tuple[Client, socket.socket]] = field(default_factory=list, repr=False)
    followers: list[int] = field(default_factory=list, repr=False)
    probing: Probing | None = field(default=None, repr=False)
    execs: dict[str, object] = field(default_factory=dict, repr=False)
    operation: Lock = field(default_factory=Lock, repr=False)
    changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def settled(self) -> State:
        """A copy of the state, taken once nothing of an ended run is left to be taken away."""
        with self.changed:
            self.changed.wait_for(lambda: not self.settling)
            return self.state.copy()

    def snapshot(self) -> State:
        """A copy of the state, taken at one moment."""
        with self.changed:
            return self.state.copy()

    def listen(self) -> Bell:
        """The bell that is rung next; the caller holds `changed`, and is to `quit` it."""
        if self.bell is None:
            self.bell = Bell()
        return self.bell.join()

    def quit(self, bell: Bell) -> None:
        """Be done with a bell; the caller holds `changed`."""
        if bell.leave() and self.bell is bell:
            self.bell = None

    def ring(self) -> None:
        """Wake those who listen; the caller holds `changed`."""
        if self.bell is not None:
            os.eventfd_write(self.bell.descriptor, 1)
            self.bell = None
