"""Both versions of the proxy, one after the other."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import _muxer
from tests.unit.proxy.carrier import Carrier


@pytest.fixture(params=["python", "c"])
def version(request: pytest.FixtureRequest) -> str:
    """`python` or `c`."""
    if request.param == "c" and not _muxer.built():
        pytest.skip("the C muxer is not built: python3 -m _muxer.build")
    return str(request.param)


@pytest.fixture
def carry(version: str, tmp_path: Path) -> Iterator[Callable[..., Carrier]]:
    """Start a proxy with these bounds; it ends with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **bounds: stack.enter_context(Carrier(version, tmp_path, **bounds))
