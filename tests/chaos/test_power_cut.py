"""Power goes away at the boundaries of a daemon's work: what was acknowledged is there, what was removed is gone.

The full form tries each boundary of the script, the short one a few that the seed chooses.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.api import building
from tests.chaos import disks, form
from tests.chaos.disks import MEGABYTE, Disk
from tests.chaos.outage import OPTIONS, Halting, hierarchies, rebooted, snapshot
from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World

pytestmark = [pytest.mark.root, pytest.mark.timeout(form.short_or_full(120, 7200))]

ROUNDS = 3
FARTHEST = 90  # steps from one boundary to the next, in the short form
SIZE = 64 * MEGABYTE
CONTENT = "what a client was told is there"

Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Outage:
    """One loss of power. told: what clients had been told, by fact; open: what the verb under way changes

    step: what the daemon was about to do; image: what was on the disk
    """

    step: str
    told: dict[Fact, object]
    open: dict[Fact, object]
    image: Path

    def check(self, after: Daemon) -> None:
        """Hold a daemon after the outage against what was told."""
        found = look(after, self.told | dict.fromkeys(self.open, ...))
        for fact, value in (self.open | self.told).items():
            allowed = (self.told.get(fact), self.open[fact]) if fact in self.open else (value,)
            assert found[fact] in allowed, f"{fact} is {found[fact]!r}, and may be {allowed}"
        # A volume is whole or gone: what was in it is not lost with a removal that did not come to its end.
        if found["volume", "data"] and ("volume", "data") in self.open and ("content", "data") in self.told:
            assert found["content", "data"] == (self.told["content", "data"] or ""), "an empty volume is left"


class Story:
    """The script of one client, and what it was told so far, as facts: (kind, name) → value."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.told: dict[Fact, object] = {("image", "busybox:latest"): True}
        self.open: dict[Fact, object] = {}

    def verb(self, name: str, act: Callable[[Daemon], None], changes: dict[Fact, object]) -> Callable[[], None]:
        """A verb of the script, with what it changes once it is answered."""

        def do() -> None:
            self.open = changes
            act(self.daemon)
            self.told |= changes
            self.open = {}

        do.__name__ = name
        return do

    def script(self) -> list[Callable[[], None]]:
        """Everything, in its order."""
        return [
            self.verb("make a volume", post("/volumes/create", {"Name": "data"}), NEW_VOLUME),
            self.verb("make a network", post("/networks/create", NETWORK), {("network", "net"): "10.99.7.0/24"}),
            self.verb("write to the volume", write, {("content", "data"): CONTENT}),
            self.verb("tag", post("/images/busybox/tag?repo=kept&tag=1"), {("image", "kept:1"): True}),
            self.verb(
                "create",
                create,
                {("container", "one"): True, ("policy", "one"): "always", ("running", "one"): False},
            ),
            self.verb("start", post("/containers/one/start"), {("running", "one"): True}),
            self.verb(
                "rename",
                post("/containers/one/rename?name=two"),
                {
                    **dict.fromkeys([("container", "one"), ("policy", "one"), ("running", "one")], None),
                    ("container", "two"): True,
                    ("policy", "two"): "always",
                    ("running", "two"): True,
                },
            ),
            self.verb("update", post("/containers/two/update", POLICY), {("policy", "two"): "unless-stopped"}),
            self.verb("commit", post("/commit?container=two&repo=snap&tag=1"), {("image", "snap:1"): True}),
            self.verb("stop", post("/containers/two/stop?t=0"), {("running", "two"): False}),
            self.verb("build", build, {("image", "built:1"): True}),
            self.verb(
                "remove",
                delete("/containers/two"),
                dict.fromkeys([("container", "two"), ("policy", "two"), ("running", "two")], None),
            ),
            self.verb("remove the network", delete("/networks/net"), {("network", "net"): None}),
            self.verb(
                "remove the volume", delete("/volumes/data"), {("volume", "data"): None, ("content", "data"): None}
            ),
            self.verb("untag", delete("/images/kept:1"), {("image", "kept:1"): None}),
            self.verb("remove the image", delete("/images/snap:1"), {("image", "snap:1"): None}),
            self.verb(
                "make the volume again",
                post("/volumes/create", {"Name": "data"}),
                NEW_VOLUME,
            ),
        ]


NEW_VOLUME: dict[Fact, object] = {("volume", "data"): True, ("content", "data"): ""}
NETWORK = {"Name": "net", "IPAM": {"Config": [{"Subnet": "10.99.7.0/24"}]}}
POLICY = {"RestartPolicy": {"Name": "unless-stopped", "MaximumRetryCount": 0}}
DOCKERFILE = "FROM busybox\nRUN echo built > /it\n"


