"""Encodes and decodes the datagrams on the report socket, from a container's init or an exec's joiner to the monitor.

One SOCK_SEQPACKET socketpair, close-on-exec on both ends, lives from the fork to execve:

    init    -> monitor   N                   its namespaces exist; the daemon may connect cgroup and network
    init    -> monitor   N + pid             the same, of a process 1 that another runtime has made
    monitor -> init      P                   proceed; an end of file instead means: give up
    init    -> monitor   T + SCM_RIGHTS      the master of the container's terminal (only with `Sandbox.tty`)
    init    -> monitor   W + text            this host cannot provide something asked for; the container runs without
    init    -> monitor   F + JSON            it failed; init exits with `Failure.status` next
    init    -> monitor   end of file         execve came (if it failed, or init was killed, wait(2) tells)

The joiner of an exec, and the process that it makes (see `join`), report to the keeper, which does not run Python:

    joiner  -> monitor   T + SCM_RIGHTS      as above
    joiner  -> monitor   W + message         `schema.Warned` as the codec writes it, to be passed on to the daemon
    both    -> monitor   F + message         `schema.Failed`, likewise
    joiner  -> monitor   B0                  it is about to make the process, which may send from now on
    joiner  -> monitor   B + pid             the process exists; if it gets to execve, the socket's end of file tells it
    joiner  -> monitor   X + pid             the process exists and runs its command

A program in the container that may trace the process can send anything in its place. So the monitor believes nothing
after B0 but the number of a child of its own, and one F whose message is of that class.

An init that prepares itself ahead of time says N before it knows its sandbox. W comes any number of times, also before
N and before P. F comes instead of N, or after P was received, never between them: what fails in between is told after
P. This module takes bytes and returns values, and opens no descriptor. It imports nothing of the engine, because both
the monitor and the child of a fork use it.
"""

import json

from engine.dataclass import dataclass

READY = b"N"
PROCEED = b"P"
TERMINAL = b"T"
BORN = b"B"
EXECUTED = b"X"
FAILED = b"F"
WARNED = b"W"
LARGEST = 8192
"""The largest size of a datagram, in bytes."""


@dataclass(frozen=True, slots=True)
class Ready:
    """N: the namespaces exist. pid: of process 1 where another runtime has made it, else 0, which means init itself"""

    pid: int = 0


@dataclass(frozen=True, slots=True)
class Terminal:
    """T: the terminal's master comes with this datagram as its one descriptor."""


@dataclass(frozen=True, slots=True)
class Warned:
    """W: what this host cannot provide, in words."""

    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """F: the step of init that failed, its errno (0 if none), the words that a client reads, and init's exit status.

    status: 127 the command was not found, 126 it cannot be run, 125 everything else
    """

    step: str
    errno: int
    text: str
    status: int


Report = Ready | Terminal | Warned | Failure


def encode_birth(pid: int, executed: bool) -> bytes:
    """The X datagram if the process has executed its command, else the B datagram."""
    return (EXECUTED if executed else BORN) + b"%d" % pid


def encode_warning(text: str) -> bytes:
    """The W datagram, cut at `LARGEST` bytes."""
    return b"W" + text.encode("utf-8", "replace")[: LARGEST - 1]


def encode_failure(failure: Failure) -> bytes:
    """The F datagram; its text is cut at 1000 characters."""
    values = {"step": failure.step, "errno": failure.errno, "text": failure.text[:1000], "status": failure.status}
    return b"F" + json.dumps(values).encode()


def decode(datagram: bytes) -> Report:
    """A datagram from init as a value.

    Raises ValueError if it is none; the caller handles b"", which is the end of file.
    """
    kind, rest = datagram[:1], datagram[1:]
    if kind == READY:
        return Ready(int(rest or b"0"))
    if kind == TERMINAL:
        return Terminal()
    if kind == b"W":
        return Warned(rest.decode("utf-8", "replace"))
    if kind == b"F":
        values = json.loads(rest)
        return Failure(values["step"], values["errno"], values["text"], values["status"])
    raise ValueError(f"not a report of init: {datagram[:20]!r}")
