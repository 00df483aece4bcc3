"""The build's context: the files that the client sent, or that a URL gave, in a private directory of the daemon.

Runs in the build's thread. The archive is a stranger's: it is unpacked beneath a descriptor, its links are never
followed out, and what it takes is bounded by the disk. Everything goes with the build; what a crash leaves is swept
at the daemon's start. As for dockerd, what `.dockerignore` says is for clients to leave out; only the Dockerfile and
the `.dockerignore` itself go here, as clients must send those.
"""

import contextlib
import errno
import io
import os
import posixpath
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from engine.daemon.build import urls
from engine.daemon.build.copying import places
from engine.daemon.dockerfile.ignore import Ignore
from engine.daemon.tar import extract
from engine.daemon.tar import reader as tar
from engine.daemon.tar.compression import Unpacked
from engine.daemon.tar.space import check_room
from engine.daemon.tar.trees import remove_path
from engine.errors import EngineError, Invalid, SystemFailure
from engine.kernel.beneath import open_beneath
from engine.late import TYPE_CHECKING, late
from engine.sandbox.mounts import words

if TYPE_CHECKING:  # loaded by the first context that is a URL, with a registry's client
    from engine.daemon.images.archives import remote as web
else:
    web = late("engine.daemon.images.archives.remote")

_BUFFER = 256 * 1024
_DEFAULT = "Dockerfile"
_IGNORE = ".dockerignore"
# More than anybody has written by hand, here-documents included.
_LARGEST_TEXT = 4 * 1024 * 1024
_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_PREAMBLE = 100
_TEXT = "text/plain"
_OCTETS = "application/octet-stream"
_ARCHIVES = frozenset(
    f"application/{prefix}{name}"
    for prefix in ("", "x-")
    for name in ("tar", "gzip", "bzip", "bzip2", "xz", "zstd", "octet-stream")
)

Progress = Callable[[int, int], None]


