"""Containers on a file system whose server does not answer: a start is given up, and nobody else has to wait."""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import hasty as hasty_daemon
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World

# A FUSE file system (fuse(4)) that nobody serves: whoever asks anything of it waits until he is killed.
DEAD = """
import ctypes, os, sys, time
fd = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
if libc.mount(b"dead", sys.argv[1].encode(), b"fuse", 0, options):
    sys.exit(os.strerror(ctypes.get_errno()))
print("mounted", flush=True)
sys.stdin.read()
libc.umount2(sys.argv[1].encode(), 2)
"""

pytestmark = pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="needs FUSE to make a server that is away")


class Hasty(Daemon):
    """One that gives up after 2 seconds what it was told to give up."""

    program = "tests.harness.hasty"

    @property
    def environment(self) -> dict[str, str]:
        """Also that of the daemon itself."""
        return {**super().environment, hasty_daemon.NAMED: str(self.root / "named")}

    def give_up(self, *names: str) -> None:
        """These containers and paths it does not wait for any longer."""
        (self.root / "named").write_text("\n".join(names))


@pytest.fixture(scope="module")
def hasty(world: World) -> Iterator[Hasty]:
    """One daemon of the file's own, with busybox."""
    daemon = Hasty(world.directory(), world.namespaces)
    daemon.start()
    try:
        daemon.import_busybox()
        yield daemon
    finally:
        daemon.close()


@contextlib.contextmanager
def dead(daemon: Daemon, path: Path) -> Iterator[None]:
    """While it lasts the directory is a mount whose server is away; who waits for it is let go at the end."""
    path.mkdir(exist_ok=True)
    command = daemon.namespaces.command([sys.executable, "-c", DEAD, str(path)])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"mounted\n"
        try:
            yield
        finally:
            server.stdin.close()
            assert server.wait(60) == 0


CASES = {
    # The daemon looks for the source of a bind of this form, to make it if it is not there.
    "source": ({"Binds": ["{}:/x"]}, ["true"], "the host gives no answer within 2 seconds"),
    # Init looks for the command in it, as its last step.
    "command": (
        {"Mounts": [{"Type": "bind", "Source": "{}", "Target": "/x"}]},
        ["/x/true"],
        "given up after 2 seconds without a sign of life",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_start_that_hangs_is_given_up_and_holds_up_nobody(hasty: Hasty, case: str) -> None:
    """Others are started, listed and pruned meanwhile; afterwards the container is removed as any other."""
    host_config, argv, words = CASES[case]
    path = hasty.root / f"dead-{case}"
    path.mkdir()
    filled = {key: [_filled(value, path) for value in values] for key, values in host_config.items()}
    one = hasty.create(*argv, HostConfig={"NetworkMode": "none", **filled})
    hasty.give_up(one, str(path))
    answers = []
    with dead(hasty, path):
        starting = threading.Thread(target=lambda: answers.append(hasty.request("POST", f"/containers/{one}/start")))
        begun = time.monotonic()
        starting.start()
        assert hasty.shell("echo well") == "well"
        assert hasty.request("GET", "/containers/json?all=1").status == 200
        assert hasty.request("POST", "/images/prune").status == 200
        starting.join(60)
        assert answers and answers[0].status == 500 and words in answers[0].message, answers
        assert time.monotonic() - begun >= 2
        assert hasty.inspect(one)["State"]["Status"] == "created"
        assert hasty.request("DELETE", f"/containers/{one}").status == 204


def _filled(value: object, path: Path) -> object:
    if isinstance(value, dict):
        return {key: _filled(each, path) for key, each in value.items()}
    return value.format(path) if isinstance(value, str) else value


def test_a_prune_does_not_wait_for_a_start_that_hangs(hasty: Hasty) -> None:
    """The container that is being started is left out; its start hangs for as long as the server is away."""
    path = hasty.root / "dead-prune"
    path.mkdir()
    one = hasty.create("true", HostConfig={"NetworkMode": "none", "Binds": [f"{path}:/x"]})
    other = hasty.create("true")
    with dead(hasty, path):
        starting = threading.Thread(target=hasty.request, args=("POST", f"/containers/{one}/start"))
        starting.start()
        until_begun(hasty, one)
        assert hasty.request("POST", "/containers/prune").json()["ContainersDeleted"] == [other]
    starting.join(60)
    hasty.remove(one)


def until_begun(daemon: Daemon, container: str) -> None:
    """Return when the daemon makes the container's run."""
    end = time.monotonic() + 20
    while not (daemon.exec_root / "containers" / container).exists():
        assert time.monotonic() < end
        time.sleep(0.01)
