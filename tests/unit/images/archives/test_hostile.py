"""Archives that lie, in every way that structure allows: loaded or refused, and never anything half, or elsewhere.

The same inputs are made a hundred thousand times by `tests.long`; here are as many as a quick run can bear.
"""

import os
import pathlib
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.daemon.images.verbs import load
from engine.errors import EngineError
from tests.unit.images import hostile, made


class Drawn:
    """hypothesis decides."""

    def __init__(self, data):
        self._draw = data.draw

    def number(self, low, high):
        return self._draw(st.integers(low, high))

    def data(self, most):
        return self._draw(st.binary(max_size=min(most, 200)))


@pytest.fixture(scope="module")
def root():
    """A directory in memory: each image that is loaded is flushed to the disk, and here that is nobody's question."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as path:
        yield pathlib.Path(path)


@pytest.fixture(scope="module")
def store(root):
    (root / "above" / "store").mkdir(parents=True)
    return made.store(root / "above" / "store")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_is_refused_leaves_nothing_and_what_is_loaded_is_whole(store, data):
    hostile.load_and_check(store, hostile.images(Drawn(data)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_layer_stays_in_its_directory(root, data):
    (root / "unpacked").mkdir(exist_ok=True)
    hostile.unpack_and_check(root / "unpacked", hostile.layer(Drawn(data)))


@pytest.mark.parametrize("make", [hostile.legacy, hostile.nested, lambda image: made.layout(image, hostile.NAMED)])
def test_an_archive_that_is_cut_off_anywhere_is_refused_or_whole_and_leaves_nothing(store, make):
    image = made.MadeImage(made.archive(made.directory("bin"), made.member("bin/sh", b"sh" * 300)))
    data = make(image)
    for end in range(0, len(data), 509):
        hostile.load_and_check(store, data[:end])
    with pytest.raises(EngineError):
        load.load(store, hostile.Pipe(data[: len(data) // 3]), lambda line: None)
    assert not os.listdir(pathlib.Path(store.layer_root).parent / "tmp")
