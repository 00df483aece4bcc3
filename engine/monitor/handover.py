"""What a launcher hands over to its keeper, and what the keeper has of it: plain data (see `nativeprocess`)."""

from dataclasses import dataclass

from engine.logs.writer import Writer
from engine.monitor.pump import Event


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
    log: Writer | None
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
    pump: object
    log: Writer | None
    Waiters: type
    waiters: object | None
    event: Event
