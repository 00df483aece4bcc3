"""A daemon that dies in the middle of a build's step or of a commit: what it had in hand is not left lying."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.api import building
from tests.harness.daemon import Daemon
from tests.harness.doomed import Doomed
from tests.harness.fixtures import World

ENOUGH = 1_000_000
"""More steps than any verb makes."""


@pytest.fixture(scope="module")
def doomed(world: World) -> Iterator[Doomed]:
    """One daemon of the file's own, with busybox."""
    daemon = Doomed(world.directory(), world.namespaces)
    daemon.start()
    try:
        daemon.import_busybox()
        yield daemon
    finally:
        daemon.close()


def steps(doomed: Doomed, verb: Callable[[], object]) -> list[str]:
    """The steps that the daemon makes for it, which is done to its end."""
    assert doomed.dies(ENOUGH, verb) == ""
    return (doomed.root / "orders.steps").read_text().splitlines()


def build(daemon: Daemon) -> None:
    """One step that runs something, which no cache has."""
    body = building.context({"Dockerfile": f"FROM busybox\nRUN : {uuid.uuid4()}\n"})
    daemon.request("POST", building.request_target({}), body, building.TAR, checked=False)


def test_the_container_of_a_step_goes_whenever_its_daemon_died(doomed: Doomed) -> None:
    """From the moment on in which it is there, started or not."""
    build(doomed)
    made = steps(doomed, lambda: build(doomed)).index("committed")
    for number in (made, made + 1):
        assert doomed.dies(number, lambda: build(doomed))
        building.see(lambda: not building.containers(doomed))


@pytest.mark.parametrize("by_hand", [False, True], ids=["running", "paused by its owner"])
def test_a_commit_that_dies_leaves_its_container_as_it_was(doomed: Doomed, by_hand: bool) -> None:
    """A pause of the commit's own ends with it; one by hand is none of its business."""
    one = doomed.create("sleep", "600")
    doomed.begin(one)
    if by_hand:
        assert doomed.request("POST", f"/containers/{one}/pause").status == 204

    def commit() -> None:
        doomed.request("POST", f"/commit?container={one}&repo=cut/off")

    packing = next(number for number, step in enumerate(steps(doomed, commit)) if f"{doomed.data_root}/tmp/" in step)
    assert doomed.dies(packing, commit)
    assert doomed.inspect(one)["State"]["Status"] == ("paused" if by_hand else "running")
    doomed.remove(one)
