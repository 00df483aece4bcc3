"""ADD of a URL: downloads the file, or fetches the git repository, into the build's scratch directory.

A file gets its name and time from the answer. Runs in the build's thread, before the sources are digested.
"""

import hashlib
import os
import posixpath
import time
import urllib.parse
from collections.abc import Callable, Mapping

from engine.daemon.builder.graph.work import Giver
from engine.daemon.builder.urls import is_url, repository
from engine.daemon.dockerfile.gotext import quoted
from engine.daemon.tar.space import check_space
from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid, NotFound, SystemFailure
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first ADD of a URL, with a registry's client
    from engine.daemon.builder.git import checkout
    from engine.daemon.images.archives import remote
else:
    checkout = late("engine.daemon.builder.git.checkout")
    remote = late("engine.daemon.images.archives.remote")

_CHUNK = 256 * 1024
_SPACE_STEP = 16 * 1024 * 1024
_MODE = 0o600
_LONGEST_NAME = 255
_HUB = "github.com/"
UNNAMED = "__unnamed__"
"""A file whose URL names none."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Fetched:
    """A downloaded file, or the directory with the files of a git repository.

    name: what the file is called by its URL or its header; empty where neither tells a usable name
    said: what its header calls it, empty where it does not
    directory: the scratch directory's descriptor; stored: the path of the file or directory in that directory
    """

    url: str
    name: str
    directory: int
    stored: str
    said: str = ""


def is_remote(text: str) -> bool:
    """Whether a source of ADD is fetched: the URL of a file, or of a git repository."""
    return is_url(text) or is_repository(text)


def is_repository(text: str) -> bool:
    """Whether a source of ADD is a git repository; one whose address is wrong is one too."""
    if text.startswith(_HUB):  # that is a path of the context here
        return False
    try:
        return repository(text) is not None
    except Invalid:
        return True


def _never() -> None:
    """The default of `check`: nothing ends the fetching early."""


def fetch(
    url: str,
    checksum: str,
    scratch: int,
    progress: Callable[[int, int], None] | None = None,
    shown: str = "ADD",
    giver: Giver | None = None,
    check: Callable[[], None] = _never,
    keep_git_dir: bool | None = None,
    loopback: bool = True,
) -> Fetched:
    """Fetch what a URL names into the scratch directory. Raises NotFound, SystemFailure, Invalid, Unavailable.

    checksum: `sha256:` and 64 hex digits that the contents must have, or what the commit begins with; or empty
    progress: takes (bytes so far, bytes in all or -1); shown: the instruction's name for error texts
    giver: gives secrets for a repository; check: raises once nobody waits any more; any thread may call it
    keep_git_dir: whether the files of git stay with those of a repository; None where the instruction does not say
    loopback: a file may be on the host's loopback interface
    """
    if is_repository(url):
        try:
            return _repository(url, checksum, scratch, giver, check, keep_git_dir)
        except (Invalid, NotFound, SystemFailure) as error:
            raise type(error)(f"{shown} failed: {error}") from error
    if keep_git_dir is not None:
        raise Invalid(f"{shown} failed: --keep-git-dir needs a git repository as its source")
    found = download(url, checksum, scratch, progress, shown, check, loopback)
    assert found is not None  # all of it is wanted
    return found


Needed = Callable[["remote.Remote"], bool]


def _all(_answer: "remote.Remote") -> bool:
    """The default of `needed`: the body is read."""
    return True


def download(
    url: str,
    checksum: str,
    scratch: int,
    progress: Callable[[int, int], None] | None = None,
    shown: str = "ADD",
    check: Callable[[], None] = _never,
    loopback: bool = True,
    headers: Mapping[str, str] | None = None,
    needed: Needed = _all,
) -> Fetched | None:
    """Download the file at a URL as `fetch` does; None for one that is not needed. Raises as that does.

    headers: of the request; needed: whether the body is to be read, by the head of the answer
    """
    algorithm, _, wanted = checksum.partition(":")
    if checksum and (algorithm != "sha256" or len(wanted) != 64 or wanted.strip("0123456789abcdef")):
        raise Invalid(f"{shown} failed: invalid checksum {checksum!r}: it must be sha256: and 64 hexadecimal digits")
    try:
        with remote.opened(url, check=check, loopback=loopback, headers=headers) as answer:
            if not needed(answer):
                return None
            stored = f"fetched-{time.monotonic_ns()}"
            total = _stored(answer, scratch, stored, progress)
            said = disposed(answer)
            name = of_path(url) or said
    except EngineError as error:
        check()
        raise type(error)(f"{shown} failed: {error}") from error
    if checksum and total != wanted:
        raise Invalid(f"{shown} failed: digest mismatch sha256:{total}: {checksum}")
    return Fetched(url, name, scratch, stored, said)


def _repository(
    url: str, checksum: str, scratch: int, giver: Giver | None, check: Callable[[], None], keep_git_dir: bool | None
) -> Fetched:
    address = repository(url)
    assert address is not None  # as `is_repository` has found
    if checksum and address.checksum not in ("", checksum):
        raise Invalid(f"checksum conflict {quoted(checksum)} != {quoted(address.checksum)}")
    address.checksum = checksum or address.checksum
    if keep_git_dir is not None and address.keep_git_dir not in (None, keep_git_dir):
        raise Invalid(f"inconsistent keep-git-dir configuration in {address.shown}")
    place = os.readlink(f"/proc/self/fd/{scratch}")
    resolved = checkout.resolve(address, place, giver, check)
    keep = bool(address.keep_git_dir if keep_git_dir is None else keep_git_dir)
    found = checkout.check_out(address, resolved, place, giver, check, keep)
    return Fetched(url, "", scratch, os.path.relpath(found.path, place))


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


def of_path(url: str) -> str:
    """What the path of a URL calls the file, empty where it does not."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
    return _usable(path) if not path.endswith("/") else ""


def disposed(answer: "remote.Remote") -> str:
    """What the header of an answer calls the file, empty where it does not."""
    disposition = answer.header("Content-Disposition")
    if not disposition:
        return ""
    import email.message  # imported here, as an idle daemon needs it not

    message = email.message.Message()
    message["Content-Disposition"] = disposition
    name = message.get_filename() or ""
    return _usable(name) if not name.endswith("/") else ""


def plain_name(url: str) -> str:
    """What BuildKit calls the file of a URL, whatever its header says."""
    return _usable(urllib.parse.unquote(urllib.parse.urlsplit(url).path).rstrip("/")) or UNNAMED


def _usable(path: str) -> str:
    name = posixpath.basename(path)
    bad = name in (".", "..") or "\0" in name or len(os.fsencode(name)) > _LONGEST_NAME
    return "" if bad else name
