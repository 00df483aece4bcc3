"""An engine whose kernel is a list of what was asked of it."""

import pytest

from tests.unit.containers.endpoints.kernel import Kernel, engine_with


@pytest.fixture
def kernel():
    return Kernel()


@pytest.fixture
def engine(tmp_path, kernel):
    return engine_with(kernel, tmp_path)
