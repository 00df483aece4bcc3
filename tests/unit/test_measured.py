"""What a daemon that serves metrics measures, and that any other one measures nothing."""

import pytest

from engine.daemon import measured


@pytest.fixture(autouse=True)
def measures(monkeypatch):
    """Measures of each test's own."""
    monkeypatch.setattr(measured, "_measures", measured._Measures())


@measured.timed("image_actions", "pull")
def work(fails=False):
    """Do something that takes no time."""
    if fails:
        raise ValueError
    return "done"


def test_nothing_is_measured_before_somebody_wants_to_know():
    assert work() == "done"
    measured.count("builds")
    assert measured.durations() == {} and measured.counted("builds") == 0


def test_a_call_is_measured_that_ends_without_an_error():
    measured.begin()
    with pytest.raises(ValueError):
        work(fails=True)
    assert work() == work() == "done"
    measured.count("builds")
    found = measured.durations()["image_actions", "pull"]
    assert (found.count, found.buckets, measured.counted("builds")) == (2, [2] * len(measured.BUCKETS), 1)
    assert 0 < found.seconds < 1


def test_a_long_action_is_in_the_buckets_that_are_long_enough():
    measured.begin()
    measured._add("container_actions", "start", 0.3)
    found = measured.durations()["container_actions", "start"]
    assert found.buckets == [int(bound >= 0.3) for bound in measured.BUCKETS]


def test_the_actions_of_containers_are_there_from_the_start():
    measured.begin()
    assert {of for family, of in measured.durations() if family == "container_actions"} == {
        "changes",
        "commit",
        "create",
        "delete",
        "start",
    }
