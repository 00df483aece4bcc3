"""The fixture for tests that have trees made or removed both ways: by Python, and by C."""

import pytest

import _muxer
from engine.daemon.tar import trees


@pytest.fixture(params=["python", "c"])
def way(request):
    """Each way in turn, by its name."""
    if request.param == "c" and not _muxer.built():
        pytest.skip("the C muxer is not built")
    trees.choose(request.param)
    yield request.param
    trees.choose("python")
