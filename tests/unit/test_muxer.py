"""Tests of the choice between the C muxer and its Python twins."""

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


def test_another_setting_is_invalid():
    with pytest.raises(Invalid):
        muxer.select("rust")
