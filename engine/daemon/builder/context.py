"""The build context: the files that the client sent, or that a URL gave, unpacked into a private directory.

Runs in the build's thread. The archive is not trusted. It is unpacked beneath a directory descriptor, its symbolic
links are never followed out of the directory, and its size is bounded by the free space of the disk. The directory is
removed with the build. What a crash leaves is removed at the daemon's start. As with dockerd, clients leave out what
`.dockerignore` names. Only the Dockerfile and the `.dockerignore` itself are removed here, as clients must send those.
"""

import contextlib
import errno
import hashlib
import io
import os
import posixpath
import stat
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from engine.daemon.builder import urls
from engine.daemon.builder.copying import places
from engine.daemon.builder.copying.archives import Members
from engine.daemon.builder.graph.work import Giver
from engine.daemon.dockerfile.ignore import Ignore
from engine.daemon.tar import reader as tar
from engine.daemon.tar.compression import Unpacked
from engine.daemon.tar.trees import remove_path
from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid, NotFound, SystemFailure
from engine.kernel.beneath import open_beneath
from engine.late import TYPE_CHECKING, late
from engine.sandbox.mounts import words

if TYPE_CHECKING:  # loaded by the first context that is a URL, with a registry's client
    from engine.daemon.builder.git import checkout
    from engine.daemon.images.archives import remote as web
else:
    checkout = late("engine.daemon.builder.git.checkout")
    web = late("engine.daemon.images.archives.remote")

