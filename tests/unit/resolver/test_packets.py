"""Queries are read as they are meant or refused, answers are what any client reads, and no bytes do any harm."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.resolver import packets
from engine.resolver.packets import Malformed, Query
from tests.harness import dns

ADDRESSES = [packets.record(packets.A, bytes((10, 0, 0, number))) for number in range(1, 251)]
LABELS = st.text("abcXYZ019-_", min_size=1, max_size=63)


def refused(data: bytes) -> bytes:
    """What the sender of a query that cannot be answered is told."""
    with pytest.raises(Malformed) as caught:
        Query(data)
    return caught.value.reply


@given(
    st.lists(LABELS, max_size=3), st.integers(0, 65535), st.integers(0, 65535), st.sampled_from([0, 512, 1232, 4096])
)
def test_a_query_is_read_as_it_was_written(labels, number, kind, edns):
    name = ".".join(labels)
    read = Query(dns.query(name, kind, number, edns))
    assert (read.number, read.kind, read.group) == (number, kind, 1)
    assert read.name == dns.encode_name(name.lower())
    assert read.question == dns.encode_name(name) + struct.pack(">HH", kind, 1)
    assert read.size == (edns or 512)
    assert read.single == (len(labels) < 2)


def test_an_answer_has_the_number_the_question_and_the_records_in_their_order():
    said = dns.decode(Query(dns.query("Web.Test", number=77)).answer(ADDRESSES[:3]))
    assert (said.number, said.code, said.truncated) == (77, dns.NOERROR, False)
    assert said.question == dns.query("Web.Test")[12:], "in the letters of the query, as some clients check"
    assert said.records == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert said.raw[2:4] == b"\x81\x80", "recursion desired, and available"


@pytest.mark.parametrize(("edns", "room"), [(0, 512), (300, 512), (1232, 1232), (65535, 16384)])
def test_a_datagram_that_is_too_long_is_cut_between_records_and_says_so(edns, room):
    asked = Query(dns.query("many", edns=edns))
    said = dns.decode(asked.answer(ADDRESSES * 5, limit=asked.size))
    assert said.truncated
    assert room - 16 < len(said.raw) <= room
    whole = dns.decode(asked.answer(ADDRESSES * 5))
    assert not whole.truncated
    assert len(whole.records) == 1250


def test_an_answer_to_a_query_with_edns_has_it_too():
    said = dns.decode(Query(dns.query("web", edns=4096)).answer(ADDRESSES[:1]))
    assert (said.size, said.records) == (1232, ["10.0.0.1"])
    assert dns.decode(Query(dns.query("web")).answer([])).size == 0


def test_an_unknown_version_of_edns_is_told():
    """RFC 6891 6.1.3: BADVERS, whose upper bits are in the OPT record, and nothing else."""
    data = bytearray(dns.query("web", edns=1232))
    data[-5] = 1  # the version
    said = Query(bytes(data)).answer(ADDRESSES[:1])
    assert dns.decode(said).records == []
    assert said[-6] == 1


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(dns.query("web", flags=0x2900), dns.NOTIMP, id="an update"),
        pytest.param(b"\0\1\1\0" + bytes(8), dns.FORMERR, id="no question"),
        pytest.param(b"\0\1\1\0\0\2" + bytes(6) + b"\1a\0\0\1\0\1" * 2, dns.FORMERR, id="two questions"),
        pytest.param(dns.query("web")[:-1], dns.FORMERR, id="a question that is cut"),
        pytest.param(dns.query("web")[:14], dns.FORMERR, id="a name that is cut"),
        pytest.param(dns.query("x")[:12] + b"\xc0\x0c\0\1\0\1", dns.FORMERR, id="a name that points at itself"),
        pytest.param(dns.query("x")[:12] + (b"\x3f" + b"a" * 63) * 4 + b"\0\0\1\0\1", dns.FORMERR, id="a long name"),
        pytest.param(dns.query("x")[:12] + b"\x40" + b"a" * 64 + b"\0\0\1\0\1", dns.FORMERR, id="a long label"),
    ],
)
def test_what_is_no_query_is_refused_in_dns(data, code):
    said = dns.decode(refused(data))
    assert (said.number, said.code, said.records) == (int.from_bytes(data[:2], "big"), code, [])


@pytest.mark.parametrize("data", [b"", b"\0" * 11, dns.query("web", flags=0x8180)])
def test_an_answer_or_no_message_at_all_is_met_with_silence(data):
    """Two resolvers that answered each other's answers would never end."""
    assert refused(data) == b""


def test_a_name_of_255_bytes_is_the_longest():
    name = ".".join(["a" * 63] * 3 + ["a" * 61])
    assert len(Query(dns.query(name)).name) == 255
    assert packets.wire_name(name) == dns.encode_name(name)
    assert packets.wire_name(name + "a") is None
    assert dns.decode(refused(dns.query(name + "a"))).code == dns.FORMERR


@given(st.binary(max_size=600))
def test_any_bytes_are_a_query_or_malformed(data):
    with contextlib.suppress(Malformed):
        query = Query(data)
        assert dns.decode(query.answer(ADDRESSES, limit=query.size)).question == query.question


@given(st.data())
def test_a_query_with_any_bytes_changed_is_a_query_or_malformed(data):
    changed = bytearray(dns.query("some.name.test", edns=1232))
    for at, byte in data.draw(
        st.dictionaries(st.integers(0, len(changed) - 1), st.integers(0, 255), max_size=6)
    ).items():
        changed[at] = byte
    with contextlib.suppress(Malformed):
        query = Query(bytes(changed))
        said = query.answer(ADDRESSES, limit=query.size)
        assert len(said) <= query.size
        dns.decode(said)


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        ("web", b"\3web\0"),
        ("a.b", b"\1a\1b\0"),
        ("web.", b"\3web\0"),
        ("", None),
        (".", None),
        ("a..b", None),
        ("a" * 64, None),
        ("é", b"\2\xc3\xa9\0"),
        ("\udcff", b"\1\xff\0"),
    ],
)
def test_only_what_can_be_asked_for_is_a_name(text, wire):
    assert packets.wire_name(text) == wire


def test_addresses_are_looked_up_backwards():
    assert packets.reverse_name(bytes((172, 18, 0, 2))) == dns.encode_name("2.0.18.172.in-addr.arpa")
    expected = "1." + "0." * 23 + "8.b.d.0.1.0.0.2.ip6.arpa"
    assert packets.reverse_name(bytes.fromhex("20010db8") + bytes(11) + b"\1") == dns.encode_name(expected)


def test_only_an_answer_to_what_was_asked_fits():
    asked = dns.query("web.test", number=7)
    assert packets.fits(asked, dns.answer(asked, "10.0.0.1"))
    assert packets.fits(asked, dns.answer(dns.query("WEB.test", number=7)))
    assert packets.fits(asked, b"\0\7\x81\x85" + bytes(8)), "a refusal may do without the question"
    others = [
        dns.answer(dns.query("web.test", number=8)),
        dns.answer(dns.query("web.tesu", number=7)),
        dns.answer(dns.query("web.test", dns.AAAA, number=7)),
        asked,
        b"\0\7\x81\x80" + bytes(8),
        b"",
        dns.answer(asked)[:20],
    ]
    assert [packets.fits(asked, other) for other in others] == [False] * len(others)


@given(st.binary(max_size=80))
def test_any_bytes_fit_or_not(data):
    packets.fits(dns.query("web.test"), data)
