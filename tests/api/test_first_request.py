"""A daemon may be asked anything first: its parts are made when somebody first asks for them (`daemon.latepart`)."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.harness.contexts import Member, build
from tests.harness.daemon import Daemon


def test_a_build_on_an_empty_data_root(make_daemon: Callable[..., Daemon]) -> None:
    """Its context is on the disk before anybody asks for the store of images."""
    made = build(make_daemon(), "FROM scratch\nCOPY a /a", Member("a", "here"))
    assert made.id, made


def test_a_build_after_a_restart(own_daemon: Daemon) -> None:
    own_daemon.restart()
    made = build(own_daemon, "FROM busybox\nCOPY a /a", Member("a", "here"))
    assert made.id, made


def leave(daemon: Daemon, *files: str) -> list[Path]:
    """Make these files below the daemon's data root, as an earlier one has left them; their paths."""
    owner = daemon.data_root.stat()
    paths = [daemon.data_root / file for file in files]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
        for each in (path.parent, path):
            os.chown(each, owner.st_uid, owner.st_gid)
    return paths


LEFT = ("tmp/build-1-1/file", "layers/none/file", f"blobs/sha256/{'0' * 64}")


def test_what_an_earlier_daemon_left_is_gone_before_anything_is_asked(own_daemon: Daemon) -> None:
    left = leave(own_daemon, *LEFT)
    own_daemon.restart()
    assert not [each for each in left if each.exists()]
    assert list((own_daemon.data_root / "tmp").iterdir()) == []


def test_what_cannot_be_removed_keeps_no_daemon_from_starting(own_daemon: Daemon) -> None:
    """It is told, and the next start tries again."""
    left = leave(own_daemon, *LEFT)
    subprocess.run(["chattr", "+i", *left], check=True)
    try:
        own_daemon.restart()
        for name in ("build-1-1", "none", "0" * 64):
            failed = rf"the next start tries again: \[Errno 1\] Operation not permitted: '(/.*/)?{name}'"
            assert re.search(failed, own_daemon.log), own_daemon.log
        assert all(each.exists() for each in left)
    finally:
        subprocess.run(["chattr", "-i", *left], check=True)
    own_daemon.restart()
    assert not [each for each in left if each.exists()]
