"""The cgroups that steps lie in by their client's word: which names are taken, and which directories are removed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.daemon.builder import stepgroups
from engine.errors import Invalid


@pytest.fixture
def engine(tmp_path: Path) -> SimpleNamespace:
    """One whose cgroups are plain directories."""

    def directories(_id: str, parent: str) -> tuple[str, ...]:
        return (f"{tmp_path}{parent}",)

    def leave(parent: str) -> None:
        if (path := Path(f"{tmp_path}{parent}")).is_dir() and not any(path.iterdir()):
            path.rmdir()

    return SimpleNamespace(cgroups=SimpleNamespace(directories=directories, leave=leave))


@pytest.fixture
def begin(engine: SimpleNamespace, tmp_path: Path) -> Callable[[str], Callable[[], None]]:
    """A step that begins below a parent, which is made for it; returns what ends it."""

    def begun(parent: str) -> Callable[[], None]:
        context = stepgroups.used(engine, parent)
        context.__enter__()
        os.makedirs(f"{tmp_path}/{parent}", exist_ok=True)
        return lambda: context.__exit__(None, None, None)  # type: ignore[return-value]

    return begun


def names(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


def test_what_was_made_for_steps_goes_with_the_last(begin: Callable, tmp_path: Path) -> None:
    first, second = begin("/a/b"), begin("/a/c")
    third = begin("a/b")
    first()
    assert names(tmp_path) == ["a", "a/b", "a/c"]
    second()
    assert names(tmp_path) == ["a", "a/b"]
    third()
    assert names(tmp_path) == []
    assert not stepgroups._using and not stepgroups._made


def test_what_was_there_before_stays(begin: Callable, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    end = begin("/a/b")
    end()
    assert names(tmp_path) == ["a"]


def test_what_others_use_stays(begin: Callable, tmp_path: Path) -> None:
    end = begin("/a")
    (tmp_path / "a" / "other").mkdir()
    end()
    assert names(tmp_path) == ["a", "a/other"]


def test_the_end_of_the_steps_own_group_is_waited_for(begin: Callable, tmp_path: Path) -> None:
    """The kernel may keep it for a moment after the last process."""
    end = begin("/a/b")
    (tmp_path / "a" / "b" / "container").mkdir()
    later = threading.Timer(0.05, (tmp_path / "a" / "b" / "container").rmdir)
    later.start()
    end()
    later.join()
    assert names(tmp_path) == []


@pytest.mark.parametrize("parent", ["", "machine.slice"])
def test_the_usual_one_and_slices_are_nobodys_business(engine: SimpleNamespace, tmp_path: Path, parent: str) -> None:
    with stepgroups.used(engine, parent):
        assert not stepgroups._using
    assert names(tmp_path) == []


@pytest.mark.parametrize("parent", ["..", "../x", "/a/../../x", "a/.."])
def test_a_name_that_leads_upwards_is_refused(parent: str) -> None:
    with pytest.raises(Invalid, match="it leads upwards"):
        stepgroups.checked(parent)


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(Invalid, match="invalid cgroup-parent"):
        stepgroups.checked("x" * 5000)


def test_other_names_are_taken() -> None:
    for parent in ("", "/a", "a/b", "a..b", "x.slice"):
        assert stepgroups.checked(parent) == parent
