"""ADD of a URL: downloads the file into the build's scratch directory, and takes its name and time from the answer.

Runs in the build's thread, before the sources are digested.
"""

import hashlib
import os
import posixpath
import time
import urllib.parse
from collections.abc import Callable

from engine.daemon.build.urls import is_git
from engine.daemon.build.urls import is_url as is_url
from engine.daemon.tar.space import check_space
from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first ADD of a URL, with a registry's client
    from engine.daemon.images.archives import remote
else:
    remote = late("engine.daemon.images.archives.remote")

_CHUNK = 256 * 1024
_SPACE_STEP = 16 * 1024 * 1024
_MODE = 0o600
_LONGEST_NAME = 255
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Fetched:
    """A downloaded file.

    name: what the file is called by its URL or its header; empty where neither tells a usable name
    directory: the scratch directory's descriptor; stored: the file's name in that directory
    """

    url: str
    name: str
    directory: int
    stored: str


def fetch(
    url: str, checksum: str, scratch: int, progress: Callable[[int, int], None] | None = None, shown: str = "ADD"
) -> Fetched:
    """Download a URL into the scratch directory. Raises NotFound, SystemFailure, Invalid.

    checksum: `sha256:` and 64 hex digits that the contents must have, or empty
    progress: takes (bytes so far, bytes in all or -1); shown: the instruction's name for error texts
    """
    if is_git(url):
        raise Invalid(f"{shown} failed: {url}: git repositories are not supported; ADD an archive instead")
    algorithm, _, wanted = checksum.partition(":")
    if checksum and (algorithm != "sha256" or len(wanted) != 64 or wanted.strip("0123456789abcdef")):
        raise Invalid(f"{shown} failed: invalid checksum {checksum!r}: it must be sha256: and 64 hexadecimal digits")
    try:
        with remote.opened(url) as answer:
            stored = f"fetched-{time.monotonic_ns()}"
            total = _stored(answer, scratch, stored, progress)
            name = _name(url, answer.header("Content-Disposition"))
    except EngineError as error:
        raise type(error)(f"{shown} failed: {error}") from error
    if checksum and total != wanted:
        raise Invalid(f"{shown} failed: digest mismatch sha256:{total}: {checksum}")
    return Fetched(url, name, scratch, stored)


def _stored(answer: "remote.Remote", scratch: int, stored: str, progress: Callable[[int, int], None] | None) -> str:
    """Write the answer's body into the file; returns its sha256 in hex."""
    total, count, unchecked = hashlib.sha256(), 0, 0
    fd = os.open(stored, _CREATE, _MODE, dir_fd=scratch)
    try:
        while data := answer.read(_CHUNK):
            total.update(data)
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
            count += len(data)
            unchecked += len(data)
            if unchecked >= _SPACE_STEP:
                unchecked = 0
                check_space(fd)
            if progress is not None:
                progress(count, -1 if answer.size is None else answer.size)
        seconds = _time(answer.header("Last-Modified"))
        os.fchmod(fd, _MODE)
        os.utime(fd, (seconds, seconds))
    finally:
        os.close(fd)
    return total.hexdigest()


def _time(text: str) -> int:
    """A Last-Modified header as seconds since the epoch; 0 where the header is missing or unreadable."""
    import email.utils  # imported here, as an idle daemon needs it not

    try:
        return max(0, int(email.utils.parsedate_to_datetime(text).timestamp()))
    except (ValueError, TypeError, OverflowError):
        return 0


def _name(url: str, disposition: str) -> str:
    path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
    name = _usable(path) if not path.endswith("/") else ""
    if name or not disposition:
        return name
    import email.message  # imported here, as an idle daemon needs it not

    message = email.message.Message()
    message["Content-Disposition"] = disposition
    return _usable(message.get_filename() or "")


def _usable(path: str) -> str:
    name = posixpath.basename(path)
    bad = name in (".", "..") or "\0" in name or len(os.fsencode(name)) > _LONGEST_NAME
    return "" if bad else name
