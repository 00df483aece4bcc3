"""What a monitor's launcher process hands over to its keeper process, and the abstract class of the code that does it.

The processes are told in `nativeprocess`: the spawner forks monitors; the launcher starts the container in Python and
ends; the keeper stays with the container in C; the joiner is the launcher of an exec. A spare is a launcher that was
forked and prepared before there is a request for it.
"""

from abc import abstractmethod

from engine.dataclass import dataclass
from engine.logs.openlog import OpenLog


@dataclass(frozen=True, slots=True)
class Handover:
    """What the launcher hands over. The descriptors are -1 for none, and the caller still owns them.

    mounts: process 1's mount namespace, held open until the container's end was told; exec_dir: the container's exec
        directory, present together with the listener or not at all; pid: 0 for an exec, whose process (pidfd, times,
        terminal) is reported to the keeper later by `wire.report`
    container: the container's id, which appears in the process's title
    head: what the first client of an exec is sent first of all, once it runs
    clients: (descriptor, streams, framed, detach keys, replay) each; log: None when no log is kept
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
    head: bytes = b""


class Processes:
    """The methods of the spawner, spare, launcher, joiner and keeper processes. Only the C muxer has them."""

    @abstractmethod
    def spawn(self, requests: int, spares: bool, furniture: bytes = b"", place: str = "") -> str:
        """In the spawner: fork a monitor, and from that a launcher, for each request on this socket.

        furniture, place: what a spare prepares (`engine.sandbox.plan.furniture`), and an empty directory for that;
            where the first is empty, no request comes with a plan. A monitor whose request has a plan launches in C.

        Returns in several processes. `launches`: this is the launcher, and it has a `request`. With `spares` also
        `prepares` or, for an exec, `prepares exec`: this is a spare, which gets its request by `take`.
        `resolves`: this process is no monitor, and its `request` says what it is.
        `ended`: this is the spawner, and the daemon is gone. Raises OSError.
        """

    @abstractmethod
    def take(self) -> bool:
        """In a spare: wait for the request; False when none will come. Raises OSError."""

    @property
    @abstractmethod
    def reports(self) -> int:
        """In the launcher of an exec: the socket of `wire.report`, for use after the handover."""

    @property
    @abstractmethod
    def wants(self) -> int:
        """In a spare: the socket on which its request came."""

    @abstractmethod
    def name(self, kind: str, of: str) -> None:
        """Call this process `engine KIND` in ps(1), and its command line `engine KIND OF`, as `engine.kernel.title`
        does.
        """

    @staticmethod
    @abstractmethod
    def newborn(path: bytes, arguments: list[bytes], variables: dict[bytes, bytes], terminal: bool) -> int:
        """In a joiner: make the child that executes this command, and return its pid once it has (`engine.birth.join`).

        Raises OSError for what fails before execve(2), which tells its own failure (`engine.sandbox.command`).
        """

    @property
    @abstractmethod
    def request(self) -> tuple[bytes, list[int]]:
        """The request's datagram and its descriptors."""

    @abstractmethod
    def hand_over(self, handed: Handover) -> None:
        """In the launcher: give the container to the keeper. The launcher ends soon afterwards. Raises OSError."""
