"""The order and the flags of what is mounted, and where a bind's source is mounted itself."""

import pytest

from engine.daemon.containers.mounts import preparing, requests
from engine.daemon.store import containers as table
from engine.daemon.store.database import Database
from engine.errors import SystemFailure
from engine.sandbox.spec import Mount
from tests.harness import parts

USUAL = tuple(
    Mount(kind, kind, target)
    for kind, target in (("proc", "/proc"), ("tmpfs", "/dev"), ("tmpfs", "/dev/shm"), ("sysfs", "/sys"))
)
ETC = (Mount("bind", "/home/hosts", "/etc/hosts"), Mount("bind", "/home/hostname", "/etc/hostname"))
MOUNTINFO = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:5 / /mnt rw - tmpfs tmpfs rw
31 30 0:6 / /mnt/a\\040b rw master:7 - tmpfs tmpfs rw
32 30 0:7 / /mnt/top rw shared:8 master:9 - tmpfs tmpfs rw
33 30 0:8 / /mnt/top rw - tmpfs tmpfs rw
"""


def container(binds=(), tmpfs=None, readonly=False):
    """A container that asks for this."""
    return parts.container(
        mounts=tuple(requests.parse_bind(bind) for bind in binds),
        host_config={"Tmpfs": tmpfs, "ReadonlyRootfs": readonly},
    )


def arranged(**asked):
    """Target and flags of each mount."""
    found = preparing.arrange(parts.Parts(settings=parts.settings()), container(**asked), USUAL, ETC)
    return [(mount.target, mount.flags) for mount in found]


def test_an_ordinary_container_has_the_usual_mounts_and_nothing_is_looked_at():
    assert preparing.arrange(parts.Parts(), container(), USUAL, ETC) == (*USUAL, *ETC)


def test_what_is_asked_for_comes_after_the_usual_by_its_depth():
    targets = [target for target, _ in arranged(binds=["/:/a/b/c", "/:/z"], tmpfs={"/t": ""})]
    assert targets == ["/proc", "/dev", "/dev/shm", "/sys", "/t", "/z", "/etc/hosts", "/etc/hostname", "/a/b/c"]


def test_what_is_asked_for_takes_the_place_of_the_engines():
    targets = [target for target, _ in arranged(binds=["/etc/hosts:/etc/hosts", "/:/dev/shm"])]
    assert sorted(targets) == ["/dev", "/dev/shm", "/etc/hostname", "/etc/hosts", "/proc", "/sys"]
    assert [target for target, _ in arranged(binds=["/:/dev"])].count("/dev/shm") == 0


def test_a_tmpfs_hides_a_bind_at_the_same_place():
    mounts = preparing.arrange(parts.Parts(settings=parts.settings()), container(["/:/x"], {"/x": ""}), USUAL, ETC)
    assert [mount.kind for mount in mounts if mount.target == "/x"] == ["tmpfs"]


def test_with_a_read_only_root_what_nobody_asked_for_is_read_only_too():
    found = dict(arranged(binds=["/:/x"], readonly=True))
    assert {target for target, flags in found.items() if "ro" in flags} == {"/sys", "/etc/hosts", "/etc/hostname"}
    assert preparing.arrange(parts.Parts(settings=parts.settings()), container(readonly=True), USUAL, ETC)[
        -1
    ].flags == ("ro",)


@pytest.mark.parametrize(
    ("spec", "writable", "flags"),
    [
        ({}, True, ("rbind",)),
        ({"NonRecursive": True}, True, ("bind",)),
        ({}, False, ("rbind", "rro")),
        ({"ReadOnlyForceRecursive": True}, False, ("rbind", "rro")),
        ({"ReadOnlyNonRecursive": True}, False, ("rbind", "ro")),
    ],
)
def test_the_flags_of_a_bind(monkeypatch, spec, writable, flags):
    monkeypatch.setattr(preparing, "_has_mount_attributes", lambda: True)
    assert preparing._bind_flags({"RW": writable, "Spec": spec}) == flags


def test_an_old_kernel_makes_what_is_asked_for_read_only_as_far_as_it_can(monkeypatch):
    monkeypatch.setattr(preparing, "_has_mount_attributes", lambda: False)
    assert preparing._bind_flags({"RW": False, "Spec": {}}) == ("rbind", "ro")
    with pytest.raises(SystemFailure, match="mount_setattr"):
        preparing._bind_flags({"RW": False, "Spec": {"ReadOnlyForceRecursive": True}})


def test_read_only_cannot_be_both_ways():
    with pytest.raises(SystemFailure, match=r"^mount options conflict"):
        preparing._bind_flags({"RW": False, "Spec": {"ReadOnlyForceRecursive": True, "ReadOnlyNonRecursive": True}})


@pytest.mark.parametrize(
    ("path", "place", "options"),
    [
        ("/home", "/", ["shared:1"]),
        ("/", "/", ["shared:1"]),
        ("/mnt/x", "/mnt", []),
        ("/mntx", "/", ["shared:1"]),
        ("/mnt/a b/c", "/mnt/a b", ["master:7"]),
        ("/mnt/top", "/mnt/top", []),
    ],
)
def test_the_mount_of_a_source_is_the_nearest_and_the_topmost(path, place, options):
    assert preparing.source_mount(path, MOUNTINFO) == (place, options)


def test_a_container_of_an_engine_without_mounts_still_loads(tmp_path):
    database = Database(f"{tmp_path}/db", table.SCHEMA)
    old = '{"config":{},"host_config":{},"networking":{},"path":"sh","args":[],"layers":["1"]}'
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO containers (id, name, created_ns, image, image_id, settings) VALUES ('i', 'n', 1, '', '', ?)",
            (old,),
        )
        table.save_state(connection, parts.container(id="i"))
    with database.reading() as connection:
        (loaded,) = table.load_all(connection)
    database.close()
    assert (loaded.mounts, loaded.layers) == ((), ("1",))
