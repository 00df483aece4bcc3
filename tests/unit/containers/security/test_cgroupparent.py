"""Where a container's cgroup is to be, and where that of a run is."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.daemon.containers.record import Container
from engine.daemon.containers.security import cgroupparent
from engine.errors import Invalid
from tests.harness import parts

NO_SLICE = 'cgroup-parent for systemd cgroup should be a valid slice named as "xxx.slice"'


def container(asked: str = "") -> Container:
    """A container that asks for this parent."""
    return parts.container(id="a" * 64, host_config={"CgroupParent": asked})


def engine(driver: str, usual: str = "") -> SimpleNamespace:
    """An engine with this driver and this `--cgroup-parent`."""
    cgroups = SimpleNamespace(driver=driver, slice="system.slice")
    return SimpleNamespace(cgroups=cgroups, settings=SimpleNamespace(cgroup_parent=usual))


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("", "/engine"),
        ("/", "/"),
        ("//", "/"),
        ("a", "/a"),
        ("/a/b/", "/a/b"),
        ("//a//b", "/a/b"),
        ("../../a", "/a"),
        ("a/../../..", "/"),
        ("/./a/.", "/a"),
        (".hidden", "/.hidden"),
        ("a..b", "/a..b"),
    ],
)
def test_with_cgroupfs_a_parent_is_a_path_within_the_hierarchy(asked: str, wanted: str, tmp_path: Path) -> None:
    one = container(asked)
    assert cgroupparent.of(one) == wanted
    cgroupparent.settle(engine("cgroupfs"), one, str(tmp_path))
    assert cgroupparent.of(one) == wanted
    assert not list(tmp_path.iterdir()), "any daemon finds it without a file"


@pytest.mark.parametrize(
    ("driver", "asked", "usual", "wanted"),
    [
        ("systemd", "", "", "system.slice"),
        ("systemd", "", "b.slice", "b.slice"),
        ("systemd", "a-b.slice", "b.slice", "a-b.slice"),
        ("systemd", "-.slice", "", "-.slice"),
        ("cgroupfs", "", "/b", "/b"),
        ("cgroupfs", "a", "/b", "/a"),
    ],
)
def test_a_next_daemon_finds_the_parent_of_a_run(
    driver: str, asked: str, usual: str, wanted: str, tmp_path: Path
) -> None:
    cgroupparent.settle(engine(driver, usual), container(asked), str(tmp_path))
    later = container(asked)
    cgroupparent.recall(later, str(tmp_path))
    assert cgroupparent.of(later) == wanted


@pytest.mark.parametrize("text", ["", "sys", "/a/../b", "a/b", "a\0b", "\xff"])
def test_a_file_that_was_cut_off_says_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / cgroupparent.FILE).write_text(text)
    one = container()
    cgroupparent.recall(one, str(tmp_path))
    assert cgroupparent.of(one) == "/engine"


@pytest.mark.parametrize(
    ("parent", "driver", "refusal"),
    [
        ("a\0b", "cgroupfs", "invalid cgroup-parent"),
        ("x" * 5000, "cgroupfs", "invalid cgroup-parent"),
        ("\u00e9" * 2000, "cgroupfs", "invalid cgroup-parent"),
        ("a\nb.slice", "systemd", "invalid cgroup-parent"),
        ("/" + "a" * 2048, "cgroupfs", "invalid cgroup-parent"),
        ("user.slice", "cgroupfs", "names a systemd slice: this engine's cgroup driver is cgroupfs"),
        *((wrong, "systemd", NO_SLICE) for wrong in ("/engine", "engine", ".slice", "/a.slice", "a/b.slice")),
        *(
            (wrong, "systemd", NO_SLICE)
            for wrong in ("a--b.slice", "-a.slice", "a-.slice", "a b.slice", "\u00e4.slice")
        ),
        (f"{'a' * 250}.slice", "systemd", NO_SLICE),
    ],
)
def test_what_a_driver_cannot_have_is_refused(parent: str, driver: str, refusal: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=refusal):
        cgroupparent.check(parent, driver)
    with pytest.raises(Invalid, match=refusal):
        cgroupparent.settle(engine(driver), container(parent), str(tmp_path))
