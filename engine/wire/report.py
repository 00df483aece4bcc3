"""The datagrams on the report socket between a container's init and its monitor.

One SOCK_SEQPACKET socketpair, close-on-exec on both ends, lives from the fork to execve:

    init    -> monitor   N                   its namespaces exist; the daemon may plug in cgroup and network
    monitor -> init      P                   proceed; end of file instead: give up
    init    -> monitor   T + SCM_RIGHTS      the master of the container's terminal (only with `Sandbox.tty`)
    init    -> monitor   W + text            something asked for could not be had here, and the container runs without
    init    -> monitor   F + JSON            it failed; init exits with `Failure.status` next
    init    -> monitor   end of file         execve worked (or init was killed, which wait(2) tells)

An exec's joiner, and the process that it makes (see `join`), report to the keeper, which is not Python:

    joiner  -> monitor   T + SCM_RIGHTS      as above
    joiner  -> monitor   W + message         `schema.Warned` as the codec writes it, to be passed on to the daemon
    both    -> monitor   F + message         `schema.Failed`, likewise
    joiner  -> monitor   B + pid             the process is there, and runs its command at the end of file, if it does
    joiner  -> monitor   X + pid             the process is there and runs its command

An init that prepares itself ahead of time says N before it knows its sandbox. W comes any number of times, also before
N and before P. F comes instead of N, or after P was received, never between
them: what fails in between is told after P. Bytes in, values out: this module opens no descriptor and, because both
towers and the child of a fork use it, imports nothing of the engine.
"""

import json
from dataclasses import dataclass

READY = b"N"
PROCEED = b"P"
TERMINAL = b"T"
BORN = b"B"
EXECUTED = b"X"
FAILED = b"F"
WARNED = b"W"
LARGEST = 8192
"""No datagram is longer, in bytes."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The namespaces exist."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal's master travels with this datagram as its one descriptor."""


@dataclass(frozen=True, slots=True)
class Warned:
    """What could not be had on this host, in words."""

    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The step of init that failed, its errno (0 if none), the words a client reads, and init's exit status.

    status: 127 the command was not found, 126 it cannot be run, 125 everything else
    """

    step: str
    errno: int
    text: str
    status: int


Report = Ready | Terminal | Warned | Failure


def encode_birth(pid: int, executed: bool) -> bytes:
    """The B datagram, or the X datagram."""
    return (EXECUTED if executed else BORN) + b"%d" % pid


def encode_warning(text: str) -> bytes:
    """The W datagram."""
    return b"W" + text.encode("utf-8", "replace")[: LARGEST - 1]


def encode_failure(failure: Failure) -> bytes:
    """The F datagram."""
    values = {"step": failure.step, "errno": failure.errno, "text": failure.text[:1000], "status": failure.status}
    return b"F" + json.dumps(values).encode()


def decode(datagram: bytes) -> Report:
    """A datagram from init as a value; ValueError if it is none (b"" is the end of file: the caller's business)."""
    kind, rest = datagram[:1], datagram[1:]
    if kind == READY:
        return Ready()
    if kind == TERMINAL:
        return Terminal()
    if kind == b"W":
        return Warned(rest.decode("utf-8", "replace"))
    if kind == b"F":
        values = json.loads(rest)
        return Failure(values["step"], values["errno"], values["text"], values["status"])
    raise ValueError(f"not a report of init: {datagram[:20]!r}")
