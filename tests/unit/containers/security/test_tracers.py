"""Who may trace whom, as far as the containers' settings say."""

import threading

import pytest

from engine.daemon.containers.record import Container, State
from engine.daemon.containers.roster import Roster
from engine.daemon.containers.security import tracers
from engine.errors import Conflict
from engine.sandbox.cgroups.hierarchy import Gone
from tests.harness.parts import Parts

TRACE = ["SYS_PTRACE"]


def box(number: int, pid_mode: str = "", cap_add: list[str] | None = None, **more: object) -> Container:
    host_config = {"PidMode": pid_mode, "CapAdd": cap_add, "CapDrop": None, "Privileged": False, **more}
    one = Container(f"{number:x}" * 64, f"box{number}", number, "", "", {}, host_config, {}, "", [], ())
    one.state = State("running", pid=number, pid_start=1)
    return one


class Cgroups:
    """Notes who is frozen."""

    def __init__(self) -> None:
        self.frozen: set[str] = set()

    def freeze(self, name: str, parent: str) -> None:
        self.frozen.add(name[0])

    def thaw(self, name: str, parent: str) -> None:
        self.frozen.remove(name[0])


def engine(*containers: Container) -> Parts:
    for each in containers:
        each.host_config.setdefault("CgroupParent", "")
    return Parts(containers=Roster(containers), cgroups=Cgroups())


@pytest.mark.parametrize(
    ("host_config", "may"),
    [
        ({}, False),
        ({"cap_add": ["NET_ADMIN"]}, False),
        ({"cap_add": TRACE}, True),
        ({"cap_add": ["ALL"]}, True),
        ({"cap_add": ["ALL"], "CapDrop": TRACE}, False),
        ({"Privileged": True}, True),
    ],
)
def test_who_may_trace_has_the_capability(host_config: dict, may: bool) -> None:
    assert tracers.may_trace(box(1, **host_config)) is may


def test_an_exec_is_traced_by_its_own_container_or_by_one_that_has_joined() -> None:
    plain, tracing, joined = box(1), box(2, cap_add=TRACE), box(3, "container:box1")
    assert not tracers.traced(engine(plain, tracing), plain)
    assert tracers.traced(engine(plain, tracing), tracing)
    assert not tracers.traced(engine(plain, joined), plain)
    assert tracers.traced(engine(plain, joined), joined), "whom it has joined may do so"
    assert tracers.traced(engine(plain, box(4, "container:box1", TRACE)), plain)


@pytest.mark.parametrize("named", ["2" * 64, "2222", "box2", "/box2"])
def test_they_stand_still_while_another_joins(named: str) -> None:
    plain, tracing, beside, apart = box(1), box(2, cap_add=TRACE), box(3, "container:box2", TRACE), box(4, "", TRACE)
    paused, joining = box(5, "container:box2", TRACE), box(6, f"container:{named}")
    paused.state.status = "paused"
    daemon = engine(plain, tracing, beside, apart, paused, joining)
    with tracers.stilled(daemon, joining):
        assert daemon.cgroups.frozen == {"2", "3"}
        assert all(each.operation.locked() for each in (tracing, beside, paused))
        assert not any(each.operation.locked() for each in (plain, apart))
    assert daemon.cgroups.frozen == set()
    assert not any(each.operation.locked() for each in daemon.containers.all())


def test_one_that_has_just_ended_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, joining = box(2, cap_add=TRACE), box(6, "container:box2")
    daemon = engine(ended, joining)

    def gone(*_: str) -> None:
        raise Gone("no such file or directory")

    monkeypatch.setattr(daemon.cgroups, "freeze", gone)
    monkeypatch.setattr(daemon.cgroups, "thaw", lambda *_: None)
    with tracers.stilled(daemon, joining):
        assert ended.operation.locked()


def test_an_ordinary_start_stills_nobody() -> None:
    daemon = engine(box(1), box(2, cap_add=TRACE))
    with tracers.stilled(daemon, daemon.containers.find("box1")):
        assert daemon.cgroups.frozen == set()


def test_one_that_is_busy_for_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that join each other would wait for ever; and what was frozen before goes on."""
    monkeypatch.setattr(tracers, "_PATIENCE_SECONDS", 0.05)
    first, busy, joining = box(2, cap_add=TRACE), box(3, "container:box2", TRACE), box(6, "container:box2")
    daemon = engine(first, busy, joining)
    holder = threading.Lock()
    busy.operation = holder
    with holder, pytest.raises(Conflict, match="is busy"), tracers.stilled(daemon, joining):
        raise AssertionError("it was not to come to this")
    assert daemon.cgroups.frozen == set() and not first.operation.locked()
