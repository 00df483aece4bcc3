"""A full disk: whatever frees space works, at once and after a restart, and what does not fit says so."""

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from tests.chaos import disks
from tests.chaos.disks import MEGABYTE, Disk
from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World

pytestmark = pytest.mark.root

SIZE = 40 * MEGABYTE
# Takes every block that becomes free, for as long as it lives.
HUNGRY = "while :; do cat /dev/zero >> /v/hog 2> /dev/null; sleep 0.02; done"


@contextlib.contextmanager
def cramped(world: World, kind: str, root: str = "data") -> Iterator[tuple[Daemon, Disk]]:
    """A daemon whose data root, or exec root, is a small disk; with busybox."""
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    if kind == "ext4" and disks.unable():
        pytest.skip(disks.unable())
    daemon = world.daemon()
    place = {"data": daemon.data_root, "exec": daemon.exec_root}[root]
    with Disk(world.namespaces, place, SIZE, kind) as disk:
        daemon.start()
        try:
            daemon.import_busybox()
            yield daemon, disk
        finally:
            disk.free()
            daemon.close()


@pytest.fixture(params=["tmpfs", "ext4"])
def small(world: World, request: pytest.FixtureRequest) -> Iterator[tuple[Daemon, Disk]]:
    """A daemon on a small disk, of each kind."""
    with cramped(world, request.param) as both:
        yield both


def until(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Wait for something that other processes do."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def ask(daemon: Daemon, method: str, path: str, body: object = None, wanted: tuple[int, ...] = (200, 201, 204)) -> dict:
    """One call that has to work."""
    answer = daemon.request(method, path, body)
    assert answer.status in wanted, (method, path, answer.status, answer.body)
    return answer.json() if answer.body else {}


def furnish(daemon: Daemon) -> dict[str, str]:
    """Things to be removed later, and a container that takes all the room there is; their ids by their names."""
    ask(daemon, "POST", "/images/busybox/tag?repo=other&tag=one")
    daemon.import_image(rootfs.busybox(), "second:latest", ["ENV second=1"])
    for number in range(4):
        ask(daemon, "POST", "/volumes/create", {"Name": f"v{number}"})
        ask(daemon, "POST", "/networks/create", {"Name": f"n{number}"})
    made = {}
    for number in range(4):
        host = {"NetworkMode": f"n{number}", "Binds": [f"kept{number}:/v"]}
        made[f"c{number}"] = daemon.create(
            "sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done", name=f"c{number}", HostConfig=host
        )
        daemon.begin(f"c{number}")
        until(lambda number=number: b"up" in daemon.logs(f"c{number}"), "the container's trap")
    made["hungry"] = daemon.create(
        "sh", "-c", HUNGRY, name="hungry", HostConfig={"NetworkMode": "bridge", "Binds": ["hog:/v"]}
    )
    daemon.begin("hungry")
    return made


def free_some(daemon: Daemon, number: int) -> None:
    """Each verb that takes something away, once; and an end, whose exit code is not lost."""
    name = f"c{number}"
    ask(daemon, "DELETE", f"/volumes/v{number}")
    assert daemon.request("GET", f"/volumes/v{number}").status == 404
    ask(daemon, "POST", f"/containers/{name}/stop?t=10")
    assert daemon.inspect(name)["State"]["ExitCode"] == 7
    ask(daemon, "POST", f"/networks/n{number}/disconnect", {"Container": name})
    ask(daemon, "DELETE", f"/containers/{name}?v=1")
    ask(daemon, "DELETE", f"/networks/n{number}")
    ask(daemon, "DELETE", f"/volumes/kept{number}")
    for path in (f"/containers/{name}/json", f"/networks/n{number}", f"/volumes/kept{number}"):
        assert daemon.request("GET", path).status == 404


def test_all_that_frees_works_beside_a_container_that_fills_the_disk(small: tuple[Daemon, Disk]) -> None:
    """At once, after a restart and after a crash; then the one that fills it goes at the first attempt."""
    daemon, disk = small
    made = furnish(daemon)
    until(lambda: disk.room == 0, "the container has filled the disk")
    free_some(daemon, 0)
    ask(daemon, "DELETE", "/images/other:one")
    daemon.restart()
    free_some(daemon, 1)
    daemon.kill9()
    daemon.start()
    free_some(daemon, 2)
    ask(daemon, "DELETE", "/images/second:latest")
    ask(daemon, "POST", "/build/prune?all=1")
    ask(daemon, "POST", "/containers/prune")
    ask(daemon, "POST", "/images/prune")
    ask(daemon, "POST", "/networks/prune")
    until(lambda: disk.room == 0, "it has taken what was set free")
    ask(daemon, "DELETE", "/containers/hungry?force=1")
    assert daemon.request("GET", f"/containers/{made['hungry']}/json").status == 404
    ask(daemon, "DELETE", "/volumes/hog")
    until(lambda: disk.room > 8 * MEGABYTE, "what it had is free")
    free_some(daemon, 3)
    assert daemon.shell("echo again") == "again"
    daemon.restart()
    assert [each["Names"] for each in ask(daemon, "GET", "/containers/json?all=1")] == []
