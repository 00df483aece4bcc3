"""Mounts as init makes them: images of several layers, parts of them, and what is read-only how far down."""

import os
import stat
from pathlib import Path

import pytest

from engine.dataclass import replace
from engine.sandbox.spec import Mount, Sandbox
from tests.sandbox.harness import Bench

pytestmark = pytest.mark.root


def with_mounts(sandbox: Sandbox, *wanted: Mount) -> Sandbox:
    """The sandbox with more mounts, at the end."""
    return replace(sandbox, mounts=(*sandbox.mounts, *wanted))


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    """Two layers: the upper one deletes a file of the lower one and replaces another."""
    for name in ("1", "2"):
        (tmp_path / name / "data").mkdir(parents=True)
    (tmp_path / "1/data/gone").write_text("gone")
    (tmp_path / "1/data/kept").write_text("kept\n")
    (tmp_path / "1/data/new").write_text("old\n")
    (tmp_path / "2/data/new").write_text("new\n")
    os.mknod(tmp_path / "2/data/gone", stat.S_IFCHR | 0o600, os.makedev(0, 0))
    return tmp_path


def image(layers: Path, names: str, **values: str) -> Mount:
    """A mount of these layers at /i."""
    return Mount("image", str(layers), "/i", ("rro",), names, asked=True, place=str(layers), **values)


def test_an_image_of_several_layers_is_one_read_only_tree(bench: Bench, layers: Path) -> None:
    script = "ls /i/data; cat /i/data/*; touch /i/x 2>/dev/null || echo ro; grep -c ' /i ' /proc/mounts"
    result = bench.run(with_mounts(bench.sandbox("sh", "-c", script), image(layers, "1:2")))
    assert result.out == "kept\nnew\nkept\nnew\nro\n1\n", result


@pytest.mark.parametrize(("subpath", "script"), [("data", "cat /i/new"), ("data/new", "cat /i")])
def test_a_part_of_an_image_is_all_that_is_there(bench: Bench, layers: Path, subpath: str, script: str) -> None:
    sandbox = bench.sandbox("sh", "-c", f"{script}; grep -c ' /i ' /proc/mounts")
    result = bench.run(with_mounts(sandbox, image(layers, "1:2", subpath=subpath)))
    if bench.way == "old":
        assert "function not implemented" in result.failure.text
        return
    assert result.out == "new\n1\n", result


def test_what_was_mounted_for_a_moment_is_gone(bench: Bench, layers: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    bench.run(with_mounts(bench.sandbox("true"), image(layers, "1:2", subpath="data")))
    assert sorted(os.listdir(layers)) == ["1", "2"]
    assert Path("/proc/self/mountinfo").read_text() == before


def test_a_tmpfs_takes_the_mode_of_what_it_hides(bench: Bench) -> None:
    sandbox = bench.sandbox("stat", "-c", "%a", "/private", "/new", "/given")
    upper = bench.base / sandbox.root.upper
    (upper / "private").mkdir(mode=0o700)
    (upper / "given").mkdir(mode=0o700)
    result = bench.run(
        with_mounts(
            sandbox,
            Mount("tmpfs", "tmpfs", "/private", asked=True),
            Mount("tmpfs", "tmpfs", "/new", asked=True),
            Mount("tmpfs", "tmpfs", "/given", (), "mode=755", asked=True),
        )
    )
    assert result.out == "700\n1777\n755\n", result


def test_a_tmpfs_can_be_shared_with_namespaces_inside(bench: Bench) -> None:
    sandbox = bench.sandbox("grep", " /x ", "/proc/self/mountinfo")
    result = bench.run(with_mounts(sandbox, Mount("tmpfs", "tmpfs", "/x", propagation="shared", asked=True)))
    assert " shared:" in result.out


def test_a_bind_is_not_a_peer_of_the_hosts_mount(bench: Bench, tmp_path: Path) -> None:
    sandbox = bench.sandbox("grep", " /x ", "/proc/self/mountinfo")
    result = bench.run(with_mounts(sandbox, Mount("bind", str(tmp_path), "/x", ("rbind",), asked=True)))
    assert " shared:" not in result.out and " master:" not in result.out and " /x " in result.out


def test_a_file_is_made_for_a_file_and_a_directory_for_a_directory(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("contents\n")
    sandbox = bench.sandbox("sh", "-c", "cat /a/b/file; ls /c/d")
    binds = (
        Mount("bind", str(tmp_path / "file"), "/a/b/file", ("rbind",), asked=True),
        Mount("bind", str(tmp_path), "/c/d", ("rbind",), asked=True),
    )
    assert bench.run(with_mounts(sandbox, *binds)).out == "contents\nfile\n"
