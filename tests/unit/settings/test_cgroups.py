"""The options about cgroups."""

import pytest

from engine.commandline import parse
from engine.errors import Invalid
from engine.settings import cgroups


def options(*words: str) -> tuple[str, ...]:
    """The `exec-opts` of a command line."""
    return parse(cgroups.OPTIONS, words)[0].get("exec-opt", ())


@pytest.mark.parametrize(
    ("words", "driver"),
    [
        ((), ""),
        (("--exec-opt", "native.cgroupdriver=systemd"), "systemd"),
        (("--exec-opt=Native.CgroupDriver = cgroupfs",), "cgroupfs"),
        (("--exec-opt=native.cgroupdriver=cgroupfs", "--exec-opt=native.cgroupdriver=systemd"), "cgroupfs"),
    ],
)
def test_the_first_option_names_the_driver(words: tuple[str, ...], driver: str) -> None:
    assert cgroups.driver(options(*words)) == driver


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("native.cgroupdriver", "unable to parse key/value option: native.cgroupdriver"),
        ("native.cgroupdriver=none", "native.cgroupdriver option none not supported"),
        ("native.umask=normal", "unknown exec-opt native.umask"),
    ],
)
def test_no_other_option_is_taken(text: str, refusal: str) -> None:
    with pytest.raises(Invalid, match=refusal):
        options(f"--exec-opt={text}")
