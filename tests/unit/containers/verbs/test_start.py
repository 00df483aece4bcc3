"""What a start that has failed leaves behind."""

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.daemon.containers import paths
from engine.daemon.containers.paths import Paths
from engine.daemon.containers.security import cgroupparent, specify
from engine.daemon.containers.verbs import create, start
from engine.kernel import syscalls
from engine.sandbox.spec import Limits
from engine.wire import packed
from engine.wire.schema import Start, Started
from tests.harness import parts
from tests.unit.containers.fakes import FakeCgroups, make_engine


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A run's directory with a file in it; its cgroups are another test's."""
    monkeypatch.setattr(start, "clear_cgroups", lambda *_: None)
    run = tmp_path / "run"
    run.mkdir()
    (run / "monitor.sock").touch()
    return Paths(str(tmp_path / "home"), str(run))


@pytest.mark.parametrize("words", ["come", "go"])
def test_last_words_while_a_run_is_cleared_away_do_not_keep_it(
    where: Paths, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    remove = os.rmdir

    def late(path: str, *, dir_fd: int) -> None:
        monkeypatch.setattr(os, "rmdir", remove)
        if words == "go":
            raise FileNotFoundError(errno.ENOENT, "a file that was listed")
        Path(where.exec_dir, "exit").touch()
        remove(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", late)
    start.clear_run(None, parts.container(), where, lent=False)
    assert not os.path.exists(where.exec_dir)


def test_one_who_never_stops_speaking_is_told_of(where: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = os.rmdir

    def late(path: str, *, dir_fd: int) -> None:
        Path(where.exec_dir, "exit").touch()
        remove(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", late)
    with pytest.raises(OSError, match="not empty"):
        start.clear_run(None, parts.container(), where, lent=False)


class Links:
    """The links to monitors; notes whose are dropped."""

    def __init__(self, dropped: list[str]) -> None:
        self._dropped = dropped

    def keep(self, container_id: str) -> None:
        """Nobody listens to it."""

    def drop(self, container_id: str) -> None:
        """It is no more."""
        self._dropped.append(container_id)


@pytest.mark.parametrize("fails", ["record_start", "keep"])
def test_a_run_that_cannot_be_recorded_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """It would go on with nobody to hear of its end."""
    engine = make_engine(tmp_path)
    container, _ = create.create(engine, "one", {"Image": "busybox"}, None)
    done: list[str] = []

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a mistake of ours")

    engine.monitors = Links(done)
    monkeypatch.setattr(start, "clear_run", lambda *_: done.append("cleared"))
    monkeypatch.setattr(engine.monitors if fails == "keep" else start, fails, fail)
    with subprocess.Popen(["sleep", "60"]) as process, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(process.kill)
        started = Started(process.pid, syscalls.process_start(process.pid), 9)
        monkeypatch.setattr(start, "_launch", lambda *_: started)
        with pytest.raises(ValueError, match="a mistake of ours"):
            start.start(engine, container)
        assert process.wait(10) == -signal.SIGKILL
    assert done == [container.id, "cleared"]
    state = container.snapshot()
    assert (state.status, state.pid) == ("created", 0)
    assert container.operation.acquire(blocking=False)


class Scopes(FakeCgroups):
    """Cgroups that systemd makes around init."""

    driver = "systemd"

    def __init__(self, done: list[object]) -> None:
        self._done = done

    def begins_with_process(self, parent: str) -> bool:
        """Of a slice."""
        return parent.endswith(".slice")

    def entries(self, *of: str, running: bool = False) -> tuple[str, ...]:
        """What an exec enters."""
        return ("/cgroup.procs",)

    def begin(self, id: str, limits: Limits, parent: str, pid: int) -> None:
        """Systemd begins."""
        self._done.append(("begin", parent, pid, limits.pids))

    def create(self, id: str, limits: Limits, parent: str, *, pid: int, **more: object) -> None:
        """Systemd has done it."""
        self._done.append(("create", parent, pid, limits.pids))


def test_systemd_makes_the_cgroup_around_init_while_the_networks_are_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(tmp_path)
    container, _ = create.create(engine, "one", {"Image": "busybox", "HostConfig": {"PidsLimit": 9}}, None)
    done: list[object] = []

    class Network:
        """The networks of a start."""

        def __init__(self, *_: object) -> None:
            """Of any container."""

        def prepare(self) -> None:
            """Before init is there."""
            done.append("prepare")

        def plug(self, *process: int) -> None:
            """Init is there."""
            done.append(("plug", *process))

    def begun(
        id: str,
        request: Start,
        clients: list[object],
        meanwhile: Callable[[], None],
        connect: Callable[[int, int], None],
        **_: object,
    ) -> str:
        done.append(packed.unpack(request.sandbox).cgroups)
        meanwhile()
        connect(77, 88)
        return "started"

    engine.cgroups, engine.images.layer_root = Scopes(done), "/layers"
    engine.monitors = SimpleNamespace(start=begun)
    monkeypatch.setattr("engine.daemon.containers.endpoints.starting.Start", Network)
    os.makedirs(f"{engine.settings.exec_root}/containers")
    assert start._launch(engine, container) == "started"
    assert done == [
        (),
        "prepare",
        ("begin", "system.slice", 77, 9),
        ("plug", 77, 88),
        ("create", "system.slice", 77, 9),
    ]
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    assert Path(where.exec_dir, cgroupparent.FILE).read_text() == "system.slice"
    assert specify.process_of(engine, container).cgroups == ("/cgroup.procs",), "an exec enters by itself"
