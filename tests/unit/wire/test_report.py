"""The datagrams between init and its monitor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire import report


@given(st.text(max_size=2000), st.integers(0, 200), st.text(max_size=20))
def test_a_failure_comes_back_as_it_was_but_never_too_long(text: str, number: int, step: str) -> None:
    sent = report.Failure(step, number, text, 125)
    datagram = report.encode_failure(sent)
    assert len(datagram) <= report.LARGEST
    assert report.decode(datagram) == report.Failure(step, number, text[:1000], 125)


def test_the_other_datagrams() -> None:
    assert report.decode(report.READY) == report.Ready()
    assert report.decode(report.TERMINAL) == report.Terminal()
    assert report.decode(report.encode_warning("no swap: ü")) == report.Warned("no swap: ü")
    assert len(report.encode_warning("x" * 20000)) == report.LARGEST


@pytest.mark.parametrize("datagram", [b"", b"X", b"Nx", b"P"])
def test_anything_else_is_refused(datagram: bytes) -> None:
    if datagram[:1] != report.READY:
        with pytest.raises(ValueError, match="not a report"):
            report.decode(datagram)
