"""engine.kernel.gathered: what is left of a write that was cut short."""

from hypothesis import given
from hypothesis import strategies as st

from engine.kernel.gathered import rest


@given(st.lists(st.binary(max_size=5), max_size=5), st.integers(0, 30))
def test_what_is_left_is_the_end_of_all_pieces(pieces: list[bytes], size: int) -> None:
    """Wherever the write was cut, between two pieces too."""
    assert b"".join(rest(tuple(pieces), size)) == b"".join(pieces)[size:]