def post(path: str, body: object = None) -> Callable[[Daemon], None]:
    """A call that has to work."""

    def do(daemon: Daemon) -> None:
        answer = daemon.request("POST", path, body)
        assert answer.status in (200, 201, 204), answer

    return do


def delete(path: str) -> Callable[[Daemon], None]:
    """The same."""

    def do(daemon: Daemon) -> None:
        answer = daemon.request("DELETE", path)
        assert answer.status in (200, 204), answer

    return do


def write(daemon: Daemon) -> None:
    """A container's own writing to a volume, which it syncs."""
    host = {"NetworkMode": "none", "Binds": ["data:/v"]}
    daemon.shell(f"echo '{CONTENT}' > /v/file; sync", HostConfig=host)


def create(daemon: Daemon) -> None:
    """A container of the network that runs after each boot."""
    host = {"NetworkMode": "net", "RestartPolicy": {"Name": "always"}}
    daemon.create("sleep", "1000", name="one", HostConfig=host)


def build(daemon: Daemon) -> None:
    """A build of one step that runs something."""
    made = building.build(daemon, DOCKERFILE, t="built:1")
    assert not made.error, made.error


def look(after: Daemon, wanted: dict[Fact, object]) -> dict[Fact, object]:
    """All the facts that are ever told, as they are. wanted: what they are to come to, where that takes time"""
    volumes = {each["Name"] for each in after.request("GET", "/volumes").json()["Volumes"] or ()}
    networks = {each["Name"]: each for each in after.request("GET", "/networks").json()}
    found: dict[Fact, object] = {
        ("volume", "data"): "data" in volumes or None,
        ("network", "net"): networks["net"]["IPAM"]["Config"][0]["Subnet"] if "net" in networks else None,
    }
    for name in ("one", "two"):
        answer = after.request("GET", f"/containers/{name}/json")
        there = answer.status == 200
        found["container", name] = there or None
        found["policy", name] = answer.json()["HostConfig"]["RestartPolicy"]["Name"] if there else None
        found["running", name] = runs(after, name, wanted.get(("running", name), ...)) if there else None
    for name in ("busybox:latest", "kept:1", "snap:1", "built:1"):
        there = after.request("GET", f"/images/{name}/json").status == 200
        found["image", name] = there or None
        if there:
            assert after.shell("cat /it 2> /dev/null || true; echo runs", Image=name).endswith("runs")
    found["content", "data"] = None
    if "data" in volumes:
        mounted = {"NetworkMode": "none", "Binds": ["data:/v"]}
        found["content", "data"] = after.shell("cat /v/file 2> /dev/null || true", HostConfig=mounted)
    return found


def runs(daemon: Daemon, name: str, wanted: object) -> bool:
    """Whether a container runs: a daemon that starts sees to it in a thread of its own. wanted: `...` for either"""
    end = time.monotonic() + 60
    while (found := daemon.inspect(name)["State"]["Running"]) != wanted and wanted != ... and time.monotonic() < end:
        time.sleep(0.01)
    return found


def gaps() -> Iterator[int]:
    """How many steps lie between one boundary and the next: none in the full form."""
    chance = form.source("power cut")
    while form.FULL:
        yield 0
    for _ in range(ROUNDS):
        yield chance.randrange(FARTHEST)
    while True:
        yield 1 << 30


@pytest.mark.skipif(bool(disks.unable()), reason=disks.unable())
def test_a_power_cut_undoes_nothing_that_was_acknowledged(world: World) -> None:
    """The script, with an outage at each boundary that was chosen; a daemon that starts after it is asked for all."""
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    daemon = Halting(world.directory(), world.namespaces)
    elsewhere = world.machine()
    story, outages = Story(daemon), 0
    failures: list[str] = []
    with Disk(world.namespaces, daemon.data_root, SIZE, options=OPTIONS) as disk, hierarchies(elsewhere):
        daemon.start()
        try:
            daemon.import_busybox()
            chosen = gaps()
            for verb in story.script():
                met: list[Outage] = []

                def cut(step: str, met: list[Outage] = met) -> None:
                    met.append(Outage(step, dict(story.told), dict(story.open), world.directory() / "copy.img"))
                    snapshot(disk, met[-1].image)

                daemon.at_steps(verb, chosen, cut)
                outages += len(met)
                for outage in met:
                    try:
                        with rebooted(elsewhere, outage.image) as after:
                            outage.check(after)
                    except (AssertionError, OSError) as error:
                        failures.append(f"{verb.__name__}, before {outage.step}: {error}")
        finally:
            daemon.close()
    print(f"{outages} outages")
    assert not failures, "\n".join(failures)
    assert outages >= form.short_or_full(1, 100)