_BUFFER = 256 * 1024
_DEFAULT = "Dockerfile"
_IGNORE = ".dockerignore"
# Bytes of a Dockerfile or a .dockerignore. No hand-written file is as long, here-documents included.
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
    """What the bytes of a context are read from: a request's body, or the answer of a server."""

    def read(self, count: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Context:
    """The unpacked context of one build.

    root: descriptor of the directory with the context's files
    scratch: descriptor of an empty directory beside it. Both directories are removed with the build.
    dockerfile: the Dockerfile's bytes; name: its path in the context
    """

    root: int
    scratch: int
    dockerfile: bytes
    name: str


def _never() -> None:
    """The default of `check`: nothing ends the fetching early."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """How a context is fetched from its URL.

    progress: takes (bytes so far, bytes in all or -1) of a download; check: raises once nobody waits any more
    giver: gives secrets for a repository; keep_git_dir: git's own files stay in the context
    subdir: the directory of it that is the context, empty for all of it
    checksum: `sha256:...` of what the URL of a file gives, empty for any
    dockerfile: the Dockerfile is to be read; it may come from elsewhere
    loopback: the URL may be on the host's loopback interface
    """

    progress: Progress | None = None
    check: Callable[[], None] = _never
    giver: Giver | None = None
    keep_git_dir: bool = False
    subdir: str = ""
    checksum: str = ""
    dockerfile: bool = True
    loopback: bool = True


@contextlib.contextmanager
def opened(
    data_root: str, body: Source, remote: str = "", dockerfile: str = "", how: Fetching | None = None
) -> Iterator[Context]:
    """The context of one build, out of the body or from the URL `remote`. Raises EngineErrors in docker's words.

    dockerfile: path of the Dockerfile in the context, empty for `Dockerfile`
    """
    how = how or Fetching()
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(_place(data_root))
        scratch = _made(stack, os.path.join(place, "scratch"))
        path = os.path.join(place, "context")
        address = urls.repository(remote) if remote else None
        if address is not None:
            found = checkout.check_out(
                address,
                checkout.resolve(address, place, how.giver, how.check),
                place,
                how.giver,
                how.check,
                bool(address.keep_git_dir) or how.keep_git_dir,
            )
            os.rename(found.path, path)
        root = _made(stack, path)
        try:
            if address is None:
                read = _filled(root, body, remote, dockerfile or _DEFAULT, how)
            else:
                read = _dockerfile(root, dockerfile or _DEFAULT) if how.dockerfile else (b"", "")
            if how.subdir:
                root = below(stack, root, how.subdir)
        except OSError as error:
            raise SystemFailure(f"cannot store the build context: {words(error)}") from error
        yield Context(root, scratch, *read)


def below(stack: contextlib.ExitStack, root: int, subdir: str) -> int:
    """A directory of the context, as the context. Raises NotFound, OSError."""
    try:
        fd = open_beneath(root, posixpath.normpath(f"/{subdir}").lstrip("/") or ".", _READABLE)
    except FileNotFoundError as error:
        raise NotFound(f"the build context has no directory {subdir}") from error
    stack.callback(os.close, fd)
    return fd


@contextlib.contextmanager
def scratch(data_root: str) -> Iterator[int]:
    """The descriptor of an empty directory, for a build whose context is somewhere else."""
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(_place(data_root))
        yield _made(stack, os.path.join(place, "scratch"))


@contextlib.contextmanager
def _place(data_root: str) -> Iterator[str]:
    place = os.path.join(data_root, "tmp", f"build-{os.getpid()}-{time.monotonic_ns()}")
    os.mkdir(place, 0o700)
    try:
        yield place
    finally:
        remove_path(place)


def _made(stack: contextlib.ExitStack, path: str) -> int:
    os.makedirs(path, 0o755, exist_ok=True)
    fd = os.open(path, _READABLE)
    stack.callback(os.close, fd)
    return fd


def _filled(root: int, body: Source, remote: str, dockerfile: str, how: Fetching) -> tuple[bytes, str]:
    """Fill the root directory; returns the Dockerfile's bytes and its name."""
    if not remote:
        _unpack(root, body)
        return _dockerfile(root, dockerfile) if how.dockerfile else (b"", "")
    if remote == "client-session":
        raise Invalid("experimental session with v1 builder is no longer supported, use builder version v2 (BuildKit)")
    if not urls.is_url(remote):
        raise SystemFailure(f"remoteURL ({remote}) could not be recognized as URL")
    with contextlib.ExitStack() as stack:
        try:
            answer = stack.enter_context(web.opened(remote, check=how.check, loopback=how.loopback))
        except EngineError as error:
            how.check()
            raise type(error)(f"error downloading remote context {remote}: {error}") from error
        return _from_answer(root, answer, remote, dockerfile, how)


# The archive


class _Members(Members):
    """Every member belongs to root, as in what COPY makes of it."""

    what = outside = "build context"

    def add(self, entry: tar.Entry, reader: tar.TarReader) -> None:
        """Make one member of the archive."""
        entry.uid = entry.gid = 0
        super().add(entry, reader)


def _unpack(root: int, source: Source) -> None:
    try:
        with contextlib.closing(_Members(root)) as into:
            into.every(tar.TarReader(io.BufferedReader(Unpacked(source), _BUFFER)))
    except Invalid as error:
        # The request is valid and its archive is not: dockerd answers that with a 500.
        raise SystemFailure(str(error)) from error


# The Dockerfile


def _dockerfile(root: int, path: str) -> tuple[bytes, str]:
    """The Dockerfile's bytes and its name.

    Removes it, and the `.dockerignore`, where the `.dockerignore` names them.
    """
    for name in (path, path.lower()) if path == _DEFAULT else (path,):
        try:
            data = text_of(root, name)
        except FileNotFoundError:
            continue
        except IsADirectoryError as error:
            raise SystemFailure(f"unexpected error reading Dockerfile: read {name}: is a directory") from error
        except (OSError, ValueError) as error:
            raise SystemFailure(f"forbidden path outside the build context: {name} ()") from error
        if not data:
            raise Invalid(f"the Dockerfile ({name}) cannot be empty")
        _leave_out(root, name)
        return data, name
    raise SystemFailure(f"Cannot locate specified Dockerfile: {path}")


def text_of(root: int, path: str) -> bytes:
    """The bytes of a file of the context. Symbolic links are followed inside the context only.

    Raises OSError, Invalid.
    """
    if "\0" in path or posixpath.normpath(path).startswith(".."):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    fd = open_beneath(root, path, _FILE)
    try:
        file = os.fdopen(fd, "rb")
    except OSError:  # os.fdopen refuses a directory, and leaves the descriptor open
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
        text = text_of(root, _IGNORE)
    except FileNotFoundError:
        return
    try:
        ignore = Ignore(text.decode("utf-8", "surrogateescape"))
    except Invalid:
        # dockerd treats a malformed pattern as one that matches nothing.
        return
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
    """The body of an answer, its first bytes put back in front; reports how many bytes were read to `progress`."""

    def __init__(self, head: bytes, answer: "web.Remote", progress: Progress | None):
        self._head = head
        self._answer = answer
        self._progress = progress
        self._count = 0
        self._total = hashlib.sha256()

    def check(self, wanted: str) -> None:
        """Read to the end. Raises Invalid where the checksum is not that of all bytes."""
        while self.read(_BUFFER):
            pass
        if wanted != (found := f"sha256:{self._total.hexdigest()}"):
            raise Invalid(f"digest mismatch {found}: {wanted}")

    def read(self, count: int) -> bytes:
        """Up to `count` bytes; none at the end."""
        data, self._head = self._head[:count], self._head[count:]
        data = data or self._answer.read(count)
        self._total.update(data)
        self._count += len(data)
        if self._progress is not None:
            self._progress(self._count, -1 if self._answer.size is None else self._answer.size)
        return data


def _from_answer(root: int, answer: "web.Remote", url: str, dockerfile: str, how: Fetching) -> tuple[bytes, str]:
    """Fill the root from a server's answer: a text is a Dockerfile without a context, everything else is an archive."""
    head = answer.read(_PREAMBLE)
    said = answer.header("Content-Type").partition(";")[0].strip().lower()
    kind = said if said not in ("", _OCTETS) else _kind(head)
    trouble = "empty response" if not head else ""
    if head and kind != _TEXT and kind not in _ARCHIVES:
        trouble = f'unsupported Content-Type "{answer.header("Content-Type")}"'
    if trouble:
        raise SystemFailure(f"error detecting content type for remote {url}: {trouble}")
    source = _Counted(head, answer, how.progress)
    if kind != _TEXT:
        _unpack(root, source)
        if how.checksum:
            source.check(how.checksum)
        return _dockerfile(root, dockerfile) if how.dockerfile else (b"", "")
    data = bytearray()
    while more := source.read(_BUFFER):
        data += more
        if len(data) > _LARGEST_TEXT:
            raise Invalid(f"the Dockerfile at {url} is larger than {_LARGEST_TEXT} bytes")
    if how.checksum:
        source.check(how.checksum)
    return bytes(data), _DEFAULT


def _kind(head: bytes) -> str:
    """A guess at the content type that a server has not told: bytes that no text contains make it an archive."""
    control = set(range(32)) - set(b"\t\n\f\r\x1b")
    return _OCTETS if control & set(head) else _TEXT
