"""The frames that tell a bridge who has an address now."""

from engine.daemon.network import announcing

MAC = "02:42:0a:09:00:02"


def test_an_ipv4_address_asks_for_itself() -> None:
    frame = announcing.gratuitous_arp(MAC, "10.9.0.2")
    assert frame.hex() == "ffffffffffff02420a0900020806000108000604000102420a0900020a0900020000000000000a090002"


def test_an_ipv6_address_advertises_itself_to_all_nodes() -> None:
    """RFC 4861 has the form; the checksum over the pseudo header holds."""
    frame = announcing.advertisement(MAC, "fd00:9::2")
    assert frame[:14].hex() == "33330000000102420a09000286dd"
    assert frame[14:22].hex() == "6000000000203aff"
    assert frame[38:54] == bytes.fromhex("ff020000000000000000000000000001")
    assert frame[54:56].hex() == "8800" and frame[58:62].hex() == "20000000"
    assert frame[62:78] == frame[22:38]
    assert frame[78:].hex() == "020102420a090002"
    covered = frame[22:54] + (32).to_bytes(4, "big") + (58).to_bytes(4, "big") + frame[54:]
    assert announcing._checksum(covered) == 0
