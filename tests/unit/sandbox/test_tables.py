"""The tables of the sandbox agree with each other and with docker."""

import json
from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.sandbox import mounts, namespaces, seccomp, sysctls
from engine.sandbox.spec import Mount

CONTAINER = {"mount", "pid", "uts", "ipc", "net", "cgroup"}


def test_every_namespace_flag_is_one_bit_of_its_own() -> None:
    bits = [row.flag for row in namespaces.NAMESPACES.values()]
    assert all(bit.bit_count() == 1 for bit in bits) and len(set(bits)) == len(bits)
    assert set(namespaces.NAMESPACES) == {*CONTAINER, "user"}
    assert all(Path("/proc/self/ns", row.link).exists() for row in namespaces.NAMESPACES.values())


def test_namespace_flags_are_added_up_and_unknown_ones_refused() -> None:
    assert namespaces.flags(("uts", "ipc"), without=frozenset({"ipc"})) == 0x04000000
    with pytest.raises(Invalid):
        namespaces.flags(("time-travel",))


def test_every_default_mount_uses_known_flags() -> None:
    for mount in mounts.DEFAULT_MOUNTS:
        assert set(mount.flags) <= set(mounts.FLAGS)
    assert mounts.DEFAULT_MOUNTS[-1].kind == "cgroup"


def test_shared_memory_has_the_size_asked_for_or_64_mib() -> None:
    sizes = [next(m.data for m in mounts.default_mounts(size) if m.target == "/dev/shm") for size in (0, 4096)]
    assert sizes == ["mode=1777,size=67108864", "mode=1777,size=4096"]


def test_an_unknown_mount_flag_or_propagation_is_refused_before_anything_is_touched() -> None:
    for wrong in (Mount("tmpfs", "x", "/x", ("sideways",)), Mount("bind", "/", "/x", (), "", "upwards")):
        with pytest.raises(Invalid, match="unknown mount option for /x"):
            mounts.add(-1, wrong)


def test_the_profile_is_the_one_that_was_given() -> None:
    profile = json.loads((Path(seccomp.__file__).parent / "seccomp_default.json").read_bytes())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO" and len(profile["syscalls"]) > 30


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
        ("kernel.sem", "kernel/sem"),
        ("fs.mqueue.msg_max", "fs/mqueue/msg_max"),
    ],
)
def test_a_sysctl_of_the_containers_own_namespaces_is_allowed(name: str, path: str) -> None:
    assert sysctls.check(name, CONTAINER) == path
    assert sysctls.check(path, CONTAINER) == path


@pytest.mark.parametrize("name", ["kernel.bogus", "vm.swappiness", "net/../kernel/core_pattern", "kernel.core_pattern"])
def test_a_sysctl_of_the_whole_host_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="is not in a separate kernel namespace"):
        sysctls.check(name, CONTAINER)


def test_a_sysctl_needs_its_namespace() -> None:
    for name in ("net.ipv4.ip_forward", "kernel.sem"):
        with pytest.raises(Invalid):
            sysctls.check(name, {"mount", "pid"})
