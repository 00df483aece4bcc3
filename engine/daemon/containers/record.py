"""The record of a container as the daemon's threads share it (request, state, health, waiters), and its locks.

The daemon owns it. Every field of `Container.state`, and `name`, is read and written under `Container.changed`. That is
a condition which is notified at each change, so a waiter needs no thread of its own and does not poll. A caller that
wants to show a container takes `Container.snapshot()`.

The locks, outermost first:

`Container.operation` makes the verbs of one container take turns: start (by a client or by the restart policy, until
    the container runs or the start has failed), kill (and the signals of stop and remove), pause, unpause, rename,
    update, remove, attach, connect and disconnect. The locks of networks, wires and the firewall are taken under it
    (see `network.networks`). While a thread holds it, no other verb changes the state. Only the end of a run may come
    meanwhile (`end.ended`), which does not take it. So no thread waits for an end while it holds it: stop and remove
    send their signal, release the lock, and wait for `exits` to grow.
    No thread waits for a client under it (attach reads the body before, and its response head must fit into the
    socket's buffer at once), nor for the copy of an image (`copied`). A start waits under it for these, all bounded:
    its monitor (`handshake.START_SECONDS` from one message to the next), the sources of binds (`answering.SECONDS`), a
    plugin that mounts a volume (two minutes and a half), systemd (`units.SECONDS`, twice), the resolver (5 seconds,
    then it is replaced), a spawner or monitor that takes no message (10 seconds), the freezer (10 seconds), an end that
    settles (the same waits). An update waits for systemd too. Two things take as long as the files need: copying files,
    which have all been received by then, into a stopped container, and labelling the source of a mount with `:z`.
`Container.changed` is held for one look or one change. The state's row is written under it, so rows are written in the
    order of the changes. Nothing that may take long is done under it. The end of a run sets `settling` until
    everything that only a run has is gone, and a start waits for that. The end gives back the networks first. Then
    it publishes the end under `changed` (the event `die`, the state, all waiters). The rest is taken away after that.
The locks of the roster, the database, the schedule and the event bus come last. No thread that holds one of them asks
for one of the two above.

A run is named by the value that `exits` had when it began. A decision about one run (a signal, a retry) is dropped when
`exits` has changed by the time it is carried out.
"""

from __future__ import annotations

import os
import threading
from operator import attrgetter

from engine.annotating import Protocol
from engine.daemon.locks import Lock
from engine.dataclass import dataclass, field
from engine.late import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    from engine.daemon.containers.shapes import Config, EndpointSettings, HostConfig, MountPoint
    from engine.wire.schema import Client
    from engine.wire.waits import Wait


@dataclass(frozen=True, slots=True)
class Probe:
    """One run of a health check.

    exit_code: -1 if it was not run to its end; output: the first part of what it wrote
    """

    start_ns: int
    end_ns: int
    exit_code: int
    output: str


@dataclass(frozen=True, slots=True)
class Health:
    """The result of a container's health check, replaced at each change. status: starting, healthy or unhealthy."""

    status: str
    failing_streak: int = 0
    log: tuple[Probe, ...] = ()


@dataclass(slots=True)
class State:
    """The state of a container's life; times are nanoseconds since the epoch, 0 for "never"."""

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
        """Whether docker calls it running: a process 1 exists, or will exist again after the restart policy's delay."""
        return self.status in ("running", "paused", "restarting")

    @property
    def alive(self) -> bool:
        """Whether a process 1 exists: the container is running (perhaps about to die of a stop) or paused."""
        return self.status in ("running", "paused")

    def copy(self) -> State:
        """A copy with the same values. Every look at a container makes one, so the slower module copy is not used."""
        return State(*_values(self))


_values = attrgetter(*State.__slots__)


class Bell:
    """An eventfd for the threads that wait for a container's end and a socket at once; under `Container.changed`."""

    __slots__ = ("_users", "descriptor")

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._users = 0

    def join(self) -> Bell:
        """Count one more user of the descriptor, until it calls `leave`."""
        self._users += 1
        return self

    def leave(self) -> bool:
        """Count one user fewer; the last one closes the descriptor. True when it was closed."""
        self._users -= 1
        if not self._users:
            os.close(self.descriptor)
        return not self._users


@dataclass(slots=True, eq=False)
class Entrusted:
    """The connection of a waiting client, of which the container's monitor has a copy; under `Container.changed`.

    descriptor: the daemon's own; run: the run (see `Container.exits`) whose monitor has the copy, None for none yet
    """

    wait: Wait
    descriptor: int
    run: int | None = None


class Retry(Protocol):
    """The next run of the restart policy, while it is waited for."""

    def cancel(self) -> bool:
        """Cancel the run; False when its time has come already."""


class Probing(Protocol):
    """The object that runs a container's health check."""

    def drop(self) -> None:
        """Begin no more probes."""


class Unread(Protocol):
    """Settings of containers that an earlier daemon has written, while nobody here has asked for them."""

    def read(self) -> None:
        """Give these containers their settings, and take itself from them. Any thread may call it."""


SETTINGS = ("config", "host_config", "networking", "path", "args", "layers", "mounts", "manifest")
"""The fields of a container that are what the client asked for."""


