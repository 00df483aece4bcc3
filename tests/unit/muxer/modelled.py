"""The model of a container: what it is asked to do, what it will write, and how it will end."""

import socket
from dataclasses import dataclass, field
from pathlib import Path

from engine.wire.waits import Wait

PIPE_SIZE = 65536


@dataclass(frozen=True)
class Program:
    """What a container does: so many lines on each output, an echo of what is typed, and then the end at the gate.

    typed: what its first client sends; None: nothing reads it
    signal: what it sends itself instead of an exit; 0: it exits with `code`
    """

    out: int
    err: int
    typed: bytes | None
    code: int
    signal: int

    def script(self, gate: Path) -> str:
        """It waits at the gate, a FIFO, until there is a line to read."""
        echo = "" if self.typed is None else "cat; "
        end = f"kill -{self.signal} $$" if self.signal else f"exit {self.code}"
        return f"ulimit -c 0; seq {self.out}; seq {self.err} >&2; {echo}read line <{gate}; {end}"

    @property
    def told(self) -> int:
        """The exit code as a shell has it."""
        return 128 + self.signal if self.signal else self.code

    @property
    def fits_pipes(self) -> bool:
        """Whether it ends also where nobody reads what it writes."""
        return self.typed is None and len(lines(self.out) + lines(self.err)) <= PIPE_SIZE

    def bytes_of(self, merged: bool) -> dict[int, bytes]:
        """All that it writes, by stream. merged: both outputs are one."""
        out, err, typed = lines(self.out), lines(self.err), self.typed or b""
        return {1: out + err + typed, 2: b""} if merged else {1: out + typed, 2: err}


@dataclass
class Container:
    """A container or an exec that was asked for, as the model knows it. It has begun when its `pid` is known.

    link: to its monitor; None: there is no daemon
    clients: the near end of each, None for one that has left; owned: the inodes of what was sent with the request
    waiting: who waits for its end; orphans: so many of them, the first, have lost the daemon that would answer them
    """

    program: Program
    is_exec: bool
    directory: Path
    gate: int
    link: socket.socket | None
    clients: list[socket.socket | None]
    streams: list[int]
    owned: list[int]
    may_be_prepared: bool
    must_be_prepared: bool
    is_halted: bool = False
    waiting: list[tuple[Wait, socket.socket]] = field(default_factory=list)
    orphans: int = 0
    pid: int = 0
    pidfd: int = -1
    keeper: int = 0
    keeper_pidfd: int = -1
    started_ns: int = 1234
    has_home: bool = False


def lines(count: int) -> bytes:
    """What seq(1) writes."""
    return b"".join(b"%d\n" % number for number in range(1, count + 1))
