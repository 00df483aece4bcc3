"""The one file: what is read from it, and what happens when another takes its place, or it is changed in place."""

import os
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from engine import onefile
from engine.bundle import pyz
from engine.errors import SystemFailure
from engine.spawner import modules

ROOT = Path(__file__).resolve().parents[3]
FILES = {
    "engine/onefile.py": (ROOT / "engine/onefile.py").read_bytes(),
    "engine/__init__.py": b"KIND = 'packed'\n",
    "engine/inner/__init__.py": b"",
    "engine/inner/one.py": b"\n\ndef fail():\n    raise ValueError('here')\n",
    "engine/inner/two.py": b"WHO = __name__\n",
    "engine/sandbox/some.json": b"{}",
    "_muxer/__init__.py": b"",
    f"_muxer/targets/{onefile.tag()[0]}-0/_native.abi3.so": b"no library",
    "_muxer/targets/pdp11-linux-gnu-2.1/_native.abi3.so": b"for another machine",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small file of this form."""
    made = tmp_path / "small.pyz"
    made.write_bytes(pyz.pack(FILES).data)
    return made


@pytest.fixture
def whole(path: Path) -> onefile.OneFile:
    return onefile.OneFile(str(path))


def test_the_same_files_give_the_same_bytes() -> None:
    assert pyz.pack(dict(reversed(FILES.items()))).data == pyz.pack(FILES).data


def test_other_files_give_another_digest(whole: onefile.OneFile, path: Path) -> None:
    path.write_bytes(pyz.pack({**FILES, "engine/inner/two.py": b"WHO = 2\n"}).data)
    assert onefile.OneFile(str(path)).digest != whole.digest


def test_all_that_went_in_comes_out(whole: onefile.OneFile) -> None:
    assert {name: whole.read(name) for kind in "sd" for name in whole.names(kind)} == FILES
    with pytest.raises(FileNotFoundError):
        whole.read("engine/none.json")


def test_modules_are_found_and_run(whole: onefile.OneFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "engine"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [whole, *sys.meta_path])
    import engine.inner.one
    import engine.inner.two

    assert (engine.KIND, engine.inner.two.WHO) == ("packed", "engine.inner.two")
    assert engine.inner.one.__file__ == f"{path}/engine/inner/one.py"
    with pytest.raises(ValueError) as caught:
        engine.inner.one.fail()
    assert caught.traceback[-1].lineno == 3 and str(path) in str(caught.traceback[-1].path)
    for name in ("engine", "engine.inner", "engine.inner.one", "engine.inner.two"):
        monkeypatch.delitem(sys.modules, name)


def test_a_start_unpacks_each_block_once_and_then_gives_it_back(
    whole: onefile.OneFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = []
    monkeypatch.setattr(onefile, "_unpacked", lambda data, of=onefile._unpacked: unpacked.append(data) or of(data))
    for _ in range(2):
        whole.get_code("engine.inner.one")  # its code is in one block
        whole.read("engine/inner/two.py")  # and the sources are in another
    assert (len(unpacked), len(whole._unpacked)) == (2, 2)
    whole.started()
    assert whole._unpacked == {}
    whole.get_code("engine.inner.one")
    assert (len(unpacked), whole._unpacked) == (3, {})


def test_another_python_compiles_the_sources(path: Path) -> None:
    data = pyz.pack(FILES)
    assert data.with_code == data.modules
    whole = onefile.OneFile(str(path))
    assert whole.get_code("engine.inner.one").co_linetable
    whole._code_fits = False
    assert whole.get_code("engine.inner.one").co_filename == f"{path}/engine/inner/one.py"
    assert MAGIC_NUMBER.hex() in whole._index.decode()


def test_a_file_in_its_place_changes_nothing(whole: onefile.OneFile, path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(pyz.pack({**FILES, "engine/inner/two.py": b"WHO = 2\n"}).data)
    os.replace(other, path)
    assert whole.read("engine/inner/two.py") == FILES["engine/inner/two.py"]
    assert whole.path() == f"{path} (deleted)"


def test_a_change_in_place_is_said(whole: onefile.OneFile, path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(ImportError, match="was changed while the engine ran: start the engine again"):
        whole.read("engine/inner/two.py")


def test_who_has_closed_it_loads_nothing(whole: onefile.OneFile) -> None:
    whole.close()
    with pytest.raises(ImportError, match="is closed"):
        whole.get_code("engine.inner.one")


@pytest.mark.parametrize("data", [b"", b"PK", b"x" * 100, b"engine 1 0 20", b"engine 7 0 20", b"engine 1 9999999 20"])
def test_what_is_no_such_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "other").write_bytes(data)
    with pytest.raises(ImportError):
        onefile.OneFile(str(tmp_path / "other"))


def test_a_file_that_is_inherited_is_the_same_one(path: Path) -> None:
    with path.open("rb") as file:
        inherited = onefile.OneFile(f"/proc/self/fd/{file.fileno()}")
        assert inherited.descriptor == file.fileno()
        path.unlink()
        assert inherited.read("engine/sandbox/some.json") == b"{}"


@pytest.mark.parametrize(
    ("target", "fit"),
    [("x86_64-linux-gnu-2.33", True), ("x86_64-linux-gnu-2.36", True), ("x86_64-linux-gnu-2.37", False),
     ("x86_64-linux-gnu-3.1", False), ("aarch64-linux-gnu-2.17", False), ("x86_64-linux-musl-0", False)],
)  # fmt: skip
def test_a_library_must_fit(monkeypatch: pytest.MonkeyPatch, target: str, fit: bool) -> None:
    monkeypatch.setattr(onefile, "tag", lambda: ("x86_64-linux-gnu", (2, 36)))
    assert onefile.fits(target) is fit


def test_the_library_is_that_of_this_host(whole: onefile.OneFile) -> None:
    assert whole.target() == f"_muxer/targets/{onefile.tag()[0]}-0"
    assert whole.find_spec("_muxer._native") is not None


def test_a_host_without_its_library_has_none(whole: onefile.OneFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onefile, "tag", lambda: ("vax-linux-gnu", (2, 36)))
    assert whole.find_spec("_muxer._native") is None


def test_a_library_that_does_not_load_says_so(whole: onefile.OneFile) -> None:
    spec = whole.find_spec("_muxer._native")
    with pytest.raises(ImportError):
        spec.loader.create_module(spec)


def test_code_that_does_not_fit_is_left_out_and_sources_are_not() -> None:
    full = pyz.pack(FILES)
    less = pyz.pack(FILES, len(full.data) - 1)
    assert less.modules == full.modules and less.with_code < full.with_code
    assert len(less.data) < len(full.data)
    with pytest.raises(SystemFailure, match="more than 3000"):
        pyz.pack(FILES, 3000)


@pytest.mark.parametrize("fits", [True, False])
def test_a_spawner_keeps_code_where_the_file_has_it_and_a_source_where_not(
    whole: onefile.OneFile, monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    """What is compiled is compiled at its first use: a start has no time for it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "engine"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [whole, *sys.meta_path])
    whole._code_fits = fits
    kept = modules.Kept()
    kept.keep("engine.inner.two")
    assert kept._made["engine.inner.two"][1] == fits
    import engine.inner

    whole.close()
    monkeypatch.setattr(sys, "meta_path", [kept, *sys.meta_path])
    import engine.inner.two

    assert engine.inner.two.WHO == "engine.inner.two"
    for name in ("engine", "engine.inner", "engine.inner.two"):
        monkeypatch.delitem(sys.modules, name)
