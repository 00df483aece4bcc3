"""Messages of nf_tables as bytes, held against what the program nft sends for the same words."""

import json
from pathlib import Path

import pytest

from engine.kernel.netlink import message
from engine.kernel.netlink import nftexpressions as nft
from engine.kernel.netlink.nftables import (
    ADDRESS4,
    INTERFACE,
    INTERVAL,
    PROTOCOL,
    SERVICE,
    VERDICT,
    Element,
    Set,
    batch,
    new_base_chain,
    new_elements,
    new_rule,
    new_set,
    padded,
)

# What nft 1.0.6 sent: the words of a rule, and the attribute that has its expressions.
SENT = json.loads((Path(__file__).parents[3] / "data" / "nftables.json").read_text())
OURS = {
    "masquerade": nft.MASQUERADE,
    "ip saddr 10.0.0.0/8 accept": nft.family(nft.IPV4)
    + nft.payload(1, 12, 1)
    + nft.compare(b"\x0a")
    + nft.decide(nft.ACCEPT),
    'iifname != "lo" drop': nft.interface("iifname", "lo", nft.DIFFERENT) + nft.decide(nft.DROP),
    "ct state established,related accept": nft.state(nft.ESTABLISHED | nft.RELATED) + nft.decide(nft.ACCEPT),
    "oifname @b goto other": nft.meta("oifname") + nft.lookup("b") + nft.decide(nft.goto("other")),
    "ip saddr vmap @v": nft.family(nft.IPV4) + nft.source(nft.IPV4) + nft.verdict_of("v"),
    "meta nfproto ipv4 dnat ip to meta l4proto . th dport map @m": nft.family(nft.IPV4)
    + nft.meta("l4proto")
    + nft.port(1)
    + nft.lookup("m", 0, 0)
    + nft.lead_to(nft.IPV4, 0, 1),
    "fib daddr type local goto other": nft.address_kind(nft.LOCAL) + nft.decide(nft.goto("other")),
    "fib daddr . iif type local accept": nft.address_kind(nft.LOCAL, of_interface=True) + nft.decide(nft.ACCEPT),
    "ip6 daddr fd00::1 notrack": nft.family(nft.IPV6)
    + nft.destination(nft.IPV6)
    + nft.compare(bytes.fromhex("fd000000000000000000000000000001"))
    + nft.DO_NOT_TRACK,
    "snat ip to 192.0.2.1": nft.load(bytes((192, 0, 2, 1))) + nft.come_from(nft.IPV4, 0),
    "iif != 3 drop": nft.meta("iif") + nft.compare((3).to_bytes(4, "little"), nft.DIFFERENT) + nft.decide(nft.DROP),
}
# The attributes of expressions that name a register.
REGISTERS = {
    "meta": (1,),
    "cmp": (1,),
    "payload": (1,),
    "lookup": (2, 3),
    "immediate": (1,),
    "ct": (1,),
    "bitwise": (1, 2),
    "fib": (1,),
    "nat": (3, 5),
}


def read(expressions: bytes) -> list[tuple[str, dict[int, bytes]]]:
    """Expressions by name and attributes; registers of 16 bytes by the number of their first 4, as the kernel does."""
    found = []
    for _, expression in message.listed(expressions):
        parts = message.attributes(expression)
        name = parts[1].rstrip(b"\0").decode()
        data = message.attributes(parts.get(2, b""))
        for kind in REGISTERS.get(name, ()):
            number = int.from_bytes(data.get(kind, b"\0"), "big")
            if 1 <= number <= 4:
                data[kind] = (nft.REGISTER + 4 * (number - 1)).to_bytes(4, "big")
        found.append((name, data))
    return found


