"""Walking what a container has changed: how deep it goes is the container's choice, and the thread's stack is small."""

import os
import threading

import pytest

from engine.daemon.containers.contents import changes
from engine.daemon.runtime.worker import STACK_SIZE
from engine.errors import SystemFailure

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def deep(path, levels):
    """Directories in one another, deeper than a path is long; a descriptor of the uppermost."""
    top = here = os.open(path, DIRECTORY)
    for _ in range(levels):
        os.mkdir("directory", dir_fd=here)
        inner = os.open("directory", DIRECTORY, dir_fd=here)
        if here != top:
            os.close(here)
        here = inner
    os.close(here)
    return top


def walked(top):
    """The paths that are found, or the failure, in a thread like those of the server."""
    found = []

    def walk():
        try:
            found.extend(change.path for change in changes._walk(top, None, overlay=False, whole=False))
        except SystemFailure as error:
            found.append(error)

    before = threading.stack_size(STACK_SIZE)
    try:
        thread = threading.Thread(target=walk)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return found


def test_the_deepest_tree_that_is_walked_takes_no_stack(tmp_path):
    found = walked(deep(tmp_path, 299))
    assert len(found) == 299 and found[-1] == "/directory" * 299


def test_a_deeper_one_is_refused_in_words(tmp_path):
    found = walked(deep(tmp_path, 305))
    with pytest.raises(SystemFailure, match="nested too deeply"):
        raise found[-1]


def test_a_directory_is_told_before_what_has_changed_in_it(tmp_path):
    """And one without a change in it is not told at all."""
    for side in ("before", "now"):
        for name in ("same/same", "with/inner"):
            os.makedirs(tmp_path / side / name)
    (tmp_path / "now/with/inner/file").write_text("new")
    (tmp_path / "now/with/other").write_text("new")
    sides = [os.open(tmp_path / side, DIRECTORY) for side in ("now", "before")]
    found = list(changes._walk(sides[0], changes._Plain(sides[1]), overlay=False, whole=True))
    assert [(change.path, change.kind) for change in found] == [
        ("/with", changes.MODIFIED),
        ("/with/inner", changes.MODIFIED),
        ("/with/inner/file", changes.ADDED),
        ("/with/other", changes.ADDED),
    ]
