"""The files of the build history: what builds have told, how they failed, and documents about them, by their digests.

Below `history` in the data root. A file is written whole and renamed before a record refers to it; a file that no
record refers to is removed by `buildhistory`, and at the daemon's first use of the history.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable
from io import FileIO

from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound, SystemFailure
from engine.kernel import reasons

DIRECTORY = "history"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NEW = "new-"


@dataclass(frozen=True, slots=True)
class Blob:
    """A file that was written, as a record refers to it. kind: its media type; path: where it is until it is `kept`"""

    digest: str
    size: int
    kind: str
    path: str


def _room(data_root: str) -> str:
    return os.path.join(data_root, DIRECTORY)


def write(data_root: str, kind: str, pieces: Iterable[bytes]) -> Blob:
    """Write a file that no record refers to yet. Raises SystemFailure."""
    hasher, size = hashlib.sha256(), 0
    path = os.path.join(_room(data_root), f"{_NEW}{os.urandom(8).hex()}")
    try:
        with open(path, "xb", opener=_private) as file:
            for piece in pieces:
                hasher.update(piece)
                size += len(piece)
                file.write(piece)
    except OSError as error:
        with contextlib.suppress(OSError):  # it may not even have been made
            os.unlink(path)
        raise SystemFailure(f"cannot keep the record of a build: {reasons.of(error)}") from error
    return Blob(f"sha256:{hasher.hexdigest()}", size, kind, path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def keep(data_root: str, blob: Blob) -> None:
    """Give a written file the name of its digest. Raises SystemFailure."""
    try:
        os.rename(blob.path, _path(data_root, blob.digest))
    except OSError as error:
        raise SystemFailure(f"cannot keep the record of a build: {reasons.of(error)}") from error


def discard(blob: Blob) -> None:
    """Remove a written file that was not kept."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(blob.path)


def check(digest: str) -> None:
    """Raise Invalid for what is no digest that a file of the history could have."""
    if not _DIGEST.fullmatch(digest):
        raise Invalid(f"invalid digest {digest[:100]!r}")


def _path(data_root: str, digest: str) -> str:
    return os.path.join(_room(data_root), digest.removeprefix("sha256:"))


def opened(data_root: str, digest: str) -> FileIO:
    """A file. digest: has been checked. Raises NotFound."""
    try:
        return open(_path(data_root, digest), "rb", buffering=0)
    except FileNotFoundError as error:
        raise NotFound(f"content {digest}: not found") from error


def remove(data_root: str, digests: Iterable[str], held: Callable[[str], bool]) -> None:
    """Remove those of these files that no record refers to any more."""
    for digest in digests:
        if _DIGEST.fullmatch(digest) and not held(digest):
            with contextlib.suppress(FileNotFoundError):  # it is of another store
                os.unlink(_path(data_root, digest))


def sweep(data_root: str, held: set[str]) -> None:
    """Remove what a daemon that was killed has left: files that no record refers to."""
    os.makedirs(_room(data_root), mode=0o700, exist_ok=True)
    with os.scandir(_room(data_root)) as found:
        for each in found:
            if f"sha256:{each.name}" not in held:
                os.unlink(each.path)
