"""What a verb may ask of the daemon: one narrow Protocol for each room, which `main.Engine` fulfils.

Types alone, and nothing that runs. A function takes the Protocol of its room, so that a reader sees what it can touch,
a type checker what it does touch, and a test what it has to make up. Whoever calls on another room has that one's parts
too: `ContainerParts` are those of every room that the verbs of containers pass through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from engine.daemon.containers.exec.known import Execs
    from engine.daemon.containers.life.oom import OomWatch
    from engine.daemon.containers.roster import Roster
    from engine.daemon.images.catalogue import Catalogue
    from engine.daemon.network.firewall.control import Firewall
    from engine.daemon.network.names import Names
    from engine.daemon.network.networks import Networks
    from engine.daemon.network.ports import Ports
    from engine.daemon.network.wiring import Wiring
    from engine.daemon.runtime.events import Events
    from engine.daemon.runtime.monitors import Monitors
    from engine.daemon.runtime.schedule import Schedule
    from engine.daemon.store.database import Database
    from engine.daemon.volumes.store import Volumes
    from engine.sandbox.cgroups.hierarchy import Cgroups
    from engine.settings.every import Settings


class SettingsPart(Protocol):
    """For whoever reads the daemon's settings."""

    settings: Settings


class EventPart(Protocol):
    """For whoever tells what has happened."""

    events: Events


class DatabasePart(Protocol):
    """For whoever makes something durable."""

    database: Database


class CgroupPart(Protocol):
    """For whoever reads what a container's cgroups count."""

    cgroups: Cgroups


class ContainerPart(Protocol):
    """For whoever looks at other containers."""

    containers: Roster


class ProcessListParts(EventPart, CgroupPart, Protocol):
    """For the list of a container's processes."""


class ProcessParts(SettingsPart, CgroupPart, Protocol):
    """For the rights and limits of every process of a container."""


class OomParts(EventPart, CgroupPart, DatabasePart, Protocol):
    """For whoever hears that a container has run out of memory."""


class ContentParts(SettingsPart, Protocol):
    """For a container's files: where they are, and the image below them. storage: `overlayfs` or `copy`"""

    images: Catalogue
    storage: str


class MountParts(ContainerPart, ContentParts, EventPart, Protocol):
    """For what is mounted in a container, and for its files with what is mounted there."""

    volumes: Volumes


class EndpointParts(ContainerPart, SettingsPart, EventPart, DatabasePart, Protocol):
    """For a container's side of its networks."""

    networks: Networks
    wiring: Wiring
    firewall: Firewall
    ports: Ports
    names: Names
    schedule: Schedule


class SecurityParts(MountParts, ProcessParts, OomParts, Protocol):
    """For what a container is shut into."""

    oom: OomWatch


class OutputParts(SettingsPart, EventPart, Protocol):
    """For what a container says and hears. muxer: `c` or `python`"""

    monitors: Monitors
    muxer: str


class ExecParts(ContainerPart, OutputParts, ProcessParts, Protocol):
    """For more commands in a container that runs."""

    execs: Execs


class HealthParts(ExecParts, DatabasePart, Protocol):
    """For the probes of containers that run."""

    schedule: Schedule


class ContainerParts(EndpointParts, SecurityParts, HealthParts, Protocol):
    """For the verbs of containers, and for what happens between two runs."""


class NetworkParts(EventPart, Protocol):
    """For networks that go."""

    networks: Networks
    wiring: Wiring
    firewall: Firewall


class DaemonParts(ContainerParts, Protocol):
    """For the API, and for whoever looks at the daemon as a whole.

    id: a UUID kept in the data root; started_ns: since the epoch
    """

    id: str
    started_ns: int
