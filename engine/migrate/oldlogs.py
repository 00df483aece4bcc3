"""Brings over what dockerd has kept of a container's output.

A log of `json-file` is the same here, byte for byte. One of `local`, and the copy that dockerd keeps beside other
drivers, is of protobuf messages (docker's `logdriver.LogEntry`), each between two lengths; it is written anew in the
form of the engine's own logs, with the times that it had.
"""

import io
import os
import shutil
import struct
from collections.abc import Iterator
from typing import Annotated, TypedDict

from engine.daemon.containers.paths import Paths
from engine.daemon.tar.compression import Unpacked
from engine.errors import Invalid
from engine.logs.format import LARGEST_CHUNK, STDERR, STDOUT
from engine.logs.target import FRAMES, LINES
from engine.logs.writer import Writer
from engine.migrate.oldroot import Source
from engine.protocols import protobuf

_WRITES = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_LENGTH = struct.Struct(">I")
_LONGEST = 1 << 20  # of an entry; a line is cut at 16 KiB
_CHUNK = 1 << 20
_OF_LOCAL, _OF_OTHERS = "local-logs/container.log", "container-cached.log"


class _Entry(TypedDict):
    """One line, or a part of it. partial: the line goes on in the next entry"""

    source: Annotated[str, 1]
    time_nano: Annotated[int, 2]
    line: Annotated[bytes, 3]
    partial: Annotated[bool, 4]


def bring(source: Source, home: str, identity: str, form: str, driver: str, where: Paths) -> None:
    """Bring over a container's log, if there is one.

    home: of the container, in the source; form: of its log here, see `engine.logs.target`; driver: of its log
    Raises Invalid for a log that is none; what was read until then is kept.
    """
    if form == LINES:
        name = f"{identity}-json.log"
        for each in _parts(source, home, name):
            _copy(source, f"{home}/{each}", os.path.join(where.home, each))
    elif form == FRAMES:
        path = f"{home}/{_OF_LOCAL if driver == 'local' else _OF_OTHERS}"
        above, _, name = path.rpartition("/")
        parts = _parts(source, above, name)
        if parts:
            log = Writer(where.log)
            with log:
                for each in parts:
                    _append(source, f"{above}/{each}", log)


def _parts(source: Source, above: str, name: str) -> list[str]:
    """The files of a log, oldest first."""
    found, older = [], f"{name}."
    for each in source.names(above, missing=True):
        number = each.removeprefix(older).removesuffix(".gz")
        if each == name:
            found.append((0, each))
        elif each.startswith(older) and number.isascii() and number.isdigit():
            found.append((-int(number), each))
    return [each for _, each in sorted(found)]


def _copy(source: Source, path: str, target: str) -> None:
    with source.opened(path) as old, open(old, "rb", closefd=False) as reading:
        with open(os.open(target, _WRITES, 0o640), "wb") as writing:
            shutil.copyfileobj(reading, writing, _CHUNK)


def _append(source: Source, path: str, log: Writer) -> None:
    with source.opened(path) as old, open(old, "rb", buffering=0, closefd=False) as file:
        for entry in _entries(io.BufferedReader(Unpacked(file), _CHUNK)):
            line = entry["line"] + (b"" if entry["partial"] else b"\n")
            stream = STDERR if entry["source"] == "stderr" else STDOUT
            for place in range(0, len(line), LARGEST_CHUNK):
                log.append_at(stream, line[place : place + LARGEST_CHUNK], max(entry["time_nano"], 0))


def _entries(file: io.BufferedReader) -> Iterator[_Entry]:
    while head := file.read(_LENGTH.size):
        size = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else _LONGEST + 1
        if size > _LONGEST:
            raise Invalid("its log is none of dockerd's")
        data, end = file.read(size), file.read(_LENGTH.size)
        if len(data) < size or end != head:
            return  # dockerd was killed while it wrote it
        yield protobuf.decode(_Entry, data)
