"""Root's daemon with the data root that a user's daemon has written, once root owns it: it runs the images, and hands
them over.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.building import build
from tests.harness import rootfs, users
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.harness.users import SUBORDINATE, UID

pytestmark = [
    pytest.mark.skipif(rootfs.program() is None, reason="needs busybox: apt-get install busybox-static"),
    pytest.mark.skipif(not users.available(), reason="needs newuidmap: apt-get install uidmap"),
]
NO_NETWORK = {"NetworkMode": "none"}
STEPS = """FROM busybox
RUN mkdir -p /kept /gone/below /opaque && echo old > /opaque/old && echo x > /gone/file && echo one > /kept/one
RUN rm -r /gone && rm /kept/one && rm -r /opaque && mkdir /opaque && echo new > /opaque/new
RUN echo owned > /of-1000 && chown 1000:1000 /of-1000 && chmod 4755 /of-1000 && ln -s /of-1000 /link
USER 1000
"""
SCRIPT = "ls -d /gone /kept/one; ls /opaque; cat /link; id -u; touch /tmp/x && echo wrote"


def seen(daemon: Daemon) -> tuple[str, str]:
    """What a container of the built image finds, as its user and as root."""
    mine = daemon.run("sh", "-c", SCRIPT, Image="built", HostConfig=NO_NETWORK)
    owners = daemon.run("stat", "-c", "%u:%g %a %n", "/of-1000", "/bin", "/opaque/new", Image="built", User="0")
    return mine.stdout.decode(), owners.stdout.decode()


@pytest.fixture(scope="module")
def written(world: World) -> Iterator[tuple[users.UserDaemon, tuple[str, str]]]:
    """A user's daemon that has stopped, with an image of several layers; what its own containers found there."""
    with running(world.user_daemon(world.user_machine())) as daemon:
        daemon.import_busybox()
        assert not build(daemon, STEPS, t="built").error
        found = seen(daemon)
        daemon.stop()
        yield daemon, found


@pytest.fixture(scope="module")
def roots(world: World, written: tuple[users.UserDaemon, tuple[str, str]]) -> Iterator[Daemon]:
    """Root's daemon with that data root, which root has moved to where the user cannot write, and made root's."""
    daemon = world.daemon(machine=world.machine())
    handed_over(written[0].data_root, daemon.data_root, 0)
    with running(daemon):
        yield daemon


def handed_over(place: Path, to: Path, owner: int) -> None:
    """Move a data root, and give its own directories and files to a user; not what is in images and containers."""
    place.rename(to)
    for path in (to, *to.iterdir(), to / "volumes" / ".removed"):
        os.chown(path, owner, owner)


def test_root_takes_no_data_root_that_is_a_users(world: World, written: tuple[users.UserDaemon, object]) -> None:
    daemon = world.daemon(machine=world.machine())
    daemon.data_root = written[0].data_root
    daemon.start(wait=False)
    assert daemon.process.wait(60) == 1
    daemon.process = None
    assert f"cannot be used: it belongs to the user {UID}, who could put anything there" in daemon.log


def test_root_runs_the_images_of_a_user(roots: Daemon, written: tuple[users.UserDaemon, tuple[str, str]]) -> None:
    """What was removed is gone, what was replaced is new. The files belong to the host's ids, of the user."""
    tags = {tag for image in roots.request("GET", "/images/json").json() for tag in image["RepoTags"]}
    assert {"built:latest", "busybox:latest"} <= tags
    found, owners = seen(roots)
    assert found == written[1][0] == "new\nowned\n1000\nwrote\n"
    of_others = SUBORDINATE[0] + 999
    assert owners.splitlines()[0] == f"{of_others}:{of_others} 4755 /of-1000"
    assert owners.splitlines()[1] == f"{UID}:{UID} 755 /bin"


def test_what_root_saves_of_it_has_the_owners_of_the_image(
    world: World, roots: Daemon, written: tuple[users.UserDaemon, tuple[str, str]]
) -> None:
    """So root's daemon takes the user's images over into a data root of its own."""
    saved = roots.request("GET", "/images/built/get")
    assert saved.status == 200
    with running(world.daemon(machine=world.machine())) as other:
        loaded = other.request("POST", "/images/load", body=saved.body, headers={"Content-Type": "application/x-tar"})
        assert loaded.status == 200 and "error" not in loaded.lines[-1], loaded
        assert seen(other) == written[1]
    assert written[1][1].startswith("1000:1000 4755 /of-1000\n0:0 755 /bin\n")


def test_the_user_goes_on_with_it_afterwards(roots: Daemon, written: tuple[users.UserDaemon, tuple[str, str]]) -> None:
    mine, found = written
    roots.stop()
    handed_over(roots.data_root, mine.data_root, UID)
    mine.start()
    try:
        assert seen(mine) == found
        assert not build(mine, "FROM built\nUSER 0\nRUN rm /of-1000", t="more").error
    finally:
        mine.stop()
        handed_over(mine.data_root, roots.data_root, 0)
        roots.start()
