"""What all chaos tests have in common: a failure shows the seed that it came from."""

from collections.abc import Generator

import pytest

from tests.chaos import form


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the seed beside what a failed test has printed."""
    report = yield
    if report.failed:
        report.sections.append(("chaos", f"ENGINE_CHAOS_SEED={form.SEED} asks for the same choices again"))
    return report
