"""Tests of the choice between the twins."""

import pytest

import _muxer
from engine.errors import Invalid, Unavailable
from engine.logs import twin


def test_python_can_always_be_chosen():
    assert twin.select("python").name == "python"


def test_auto_takes_c_where_it_is_built():
    assert twin.select("auto").name == ("c" if _muxer.built() else "python")


def test_c_that_is_not_built_is_refused_aloud(monkeypatch):
    monkeypatch.setattr(_muxer, "built", lambda: False)
    with pytest.raises(Unavailable, match="not built"):
        twin.select("c")
    assert twin.select("auto").name == "python"


def test_a_broken_build_is_not_hidden(monkeypatch):
    def broken(name):
        raise ImportError("undefined symbol")

    monkeypatch.setattr(_muxer, "built", lambda: True)
    monkeypatch.setattr(twin.importlib, "import_module", broken)
    with pytest.raises(ImportError):
        twin.select("auto")


def test_another_setting_is_invalid():
    with pytest.raises(Invalid):
        twin.select("rust")
