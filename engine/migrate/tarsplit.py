"""The tar of a layer as dockerd got it, put together again from the layer's files and what dockerd has kept of the tar.

dockerd keeps, beside a layer's directory, all bytes of its tar that are no contents of files (`tar-split.json.gz`, the
format of github.com/vbatts/tar-split): one JSON object a line, a piece of the tar or the name and size of a file whose
contents come next. The digest of the whole shows whether the files are still those of the tar; the caller compares it.
"""

import base64
import binascii
import errno
import io
import os
import stat
from collections.abc import Iterator

from engine.daemon import jsontext
from engine.daemon.tar.compression import Unpacked
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.kernel.beneath import open_beneath

_FILE, _PIECE = 1, 2
_LONGEST_LINE = 32 << 20
_CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Tar(io.RawIOBase):
    """The tar as a stream. Reading raises Invalid where the files are not those that it was made of, SystemFailure."""

    def __init__(self, pieces: io.FileIO, layer: int) -> None:
        """pieces: the open `tar-split.json.gz`; layer: descriptor of the layer's directory. Both stay the caller's."""
        self._chunks = _chunks(pieces, layer)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, count: int = -1) -> bytes:
        """At most `count` bytes, at least one but at the end."""
        while not self._rest:
            found = next(self._chunks, None)
            if found is None:
                return b""
            self._rest = memoryview(found)
        data = bytes(self._rest if count < 0 else self._rest[:count])
        self._rest = self._rest[len(data) :]
        return data


def _chunks(pieces: io.FileIO, layer: int) -> Iterator[bytes]:
    lines = io.BufferedReader(Unpacked(pieces), _CHUNK)
    while line := lines.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise Invalid("a line of what is kept of a layer's tar is too long")
        entry = jsontext.parse(line, "entry of a layer's tar")
        if not isinstance(entry, dict):
            raise Invalid("what is kept of a layer's tar is no list of entries")
        if entry.get("type") == _PIECE:
            yield _decoded(entry.get("payload"))
        elif entry.get("type") == _FILE:
            size = entry.get("size") or 0
            if not isinstance(size, int) or size < 0:
                raise Invalid("a file of a layer's tar has no size")
            if size:
                yield from _contents(layer, _name(entry), size)
        else:
            raise Invalid("what is kept of a layer's tar has an entry of an unknown kind")


def _decoded(payload: object) -> bytes:
    try:
        return base64.b64decode(payload if isinstance(payload, str) else "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid("what is kept of a layer's tar is damaged") from error


def _name(entry: jsontext.Object) -> str:
    if entry.get("name_raw"):
        return os.fsdecode(_decoded(entry["name_raw"]))
    name = entry.get("name")
    if not isinstance(name, str) or not name or "\0" in name:
        raise Invalid("a file of a layer's tar has no name")
    return name


def _contents(layer: int, name: str, size: int) -> Iterator[bytes]:
    try:
        descriptor = open_beneath(layer, name, _FLAGS, no_symlinks=True)
    except OSError as error:
        raise Invalid(f"the file {name} of a layer is missing: {reasons.of(error)}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            raise Invalid(f"the file {name} of a layer is not the one of its tar")
        left = size
        while left:
            data = os.read(descriptor, min(left, _CHUNK))
            if not data:
                raise Invalid(f"the file {name} of a layer is shorter than in its tar")
            left -= len(data)
            yield data
    except OSError as error:
        reason = reasons.of(error.errno or errno.EIO)
        raise SystemFailure(f"the file {name} of a layer cannot be read: {reason}") from error
    finally:
        os.close(descriptor)
