"""A sandbox comes out of its packet as it went in, whatever its fields hold."""

import marshal

import pytest

from engine import dataclass
from engine.errors import Invalid
from engine.sandbox.spec import Device, Mount, Rlimit, Root, Sandbox
from engine.wire.packed import pack, unpack

SANDBOX = Sandbox(
    id="a" * 64,
    root=Root("/base", ("1", "2"), "/upper", "/work"),
    namespaces=("mount", "pid"),
    argv=("echo", "hü\udce4"),
    env=("A=b",),
    mounts=(Mount("bind", "/a", "/b", ("ro", "nosuid")),),
    devices=(Device("/dev/null", "c", 1, 3),),
    rlimits=(Rlimit("nofile", 1, 2),),
    sysctls=(("net.ipv4.ip_forward", "1"),),
    seccomp=bytes(range(256)),
)


def test_a_sandbox_comes_back_as_it_went():
    assert unpack(pack(SANDBOX)) == SANDBOX


def test_every_kind_of_part_comes_back_as_its_own_class():
    parts = {field.name for field in dataclass.fields(Sandbox) if "spec" in str(type(getattr(SANDBOX, field.name)))}
    assert parts == {"root"}
    came = unpack(pack(SANDBOX))
    kinds = {type(each) for name in ("mounts", "devices", "rlimits") for each in getattr(came, name)}
    assert kinds == {Mount, Device, Rlimit}
    assert type(came.root) is Root


def test_what_another_version_has_packed_is_refused():
    """By position, a field more or less would be taken for its neighbour."""
    *values, form = marshal.loads(pack(SANDBOX))
    with pytest.raises(Invalid, match="another version"):
        unpack(marshal.dumps([*values, form[::-1]]))
