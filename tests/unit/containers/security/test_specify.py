"""A container's writable directory: made once, whole, also after an attempt that was cut off."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from engine.daemon.containers import paths
from engine.daemon.containers.security import specify
from tests.harness.parts import Parts
from tests.unit.containers.test_states import container


@pytest.fixture
def where(tmp_path):
    made = paths.of(str(tmp_path), str(tmp_path / "run"), "a" * 64)
    os.makedirs(made.home)
    return made


@dataclass
class Images:
    """A store whose layers are copied in a way of the test's."""

    copy_layers: Callable[[Sequence[str], str], None]


def copying(copy_layers):
    return Parts(storage="copy", images=Images(copy_layers))


def fill(layers, target):
    assert os.listdir(target) == []
    open(os.path.join(target, "file"), "w").close()


def test_a_copied_root_is_where_it_is_run_from(where):
    specify.make_root(copying(fill), container(), where)
    assert sorted(os.listdir(where.upper)) == [".dockerenv", "dev", "etc", "file", "proc", "sys"]
    assert not os.path.exists(where.work)


def test_a_copy_that_was_cut_off_is_begun_anew(where):
    def cut_off(layers, target):
        fill(layers, target)
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        specify.make_root(copying(cut_off), container(), where)
    assert not os.path.exists(where.upper)
    specify.make_root(copying(fill), container(), where)
    assert sorted(os.listdir(where.upper)) == [".dockerenv", "dev", "etc", "file", "proc", "sys"]


def test_an_overlay_half_made_is_finished(where, tmp_path):
    """Also one that was cut off before all places for mounts were in it."""
    os.mkdir(where.work)
    os.makedirs(f"{where.upper}.part/left")
    (tmp_path / "layer").mkdir()
    images = SimpleNamespace(layer_root=str(tmp_path))
    one = container()
    one.layers, one.image_id = ("layer",), "sha256:" + "a" * 64
    specify.make_root(Parts(storage="overlayfs", images=images), one, where)
    assert sorted(os.listdir(where.upper)) == [".dockerenv", "dev", "etc", "proc", "sys"]
    assert sorted(os.listdir(where.home)) == sorted(map(os.path.basename, (where.upper, where.work)))
