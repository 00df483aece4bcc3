"""A host with cgroups of version 1: a container is in every hierarchy, also in those without a controller of the
engine's, and sees them below /sys/fs/cgroup."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import contexts, execs, rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.harness.listening import until

pytestmark = [
    pytest.mark.skipif(rootfs.program() is None, reason="needs busybox: apt-get install busybox-static"),
    pytest.mark.skipif(not os.path.exists("/sys/fs/cgroup/memory/tasks"), reason="needs cgroups of version 1"),
]
ROOT = "/sys/fs/cgroup"
NOTHING = {"NetworkMode": "none"}
# Hierarchies of the tests' own, which no other daemon sees: the second's name is not that of its directory.
NAMED, RENAMED, LATER = (f"engine-test-{secrets.token_hex(4)}{suffix}" for suffix in ("", "b", "c"))


def mounting(directory: str, kind: str, options: str) -> str:
    """The command that mounts a hierarchy."""
    return f"mkdir {ROOT}/{directory} && mount -t {kind} -o {options} {kind} {ROOT}/{directory}"


def hierarchies() -> Iterator[str]:
    """The commands that mount what this host has, and two more."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, (kind, _, options) = line.split()[4], line.split()[-3:]
        if kind.startswith("cgroup") and place.startswith(f"{ROOT}/"):
            wanted = [option for option in options.split(",") if option not in ("rw", "ro", "xattr")]
            plain = [option for option in wanted if not option.startswith("release_agent=")]
            yield mounting(place.removeprefix(f"{ROOT}/"), kind, ",".join(plain) or "rw")
    if not os.path.exists(f"{ROOT}/unified"):
        yield mounting("unified", "cgroup2", "rw")
    if not os.path.exists(f"{ROOT}/systemd"):
        yield mounting("systemd", "cgroup", "none,name=systemd")
    yield mounting(NAMED, "cgroup", f"none,name={NAMED}")
    yield mounting("renamed", "cgroup", f"none,name={RENAMED}")


