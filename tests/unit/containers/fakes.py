"""Stand-ins for the parts of an engine that containers need: images that are dicts, cgroups that do nothing."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.daemon.containers.exec.known import Execs
from engine.daemon.containers.life.oom import OomWatch
from engine.daemon.containers.roster import Roster
from engine.daemon.network.networks import Networks
from engine.daemon.plugins.activation import Plugins
from engine.daemon.runtime.events import Events
from engine.daemon.runtime.monitors import Monitors
from engine.daemon.runtime.schedule import Schedule
from engine.daemon.store import containers as table
from engine.daemon.store import networks as network_table
from engine.daemon.store import volumes as volume_table
from engine.daemon.store.database import Database
from engine.daemon.volumes.store import Volumes
from engine.errors import NotFound
from engine.sandbox.spec import Limits
from tests.harness.parts import Parts, settings

BUSYBOX = "sha256:3d6c584907b4cca0892ef53f31186796bb6fe1dd07088ec6976f80a12d08a9eb"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class FakeImage:
    """The part of an image that a container takes from it."""

    id: str = BUSYBOX
    manifest: str = BUSYBOX
    config: dict = field(
        default_factory=lambda: {
            "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
            "os": "linux",
            "config": {"Env": [PATH], "Cmd": ["/bin/sh"]},
        }
    )
    descriptor: dict = field(
        default_factory=lambda: {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": BUSYBOX,
            "size": 405,
        }
    )
    layers: tuple[str, ...] = ("1",)

    def check_unpacked(self) -> None:
        """Its files are here."""


class FakeImages:
    """Images by every name they are given."""

    def __init__(self, **images: FakeImage) -> None:
        busybox = FakeImage()
        self.changing = threading.RLock()
        self.userxattr, self.layer_root = False, ""
        self.by_name = {"busybox": busybox, "busybox:latest": busybox, BUSYBOX: busybox, **images}

    def find(self, reference: str, platform: str | None = None) -> FakeImage:
        """The image, or NotFound with docker's words."""
        if reference not in self.by_name:
            raise NotFound(f"No such image: {reference if ':' in reference else reference + ':latest'}")
        return self.by_name[reference]

    def check(self, identity: str, layers: Sequence[str]) -> None:
        """NotFound unless the image is there."""
        self.find(identity)


class FakeCgroups:
    """Cgroups of version 1 that can do everything, and do nothing."""

    version = "1"
    driver = "cgroupfs"
    slice = "system.slice"
    features = frozenset({"cpu_cfs", "cpu_rt"})
    holds_processes = guards_devices = True
    grown = False
    hasten = None

    def begins_with_process(self, parent: str) -> bool:
        """It begins empty."""
        return False

    def fitting(self, limits: Limits) -> tuple[Limits, list[str]]:
        """All that was asked for."""
        return limits, []

    def remove(self, *of: str) -> None:
        """There is nothing to remove."""

    def wake(self, *of: str) -> None:
        """Nobody sleeps."""

    def oom_killed(self, *of: str) -> bool:
        """Never."""
        return False


def make_engine(root: object, images: FakeImages | None = None) -> Parts:
    """An engine with a real database and registry below the directory `root`."""
    for name in ("containers", "layers"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    images = images or FakeImages()
    images.layer_root = f"{root}/layers"
    database = Database(f"{root}/engine.db", (*table.SCHEMA, *volume_table.SCHEMA, *network_table.SCHEMA))
    events = Events()
    told = settings(data_root=str(root), exec_root=f"{root}/run")
    return Parts(
        plugins=Plugins(()),
        settings=told,
        networks=Networks(database, told, "1" * 64, events),
        database=database,
        images=images,
        containers=Roster(),
        monitors=Monitors(None, lambda *_: None),  # which no monitor is linked to
        events=events,
        execs=Execs(),
        oom=OomWatch(),
        volumes=Volumes(database, str(root), events),
        schedule=Schedule(),
        storage="overlayfs",
        cgroups=FakeCgroups(),
    )
