"""The fixtures of all tests that talk to a daemon; loaded as a plugin by tests/conftest.py.

`world` is one session's directory, namespaces and search for leaks. `daemon` is shared by all tests of a session (of
one worker), so a test names and removes what it makes; `own_daemon` is for tests that kill or count.
"""

import contextlib
import itertools
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.harness import leaks, rootfs, users
from tests.harness.daemon import Daemon
from tests.harness.hosts import Host
from tests.harness.namespaces import Namespaces
from tests.harness.registry import Registry

# Whether the daemons whose tests do not choose are those of a user, see `tests.harness.users`.
AS_USER = os.environ.get("ENGINE_TEST_USER", "") == "1"


class World:
    """Where a session's daemons live; they share one network, as daemons of one host do.

    Whatever else runs on that machine is started after the shared daemon, which so has the bridge and the subnet that a
    first daemon has.
    """

    def __init__(self, root: Path, watch: leaks.Watch) -> None:
        self.root = root
        self._watch = watch
        self._machines: list[Namespaces] = []
        self._numbers = itertools.count(1)
        self._machine = self.machine()
        self._shared: Daemon | None = None

    @property
    def namespaces(self) -> Namespaces:
        """The session's machine, once its shared daemon runs there."""
        self.shared()
        return self._machine

    def shared(self) -> Daemon:
        """The daemon that all tests share, started with the first one that asks for it or for its machine."""
        if self._shared is None:
            self._shared = self._on(self._machine)
            self._shared.start()
        return self._shared

    def machine(self) -> Namespaces:
        """One more machine: namespaces that are looked through for leaks when the session ends, and closed then."""
        if AS_USER:
            return self.user_machine()
        made = Namespaces()
        self._machines.append(made)
        self._watch.add(made)
        return made

    def end(self) -> None:
        """Empty the shared daemon and stop it."""
        if self._shared is not None:
            self._shared.close()

    def close(self) -> None:
        """Let all machines go."""
        for machine in self._machines:
            machine.close()

    def user_machine(self, subordinate: bool = True, connected: bool = False) -> users.UserMachine:
        """One more machine, on which there is a user; the parameters are those of `UserMachine`."""
        self.root.chmod(0o711)  # the user's directories are below it
        made = users.UserMachine(self.directory(), subordinate, connected)
        self._machines.append(made)
        self._watch.add(made)
        return made

    def user_daemon(self, machine: users.UserMachine, options: Sequence[str] = ()) -> users.UserDaemon:
        """A daemon of that user's own, not started."""
        return users.UserDaemon(self.directory(), machine, options)

    def directory(self) -> Path:
        """A new directory with a short path."""
        path = self.root / str(next(self._numbers))
        path.mkdir()
        return path

    def daemon(self, options: Sequence[str] = (), machine: Namespaces | None = None) -> Daemon:
        """A daemon with roots of its own, not started; on the session's machine unless another is named."""
        return self._on(machine or self.namespaces, options)

    def _on(self, machine: Namespaces, options: Sequence[str] = ()) -> Daemon:
        """A daemon on a machine: the user's, if the run is one of a user's daemons."""
        if AS_USER and isinstance(machine, users.UserMachine):
            return self.user_daemon(machine, options)
        return Daemon(self.directory(), machine, options)


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """One session's directory and namespaces; at the end anything left in the kernel's tables is an error."""
    token = uuid.uuid4().hex
    os.environ[leaks.TOKEN_VARIABLE] = token
    root = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))  # not TMPDIR: a socket's path has 108 bytes
    watch = leaks.Watch(token, root)
    here = World(root, watch)
    yield here
    here.end()
    found = watch.leaks()
    watch.end()
    here.close()
    del os.environ[leaks.TOKEN_VARIABLE]
    if found:
        pytest.fail(f"left behind by the tests (logs are in {root}):\n  " + "\n  ".join(found), pytrace=False)
    shutil.rmtree(root)


@contextlib.contextmanager
def running(daemon: Daemon) -> Iterator[Daemon]:
    """The daemon started, and at the end emptied and stopped."""
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.close()


@pytest.fixture(scope="session")
def daemon(world: World) -> Daemon:
    """The session's shared daemon, without images; add the fixture `busybox` for one."""
    return world.shared()


@pytest.fixture(scope="session")
def busybox(daemon: Daemon) -> str:
    """`busybox:latest` in the shared daemon; its id."""
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    return daemon.import_busybox()


@pytest.fixture
def make_daemon(world: World) -> Iterator[Callable[..., Daemon]]:
    """Make started daemons with options of their own: `make_daemon("--debug", ...)`."""
    with contextlib.ExitStack() as stack:
        yield lambda *options: stack.enter_context(running(world.daemon(options)))


@pytest.fixture
def own_daemon(make_daemon: Callable[..., Daemon]) -> Daemon:
    """A daemon for one test alone, with `busybox:latest`."""
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    alone = make_daemon()
    alone.import_busybox()
    return alone


@pytest.fixture
def container(daemon: Daemon, busybox: str) -> Iterator[Callable[..., str]]:
    """Create containers that are removed after the test: `container("sleep", "60", Tty=True)` is an id."""
    made: list[str] = []

    def create(*argv: str, **body: object) -> str:
        made.append(daemon.create(*argv, **body))
        return made[-1]

    yield create
    for identifier in made:
        daemon.remove(identifier)


@pytest.fixture
def ended(daemon: Daemon, container: Callable[..., str]) -> Callable[..., str]:
    """Run a script in a container to its end; the container's id."""

    def run(script: str, **body: object) -> str:
        identifier = container("sh", "-c", script, **body)
        daemon.begin(identifier)
        daemon.wait(identifier)
        return identifier

    return run


def _alone(world: World, machine: Namespaces | None = None) -> Iterator[Daemon]:
    """A daemon of one file's own, with busybox."""
    alone = world.daemon(machine=machine)
    alone.start()
    alone.import_busybox()
    yield alone
    alone.close()


@pytest.fixture(scope="module")
def crashing(world: World) -> Iterator[Daemon]:
    """A daemon that the tests of one file kill and start again, with busybox."""
    yield from _alone(world)


@pytest.fixture(scope="module")
def builder(world: World) -> Iterator[Daemon]:
    """A daemon for the builds of one file, whose images and cache nobody else has, with busybox."""
    yield from _alone(world)


@pytest.fixture(scope="module")
def apart(world: World) -> Iterator[Daemon]:
    """A daemon of one file's own on a machine of its own: nobody else is in its network; with busybox.

    When it has ended, with nothing alive, there is nothing of it left there.
    """
    machine = world.machine()
    yield from _alone(world, machine)
    assert not leaks.settled(lambda: leaks.remains(machine))


@pytest.fixture
def make_host() -> Iterator[Callable[[Daemon], Host]]:
    """Put a machine beside a daemon's, for one test: `make_host(apart).address`; `Host` itself for longer."""
    with contextlib.ExitStack() as stack:
        yield lambda daemon: stack.enter_context(Host(daemon.namespaces))


@pytest.fixture(scope="session")
def registry(world: World) -> Iterator[Registry]:
    """A registry at 127.0.0.1:5000 in the daemon's network."""
    if not Registry.available():
        pytest.skip("needs docker-registry: apt-get install docker-registry")
    with Registry(world.directory(), world.namespaces) as serving:
        yield serving