@pytest.mark.parametrize("words", SENT)
def test_a_rule_is_what_nft_makes_of_the_same_words(words: str) -> None:
    """Expression by expression, attribute by attribute; but what nft says twice."""
    theirs, ours = read(bytes.fromhex(SENT[words])), read(OURS[words])
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for (name, mine), (_, others) in zip(ours, theirs, strict=True):
        if name == "bitwise":
            others.pop(6, None)  # the operation, 0 where it is not said
        if name == "lookup" and 4 in others:
            others.pop(4)  # the set's number in this batch, beside its name
        assert mine == others, name


def test_a_base_chain_is_what_nft_makes_of_it() -> None:
    kind, flags, payload = new_base_chain("t", "c", "nat", 4, 100)
    theirs = bytes.fromhex(
        "0100000006000100740000000600030063000000080007006e61740008000500000000011400048008000100000000040800020000000064"
    )
    assert kind == 0x0A03 and flags == message.CREATE
    assert payload[:4] == theirs[:4] and message.attributes(payload, 4) == message.attributes(theirs, 4)


@pytest.mark.parametrize(
    ("declared", "number", "theirs"),
    [
        (
            Set("m", (PROTOCOL, SERVICE), (ADDRESS4, SERVICE)),
            1,
            "060002006d0000000800030000000008080004000000030d080005000000000808000600000001cd0800070000000008"
            "08000a0000000001",
        ),
        (
            Set("v", (ADDRESS4,), (VERDICT,), INTERVAL),
            3,
            "0600020076000000080003000000000c0800040000000007080005000000000408000600ffffff0008000700000000"
            "1008000a0000000003",
        ),
        (
            Set("b", (INTERFACE,)),
            2,
            "060002006200000008000300000000000800040000000029080005000000001008000a00000000020a000d000004010000000000",
        ),
    ],
    ids=["map", "verdicts", "set"],
)
def test_a_set_is_what_nft_makes_of_it(declared: Set, number: int, theirs: str) -> None:
    """But for the length of a verdict, which the kernel does not look at, and for nft's notes to itself."""
    _, _, payload = new_set("t", declared, number)
    expected = message.attributes(bytes.fromhex("0600010074000000" + theirs))
    assert message.attributes(payload, 4) == expected


def test_elements_are_what_nft_makes_of_them() -> None:
    """A map's element with its data; the begin and the end of a range."""
    key = padded(b"\x06", (8080).to_bytes(2, "big"))
    ((kind, _, payload),) = new_elements("t", [Element("m", key, padded(bytes((172, 17, 0, 2)), b"\0\x50"))])
    assert kind == 0x0A0C
    assert message.attributes(payload, 4)[3] == bytes.fromhex(
        "24000180100001800c000100060000001f900000100002800c000100ac11000200500000"
    )
    begin = Element("v", bytes((10, 1, 0, 0)), verdict=nft.goto("other"))
    ((_, _, payload),) = new_elements("t", [begin, Element("v", bytes((10, 2, 0, 0)), end=True)])
    first, second = message.listed(message.attributes(payload, 4)[3])
    assert first[1].hex() == ("0c000180080001000a0100001c0002801800028008000100fffffffc0a0002006f74686572000000")
    assert message.attributes(second[1]) == {
        1: bytes.fromhex("080001000a020000"),
        3: bytes.fromhex("00000001"),
    }


def test_many_elements_are_several_messages_of_one_batch() -> None:
    """An attribute has 16 bits for its length; no element is lost between two messages."""
    elements = [Element("m", number.to_bytes(8, "big"), bytes(8)) for number in range(10_000)]
    requests = new_elements("t", elements)
    assert len(requests) > 1
    sent = []
    for _, _, payload in requests:
        assert len(payload) < 65536
        for _, element in message.listed(message.attributes(payload, 4)[3]):
            sent.append(message.attributes(message.attributes(element)[1])[1])
    assert sent == [element.key for element in elements]


def test_a_batch_has_a_begin_and_an_end() -> None:
    rule = new_rule("t", "c", nft.MASQUERADE)
    assert batch([rule]) == [(16, 0, b"\0\0\0\x0a"), rule, (17, 0, b"\0\0\0\x0a")]
