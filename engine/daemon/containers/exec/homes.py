"""Store each exec's command, socket and exit in its container's exec directory, where the next daemon finds the exec.

An exec's home, in this engine, is two files: a socket, on which the exec's monitor listens for the next daemon, and a
record. The record's first line is the command, as far as an inspect may ask for it later. After it there is space,
allocated before the command runs, where the monitor writes the `Exited` message. Both files go with the directory when
the container ends. Nothing is synced: a loss of power ends the exec too. Used by the daemon's threads, and at its
start.
"""

import contextlib
import json
import os
import socket

from engine.daemon.containers.exec.known import Command
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.wire import codec, endpoint
from engine.wire.schema import Exited

_PREFIX = "exec."
_SOCKET = ".sock"
_ROOM = 256
"""Bytes that an `Exited` message has at the most, as the codec writes it."""
_FIELDS = ("argv", "user", "tty", "privileged", "stdin", "stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Found:
    """An exec of an earlier daemon; exited: None when its monitor has not reported its end."""

    id: str
    command: Command
    exited: Exited | None


def socket_name(exec_id: str) -> str:
    """The file name of an exec's socket in its container's exec directory."""
    return f"{_PREFIX}{exec_id}{_SOCKET}"


def _record(exec_dir: str, exec_id: str) -> str:
    return os.path.join(exec_dir, _PREFIX + exec_id)


def make(exec_dir: str, exec_id: str, command: Command) -> tuple[int, socket.socket]:
    """Make a home; the record, positioned at the space for the `Exited` message, and the socket. Raises OSError."""
    told = {name: getattr(command, name) for name in _FIELDS} | {"detach_keys": command.detach_keys.hex()}
    line = json.dumps(told).encode("ascii") + b"\n"
    record = os.open(_record(exec_dir, exec_id), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(record, line + b" " * _ROOM)
        os.lseek(record, len(line), os.SEEK_SET)
        return record, endpoint.listen(exec_dir, socket_name(exec_id))
    except BaseException:
        os.close(record)
        clear(exec_dir, exec_id)
        raise


def clear(exec_dir: str, exec_id: str) -> None:
    """Remove a home; nothing happens when there is none."""
    for path in (_record(exec_dir, exec_id), os.path.join(exec_dir, socket_name(exec_id))):
        with contextlib.suppress(FileNotFoundError):  # the container's end, or an earlier call, has removed it
            os.unlink(path)


def find(exec_dir: str) -> list[Found]:
    """The execs that have a home in this directory."""
    names = [name for name in os.listdir(exec_dir) if name.startswith(_PREFIX) and not name.endswith(_SOCKET)]
    found = [read(exec_dir, name.removeprefix(_PREFIX)) for name in names]
    return [each for each in found if each is not None]


def read(exec_dir: str, exec_id: str) -> Found | None:
    """The content of a record; None when the daemon that made it has died before it was complete."""
    try:
        with open(_record(exec_dir, exec_id), "rb") as file:
            line, _, rest = file.read().partition(b"\n")
        told = json.loads(line)
        keys = bytes.fromhex(told.pop("detach_keys"))
        command = Command(argv=tuple(told.pop("argv")), detach_keys=keys, **told)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return Found(exec_id, command, _end(rest.strip()))


def _end(text: bytes) -> Exited | None:
    try:
        exited = codec.decode(text)
    except Invalid:  # the monitor has written nothing yet, or is just writing
        return None
    return exited if isinstance(exited, Exited) else None
