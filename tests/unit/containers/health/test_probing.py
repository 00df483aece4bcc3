"""Who runs health checks: when probes are asked for, and which results still count."""

import pytest

from engine.daemon.clock import SECOND
from engine.daemon.containers import config as configs
from engine.daemon.containers.exec import verbs as execution
from engine.daemon.containers.exec.verbs import Captured
from engine.daemon.containers.health import probing
from engine.daemon.containers.record import Health, Probe, State
from engine.daemon.containers.verbs.listing import status_text
from engine.daemon.runtime.events import Events
from engine.daemon.runtime.schedule import Handle
from engine.daemon.store import containers as table
from engine.daemon.store.database import Database
from engine.errors import Conflict
from tests.harness import parts
from tests.harness.parts import Parts


class Clockwork:
    """A schedule that is turned by hand."""

    def __init__(self):
        self.due = []

    def at(self, seconds, work, *arguments):
        """What will be done, once `tick` is called."""
        self.due.append(Handle(self, seconds, 0, work, arguments))
        return self.due[-1]

    def drop(self, handle):
        """What a handle's `cancel` calls."""
        return handle in self.due and not self.due.remove(handle)

    def tick(self):
        """Do what is due first; how long it would have waited."""
        handle = self.due.pop(0)
        handle.run()
        return handle.due


class Probed(Parts):
    """An engine whose probes run at once. results: what the next ones find; asked: what has been run"""

    __slots__ = ("asked", "results")


@pytest.fixture
def engine(monkeypatch):
    """One that does so."""
    made = Probed(schedule=Clockwork(), events=Events(), results=[], asked=[])

    def run_captured(_engine, _container, argv, **named):
        made.asked.append((argv, named))
        result = made.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result(made) if callable(result) else result

    monkeypatch.setattr(execution, "run_captured", run_captured)
    monkeypatch.setattr(probing, "later", lambda work, *arguments: work(*arguments))
    return made


def container(**check):
    """A container that runs, with a check."""
    config = configs.container_config({"Cmd": ["x"], "User": "me", "WorkingDir": "/w", "Healthcheck": check})
    return parts.container(config=config, state=State(status="running", started_ns=1))


def told(engine):
    """The actions of all events."""
    return [event.action for event in parts.told(engine.events)]


FINE = Captured(0, b"fine", False)
BAD = Captured(1, b"bad", False)


def test_a_probe_is_asked_for_with_the_container_s_own_user_and_place(engine):
    """And with its time limit, and one byte more than is kept."""
    one = container(Test=["CMD", "probe", "-x"], Interval=7 * SECOND, Timeout=3 * SECOND)
    engine.results = [FINE]
    probing.begin(engine, one)
    assert engine.schedule.tick() == 7
    ((argv, named),) = engine.asked
    assert argv == ["probe", "-x"]
    assert named == {"user": "me", "cwd": "/w", "seconds": 3.0, "most": 4097}
    assert one.state.health.status == "healthy" and one.state.health.log[0].output == "fine"
    assert told(engine) == ["health_status: healthy"]
    assert len(engine.schedule.due) == 1


def test_only_changes_are_told(engine):
    """Three times fine, three times bad, fine again."""
    one = container(Test=["CMD", "x"], Retries=2)
    engine.results = [FINE, FINE, FINE, BAD, BAD, BAD, FINE]
    probing.begin(engine, one)
    while engine.results:
        engine.schedule.tick()
    assert told(engine) == ["health_status: healthy", "health_status: unhealthy", "health_status: healthy"]


@pytest.mark.parametrize(
    ("result", "output"),
    [
        (Conflict("container x is not running"), "container x is not running"),
        (Captured(None, b"some", True), "Health check exceeded timeout (30s): some"),
        (RuntimeError("odd"), "the probe could not be run: odd"),
    ],
)
def test_a_probe_that_could_not_be_finished_counts_as_failed(engine, result, output):
    """And the next one comes all the same."""
    one = container(Test=["CMD", "x"])
    engine.results = [result]
    probing.begin(engine, one)
    engine.schedule.tick()
    (probe,) = one.state.health.log
    assert (probe.exit_code, probe.output) == (-1, output)
    assert len(engine.schedule.due) == 1


def test_what_ends_after_the_container_changes_nothing(engine):
    """A probe was under way when its container was stopped."""
    one = container(Test=["CMD", "x"])

    def stopped_meanwhile(_engine):
        probing.halt(one)
        return FINE

    engine.results = [stopped_meanwhile]
    probing.begin(engine, one)
    engine.schedule.tick()
    assert one.state.health == Health("unhealthy", 0, ())
    assert told(engine) == [] and engine.schedule.due == []


def test_what_belongs_to_an_earlier_run_changes_nothing(engine):
    """A probe was under way when its container was restarted: one monitor goes on, and it is the new one."""
    one = container(Test=["CMD", "x"])

    def restarted_meanwhile(_engine):
        probing.halt(one)
        probing.begin(engine, one)
        return FINE

    engine.results = [restarted_meanwhile]
    probing.begin(engine, one)
    engine.schedule.tick()
    assert one.state.health == Health("starting", 0, ())
    assert len(engine.schedule.due) == 1


def test_a_pause_stops_the_probes_and_its_end_goes_on(engine):
    """Without beginning anew: what the check has found stays, but for the verdict."""
    one = container(Test=["CMD", "x"], Retries=9)
    engine.results = [BAD, FINE]
    probing.begin(engine, one)
    engine.schedule.tick()
    probing.halt(one)
    assert engine.schedule.due == [] and one.state.health.failing_streak == 1
    probing.resume(engine, one)
    assert one.state.health.status == "unhealthy"
    engine.schedule.tick()
    assert one.state.health.status == "healthy"


def test_a_container_without_a_check_has_no_health(engine):
    """Whatever happens to it."""
    one = container(Test=["NONE"])
    for happening in (probing.begin, probing.resume, probing.adopt):
        happening(engine, one)
    probing.halt(one)
    assert one.state.health is None and one.probing is None and engine.schedule.due == []


@pytest.mark.parametrize(
    ("status", "health_status", "text"),
    [
        ("running", "starting", "Up 4 seconds (health: starting)"),
        ("running", "healthy", "Up 4 seconds (healthy)"),
        ("running", "unhealthy", "Up 4 seconds (unhealthy)"),
        ("running", None, "Up 4 seconds"),
        ("paused", "unhealthy", "Up 4 seconds (Paused)"),
        ("exited", "unhealthy", "Exited (0) 4 seconds ago"),
    ],
)
def test_the_list_says_it_in_docker_s_words(status, health_status, text):
    """Only of what runs."""
    state = State(status=status, started_ns=SECOND, finished_ns=SECOND)
    state.health = Health(health_status) if health_status else None
    assert status_text(state, 5 * SECOND) == text


def test_health_is_kept_with_the_state(tmp_path):
    """For the next daemon; one without a check has nothing there."""
    database = Database(str(tmp_path / "db"), table.SCHEMA)
    found = Health("unhealthy", 4, (Probe(1, 2, 3, "q\ufffd\n"), Probe(4, 5, -1, "")))
    one = container(Test=["CMD", "x"])
    other = container()
    one.state.health, other.id, other.name = found, "d" * 64, "other"
    with database.transaction() as connection:
        for each in (one, other):
            table.insert(connection, each, None)
    with database.reading() as connection:
        assert [each.state.health for each in table.load_all(connection)] == [found, None]
    with database.transaction() as connection:
        table.delete(connection, one)
        assert connection.execute("SELECT COUNT(*) FROM container_health").fetchone()[0] == 0
    database.close()
