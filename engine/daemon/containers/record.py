"""A container as the daemon knows it: what was asked for, and the state it is in.

Owned by the daemon; shared by its threads. Every field of `Container.state`, and `name`, is read and written under
`Container.changed`, a condition that is notified at each change, so that a waiter needs no thread and no poll of its
own. What a caller wants to show of a container it takes with `Container.snapshot()`.
"""

import copy
import socket
import threading
from dataclasses import dataclass, field

from engine.wire.messages import Client


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

    @property
    def running(self) -> bool:
        """True while a process 1 exists: running, paused, or dying of a stop."""
        return self.status in ("running", "paused", "restarting")


@dataclass(slots=True, eq=False)
class Container:
    """One container.

    id: 64 hex digits; name: without the slash; image: the reference as the client gave it; image_id: `sha256:...`
    config, host_config, networking: the API's Config, HostConfig and EndpointsConfig, complete (every key of the
        definition is there, with docker's default where the client said nothing)
    path, args: Entrypoint and Cmd joined, as inspect shows them
    layers: the directories of the image's layers, relative to the layer root, lowest first
    settling: its end is known, and what only a running container has is still being taken away; under `changed`
    exits: how often a process 1 of this container has ended since the daemon started; removed: it is no more
    waiting: clients that attached before the start, each with how it wants to be served; under `operation`
    followers: eventfds that are made readable when the container has ended; under `changed`
    operation: held by the verbs that must not overlap (start, remove, rename); nobody waits for an exit holding it
    """

    id: str
    name: str
    created_ns: int
    image: str
    image_id: str
    config: dict
    host_config: dict
    networking: dict
    path: str
    args: list[str]
    layers: tuple[str, ...]
    state: State = field(default_factory=State)
    settling: bool = False
    exits: int = 0
    removed: bool = False
    waiting: list[tuple[Client, socket.socket]] = field(default_factory=list, repr=False)
    followers: list[int] = field(default_factory=list, repr=False)
    operation: threading.Lock = field(default_factory=threading.Lock, repr=False)
    changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def settled(self) -> State:
        """As `snapshot`, once nothing of an ended run is left to be taken away."""
        with self.changed:
            self.changed.wait_for(lambda: not self.settling)
            return copy.copy(self.state)

    def snapshot(self) -> State:
        """A copy of the state, taken at one moment."""
        with self.changed:
            return copy.copy(self.state)
