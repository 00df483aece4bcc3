"""Links as the kernel is asked for them: also the kinds that the tests' kernel has not."""

import struct

import pytest

from engine.kernel.netlink import links, message

LINK = struct.Struct("=BxHiII")
NAMES = {1: "address", 3: "name", 4: "mtu", 5: "parent", 10: "master", 28: "namespace", 31: "tx", 32: "rx"}
MAC = "02:42:0a:09:00:02"


def opened(request: message.Request) -> tuple[int, int, tuple[int, int], dict[str, object], str, dict[int, bytes]]:
    """(kind, flags, (flags of the link, mask), attributes by name, kind of link, its data)."""
    kind, flags, payload = request
    _, _, _, up, mask = LINK.unpack_from(payload, 0)
    found = message.attributes(payload, LINK.size)
    info = message.attributes(found.pop(18, b""))
    named = {NAMES[key]: value for key, value in found.items() if key in NAMES}
    text = info.get(1, b"\0")[:-1].decode()
    return kind, flags, (up, mask), named, text, message.attributes(info.get(2, b""))


def test_a_bridge_has_its_mac_from_the_beginning() -> None:
    made, marked = links.bridge("engine0", MAC, 1500, "engine:1")
    assert opened(marked)[:3] == (16, 0, (0, 0)) and message.attributes(marked[2], LINK.size)[20] == b"engine:1\0"
    assert links.bridge("engine0", MAC, 1500) == [made]
    kind, flags, up, named, text, data = opened(made)
    assert (kind, flags, up, text, data) == (16, 0x600, (0, 0), "bridge", {})
    assert named == {
        "name": b"engine0\0",
        "address": bytes.fromhex("02420a090002"),
        "mtu": struct.pack("=I", 1500),
    }


def test_a_pair_is_made_in_both_namespaces_at_once_and_comes_up_without_ipv6() -> None:
    """The far end in the container's network, the near one a port; up only when the kernel gives it no address."""
    made, silent, up = links.veth("veth1234567", 7, 1400, "eth0", MAC, 33)
    _, flags, state, named, text, data = opened(made)
    assert (flags, state, text) == (0x600, (0, 0), "veth")
    assert named["name"] == b"veth1234567\0" and named["master"] == struct.pack("=I", 7)
    there = message.attributes(data[1], LINK.size)
    assert there[3] == b"eth0\0" and there[28] == struct.pack("=I", 33)
    assert there[1] == bytes.fromhex("02420a090002") and there[4] == named["mtu"] == struct.pack("=I", 1400)
    families = message.attributes(message.attributes(silent[2], LINK.size)[26])
    assert message.attributes(families[10]) == {8: b"\1"}
    assert opened(silent)[:3] == (16, 0, (0, 0)) and opened(up)[:3] == (16, 0, (1, 1))
    assert opened(silent)[3]["name"] == opened(up)[3]["name"] == b"veth1234567\0"
    assert links.veth("veth1234567", 7, 1400, "eth0", MAC, 33, ipv6=False) == [made, up]


@pytest.mark.parametrize(("mode", "number"), [("private", 1), ("vepa", 2), ("bridge", 4), ("passthru", 8)])
def test_a_macvlan_hangs_on_its_parent(mode: str, number: int) -> None:
    _, flags, _, named, text, data = opened(links.macvlan("eth0", 5, mode, MAC, 0, 33))
    assert (flags, text, data) == (0x600, "macvlan", {1: struct.pack("=I", number)})
    assert named["parent"] == struct.pack("=I", 5) and named["namespace"] == struct.pack("=I", 33)
    assert "mtu" not in named


@pytest.mark.parametrize(("mode", "number"), [("l2", 0), ("l3", 1), ("l3s", 2)])
@pytest.mark.parametrize(("flag", "bits"), [("bridge", 0), ("private", 1), ("vepa", 2)])
def test_an_ipvlan_has_its_parents_mac(mode: str, number: int, flag: str, bits: int) -> None:
    _, _, _, named, text, data = opened(links.ipvlan("eth0", 5, mode, flag, 1500, 33))
    assert (text, data) == ("ipvlan", {1: struct.pack("=H", number), 2: struct.pack("=H", bits)})
    assert "address" not in named and named["parent"] == struct.pack("=I", 5)


def test_a_vlan_and_a_dummy_come_up_at_once() -> None:
    _, _, up, named, text, data = opened(links.vlan("eth0.50", 5, 50)[0])
    assert (up, text, data) == ((1, 1), "vlan", {1: struct.pack("=H", 50)})
    assert named == {"name": b"eth0.50\0", "parent": struct.pack("=I", 5)}
    assert len(links.vlan("eth0.50", 5, 50, "engine:1")) == len(links.dummy("dm-0123456789ab", "engine:1")) == 2
    assert opened(links.dummy("dm-0123456789ab")[0])[2:] == ((1, 1), {"name": b"dm-0123456789ab\0"}, "dummy", {})


def test_a_change_says_only_what_is_to_change() -> None:
    _, _, up, named, _, _ = opened(links.change(9, mtu=1400))
    assert (up, named) == ((0, 0), {"mtu": struct.pack("=I", 1400)})
    assert opened(links.change(9, up=False))[2] == (0, 1)
    assert opened(links.change(9, up=True, master=3))[3] == {"master": struct.pack("=I", 3)}
    assert LINK.unpack_from(links.change(9)[2], 0)[2] == 9
