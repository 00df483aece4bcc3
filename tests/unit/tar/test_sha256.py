"""sha256 in C gives what hashlib's gives, whatever the pieces are in which the bytes come."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import _muxer
from engine.daemon.images import content

if not _muxer.built():
    pytest.skip("the C muxer is not built: python3 -m _muxer.build", allow_module_level=True)

from engine.daemon.tar import nativesha256

if not nativesha256.fits():
    pytest.skip("the processor has no instructions for sha256", allow_module_level=True)


def digest(*pieces: bytes | memoryview) -> str:
    """The digest in C of these pieces."""
    total = nativesha256.Sha256()
    for piece in pieces:
        total.update(piece)
    return total.hexdigest()


def test_each_size_up_to_some_blocks() -> None:
    data = bytes(range(256)) * 2
    for size in range(len(data)):
        assert digest(data[:size]) == hashlib.sha256(data[:size]).hexdigest(), size


def test_the_examples_of_the_standard() -> None:
    """FIPS 180-2, appendix B."""
    assert digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest(b"a" * 1_000_000) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_the_same_in_pieces(pieces: list[bytes]) -> None:
    assert digest(*pieces) == hashlib.sha256(b"".join(pieces)).hexdigest()


def test_a_digest_may_be_asked_for_before_the_end() -> None:
    total = nativesha256.Sha256()
    total.update(b"one")
    assert total.hexdigest() == hashlib.sha256(b"one").hexdigest()
    total.update(memoryview(bytearray(b"-two-"))[1:4])
    assert total.hexdigest() == hashlib.sha256(b"onetwo").hexdigest()


@pytest.mark.usefixtures("way")
def test_the_stores_digests_are_the_same_either_way() -> None:
    assert content.digest_of(b"abc") == f"sha256:{hashlib.sha256(b'abc').hexdigest()}"
