"""A container's files where the data root can carry no overlay and images are copied: the same answers."""

from collections.abc import Iterator

import pytest

from tests.api.test_archive import get, member, put, tar_of
from tests.api.test_changes import TABLE, listed
from tests.api.test_export import exported
from tests.harness import contexts, rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def copying(world: World) -> Iterator[Daemon]:
    """A daemon that has found no overlay in its data root."""
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    daemon = world.daemon()
    daemon.copies_layers()
    with running(daemon):
        daemon.import_busybox()
        yield daemon


def ended(daemon: Daemon, script: str, **body: object) -> str:
    container = daemon.create("sh", "-c", script, **body)
    daemon.begin(container)
    assert daemon.wait(container) == 0, daemon.logs(container)
    return container


@pytest.mark.parametrize("case", [case for case in TABLE if case != "in a tmpfs"])
def test_changes_are_the_same(copying: Daemon, case: str) -> None:
    script, wanted = TABLE[case]
    container = ended(copying, script)
    assert listed(copying, container) == wanted
    copying.remove(container)


def test_files_are_copied_in_and_out(copying: Daemon) -> None:
    container = copying.create("sleep", "1000")
    for start in (True, False):
        assert put(copying, container, "/tmp", tar_of((member("x"), b"in"))).status == 200
        with get(copying, container, "/tmp") as archive:
            assert archive.extractfile("tmp/x").read() == b"in"
        with exported(copying, container) as archive:
            assert archive.extractfile("tmp/x").read() == b"in"
            assert not any(name.startswith("proc/") for name in archive.getnames())
        if start:
            copying.begin(container)
    copying.remove(container)


def test_layers_are_made_and_compared(copying: Daemon) -> None:
    first = ended(copying, "rm -r /var && mkdir /var && echo > /var/new && rm /etc/shadow && echo 1 > /n")
    assert copying.request("POST", f"/commit?container={first}&repo=copied").status == 201
    second = ended(copying, "ls /var /etc/shadow; mkdir /var/www && rm /var/new; echo 2 > /n", Image="copied")
    assert listed(copying, second) == [("/n", 0), ("/var", 0), ("/var/new", 2), ("/var/www", 1)]
    assert copying.request("POST", f"/commit?container={second}&repo=copied2").status == 201
    assert copying.shell("ls /var; cat /n", Image="copied2").split() == ["www", "2"]
    for container in (second, first):
        copying.remove(container)


def test_an_image_is_built_of_stages_and_archives(copying: Daemon) -> None:
    words = (
        "FROM busybox AS a\nRUN mkdir /new && echo 1 > /new/made && rm /etc/group\nFROM busybox\n"
        "COPY --from=a /new /etc /got/\nCOPY --chown=daemon a /got/\nADD t.tar /got/\nCOPY a /bin/\n"
        "RUN cat /got/made /bin/a"
    )
    members = (contexts.Member("a", "a"), contexts.Member("t.tar", contexts.archive(contexts.Member("sub/t", "t"))))
    made = contexts.build(copying, words, *members)
    assert made.id, made.said + made.error
    found = contexts.tree(copying, made.id, "got")
    assert found["got/a"] == "-0644 1:1 a" and found["got/sub/t"] == "-0644 0:0 t"
    assert "got/passwd" in found and "got/group" not in found
