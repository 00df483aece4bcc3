"""The names of dockerd's storage drivers and their options."""

import pytest

from engine.errors import Invalid
from engine.settings import every


def made(*arguments):
    return every.from_arguments(["--config-file", "/dev/null", *arguments], {}, 0)


@pytest.mark.parametrize("name", ["", "overlay2", "overlayfs", "vfs", "native"])
def test_a_driver_that_the_engine_has_is_taken(name):
    assert made("-s", name).storage_driver == name


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-s", "zfs"], "driver not supported: zfs"),
        (["--storage-opt", "x"], "unable to parse storage-opt key/value: x"),
        (["--storage-opt", "dm.fs=ext4"], "unknown option dm.fs"),
        (["--storage-opt", "overlay2.size=1G"], "overlay2.size is not built: it needs project quotas"),
    ],
)
def test_what_the_engine_does_not_have_is_refused(arguments, text):
    with pytest.raises(Invalid, match=text):
        made(*arguments)
