"""The Python side of the C spawner loop and of a monitor's two processes, launcher and keeper (`_muxer/process/`).

A process that runs Python after a fork copies the pages that it touches, half a megabyte within moments. So a monitor
forks before it runs any Python: its child, the launcher, starts the container in Python and ends. The monitor itself,
the keeper, stays in C, and has nothing of Python's memory once the container runs. There is no Python version of this:
without the C muxer a monitor is one process that does both. `engine.monitor.handover` tells what the methods do.
"""

import os
import sys

from _muxer._native import ffi, lib
from engine.monitor import handover
from engine.monitor.handover import Handover
from engine.monitor.nativepump import LENT

_PARTS = {
    lib.MUX_LAUNCHES: "launches",
    lib.MUX_PREPARES: "prepares",
    lib.MUX_PREPARES_EXEC: "prepares exec",
    lib.MUX_RESOLVES: "resolves",
    lib.MUX_ENDED: "ended",
}


# Looked up before the forks, because each child would have to do it again.
_HANDOVER = ffi.typeof("struct mux_handover *")
_BYTES = ffi.typeof("uint8_t[]")
_TEXT, _TEXTS = ffi.typeof("char[]"), ffi.typeof("char *[]")


class Processes(handover.Processes):
    """The methods of the spawner, spare, launcher, joiner and keeper processes, done by C."""

    def __init__(self) -> None:
        self._c = lib.mux_stay_new()
        if not self._c:
            raise MemoryError

    def spawn(self, requests: int, spares: bool, furniture: bytes = b"", place: str = "") -> str:
        self._kept = ffi.new(_BYTES, furniture), ffi.new(_TEXT, place.encode())
        self._c.furniture, self._c.place = self._kept
        self._c.furniture_size = len(furniture)
        self._c.program = os.fsencode(sys.executable)[:255]
        return _PARTS[_checked(lib.mux_spawn(requests, self._c, spares))]

    def take(self) -> bool:
        return _checked(lib.mux_take(self._c)) == 1

    @property
    def reports(self) -> int:
        return self._c.launcher

    @property
    def wants(self) -> int:
        return self._c.wants

    def name(self, kind: str, of: str) -> None:
        lib.mux_name(self._c, kind.encode(), of.encode())

    @staticmethod
    def newborn(path: bytes, arguments: list[bytes], variables: dict[bytes, bytes], terminal: bool) -> int:
        argv = [ffi.new(_TEXT, each) for each in arguments]
        envp = [ffi.new(_TEXT, b"%s=%s" % each) for each in variables.items()]
        arguments_c, variables_c = (ffi.new(_TEXTS, [*each, ffi.NULL]) for each in (argv, envp))
        return _checked(lib.mux_newborn(path, arguments_c, variables_c, terminal))

    @property
    def request(self) -> tuple[bytes, list[int]]:
        c = self._c
        return ffi.buffer(c.request, c.request_size)[:], list(c.fds[0 : c.fd_count])

    def hand_over(self, handed: Handover) -> None:
        log = handed.log
        told: dict[str, object] = {
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
            "head_size": len(handed.head),
            "head": list(handed.head),
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
        _checked(lib.mux_hand_over(self._c, message, descriptors, len(descriptors), clients))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
