"""What a monitor asks of a muxer: who moves a container's bytes, and who keeps those that wait for its end.

The C and the Python have one class of each name here, and inherit from it: the C's are in `nativepump`, the Python's in
`pump` and `waiters`. No ABCMeta: which methods there must be is checked where the types are, not in each monitor.
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

    name: which muxer's it is. Descriptors given to `add_output`, `set_input` and `add_client` belong to the pump, which
    closes them; those given to `watch` stay their owner's. SIGPIPE must be ignored in the process, as Python does.
    """

    name: str

    @abstractmethod
    def __init__(self, log: OpenLog | None, tty: bool = False) -> None:
        """log: what the output is written to, None for nothing; it stays the caller's."""

    @abstractmethod
    def add_output(self, stream: int, fd: int) -> None:
        """Takes over the reading end of the container's stdout (1) or stderr (2), or (as 1) the master of its tty."""

    @abstractmethod
    def set_input(self, fd: int, close_on_eof: bool = False) -> None:
        """Takes over the writing end of the container's stdin, or the master of its tty; -1: there is none.

        The master may be the descriptor that `add_output` was given: it is then the pump's once.

        close_on_eof: it is closed once a client has ended its sending half and all of that is written (StdinOnce);
        never on a tty, whose master carries the output as well.
        """

    @abstractmethod
    def add_client(
        self, fd: int, streams: int, framed: bool, detach: bytes = b"", replay: bool = False, owed: bytes = b""
    ) -> int:
        """Takes over a client's connected socket and returns the client's number.

        streams: the sum of 1 (its bytes go to stdin), 2 (it gets stdout), 4 (it gets stderr)
        framed: a frame per chunk, else raw bytes. detach: the bytes that detach it, at most 64, empty for none
        replay: first all that is in the log, then what comes, without gap or duplicate; nothing of a log that is not
            `readable`. owed: bytes that it gets before all that comes

        What was sent on a Unix socket before, the head of an answer, it is to have read before it is given anything.
        """

    @abstractmethod
    def unfinished(self, stream: int) -> bytes:
        """What the log holds back of the stream's unfinished line."""

    @abstractmethod
    def watch(self, fd: int) -> None:
        """Has `run` return when `fd` is readable or hangs up; `fd` stays the caller's."""

    @abstractmethod
    def unwatch(self, fd: int) -> None:
        """Ends the watch; to be called before `fd` is closed. Raises ValueError for what is not watched."""

    @property
    @abstractmethod
    def clients(self) -> int:
        """How many clients are attached."""

    @abstractmethod
    def run(self) -> Event:
        """Moves bytes until there is something to tell. Raises OSError only for what poll(2) cannot do."""

    @abstractmethod
    def drain(self) -> None:
        """Reads what is left in the outputs, into the log, without waiting for any client; for when process 1 is gone.

        The log may pass its size for once: a rotation could take away what a client has not read yet.
        Clients that cannot take it now get it later: from the log, or, without one, from memory.
        """

    @abstractmethod
    def close_clients(self, patience_ms: int = 10_000) -> None:
        """Lets every client have all that it is owed, then closes it; drops them once none takes anything for a while.

        patience_ms: that while. No event is told of them any more. Watched descriptors wait meanwhile.
        """

    @abstractmethod
    def close(self) -> None:
        """Gives every descriptor back at once, whatever is still owed. A second call does nothing."""


class Waiters:
    """All who wait for one container. `fd` is readable when one of them has hung up (see `look`)."""

    fd: int

    @abstractmethod
    def __init__(self) -> None:
        """Nobody waits yet."""

    @abstractmethod
    def __len__(self) -> int:
        """How many wait."""

    @abstractmethod
    def take(self, datagram: bytes, fd: int) -> None:
        """Keep one who waits, and its connection. Raises OSError and ValueError; then `fd` is still the caller's."""

    @abstractmethod
    def answered(self, datagram: bytes) -> None:
        """The daemon that lives has answered one; of one that has hung up nothing is known any more."""

    @abstractmethod
    def look(self) -> None:
        """Forget those who have hung up."""

    @abstractmethod
    def orphan(self) -> None:
        """The daemon has died: who is here now has nobody else."""

    @abstractmethod
    def answer(self, code: int, removed: bool) -> None:
        """Answer the orphans, those who wait for the removal only when it is `removed`, and end their connections."""

    @abstractmethod
    def close(self) -> None:
        """Give every descriptor back; the connections live on where somebody else has them."""
