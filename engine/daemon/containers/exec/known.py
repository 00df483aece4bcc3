"""Keep the daemon's execs, with the command and the status of each, and find them by id.

Shared by the daemon's threads. An exec is known from its creation until a while after its end, when the daemon forgets
it as dockerd does. An exec that was started is known to the next daemon too, by its home (see `homes`), as long as its
container runs.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from engine.daemon import locks
from engine.daemon.containers.record import Container
from engine.dataclass import dataclass, field
from engine.errors import NotFound

KEPT_SECONDS = 300.0
"""How long an exec that has ended can be asked for."""
UNSTARTED_SECONDS = 300.0
"""How long the start of an exec is expected (see `Execs.expected`)."""
MOST_ENDED = 10_000
"""Execs that have ended and are kept; the oldest go first."""
MOST_HOMES = 1_000
"""Of these, those whose homes are kept, which cost memory of the kernel's; the next daemon knows no others."""
MOST_OWN = 100
"""Execs that the engine has run for itself and that are kept; they are many where health is checked."""


@dataclass(frozen=True, slots=True)
class Command:
    """A complete command. env: the container's and then the exec's; rows, columns: 0 for the kernel's default."""

    argv: tuple[str, ...]
    env: tuple[str, ...] = ()
    user: str = ""
    cwd: str = "/"
    tty: bool = False
    privileged: bool = False
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    detach_keys: bytes = b""
    rows: int = 0
    columns: int = 0

    @property
    def text(self) -> str:
        """The command as events show it, with the space that dockerd leaves after a command without arguments."""
        return f"{self.argv[0]} {' '.join(self.argv[1:])}"


@dataclass(slots=True, eq=False)
class Exec:
    """One exec. The fields after `command` are read and written under `changed`, which is notified at each change.

    status: created, starting, running, ended; exit_code: None until it is known; pid, pid_start: 0 before it has run
    own: the engine itself has asked for it, and no client; home: the exec directory that has its home (see `homes`), or
        empty
    made, ended: when, of the monotonic clock in seconds
    """

    id: str
    container: Container
    command: Command
    status: str = "created"
    exit_code: int | None = None
    pid: int = 0
    pid_start: int = 0
    own: bool = False
    home: str = ""
    made: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def move(self, status: str, exit_code: int | None = None) -> None:
        """Change the status and wake the waiters; the caller holds `changed`."""
        self.status, self.exit_code = status, exit_code
        self.changed.notify_all()


class Execs:
    """All execs by id; `Container.execs` has those of one container that have not ended.

    clear_home: removes the home of an exec that is forgotten, given its directory and its id
    """

    def __init__(self, clear_home: Callable[[str, str], None] = lambda _directory, _exec_id: None) -> None:
        self._clear_home = clear_home
        self._lock = locks.Lock("execs")
        self._by_id: dict[str, Exec] = {}
        self._ended: deque[Exec] = deque()
        self._own: deque[Exec] = deque()
        self._homes: deque[Exec] = deque()

    def find(self, exec_id: str) -> Exec:
        """The exec with this id. Raises NotFound, also when its container has been removed."""
        found = self._by_id.get(exec_id)
        if found is None or found.container.removed:
            raise NotFound(f"No such exec instance: {exec_id}")
        return found

    def add(self, made: Exec) -> None:
        """Make an exec findable, and forget those whose time is over."""
        with self._lock:
            self._forget(time.monotonic() - KEPT_SECONDS)
            self._by_id[made.id] = made
            made.container.execs[made.id] = made

    def expected(self, container: Container) -> bool:
        """Whether an exec of a container runs, or its start is to be expected of a client that has made it."""
        latest = time.monotonic() - UNSTARTED_SECONDS
        with self._lock:
            found = [self._by_id[exec_id] for exec_id in container.execs if exec_id in self._by_id]
        return any(each.status != "created" or each.made > latest for each in found)

    def end(self, done: Exec) -> None:
        """Keep an exec that has ended for a while (`KEPT_SECONDS`)."""
        with self._lock:
            done.ended = time.monotonic()
            done.container.execs.pop(done.id, None)
            (self._own if done.own else self._ended).append(done)
            if done.home:
                self._homes.append(done)
            self._forget(done.ended - KEPT_SECONDS)

    def drop_unstarted(self, container: Container) -> None:
        """Forget those of a container's execs that nobody has started before its end: no later run is theirs.

        The caller holds the container's `changed`.
        """
        with self._lock:
            for exec_id in [exec_id for exec_id in container.execs if self._status(exec_id) == "created"]:
                del container.execs[exec_id], self._by_id[exec_id]

    def _status(self, exec_id: str) -> str:
        found = self._by_id.get(exec_id)
        return found.status if found is not None else ""

    def drop(self, container: Container) -> None:
        """Forget the execs of a container that has been removed."""
        with self._lock:
            container.execs.clear()
            for exec_id in [exec_id for exec_id, each in self._by_id.items() if each.container is container]:
                del self._by_id[exec_id]

    def _forget(self, before: float) -> None:
        for ended, most in ((self._ended, MOST_ENDED), (self._own, MOST_OWN)):
            while ended and (ended[0].ended < before or len(ended) > most):
                self._by_id.pop(ended.popleft().id, None)
        while self._homes and (self._homes[0].ended < before or len(self._homes) > MOST_HOMES):
            done = self._homes.popleft()
            self._clear_home(done.home, done.id)
