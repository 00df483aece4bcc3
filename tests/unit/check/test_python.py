"""The row of `engine check` about Python names what a build of it may lack."""

import os

import pytest

from engine.check import isolation
from engine.check.row import MISSING, OK
from engine.settings import every


def test_a_python_without_extended_attributes_is_missing_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 3.11.2 is that was built on musl."""
    settings = every.from_arguments(["--config-file", "/dev/null"])
    row = next(check for check in isolation.CHECKS if check.name == "Python")
    assert row.probe(settings).state == OK
    monkeypatch.delattr(os, "setxattr")
    found = row.probe(settings)
    assert found.state == MISSING and found.text.endswith("without os.setxattr (with musl it has it from 3.11.3 on)")
