"""The data root of a stopped dockerd, as files beneath a descriptor: it is only read, and nothing leads out of it.

Whatever stands in it was written by another program, and is taken for a stranger's: documents are of a bounded size and
are parsed by bounded parsers, no symbolic link is followed, and a name becomes part of a path only if it is of the form
that dockerd gives it.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator

from engine.annotating import Self
from engine.daemon import jsontext
from engine.daemon.jsontext import Object
from engine.errors import Invalid, NotFound, SystemFailure, Unavailable
from engine.kernel import reasons
from engine.kernel.beneath import open_beneath
from engine.migrate.bolt import Bolt

LARGEST_DOCUMENT = 16 << 20
IDENTIFIER = re.compile(r"[0-9a-f]{64}")

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_NAMES = 1_000_000
_LOCKED = ("volumes/metadata.db",)  # dockerd holds a lock of it (flock(2))


class Root:
    """A directory that another program keeps, and no longer writes to; a context manager. path: for people"""

    def __init__(self, path: str, keeper: str, locked: tuple[str, ...]) -> None:
        """keeper: the program; locked: files that it holds a lock of while it runs. Raises NotFound."""
        self.path = path
        self._keeper = keeper
        self._locked = locked
        try:
            self.root = os.open(path, _DIRECTORY)
        except OSError as error:
            raise NotFound(f"{path} cannot be read: {reasons.of(error)}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.root)

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Raise Unavailable while its program runs; during the context none can begin to change it."""
        with contextlib.ExitStack() as held:
            for path in self._locked:
                try:
                    descriptor = held.enter_context(self.opened(path))
                    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except NotFound:
                    continue
                except BlockingIOError as error:
                    raise Unavailable(f"a {self._keeper} runs on {self.path}: stop it first") from error
            yield

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """The descriptor of a regular file. Raises NotFound, Invalid for anything else."""
        descriptor = self._open(path, _FILE)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Invalid(f"{path} is no regular file")
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """The descriptor of a directory. Raises NotFound, Invalid."""
        descriptor = self._open(path, _DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, path: str, flags: int) -> int:
        try:
            return open_beneath(self.root, path, flags, no_symlinks=True)
        except FileNotFoundError as error:
            raise NotFound(f"{path} is missing") from error
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EXDEV):
                raise Invalid(f"{path} is not what {self._keeper} makes: {reasons.of(error)}") from error
            raise SystemFailure(f"{path} cannot be read: {reasons.of(error)}") from error

    def data(self, path: str, most: int = LARGEST_DOCUMENT) -> bytes:
        """The bytes of a small file. Raises NotFound, Invalid for more than `most`, SystemFailure."""
        with self.opened(path) as descriptor:
            try:
                with open(descriptor, "rb", closefd=False) as file:
                    found = file.read(most + 1)
            except OSError as error:
                raise SystemFailure(f"{path} cannot be read: {reasons.of(error)}") from error
        if len(found) > most:
            raise Invalid(f"{path} has more than {most} bytes")
        return found

    def text(self, path: str) -> str:
        """The words of a short file, without spaces around them. Raises what `data` raises, Invalid."""
        try:
            return self.data(path, 4096).decode().strip()
        except UnicodeDecodeError as error:
            raise Invalid(f"{path} is no text") from error

    def document(self, path: str) -> Object:
        """The JSON object in a file. Raises what `data` raises, Invalid."""
        found = jsontext.parse(self.data(path), path)
        if not isinstance(found, dict):
            raise Invalid(f"{path} is no JSON object")
        return found

    def names(self, path: str, *, missing: bool = False) -> list[str]:
        """The names in a directory, sorted. missing: one that is not there has none. Raises NotFound, Invalid."""
        try:
            with self.directory(path) as descriptor:
                found = sorted(os.listdir(descriptor))
        except NotFound:
            if not missing:
                raise
            return []
        if len(found) > _MOST_NAMES:
            raise Invalid(f"{path} has more than {_MOST_NAMES} entries")
        return found

    def identifiers(self, path: str) -> list[str]:
        """The names in a directory that are ids of 64 hex digits; none where it is missing."""
        return [name for name in self.names(path, missing=True) if IDENTIFIER.fullmatch(name)]

    @contextlib.contextmanager
    def bolt(self, path: str) -> Iterator[Bolt]:
        """A store of keys and values. Raises NotFound, Invalid."""
        with self.opened(path) as descriptor:
            yield Bolt(descriptor)


class Source(Root):
    """The data root of a dockerd."""

    def __init__(self, path: str) -> None:
        """Raises NotFound where there is no such directory, Invalid for a data root that no dockerd has made."""
        super().__init__(path, "dockerd", _LOCKED)
        if not self.names("containers", missing=True) and not self.names("image", missing=True):
            os.close(self.root)
            raise Invalid(f"{path} is no data root of dockerd: it has neither images nor containers")
