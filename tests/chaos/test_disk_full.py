"""A full disk: whatever frees space works, at once and after a restart, and what does not fit says so.

The full form leaves a few blocks more before each step, again and again, until the step finds room.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.api import building
from tests.chaos import disks, form
from tests.chaos.disks import MEGABYTE, Disk
from tests.harness import contexts, rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World
from tests.harness.http import Answer

pytestmark = [pytest.mark.seldom, pytest.mark.root, pytest.mark.timeout(form.short_or_full(120, 3600))]

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
    machine = world.machine()  # its bridge is not to be in the way of the other tests'
    daemon = world.daemon(machine=machine)
    place = {"data": daemon.data_root, "exec": daemon.exec_root}[root]
    with Disk(machine, place, SIZE, kind) as disk:
        daemon.start()
        try:
            daemon.import_busybox()
            yield daemon, disk
        finally:
            disk.free()
            daemon.close()


@pytest.fixture(params=["ext4", "tmpfs"] if form.FULL else ["ext4"])
def small(world: World, request: pytest.FixtureRequest) -> Iterator[tuple[Daemon, Disk]]:
    """A daemon on a small disk, of each kind."""
    with cramped(world, request.param) as both:
        yield both


def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
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
        made[f"box{number}"] = daemon.create(
            "sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done", name=f"box{number}", HostConfig=host
        )
        daemon.begin(f"box{number}")
        until(lambda number=number: b"up" in daemon.logs(f"box{number}"), "the container's trap")
    made["hungry"] = daemon.create(
        "sh", "-c", HUNGRY, name="hungry", HostConfig={"NetworkMode": "bridge", "Binds": ["hog:/v"]}
    )
    daemon.begin("hungry")
    return made


def free_some(daemon: Daemon, number: int) -> None:
    """Each verb that takes something away, once; and an end, whose exit code is not lost."""
    name = f"box{number}"  # no name that could begin an id
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


def test_no_exit_code_is_lost_to_a_disk_that_cannot_be_written_any_more(world: World) -> None:
    """Nor to the starts that fail on it, by a client and by the restart policy."""
    with cramped(world, "ext4") as (daemon, disk):
        names = {"one": {}, "two": {"RestartPolicy": {"Name": "always"}}, "three": {}}
        for name, host in names.items():
            daemon.create("sh", "-c", TRAP, name=name, HostConfig=host)
            daemon.begin(name)
            until(lambda name=name: b"up" in daemon.logs(name), "the container's trap")
        disk.abort()
        for name in names:
            os.kill(daemon.inspect(name)["State"]["Pid"], signal.SIGTERM)
        for name in ("one", "three"):
            until(lambda name=name: not daemon.inspect(name)["State"]["Running"], "the container's end")
            assert daemon.inspect(name)["State"]["ExitCode"] == 7
        until(lambda: daemon.inspect("two")["State"]["Status"] == "exited", "the policy has given up")
        for path in ("one/start", "one/restart?t=0", "three/rename?name=four", "two/start"):
            answer = daemon.request("POST", f"/containers/{path}")
            assert answer.status == 500, answer
        daemon.kill9()
        disk.again()
        daemon.start()
        for name in ("one", "three"):
            assert daemon.inspect(name)["State"]["ExitCode"] == 7, name
        daemon.begin("one")


# Full before each step

ROOMS = range(0, 33, 2) if form.FULL else (0,)  # what is left before a step, in blocks of 4 KiB
NO_ROOM = ("no space", "not enough space", "quota")
TRAP = "trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done"
DOCKERFILE = "FROM busybox\nRUN echo built > /it\n"


class Steps:
    """A script of verbs on one daemon; each finds a disk that is full. A verb is done by the time its step is over."""

    def __init__(self, daemon: Daemon, disk: Disk) -> None:
        self.daemon = daemon
        self.disk = disk

    def adds(self, method: str, path: str, body: object = None, *, shown: str = "") -> None:
        """A verb that may find no room, says so then, and leaves nothing half made: with room it works at once.

        shown: what is there once it is done, and is not before
        """
        for blocks in ROOMS:
            for _ in range(2):  # what the first attempt has left is not in the way of the second
                self.disk.fill(leave=blocks * 4096)
                answer = self.ask(method, path, body)
                if self.failed(answer) is None:
                    self.disk.free()
                    return
                if shown:
                    assert self.daemon.request("GET", shown).status == 404, (path, shown)
                self.disk.free()
        answer = self.ask(method, path, body)
        assert self.failed(answer) is None, (method, path, answer.status, answer.body)
        if shown:
            assert self.daemon.request("GET", shown).status == 200, (path, shown)

    def frees(self, method: str, path: str, body: object = None, *, gone: str = "") -> None:
        """A verb that works without any room. gone: what is there before, and not any more."""
        if gone:
            assert self.daemon.request("GET", gone).status == 200, gone
        self.disk.fill()
        answer = self.ask(method, path, body)
        assert self.failed(answer) is None, (method, path, answer.status, answer.body)
        if gone:
            assert self.daemon.request("GET", gone).status == 404, gone
        self.disk.free()

    def ask(self, method: str, path: str, body: object) -> Answer:
        """One call. It is answered, and so is the next one."""
        headers = {"Content-Type": "application/x-tar"} if isinstance(body, bytes) else {}
        answer = self.daemon.request(method, path, body, headers, timeout=30, checked=False)
        assert self.daemon.request("GET", "/_ping").status == 200
        return answer

    @staticmethod
    def failed(answer: Answer) -> str | None:
        """Why a verb failed, which is for want of room; None when it did not."""
        said = answer.body.decode(errors="replace")
        if answer.status < 300 and '"error"' not in said:
            return None
        assert any(words in said.lower() for words in NO_ROOM), (answer.status, said)
        return said


def script(steps: Steps) -> None:
    """Everything that adds, everything that ends, and everything that frees."""
    host = {"NetworkMode": "net", "Binds": ["data:/v"]}
    body = {"Image": "busybox", "Cmd": ["sh", "-c", TRAP], "HostConfig": host, "Volumes": {"/anonymous": {}}}
    steps.adds("POST", "/volumes/create", {"Name": "data"}, shown="/volumes/data")
    steps.adds("POST", "/networks/create", {"Name": "net"}, shown="/networks/net")
    steps.adds("POST", "/networks/create", {"Name": "more"}, shown="/networks/more")
    steps.adds("POST", "/images/busybox/tag?repo=kept&tag=1", shown="/images/kept:1/json")
    steps.adds("POST", "/containers/create?name=one", body, shown="/containers/one/json")
    steps.adds("POST", "/containers/one/start")
    state(steps, "one", Running=True)
    steps.adds("POST", "/networks/more/connect", {"Container": "one"})
    steps.adds("POST", "/containers/one/restart?t=10")
    state(steps, "one", Running=True)
    steps.adds("POST", "/containers/one/exec", {"Cmd": ["true"]})
    steps.adds("PUT", "/containers/one/archive?path=/", contexts.archive(contexts.Member("copied", bytes(1 << 16))))
    steps.adds("POST", "/commit?container=one&repo=snap&tag=1", shown="/images/snap:1/json")
    steps.adds("POST", "/containers/one/update", {"RestartPolicy": {"Name": "no"}})
    steps.adds("POST", "/containers/one/rename?name=two", shown="/containers/two/json")
    steps.adds(
        "POST", "/build?t=built:1&forcerm=1", building.context({"Dockerfile": DOCKERFILE}), shown="/images/built:1/json"
    )
    steps.frees("POST", "/networks/more/disconnect", {"Container": "two"})
    steps.frees("POST", "/containers/two/pause")
    steps.frees("POST", "/containers/two/unpause")
    steps.frees("POST", "/containers/two/stop?t=10")
    state(steps, "two", Running=False, ExitCode=7)
    steps.adds("POST", "/containers/two/start")
    until(lambda: catches(steps.daemon, "two", signal.SIGTERM), "the container's trap")
    steps.frees("POST", "/containers/two/kill?signal=TERM")
    assert steps.daemon.wait("two") == 7
    steps.disk.fill()
    steps.daemon.restart()
    state(steps, "two", Running=False, ExitCode=7)
    steps.frees("DELETE", "/containers/two?v=1", gone="/containers/two/json")
    steps.frees("DELETE", "/networks/more", gone="/networks/more")
    steps.frees("POST", "/networks/prune")
    steps.frees("DELETE", "/volumes/data", gone="/volumes/data")
    steps.frees("POST", "/build/prune?all=1")
    steps.frees("DELETE", "/images/kept:1", gone="/images/kept:1/json")
    steps.frees("DELETE", "/images/snap:1", gone="/images/snap:1/json")
    steps.frees("DELETE", "/images/built:1", gone="/images/built:1/json")
    steps.frees("POST", "/volumes/prune")
    steps.frees("POST", "/images/prune")


def catches(daemon: Daemon, name: str, number: int) -> bool:
    """Whether a container's process 1 has a handler for the signal: without one it never gets it."""
    with open(f"/proc/{daemon.inspect(name)['State']['Pid']}/status") as lines:
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return bool(caught >> (number - 1) & 1)


