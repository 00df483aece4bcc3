"""gRPC's frames, statuses and timeouts, by their specification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.protocols import grpc
from engine.protocols.grpc import Failed, Messages, Status
from engine.protocols.http2fields import good_trailers

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 9))
def test_messages_come_out_of_pieces_of_any_size(messages: list[bytes], size: int) -> None:
    body = b"".join(map(grpc.message, messages))
    taking, found = Messages(100), []
    for at in range(0, len(body), size):
        found += taking.feed(body[at : at + size])
    taking.end()
    assert found == messages


def test_what_may_not_be_is_refused() -> None:
    with pytest.raises(Failed, match="101 bytes, more than 100"):
        Messages(100).feed(grpc.message(bytes(101)))
    with pytest.raises(Failed, match="compressed"):
        Messages(100).feed(b"\1\0\0\0\0")
    cut = Messages(100)
    assert cut.feed(grpc.message(b"abc")[:-1]) == []
    with pytest.raises(Failed, match="ends within a message"):
        cut.end()


@given(st.integers(0, 16), WORDS, st.binary(max_size=20))
def test_a_status_comes_back_as_it_was(code: int, words: str, details: bytes) -> None:
    fields = grpc.trailers(Status(code, words, details))
    assert grpc.status_of(fields) == Status(code, words, details)
    assert good_trailers(fields, True)
    assert all(value == value.strip() for _, value in fields)


@pytest.mark.parametrize("code", [b"", b"x", b"123", b"-1"])
def test_an_answer_without_a_status_has_failed(code: bytes) -> None:
    found = grpc.status_of([(b":status", b"502"), (b"grpc-status", code)])
    assert found.code == grpc.UNKNOWN and "502" in found.words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(b"1H", 3600), (b"2M", 120), (b"3S", 3), (b"40m", 0.04), (b"14999958u", 14.999958), (b"0n", 0)],
)
def test_timeouts(text: bytes, seconds: float) -> None:
    assert grpc.timeout(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", [b"", b"1", b"S", b"123456789S", b"-1S", b"1s", b"1 S", b"\xd9\xa1S"])
def test_what_is_no_timeout(text: bytes) -> None:
    with pytest.raises(Invalid):
        grpc.timeout(text)
