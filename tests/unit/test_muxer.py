"""Tests of the choice between the C muxer and its Python twins."""

from types import SimpleNamespace

import pytest

import _muxer
from engine import muxer
from engine.errors import Invalid, Unavailable


def test_python_can_always_be_chosen():
    assert muxer.select("python") == "python"


def test_auto_takes_c_where_it_is_built():
    assert muxer.select("auto") == ("c" if _muxer.built() else "python")


def test_c_that_is_not_built_is_refused_aloud(monkeypatch):
    monkeypatch.setattr(_muxer, "built", lambda: False)
    with pytest.raises(Unavailable, match="not built"):
        muxer.select("c")
    assert muxer.select("auto") == "python"


def test_a_broken_build_is_not_hidden(monkeypatch):
    def broken(name):
        raise ImportError("undefined symbol")

    monkeypatch.setattr(_muxer, "built", lambda: True)
    monkeypatch.setattr(muxer.importlib, "import_module", broken)
    with pytest.raises(ImportError):
        muxer.select("auto")


@pytest.mark.parametrize("lib", [SimpleNamespace(MUX_CONTRACT=1), SimpleNamespace()])
def test_what_was_built_before_the_tree_changed_is_not_taken(monkeypatch, lib):
    """As after a `git pull`: its structs have other fields."""
    monkeypatch.setattr(_muxer, "built", lambda: True)
    monkeypatch.setattr(muxer.importlib, "import_module", lambda _: SimpleNamespace(lib=lib))
    assert muxer.select("auto") == "python"
    assert muxer.in_words("python", "auto").endswith("for the one here is of older sources)")
    with pytest.raises(Unavailable, match=r"is of older sources: run python3 -m _muxer\.build"):
        muxer.select("c")


def test_an_install_without_headers_takes_what_came_with_it(monkeypatch, tmp_path):
    monkeypatch.setattr(_muxer, "__file__", str(tmp_path / "__init__.py"))
    assert muxer.fits(SimpleNamespace(lib=SimpleNamespace()))


def test_another_setting_is_invalid():
    with pytest.raises(Invalid):
        muxer.select("rust")


def test_a_host_without_the_c_muxer_is_told_how_to_get_it(monkeypatch):
    """A choice that somebody has made needs no word."""
    assert (muxer.in_words("c", "auto"), muxer.in_words("python", "python")) == ("c", "python")
    found = {"_cffi_backend": object(), "_muxer.build": object()}
    monkeypatch.setattr(muxer, "find_spec", found.get)
    monkeypatch.setattr(_muxer, "built", lambda: False)
    assert muxer.in_words("python", "auto") == "python (python3 -m _muxer.build makes the faster one)"
    del found["_muxer.build"]  # in the one file, which has the C for other hosts
    assert muxer.in_words("python", "auto") == "python"
    found.clear()
    assert "python3-cffi-backend" in muxer.in_words("python", "auto")
