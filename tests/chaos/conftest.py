"""What chaos tests have in common: a daemon that is alone on its machine, and a failure shows the seed it came from."""

from collections.abc import Generator, Iterator

import pytest

from tests.chaos import form
from tests.harness import leaks
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World


@pytest.fixture
def alone(world: World) -> Iterator[Daemon]:
    """A daemon on a machine of its own, with busybox, as quiet as in production."""
    machine = world.machine()
    daemon = world.daemon(machine=machine)
    daemon.log_level = "info"
    daemon.start()
    daemon.import_busybox()
    yield daemon
    daemon.close()
    assert not leaks.settled(lambda: leaks.remains(machine))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the seed beside what a failed test has printed."""
    report = yield
    if report.failed:
        report.sections.append(("chaos", f"ENGINE_CHAOS_SEED={form.SEED} asks for the same choices again"))
    return report