class Source(Protocol):
    """What a context comes from: a request's body, or the answer of a server."""

    def read(self, count: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Context:
    """root: descriptor of the directory with the files; scratch: of an empty one beside it; both go with the build.

    dockerfile: its bytes; name: what it is called
    """

    root: int
    scratch: int
    dockerfile: bytes
    name: str


@contextlib.contextmanager
def opened(
    data_root: str, body: Source, remote: str = "", dockerfile: str = "", progress: Progress | None = None
) -> Iterator[Context]:
    """The context of one build, of the body, or of the URL `remote`. Raises EngineErrors in docker's words."""
    place = os.path.join(data_root, "tmp", f"build-{os.getpid()}-{time.monotonic_ns()}")
    with contextlib.ExitStack() as stack:
        os.mkdir(place, 0o700)
        stack.callback(remove_path, place)
        root, scratch = (_made(stack, os.path.join(place, name)) for name in ("context", "scratch"))
        try:
            data, name = _filled(root, body, remote, dockerfile or _DEFAULT, progress)
        except OSError as error:
            raise SystemFailure(f"the build context cannot be kept: {words(error)}") from error
        yield Context(root, scratch, data, name)


def _made(stack: contextlib.ExitStack, path: str) -> int:
    os.mkdir(path, 0o755)
    fd = os.open(path, _READABLE)
    stack.callback(os.close, fd)
    return fd


def _filled(root: int, body: Source, remote: str, dockerfile: str, progress: Progress | None) -> tuple[bytes, str]:
    """Fill the root; the Dockerfile's bytes and its name."""
    if not remote:
        _unpack(root, body)
        return _dockerfile(root, dockerfile)
    if remote == "client-session":
        raise Invalid("experimental session with v1 builder is no longer supported, use builder version v2 (BuildKit)")
    if urls.is_git(remote):
        raise Invalid(f"{remote}: a git repository is no build context here; send an archive of it instead")
    if not urls.is_url(remote):
        raise SystemFailure(f"remoteURL ({remote}) could not be recognized as URL")
    with contextlib.ExitStack() as stack:
        try:
            answer = stack.enter_context(web.opened(remote))
        except EngineError as error:
            raise type(error)(f"error downloading remote context {remote}: {error}") from error
        return _from_answer(root, answer, remote, dockerfile, progress)


# The archive


class _Into(extract.Extraction):
    """An extraction into the context's directory, where everything is root's, as COPY makes it."""

    what = "build context"

    def __init__(self, root: int):
        super().__init__(root)
        self._holes = 0

    def add(self, entry: tar.Entry, reader: tar.TarReader) -> None:
        """Make one member."""
        parts = self.parts_of(entry.name)
        entry.uid = entry.gid = 0
        self.check(entry)
        if entry.fragments is not None:
            # Holes cost nothing here, but whoever copies or digests them has them all.
            self._holes += entry.size - entry.stored
            check_room(self.root, self._holes)
        if parts:
            self.make(entry, parts, reader)

    def parts_of(self, name: str) -> list[str]:
        """The parts of a name, which is cleaned first, as docker does it: only what leads out is refused."""
        clean = posixpath.normpath(name)
        if clean == ".." or clean.startswith("../"):
            raise Invalid(f'"{name}" is outside of the build context')
        return [part for part in clean.split("/") if part not in ("", ".")]


def _unpack(root: int, source: Source) -> None:
    try:
        with contextlib.closing(_Into(root)) as into:
            reader = tar.TarReader(io.BufferedReader(Unpacked(source), _BUFFER))
            for entry in reader:
                try:
                    into.add(entry, reader)
                except OSError as error:
                    raise extract.failure(entry.name, error) from error
            into.settle_directories()
    except Invalid as error:
        # The request was right, its archive was not: dockerd says so with a 500.
        raise SystemFailure(str(error)) from error


# The Dockerfile


def _dockerfile(root: int, path: str) -> tuple[bytes, str]:
    """The Dockerfile's bytes and its name; it goes, and `.dockerignore` too, where the latter says so."""
    missing = SystemFailure(f"Cannot locate specified Dockerfile: {path}")
    for name in (path, path.lower()) if path == _DEFAULT else (path,):
        try:
            data = _text(root, name)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise missing from error
        if not data:
            raise Invalid(f"the Dockerfile ({name}) cannot be empty")
        _leave_out(root, name)
        return data, name
    raise missing


def _text(root: int, path: str) -> bytes:
    """A file of the context, by links inside it only. Raises OSError, Invalid."""
    if "\0" in path or posixpath.normpath(path).startswith(".."):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    fd = open_beneath(root, path, _FILE)
    try:
        file = os.fdopen(fd, "rb")
    except OSError:  # a directory: nobody else has the descriptor then
        os.close(fd)
        raise
    with file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Invalid(f"{path} in the build context is not a regular file")
        if found.st_size > _LARGEST_TEXT:
            raise Invalid(f"{path} in the build context is larger than {_LARGEST_TEXT} bytes")
        return file.read()


def _leave_out(root: int, dockerfile: str) -> None:
    try:
        text = _text(root, _IGNORE)
    except FileNotFoundError:
        return
    try:
        ignore = Ignore(text.decode("utf-8", "surrogateescape"))
    except Invalid:
        return  # dockerd takes a pattern that says nothing for one that matches nothing
    for name in (_IGNORE, posixpath.normpath(dockerfile).lstrip("/")):
        if not ignore.matches(name):
            continue
        with contextlib.suppress(FileNotFoundError):  # the Dockerfile may be a link to the .dockerignore
            directory, _, last = places.within(root, name, whole=True)[-1][0].rpartition("/")
            parent = open_beneath(root, directory or ".", _READABLE, no_symlinks=True)
            try:
                os.unlink(last, dir_fd=parent)
            finally:
                os.close(parent)


# A URL


class _Counted:
    """An answer's body with what was looked at before put back, and its bytes told as they are read."""

    def __init__(self, head: bytes, answer: web.Remote, progress: Progress | None):
        self._head = head
        self._answer = answer
        self._progress = progress
        self._count = 0

    def read(self, count: int) -> bytes:
        """Up to count bytes, none at the end."""
        data, self._head = self._head[:count], self._head[count:]
        data = data or self._answer.read(count)
        self._count += len(data)
        if self._progress is not None:
            self._progress(self._count, -1 if self._answer.size is None else self._answer.size)
        return data


def _from_answer(
    root: int, answer: web.Remote, url: str, dockerfile: str, progress: Progress | None
) -> tuple[bytes, str]:
    """A text is a Dockerfile without any context, everything else an archive."""
    head = answer.read(_PREAMBLE)
    said = answer.header("Content-Type").partition(";")[0].strip().lower()
    kind = said if said not in ("", _OCTETS) else _kind(head)
    trouble = "empty response" if not head else ""
    if head and kind != _TEXT and kind not in _ARCHIVES:
        trouble = f'unsupported Content-Type "{answer.header("Content-Type")}"'
    if trouble:
        raise SystemFailure(f"error detecting content type for remote {url}: {trouble}")
    source = _Counted(head, answer, progress)
    if kind != _TEXT:
        _unpack(root, source)
        return _dockerfile(root, dockerfile)
    data = bytearray()
    while more := source.read(_BUFFER):
        data += more
        if len(data) > _LARGEST_TEXT:
            raise Invalid(f"the Dockerfile at {url} is larger than {_LARGEST_TEXT} bytes")
    return bytes(data), _DEFAULT


def _kind(head: bytes) -> str:
    """A guess at what a server did not say: bytes that no text has make an archive."""
    control = set(range(32)) - set(b"\t\n\f\r\x1b")
    return _OCTETS if control & set(head) else _TEXT
