"""The settings of containers that an earlier daemon wrote are decoded when they are asked for, and for each thread."""

import json
import threading
from pathlib import Path

import pytest

from engine.daemon.containers.record import SETTINGS, Container
from engine.daemon.store import containers as table
from engine.daemon.store.database import Database
from tests.harness import parts

COUNT = 120


def made(number: int) -> Container:
    """One that differs from the others in each setting that is a text."""
    return parts.container(
        id=f"{number:064x}",
        name=f"n{number}",
        created_ns=number,
        config={"Hostname": f"h{number}"},
        layers=("1", f"{number}"),
    )


@pytest.fixture
def database(tmp_path: Path):
    found = Database(str(tmp_path / "engine.db"), table.SCHEMA)
    with found.transaction() as connection:
        for number in range(COUNT):
            table.insert(connection, made(number), None)
    yield found
    found.close()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are decoded."""
    texts: list[str] = []
    loads = json.loads
    monkeypatch.setattr(table.json, "loads", lambda text: texts.append(text) or loads(text))
    return texts


def loaded(database: Database) -> list[Container]:
    with database.reading() as connection:
        return table.load_all(connection)


def test_nothing_is_decoded_before_it_is_asked_for(database: Database, decoded: list[str]) -> None:
    found = loaded(database)
    assert [each.name for each in found] == [f"n{number}" for number in range(COUNT)]
    assert [each.state.status for each in found] == ["created"] * COUNT and decoded == []
    assert found[COUNT - 1].config["Hostname"] == f"h{COUNT - 1}"
    assert len(decoded) == 1 and found[0].unread is not None
    for number, each in enumerate(found):
        for name in SETTINGS:
            assert getattr(each, name) == getattr(made(number), name)
    assert len(decoded) == 3 and all(each.unread is None for each in found)


def test_a_view_and_what_is_written_again_have_all_settings(database: Database) -> None:
    one, other, *_ = loaded(database)
    assert one.view(one.state).layers == ("1", "0")
    with database.transaction() as connection:
        table.save_settings(connection, other)
    assert loaded(database)[1].config["Hostname"] == "h1"


def test_threads_that_ask_at_once_all_get_them(database: Database, decoded: list[str]) -> None:
    found = loaded(database)
    start, got = threading.Barrier(8), []

    def ask(name: str) -> None:
        start.wait()
        got.append([getattr(each, name) for each in found])

    threads = [threading.Thread(target=ask, args=(name,)) for name in SETTINGS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8 and len(decoded) == 3


def test_after_a_failure_they_are_asked_for_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: str) -> object:
        raise MemoryError

    one = loaded(database)[0]
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(table.json, "loads", full)
        _ = one.config
    assert one.config["Hostname"] == "h0"


def test_another_name_is_no_field(database: Database) -> None:
    one = loaded(database)[0]
    assert not hasattr(one, "x") and not hasattr(made(1), "x")