@dataclass(slots=True, eq=False)
class Container:
    """One container.

    id: 64 hex digits; name: without the slash; image: the reference as the client gave it; image_id: `sha256:...`
    config, host_config, networking: the API's Config, HostConfig and EndpointsConfig, complete (every key of the
        definition is there, with docker's default where the client gave no value)
    path, args: Entrypoint and Cmd joined, as inspect shows them
    layers: the directories of the image's layers, relative to the layer root, lowest first
    mounts: its mount points as the API's MountPoint, each with what the engine needs under `Spec`
    secrets: variables (`NAME=value`) that its process gets and that nothing else shows or keeps, for a step of a build
    linked: the variables of its links at its last start, see `endpoints.linkvariables`
    process_label, file_label: its SELinux labels (see `security.labels`); empty for none
    manifest: digest of the manifest of the image's platform that it runs; empty without an image
    settling: the end of a run is known, and what only a running container has is still being taken away; under
        `changed`
    unsaved: the exit file alone tells the next daemon of the last run's end, as the record of it could not be saved
    exits: how often a run, or the wait for another one, has ended since the daemon started
    last_exit: the exit code of the last run that ended; waiters get it however soon the next run begins
    removed: the container has been removed
    held: a client asked for its end since a client last started it, so the policy starts no run; lost with the daemon
    doomed: SIGKILL was sent to this run, so nothing may stop it from dying
    delay: seconds that were waited before this run (see `policy`); retry: the handle of the next run while it is waited
        for
    passing: the engine itself paused it, for some work of its own; a later daemon lets it run on
    preparing: a thread copies the image for its runs, where images are copied (see `copied`); under `changed`
    being_restarted: the number of `restart` calls between stop and start, during which AutoRemove does not remove it
    cgroup_parent: the parent of the cgroup of its present or last run (see `security.cgroupparent`); written under
        `operation` and at a daemon's start
    bell: the eventfd for waiters with a socket, written to and replaced at each end; None without waiters
    entrusted: by number, each waiting client whose connection the monitor is to have too; under `changed`
    waiting: clients that attached before the start, each with how it wants to be served; under `operation`
    followers: eventfds that are made readable when the container has ended; under `changed`
    probing: the object that runs its health check, while it is run (see `health.probing`); under `changed`
    execs: the execs (see `exec.known`) that have been created or run and have not ended, by id
    unread: where the values of `SETTINGS` are while nobody has asked for one of them, see `store.containers`
    operation: held by the verbs that must not overlap, see above
    """

    id: str
    name: str
    created_ns: int
    image: str
    image_id: str
    config: Config
    host_config: HostConfig
    networking: dict[str, EndpointSettings]
    path: str
    args: list[str]
    layers: tuple[str, ...]
    mounts: tuple[MountPoint, ...] = ()
    manifest: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    linked: tuple[str, ...] = ()
    process_label: str = ""
    file_label: str = ""
    state: State = field(default_factory=State)
    settling: bool = False
    unsaved: bool = False
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
    cgroup_parent: str = ""
    bell: Bell | None = field(default=None, repr=False)
    entrusted: dict[int, Entrusted] = field(default_factory=dict, repr=False)
    waiting: list[tuple[Client, socket.socket]] = field(default_factory=list, repr=False)
    followers: list[int] = field(default_factory=list, repr=False)
    probing: Probing | None = field(default=None, repr=False)
    execs: dict[str, object] = field(default_factory=dict, repr=False)
    unread: Unread | None = field(default=None, repr=False)
    operation: Lock = field(default_factory=Lock, repr=False)
    changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    if not TYPE_CHECKING:  # for it, each field has a value

        def __getattr__(self, name: str) -> object:
            """The value of a field that has none yet. Raises AttributeError for any other name."""
            if name in SETTINGS and (unread := self.unread) is not None:
                unread.read()
            return object.__getattribute__(self, name)

    def settled(self) -> State:
        """A copy of the state, taken once everything of an ended run has been taken away."""
        with self.changed:
            self.changed.wait_for(lambda: not self.settling)
            return self.state.copy()

    def snapshot(self) -> State:
        """A copy of the state, taken at one moment."""
        with self.changed:
            return self.state.copy()

    def view(self, state: State) -> Container:
        """What a look at the container at one moment finds, with `state` for its state. Nobody changes a view: it is
        for showing the container, with the same values in each place.
        """
        seen = Container(*_fields(self))
        seen.state, seen.execs = state, self.execs.copy()
        return seen

    def listen(self) -> Bell:
        """The bell that the next end rings. The caller holds `changed`, and must later call `quit` with the bell."""
        if self.bell is None:
            self.bell = Bell()
        return self.bell.join()

    def quit(self, bell: Bell) -> None:
        """Stop using a bell; the caller holds `changed`."""
        if bell.leave() and self.bell is bell:
            self.bell = None

    def ring(self) -> None:
        """Wake the threads that listen; the caller holds `changed`."""
        if self.bell is not None:
            os.eventfd_write(self.bell.descriptor, 1)
            self.bell = None


_fields = attrgetter(*Container.__slots__)
