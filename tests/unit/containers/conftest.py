"""What the tests of containers without a kernel do without."""

import pytest

from engine.daemon.containers.contents import workingdir


@pytest.fixture(autouse=True)
def no_working_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create mounts a container's root where its image lacks the working directory; tests/api/test_create.py has it."""
    monkeypatch.setattr(workingdir, "make", lambda engine, container: None)
