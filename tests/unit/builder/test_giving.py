"""What a client gives to a step: where it lies, and when it is refused."""

import os
from pathlib import Path

import pytest

from engine.daemon.builder import giving
from engine.daemon.containers import paths
from engine.daemon.tar.space import NoSpace


def test_no_secret_takes_the_last_room_of_the_exec_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(paths.given(str(tmp_path)))
    place.mkdir(parents=True)
    with giving.secret(str(tmp_path), "x", b"hush", os.getuid(), os.getgid(), 0o400) as path:
        assert Path(path).read_bytes() == b"hush" and Path(path).parent == place

    def full(_fd: int) -> None:
        raise NoSpace("full")

    monkeypatch.setattr(giving, "check_space", full)
    with pytest.raises(NoSpace, match="exec root"), giving.secret(str(tmp_path), "x", b"", 0, 0, 0o400):
        pass
    assert not list(place.iterdir())
