"""What a launcher hands over to its keeper, what the keeper has of it, and who carries it (see `nativeprocess`)."""

from abc import abstractmethod
from dataclasses import dataclass

from engine.logs.openlog import OpenLog
from engine.monitor import contract


@dataclass(frozen=True, slots=True)
class Handover:
    """What the launcher hands over. Descriptors; -1 for none: they stay the caller's.

    mounts: process 1's mount namespace, held until its end is told; exec_dir: the container's exec directory, which
        is there together with the listener, or neither of them; pid: 0 for an exec, of whose process (pidfd, times,
        terminal) it hears by `wire.report`
    container: its id, by which the process is called
    clients: (descriptor, streams, framed, detach keys, replay) each; log: None when nothing is kept
    """

    pid: int
    pid_start: int
    started_ns: int
    pidfd: int
    listener: int
    link: int
    exec_dir: int
    mounts: int
    tty: bool
    stdin_once: bool
    input: int
    outputs: dict[int, int]
    clients: list[tuple[int, int, bool, bytes, bool]]
    log: OpenLog | None
    container: str = ""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What the keeper wakes up with: the container runs, and `event` is the first thing to decide.

    record: of an exec that has a home, see `engine.monitor.life`; else -1
    Waiters: the class of `waiters`, who wait for the container's end; None while nobody does
    """

    pid: int
    pid_start: int
    started_ns: int
    pidfd: int
    listener: int
    link: int
    exec_dir: int
    terminal: int
    mounts: int
    record: int
    pump: contract.Pump
    log: OpenLog | None
    Waiters: type[contract.Waiters]
    waiters: contract.Waiters | None
    event: contract.Event


class Processes:
    """Spawner, spare, launcher, joiner and keeper: each has a method that is for it. The C alone has them."""

    @abstractmethod
    def spawn(self, requests: int, spares: bool) -> str:
        """In the spawner: fork a monitor, and from that a launcher, for each request on this socket.

        Returns `launches` in the one, with a `request`; with `spares` also `prepares` or, for an exec, `prepares exec`,
        with none yet: see `take`.
        Returns `resolves` in a process that is no monitor, with its `request`.
        Returns `stays` in the keeper, much later: the container runs, and there is something to decide. Returns
        `ended` in the spawner when the daemon is gone. Raises OSError.
        """

    @abstractmethod
    def take(self) -> bool:
        """In a spare: wait for the request; False when there will be none. Raises OSError."""

    @property
    @abstractmethod
    def reports(self) -> int:
        """In the launcher of an exec: the socket of `wire.report`, once it has been handed over."""

    @property
    @abstractmethod
    def wants(self) -> int:
        """In a spare: the socket on which its request came."""

    @abstractmethod
    def name(self, kind: str, of: str) -> None:
        """Call this process `engine KIND` in ps(1), and its command line `engine KIND OF`; as `engine.kernel.title`."""

    @staticmethod
    @abstractmethod
    def newborn(path: bytes, arguments: list[bytes], variables: dict[bytes, bytes], terminal: bool) -> int:
        """In a joiner: make the child that executes this command, see `engine.birth.join`; its pid once it has.

        Raises OSError as execve(2).
        """

    @property
    @abstractmethod
    def request(self) -> tuple[bytes, list[int]]:
        """The datagram and its descriptors."""

    @abstractmethod
    def hand_over(self, handed: Handover) -> None:
        """In the launcher: give the container to the keeper, and be about to end. Raises OSError."""

    @abstractmethod
    def awake(self) -> TakenOver:
        """In the keeper: what it has taken over."""
