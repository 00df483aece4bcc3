"""What the sandbox tests share: a root of busybox on a file system that can carry an overlay."""

import os
from pathlib import Path

import pytest

from tests.sandbox.harness import BUSYBOX, Bench


@pytest.fixture(scope="session", params=["plain", "staged", "old"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Sandboxes to be had, made in each of the ways of `Bench`; skips where they cannot."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if BUSYBOX is None:
        pytest.skip("needs busybox, statically linked (package busybox-static)")
    made = Bench(Path(tmp_path_factory.mktemp("bench")), request.param)
    result = made.run(made.sandbox("true"))
    if result.status != 0 and "overlay" in str(result.reports):
        pytest.skip(f"the temporary directory cannot carry an overlay: {result.reports}")
    return made
