"""A daemon may be asked anything first: its parts are made when somebody first asks for them (`daemon.latepart`)."""

from collections.abc import Callable

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


def test_what_an_earlier_daemon_left_is_gone_before_anything_is_asked(own_daemon: Daemon) -> None:
    (own_daemon.data_root / "tmp/build-1-1/context").mkdir(parents=True)
    (own_daemon.data_root / "blobs/sha256" / ("0" * 64)).write_text("of no image")
    own_daemon.restart()
    assert list((own_daemon.data_root / "tmp").iterdir()) == []
    assert not (own_daemon.data_root / "blobs/sha256" / ("0" * 64)).exists()
