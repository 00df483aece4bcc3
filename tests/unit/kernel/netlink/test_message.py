"""Netlink messages as bytes."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kernel.netlink import message

# What the kernel answered to "set lo up" in a fresh network namespace, and to the same for link 99.
ACKNOWLEDGED = bytes.fromhex("240000000200000101000000aa3f00000000000020000000130005000100000000000000")
NO_SUCH_LINK = bytes.fromhex("24000000020000000200000000000000edffffff20000000130005000200000000000000")


def test_a_request_is_header_and_payload() -> None:
    assert message.encode(19, 5, 1, b"1234") == bytes.fromhex("14000000130005000100000000000000") + b"1234"


def test_an_attribute_ends_at_a_multiple_of_four() -> None:
    assert message.attribute(3, b"lo\0") == bytes.fromhex("07000300") + b"lo\0\0"
    assert message.text(3, "lo") == message.attribute(3, b"lo\0")
    assert message.u32(4, 1500) == bytes.fromhex("08000400dc050000")
    assert message.be16(1, 80) == bytes.fromhex("0600010000500000")
    assert message.nested(18, message.text(1, "veth")) == bytes.fromhex("10001280090001007665746800000000")


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=40)), max_size=8))
def test_attributes_are_read_as_they_were_written(wanted: list[tuple[int, bytes]]) -> None:
    written = b"".join(message.attribute(kind, payload) for kind, payload in wanted)
    assert list(message.listed(written)) == wanted
    assert message.attributes(written) == dict(wanted)


@given(st.binary(max_size=80))
def test_bytes_that_are_no_attributes_are_refused_and_never_read_past_their_end(data: bytes) -> None:
    try:
        assert sum(len(payload) + 4 for _, payload in message.listed(data)) <= len(data)
    except ValueError as error:
        assert "a netlink attribute with an impossible length" in str(error)


def test_success_is_0_and_failure_its_errno() -> None:
    answers = list(message.messages(ACKNOWLEDGED + NO_SUCH_LINK))
    assert [answer.sequence for answer in answers] == [1, 2]
    assert [message.refusal(answer) for answer in answers] == [(0, ""), (errno.ENODEV, "")]


def test_the_kernels_own_words_come_with_the_errno() -> None:
    words = message.text(1, "Invalid prefix length")
    payload = (-errno.EINVAL).to_bytes(4, "little", signed=True) + message.encode(20, 5, 1, b"")
    answer = message.Message(message.ERROR, 0x300, 1, memoryview(payload + words))
    assert message.refusal(answer) == (errno.EINVAL, "Invalid prefix length")


def test_a_length_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="of 3 bytes"):
        list(message.messages(bytes.fromhex("03000000") + bytes(12)))
    with pytest.raises(ValueError, match="of 64 bytes"):
        list(message.messages(bytes.fromhex("40000000") + bytes(12)))
