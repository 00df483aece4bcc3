"""The end of a run that nobody can tell of."""

import subprocess

import pytest

from engine.daemon.containers import paths
from engine.daemon.containers.config import host_config
from engine.daemon.containers.life import end
from engine.daemon.containers.record import Container, State
from engine.errors import SystemFailure
from engine.kernel import syscalls
from tests.unit.containers.fakes import FakeCgroups, make_engine


class FreezerThatSticks(FakeCgroups):
    """Cgroups that let nobody go on."""

    def wake(self, *of: str) -> None:
        """It cannot be done."""
        raise SystemFailure("the freezer does not answer")


@pytest.fixture
def engine(tmp_path):
    return make_engine(tmp_path)


def test_an_end_that_nobody_saw_is_recorded_also_where_the_freezer_fails(engine, tmp_path):
    engine.cgroups = FreezerThatSticks()
    with subprocess.Popen(["sleep", "60"]) as process:
        state = State("running", process.pid, syscalls.process_start(process.pid), started_ns=1)
        container = Container("c" * 64, "c", 1, "", "", {}, host_config({}), {}, "sleep", [], (), state=state)
        where = paths.of(str(tmp_path), engine.settings.exec_root, container.id)
        exited, error = end.end_unseen(engine, container, where)
    assert (exited.exit_code, error) == (end.LOST_EXIT, end.LOST_TEXT)
