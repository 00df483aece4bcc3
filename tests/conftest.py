"""Settings of every test run: fixtures, the marker `root`, and that in CI a skipped test is a failed one."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from tests.harness import ambient
from tests.harness.amounts import amount
from tests.harness.barred import possible

HERE = Path(__file__).parent
pytest_plugins = ["tests.harness.fixtures"]

DAEMON_FIXTURES = {"world"}
# What takes longest comes first, so that no worker is left with it when the others have ended.
FIRST = (
    "chaos/test_idle_writes",
    *("api/test_network_crash", "api/test_crash", "unit/muxer/test_sanitizers", "api/test_states_machine"),
    *("api/test_restart_policies", "api/test_stats", "api/test_events", "sandbox/test_copy_attacks"),
    *("api/test_daemon", "api/test_health"),
    *("clients/test_compose", "clients/test_compose_files"),
    *("api", "sandbox", "clients", "network", "images", "replay"),
)
NO_ROOT = "needs root: the daemon makes namespaces, mounts and cgroups"
# A machine that does other work is slow at times, which is no failure of what is tested; the same examples each time in
# CI, so that a change is judged by itself.
hypothesis.settings.register_profile(
    "tests", deadline=None, derandomize="CI" in os.environ, max_examples=amount(100, 40)
)
hypothesis.settings.load_profile("tests")
AS_USER = os.environ.get("ENGINE_TEST_USER", "") == "1"  # the daemons are a user's own
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")
ambient.forget()
_kill = os.kill


def kill(pid: int, number: int) -> None:
    """What os.kill is in the tests: 0, which inspect shows for a container that does not run, names this very run."""
    assert pid > 0, f"a test sends signal {number} to the processes of group {pid}"
    _kill(pid, number)


os.kill = kill
# Some millions of objects that stay for the whole run are made before the first test: a collector that looks at them
# again and again takes a tenth of the run's time.
gc.disable()


def place(item: pytest.Item) -> int:
    """Where in a run the file of this test comes."""
    path = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
    return next(
        (number for number, first in enumerate(FIRST) if path.startswith((f"{first}.", f"{first}/"))), len(FIRST)
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use a daemon are tests that need root, and those are skipped without it."""
    items.sort(key=place)
    if AS_USER:
        items[:] = [item for item in items if possible(item.nodeid)]
    for item in items:
        if DAEMON_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("root")
        if os.geteuid() != 0 and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason=NO_ROOT))


def pytest_collection_finish() -> None:
    """From now on the collector works, and passes over what the collection has made."""
    gc.freeze()
    gc.enable()


def fail_a_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI turn a skip into a failure that says why; an expected failure is no skip."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"skipped, which is a failure in CI: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that skips."""
    report = yield
    fail_a_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that skips as a whole."""
    report = yield
    fail_a_skip(report)
    return report
