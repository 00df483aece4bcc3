"""Addresses, routes and neighbours as the kernel is asked for them."""

import struct

import pytest

from engine.kernel.netlink import addresses, message

ADDRESS = struct.Struct("=BBBBI")
ROUTE = struct.Struct("=BBBBBBBBI")


def test_an_ipv4_address_has_a_broadcast_and_lasts() -> None:
    kind, flags, payload = addresses.add(7, "10.9.0.2", 24)
    assert (kind, flags) == (20, 0x500)
    assert ADDRESS.unpack_from(payload, 0) == (2, 24, 0x80, 0, 7)
    assert message.attributes(payload, ADDRESS.size) == {2: b"\x0a\x09\0\2", 1: b"\x0a\x09\0\2", 4: b"\x0a\x09\0\xff"}


@pytest.mark.parametrize("prefix", [31, 32])
def test_a_net_of_one_or_two_has_no_broadcast(prefix: int) -> None:
    assert 4 not in message.attributes(addresses.add(7, "10.9.0.2", prefix)[2], ADDRESS.size)


def test_an_ipv6_address_is_used_at_once() -> None:
    """Without duplicate address detection: the engine has given it to nobody else."""
    _, _, payload = addresses.add(7, "fd00::2", 64)
    assert ADDRESS.unpack_from(payload, 0) == (10, 64, 0x82, 0, 7)
    assert set(message.attributes(payload, ADDRESS.size)) == {1, 2}


@pytest.mark.parametrize(
    ("asked", "header", "expected"),
    [
        (addresses.route(7, "10.9.0.1"), (2, 0, 0, 0, 254, 3, 0, 1, 0), {5: b"\x0a\x09\0\1", 4: b"\7\0\0\0"}),
        (addresses.route(7), (2, 0, 0, 0, 254, 3, 253, 1, 0), {4: b"\7\0\0\0"}),
        (addresses.route(7, ipv6=True), (10, 0, 0, 0, 254, 3, 0, 1, 0), {4: b"\7\0\0\0"}),
    ],
)
def test_a_default_route_leads_to_a_gateway_or_out_of_a_link(
    asked: message.Request, header: tuple[int, ...], expected: dict[int, bytes]
) -> None:
    assert ROUTE.unpack_from(asked[2], 0) == header
    assert message.attributes(asked[2], ROUTE.size) == expected


def test_a_neighbour_is_one_to_be_found_out_anew() -> None:
    kind, flags, payload = addresses.neighbour(7, "10.9.0.2", "02:42:0a:09:00:02")
    assert (kind, flags, payload[:12]) == (28, 0x500, struct.pack("=BxxxiHBB", 2, 7, 4, 0, 0))
    assert message.attributes(payload, 12) == {1: b"\x0a\x09\0\2", 2: bytes.fromhex("02420a090002")}
