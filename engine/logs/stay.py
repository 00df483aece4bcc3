"""The spawner and the two halves of a monitor, with the C muxer (`_muxer/spawn.c`, `_muxer/stay.c`).

Python copies the pages it touches, half a megabyte in no time: so one half of a monitor launches the container in
Python and ends, and the other stays in C from its first moment and comes back to Python only when something has to be
decided. There is no Python twin: without the C a monitor is one process that does both.
"""

import os

from _muxer._native import ffi, lib

from engine.logs.halves import Handed, Stayed
from engine.logs.jsonfile import JsonWriter
from engine.logs.native import LENT, Pump, Waiters, lent
from engine.logs.writer import Writer

_PARTS = {
    lib.MUX_LAUNCHES: "launches",
    lib.MUX_STAYS: "stays",
    lib.MUX_PREPARES: "prepares",
    lib.MUX_PREPARES_EXEC: "prepares exec",
    lib.MUX_RESOLVES: "resolves",
    lib.MUX_ENDED: "ended",
}


# Looked up before the forks: each child would do it anew.
_HANDOVER = ffi.typeof("struct mux_handover *")
_TEXT, _TEXTS = ffi.typeof("char[]"), ffi.typeof("char *[]")


class Stay:
    """The spawner's loop and the two halves of a monitor; each has a method that is for it."""

    def __init__(self) -> None:
        self._stay = ffi.new("struct mux_stay *")

    def spawn(self, requests: int, spares: bool) -> str:
        """In the spawner: fork a monitor of two halves for each request on this socket.

        Returns `launches` in the one, with a `request`; with `spares` also `prepares` or, for an exec, `prepares exec`,
        with none yet: see `take`.
        Returns `resolves` in a process that is no monitor, with its `request`.
        Returns `stays` in the other half, much later: the container runs, and there is something to decide. Returns
        `ended` in the spawner when the daemon is gone. Raises OSError.
        """
        return _PARTS[_checked(lib.mux_spawn(requests, self._stay, spares))]

    def take(self) -> bool:
        """In a spare: wait for the request; False when there will be none. Raises OSError."""
        return _checked(lib.mux_take(self._stay)) == 1

    @property
    def reports(self) -> int:
        """In the half that launches an exec: the socket of `wire.report`, once it has been handed over."""
        return self._stay.launcher

    @property
    def wants(self) -> int:
        """In a spare: the socket on which its request came."""
        return self._stay.wants

    def name(self, kind: str, of: str) -> None:
        """Call this process `engine KIND` in ps(1), and its command line `engine KIND OF`; as `engine.kernel.title`."""
        lib.mux_name(self._stay, kind.encode(), of.encode())

    @staticmethod
    def newborn(path: bytes, arguments: list[bytes], variables: dict[bytes, bytes], terminal: bool) -> int:
        """In a joiner: make the child that executes this command, see `engine.join`; its pid once it has.

        Raises OSError as execve(2).
        """
        argv = [ffi.new(_TEXT, each) for each in arguments]
        envp = [ffi.new(_TEXT, b"%s=%s" % each) for each in variables.items()]
        rows = [ffi.new(_TEXTS, [*each, ffi.NULL]) for each in (argv, envp)]
        return _checked(lib.mux_newborn(path, *rows, terminal))

    @property
    def request(self) -> tuple[bytes, list[int]]:
        """The datagram and its descriptors."""
        stay = self._stay
        return ffi.buffer(stay.request, stay.request_size)[:], list(stay.fds[0 : stay.fd_count])

    def hand_over(self, handed: Handed) -> None:
        """In the child: give the container to the half that stays, and be about to end. Raises OSError."""
        log = handed.log
        told = {
            "tty": handed.tty,
            "close_on_eof": handed.stdin_once,
            "has_process": handed.pid > 0,
            "has_home": handed.exec_dir >= 0,
            "has_mounts": handed.mounts >= 0,
            "has_log": log is not None,
            "has_input": handed.input >= 0,
            "has_stdout": 1 in handed.outputs,
            "has_stderr": 2 in handed.outputs,
            "pid": handed.pid,
            "pid_start": handed.pid_start,
            "started_ns": handed.started_ns,
            "container": handed.container[:12].encode(),
            "client_count": len(handed.clients),
            "clients": [
                (streams, framed, replay, len(detach), list(detach))
                for _, streams, framed, detach, replay in handed.clients
            ],
        }
        descriptors = [handed.link]
        if handed.pid > 0:
            descriptors.append(handed.pidfd)
        if handed.exec_dir >= 0:
            descriptors += [handed.listener, handed.exec_dir]
        if handed.mounts >= 0:
            descriptors.append(handed.mounts)
        if log is not None:
            told["log"] = {name: getattr(log, name) for name in LENT}
            descriptors += [log.log_fd, log.index_fd, log.directory_fd]
        if handed.input >= 0:
            descriptors.append(handed.input)
        descriptors += [handed.outputs[stream] for stream in sorted(handed.outputs)]
        clients = [descriptor for descriptor, *_ in handed.clients]
        message = ffi.new(_HANDOVER, told)
        _checked(lib.mux_hand_over(self._stay, message, descriptors, len(descriptors), clients))

    def awake(self) -> Stayed:
        """In the half that stays: what it has taken over."""
        stay, handed = self._stay, self._stay.handed
        log, c_log = None, ffi.NULL
        if handed.has_log:
            c_log = ffi.addressof(stay, "log")
            kind = JsonWriter if c_log.json else Writer
            log = kind.taken_over({name: lent(c_log, name) for name in LENT})
        event = ("readable", stay.event.number) if stay.event.kind == lib.MUX_READABLE else ("rotated",)
        return Stayed(
            handed.pid,
            handed.pid_start,
            handed.started_ns,
            stay.pidfd,
            stay.listener,
            stay.link,
            stay.exec_dir,
            stay.terminal,
            stay.mounts,
            stay.record,
            Pump.taken_over(stay.pump, c_log, log, stay),
            log,
            Waiters,
            Waiters.taken_over(stay.waiters),
            event,
        )


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