@pytest.fixture(scope="module", params=["auto", "python"])
def hybrid(world: World, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon on such a host, with either muxer."""
    machine = world.machine()
    script = " && ".join((f"umount -R {ROOT}", f"mount -t tmpfs -o mode=755 tmpfs {ROOT}", *hierarchies()))
    subprocess.run(machine.command(["sh", "-c", script]), check=True)
    try:
        with running(world.daemon(("--muxer", request.param), machine)) as daemon:
            daemon.import_busybox()
            yield daemon
    finally:
        subprocess.run(machine.command(["umount", "-R", ROOT]), check=True)


def cgroups_of(listing: str) -> dict[str, str]:
    """Hierarchy → cgroup, of the text of a /proc/PID/cgroup."""
    rows = [line.split(":", 2) for line in listing.splitlines()]
    return {name: path for _, name, path in rows}


def mounted(daemon: Daemon) -> set[str]:
    """The hierarchies that the daemon's host has mounted, by their names in /proc/PID/cgroup."""
    names = set(on_host(daemon, "find", ROOT, "-mindepth", "1", "-maxdepth", "1", "-type", "d").split())
    names = {os.path.basename(name) for name in names} - {"renamed"}
    own = {f"name={name}" if name.startswith(("engine-test", "systemd")) else name for name in names - {"unified"}}
    return own | {"", f"name={RENAMED}"}


def placed(daemon: Daemon, container: str, parent: str = "/engine") -> None:
    """Check that process 1 is in a cgroup of the container's own in each hierarchy."""
    found = cgroups_of(Path(f"/proc/{daemon.inspect(container)['State']['Pid']}/cgroup").read_text())
    ours = {name: found[name] for name in mounted(daemon)}
    assert ours == dict.fromkeys(ours, f"{parent}/{container}")


def on_host(daemon: Daemon, *argv: str) -> str:
    """What a command on the daemon's host prints."""
    return subprocess.run(daemon.namespaces.command(argv), check=True, capture_output=True, text=True).stdout


def searched(daemon: Daemon, name: str) -> str:
    """The cgroups of this name. Those of others come and go meanwhile, which find(1) does not like."""
    return on_host(daemon, "sh", "-c", f"find {ROOT} -name {name} 2> /dev/null || true")


def begun(daemon: Daemon, script: str = "sleep 600", **host_config: object) -> str:
    """A container that runs a script."""
    container = daemon.create("sh", "-c", script, HostConfig={**NOTHING, **host_config})
    daemon.begin(container)
    return container


@pytest.mark.parametrize("mode", ["private", "host"])
def test_a_container_is_in_every_hierarchy(hybrid: Daemon, mode: str) -> None:
    container = begun(hybrid, CgroupnsMode=mode)
    placed(hybrid, container)
    own = "/" if mode == "private" else f"/engine/{container}"
    for listing in (inside(hybrid, container, 1), inside(hybrid, container, "self")):
        assert {name: listing[name] for name in mounted(hybrid)} == dict.fromkeys(mounted(hybrid), own)
    shown = execs.shell(hybrid, container, f"cd {ROOT}; for i in */; do echo $i $(wc -l < $i/cgroup.procs); done")
    lines = dict(line.split("/ ") for line in shown.splitlines())
    assert lines.keys() >= {"unified", "systemd", NAMED, "renamed", "memory", "pids"}
    assert all(int(count) >= 2 for count in lines.values()), lines  # process 1, and this command
    hybrid.remove(container)


def inside(daemon: Daemon, container: str, process: int | str) -> dict[str, str]:
    """The cgroups of a process, as a command in the container sees them."""
    return cgroups_of(execs.shell(daemon, container, f"cat /proc/{process}/cgroup"))


def test_two_privileged_ones_share_nothing_and_leave_nothing(hybrid: Daemon) -> None:
    own = f"cd {ROOT}; for i in */; do [ -L ${{i%/}} ] || mkdir $i/mine || exit 1; done; "
    own += "echo 1 > systemd/mine/cgroup.procs && echo made && sleep 600"
    pair = [begun(hybrid, own, Privileged=True) for _ in range(2)]
    for container in pair:
        until(lambda one=container: hybrid.logs(one))
        assert b"made" in hybrid.logs(container), hybrid.logs(container)
        listing = cgroups_of(Path(f"/proc/{hybrid.inspect(container)['State']['Pid']}/cgroup").read_text())
        assert listing["name=systemd"] == f"/engine/{container}/mine"
    for container in pair:
        hybrid.remove(container)
    assert not any(searched(hybrid, container) for container in pair)


def test_what_systemd_does_in_a_container_keeps_its_limits(hybrid: Daemon) -> None:
    """It makes `init.scope` below its own cgroup of name=systemd, there and in the hierarchies with controllers."""
    script = (
        "own=$(sed -n 's/^.*:name=systemd://p' /proc/self/cgroup); cd /sys/fs/cgroup; "
        "for i in systemd memory pids; do mkdir -p $i$own/init.scope; echo 1 > $i$own/init.scope/cgroup.procs; done; "
        "echo done; sleep 600"
    )
    container = begun(
        hybrid,
        script,
        Memory=96 << 20,
        PidsLimit=200,
        CgroupnsMode="host",
        CapAdd=["SYS_ADMIN"],
        Binds=[f"{ROOT}:{ROOT}:rw"],
    )
    until(lambda: b"done" in hybrid.logs(container))
    listing = cgroups_of(Path(f"/proc/{hybrid.inspect(container)['State']['Pid']}/cgroup").read_text())
    places = {name: listing[name] for name in ("name=systemd", "memory", "pids")}
    assert places == dict.fromkeys(places, f"/engine/{container}/init.scope")
    limit = on_host(hybrid, "cat", f"{ROOT}/memory/engine/{container}/memory.limit_in_bytes")
    assert int(limit) == 96 << 20
    assert inside(hybrid, container, "self")["name=systemd"].startswith(f"/engine/{container}")
    hybrid.remove(container)


def test_a_parent_and_the_step_of_a_build(hybrid: Daemon) -> None:
    parent = f"/engine-test-parent-{secrets.token_hex(4)}"
    container = begun(hybrid, CgroupParent=parent)
    placed(hybrid, container, parent)
    hybrid.remove(container)
    on_host(hybrid, "sh", "-c", f"rmdir {ROOT}/*{parent}")  # a parent that a client names stays
    words = f"FROM busybox\nRUN ls -d {ROOT}/*/ && wc -l {ROOT}/*/cgroup.procs && cat /proc/self/cgroup\n"
    built = contexts.build(hybrid, words, cgroupparent=parent, nocache=True, networkmode="none")
    assert built.id and f"{ROOT}/{NAMED}/" in built.said and f"{ROOT}/unified/" in built.said, built
    seen = cgroups_of("\n".join(line for line in built.said.splitlines() if line.count(":") >= 2))
    assert len({seen[name] for name in mounted(hybrid)}) == 1, seen
    assert not searched(hybrid, parent[1:])


def test_a_hierarchy_that_is_mounted_later(hybrid: Daemon) -> None:
    before = begun(hybrid)
    place = f"{ROOT}/{LATER}"
    on_host(hybrid, "sh", "-c", mounting(LATER, "cgroup", f"none,name={LATER}"))
    try:
        assert execs.shell(hybrid, before, "echo in") == "in"
        container = begun(hybrid)
        placed(hybrid, container)
        assert LATER in execs.shell(hybrid, container, f"ls {ROOT}").split()
        hybrid.kill9()
        hybrid.start()
        assert execs.shell(hybrid, container, "echo in") == "in"
        hybrid.remove(container)
    finally:
        hybrid.remove(before)
        on_host(hybrid, "sh", "-c", f"rmdir {place}/engine 2> /dev/null; umount {place} && rmdir {place}")
    after = begun(hybrid)
    placed(hybrid, after)
    hybrid.remove(after)
