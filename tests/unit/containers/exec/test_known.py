"""The registry of execs: what is found, what is listed with the container, what is forgotten."""

import pytest

from engine.daemon.containers.exec import known as module
from engine.daemon.containers.exec.known import Command, Exec, Execs
from engine.errors import NotFound
from tests.harness import parts


@pytest.fixture
def container():
    return parts.container()


def make(container, number: int) -> Exec:
    return Exec(f"{number:064x}", container, Command(("sh", "-c", "true")))


def test_an_exec_is_found_and_listed_until_it_has_ended(container) -> None:
    execs, one = Execs(), make(container, 1)
    execs.add(one)
    assert execs.find(one.id) is one and list(container.execs) == [one.id]
    execs.end(one)
    assert execs.find(one.id) is one and not container.execs


def test_an_exec_goes_with_its_container(container) -> None:
    execs, one = Execs(), make(container, 1)
    execs.add(one)
    container.removed = True
    with pytest.raises(NotFound, match=f"No such exec instance: {one.id}"):
        execs.find(one.id)


def test_one_that_has_ended_is_forgotten_when_its_time_is_over(container, monkeypatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    execs, old, young = Execs(), make(container, 1), make(container, 2)
    for one in (old, young):
        execs.add(one)
        execs.end(one)
        now[0] += module.KEPT_SECONDS / 2 + 1
    execs.add(make(container, 3))
    with pytest.raises(NotFound):
        execs.find(old.id)
    assert execs.find(young.id) is young


def test_no_more_are_kept_than_so_many(container, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ENDED", 10)
    execs = Execs()
    for number in range(25):
        execs.add(one := make(container, number))
        execs.end(one)
    assert len(execs._by_id) == 10


def test_a_command_is_shown_in_events_as_dockerd_shows_it() -> None:
    assert Command(("sh", "-c", "echo hi")).text == "sh -c echo hi"
    assert Command(("true",)).text == "true "
