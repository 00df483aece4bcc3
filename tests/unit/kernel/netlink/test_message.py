"""Netlink messages as bytes."""

import errno

import pytest

from engine.kernel.netlink import message

# What the kernel answered to "set lo up" in a fresh network namespace, and to the same for link 99.
ACKNOWLEDGED = bytes.fromhex("240000000200000101000000aa3f00000000000020000000130005000100000000000000")
NO_SUCH_LINK = bytes.fromhex("24000000020000000200000000000000edffffff20000000130005000200000000000000")


def test_a_request_is_header_and_payload() -> None:
    assert message.encode(19, 5, 1, b"1234") == bytes.fromhex("14000000130005000100000000000000") + b"1234"


def test_the_answer_to_another_request_is_none() -> None:
    assert message.acknowledged(ACKNOWLEDGED, 2) is None
    assert message.acknowledged(b"", 1) is None


def test_success_is_0_and_failure_its_errno() -> None:
    assert message.acknowledged(ACKNOWLEDGED, 1) == 0
    assert message.acknowledged(NO_SUCH_LINK, 2) == errno.ENODEV
    assert message.acknowledged(ACKNOWLEDGED + NO_SUCH_LINK, 2) == errno.ENODEV


def test_a_length_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="of 3 bytes"):
        message.acknowledged(bytes.fromhex("03000000") + bytes(12), 1)
