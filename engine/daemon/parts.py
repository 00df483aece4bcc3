"""Protocol classes that say which parts of the daemon a function may use: one for each package, fulfilled by
`main.Engine`.

Types alone, and no code that runs. A function takes the Protocol of its package (its room, as the sources say). So a
reader sees what the function can touch, a type checker knows what it does touch, and a test knows what to fake. A
function that calls into another package needs the parts of that package too: `ContainerParts` are those of every
package that the verbs of containers pass through.
"""

from __future__ import annotations

from engine.annotating import Protocol
from engine.late import TYPE_CHECKING

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
    from engine.daemon.plugins.activation import Plugins
    from engine.daemon.runtime.events import Events
    from engine.daemon.runtime.monitors import Monitors
    from engine.daemon.runtime.schedule import Schedule
    from engine.daemon.store.database import Database
    from engine.daemon.volumes.store import Volumes
    from engine.sandbox.cgroups.hierarchy import Cgroups
    from engine.settings.every import Settings


class SettingsPart(Protocol):
    """For code that reads the daemon's settings."""

    settings: Settings


class EventPart(Protocol):
    """For code that publishes events."""

    events: Events


class DatabasePart(Protocol):
    """For code that writes to the database."""

    database: Database


class CgroupPart(Protocol):
    """For code that reads the counters of a container's cgroups."""

    cgroups: Cgroups


class ContainerPart(Protocol):
    """For code that looks up other containers."""

    containers: Roster


class ProcessListParts(EventPart, CgroupPart, SettingsPart, Protocol):
    """For the list of a container's processes (top)."""


class ProcessParts(SettingsPart, CgroupPart, Protocol):
    """For the privileges and limits of every process of a container."""


class StatePart(EventPart, DatabasePart, Protocol):
    """For code that makes a container's new state known."""


class OomParts(EventPart, CgroupPart, DatabasePart, Protocol):
    """For code that is told when a container has run out of memory."""


class ContentParts(SettingsPart, Protocol):
    """For a container's files: their place, and the image below them. storage: `overlayfs` or `copy`"""

    images: Catalogue
    storage: str


class MountParts(ContainerPart, ContentParts, EventPart, Protocol):
    """For the mounts of a container, and for its files together with these mounts."""

    volumes: Volumes


class EndpointParts(ContainerPart, SettingsPart, EventPart, DatabasePart, Protocol):
    """For a container's side of its networks (its endpoints)."""

    networks: Networks
    wiring: Wiring
    firewall: Firewall
    ports: Ports
    names: Names
    schedule: Schedule


class SecurityParts(MountParts, ProcessParts, OomParts, Protocol):
    """For all that confines a container: mounts, privileges, limits."""

    oom: OomWatch


class OutputParts(SettingsPart, EventPart, Protocol):
    """For a container's output and input. muxer: `c` or `python`"""

    plugins: Plugins
    monitors: Monitors
    muxer: str


class ExecParts(MountParts, OutputParts, ProcessParts, Protocol):
    """For execs, which are further commands in a running container."""

    execs: Execs


class HealthParts(ExecParts, DatabasePart, Protocol):
    """For the health probes of running containers."""

    schedule: Schedule


class ContainerParts(EndpointParts, SecurityParts, HealthParts, Protocol):
    """For the verbs of containers, and for what the daemon does between two runs of one."""


class NetworkParts(EventPart, Protocol):
    """For the removal of networks."""

    networks: Networks
    wiring: Wiring
    firewall: Firewall


class DaemonParts(ContainerParts, Protocol):
    """For the API, and for code that looks at the daemon as a whole.

    id: a UUID kept in the data root; started_ns: since the epoch
    """

    id: str
    started_ns: int