def state(steps: Steps, name: str, **wanted: object) -> None:
    """What is known of a container."""
    found = steps.daemon.inspect(name)["State"]
    assert {key: found[key] for key in wanted} == wanted, found


@pytest.mark.parametrize(("root", "kind"), [("data", "ext4"), ("data", "tmpfs"), ("exec", "tmpfs")])
def test_a_disk_that_is_full_before_each_step(world: World, root: str, kind: str) -> None:
    """What adds works or says that there is no room; what frees works; then all works, and nothing is left."""
    with cramped(world, kind, root) as (daemon, disk):
        script(Steps(daemon, disk))
        assert daemon.shell("echo again", HostConfig={"NetworkMode": "bridge"}) == "again"
        assert ask(daemon, "GET", "/containers/json?all=1") == []
        assert not ask(daemon, "GET", "/volumes")["Volumes"]
        assert [name for each in ask(daemon, "GET", "/images/json") for name in each["RepoTags"]] == ["busybox:latest"]
        for room, left in (("containers", []), ("volumes", [".removed"]), ("buildmounts", [])):
            until(lambda room=room, left=left: os.listdir(daemon_path(daemon, disk, room)) == left, f"{room} is empty")


def daemon_path(daemon: Daemon, disk: Disk, *parts: str) -> str:
    """A path of the data root, for this process."""
    return str(disk.path(*parts) if disk.place == daemon.data_root else daemon.data_root.joinpath(*parts))
