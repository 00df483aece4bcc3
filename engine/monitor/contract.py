"""Abstract classes Pump (moves a container's bytes) and Waiters (clients that wait for its end), and a pump's events.

The muxer is the code that moves bytes; there is one in C and one in Python. Each has one subclass of each class here:
those of C are in `nativepump`, those of Python in `pump` and `waiters`. The classes have no ABCMeta: the type checker
finds a missing method, so no monitor spends time on it.
"""

from abc import abstractmethod

from engine.logs.openlog import OpenLog

Event = tuple[str] | tuple[str, int] | tuple[str, int, str]
"""What `Pump.run` returns:

    ("readable", fd)           a watched descriptor has something to tell; said again until that is taken
    ("eof", stream)            the container has closed this output; everything of it is in the log
    ("client", number, what)   `gone`: it has left; `detached`: it sent the detach keys; both: its descriptor is closed.
                               `stdin-closed`: it has closed its sending half, all of it has been written
    ("rotated",)               the log has a file that wants compressing: it is `busy`, and is not rotated, until told
    ("unlogged", errno)        the log could not be written (a full disk): said once, until a write works again. The
                               chunk went to the clients all the same
"""


class Pump:
    """All the byte streams of one container.

    name: the muxer that the class belongs to, `c` or `python`. The pump owns and closes the descriptors that are given
        to `add_output`, `set_input` and `add_client`. The caller still owns those given to `watch`. SIGPIPE must be
        ignored in the process; Python ignores it by default.
    """

    name: str

    @abstractmethod
    def __init__(self, log: OpenLog | None, tty: bool = False) -> None:
        """log: what the output is written to, None for no log. The caller still owns it."""

    @abstractmethod
    def add_output(self, stream: int, fd: int) -> None:
        """Takes over the reading end of the container's stdout (1) or stderr (2), or (as 1) its terminal's master."""

    @abstractmethod
    def set_input(self, fd: int, close_on_eof: bool = False) -> None:
        """Takes over the writing end of the container's stdin, or the master of its terminal; -1: there is no stdin.

        The master may be the descriptor that `add_output` was given: the pump then owns that one descriptor once.

        close_on_eof: stdin is closed once a client has ended its sending half and all of its bytes are written
            (StdinOnce). It has no effect on a terminal, whose master carries the output as well.
        """

    @abstractmethod
    def add_client(
        self, fd: int, streams: int, framed: bool, detach: bytes = b"", replay: bool = False, owed: bytes = b""
    ) -> int:
        """Takes over a client's connected socket and returns the client's number.

        streams: the sum of 1 (its bytes go to stdin), 2 (it gets stdout), 4 (it gets stderr)
        framed: it gets a frame for each chunk, else raw bytes. detach: the bytes that detach it, at most 64, empty for
            none
        replay: it first gets all that is in the log, then what comes, without gap or duplicate; it gets nothing of a
            log that is not `readable`. owed: bytes that it gets before all output that comes from now on

        On a Unix socket, the pump sends nothing before the client has read what was sent to it earlier, which is the
        head of an HTTP answer.
        """

    @abstractmethod
    def unfinished(self, stream: int) -> bytes:
        """The bytes of the stream's unfinished line, which the log holds back until the line ends."""

    @abstractmethod
    def watch(self, fd: int) -> None:
        """Makes `run` return when `fd` is readable or hangs up. The caller still owns `fd`."""

    @abstractmethod
    def unwatch(self, fd: int) -> None:
        """Ends the watch; to be called before `fd` is closed. Raises ValueError if it is not watched."""

    @property
    @abstractmethod
    def clients(self) -> int:
        """How many clients are attached."""

    @abstractmethod
    def run(self) -> Event:
        """Moves bytes until there is something to tell. Raises OSError only for what poll(2) cannot do."""

    @abstractmethod
    def drain(self) -> None:
        """Reads what is left in the outputs into the log, without waiting for any client; for when process 1 has ended.

        The log may grow past its size this once, because a rotation could remove what a client has not read yet.
        Clients that cannot take the bytes now get them later: from the log, or, without a log, from memory.
        """

    @abstractmethod
    def close_clients(self, patience_ms: int = 10_000) -> None:
        """Sends every client all that it is owed, then closes it; drops them once none takes anything for a while.

        patience_ms: how long that while is. No event about these clients is returned any more. Watched descriptors are
            not looked at meanwhile.
        """

    @abstractmethod
    def close(self) -> None:
        """Closes every descriptor of the pump at once, whatever is still owed. A second call does nothing."""


class Waiters:
    """All clients that wait for the end of one container. `fd` is readable when one of them has hung up (see `look`).

    The owner of the class decides when they are answered (`engine.monitor.adopting`).
    """

    fd: int

    @abstractmethod
    def __init__(self) -> None:
        """Begin with no client."""

    @abstractmethod
    def __len__(self) -> int:
        """How many clients wait."""

    @abstractmethod
    def take(self, datagram: bytes, fd: int) -> None:
        """Keep one waiting client and its connection. datagram: a W datagram of `engine.wire.waits`.

        Raises OSError and ValueError; the caller then still owns `fd`.
        """

    @abstractmethod
    def answered(self, datagram: bytes) -> None:
        """Forget the client that the living daemon has answered. datagram: an A datagram of `engine.wire.waits`.

        A client that has hung up was forgotten before; then nothing happens.
        """

    @abstractmethod
    def look(self) -> None:
        """Forget the clients that have hung up."""

    @abstractmethod
    def orphan(self) -> None:
        """Mark the clients that are kept now as orphans: their daemon has died, so only this process can answer."""

    @abstractmethod
    def answer(self, code: int, removed: bool) -> None:
        """Answer the orphans with this exit code, and end their connections.

        Those that wait for the removal are answered only when the container is `removed`.
        """

    @abstractmethod
    def close(self) -> None:
        """Close every descriptor here. A connection stays open while another process has it."""
