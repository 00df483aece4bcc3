"""The verb `engine cp`: copies files between a container and this host, or a tar archive of them by `-`.

Runs in the client's one thread. Where a copy goes is decided as by docker, and by `cp -a`: into a directory that
exists, under its own name; otherwise under the name that was given.
"""

import base64
import json
import os
import posixpath
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence

from engine.client.api import Api, ApiError, container_path
from engine.client.container.taking import Pieces, unpack
from engine.client.display import shown_size
from engine.client.tarstream import Entry, pieces, walked
from engine.client.transport import Object
from engine.client.writing import write_all
from engine.commandline import Given, Option
from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound

OPTIONS = (
    Option("archive", "Archive mode (copy all uid/gid information)", short="a", kind="flag", default=False),
    Option("follow-link", "Always follow symbol link in SRC_PATH", short="L", kind="flag", default=False),
    Option("quiet", "Suppress progress output during copy", short="q", kind="flag", default=False),
)
_NOT_FOUND = 404
_STREAM = "-"
# Bits of Go's os.FileMode, in which the daemon says what a path is.
_GO_DIRECTORY, _GO_LINK = 1 << 31, 1 << 27
_PIECE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Stat:
    """What the daemon says of a path: it is a directory, or a link to `link`."""

    directory: bool
    link: str


def cp_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine cp SOURCE DESTINATION`. Raises Invalid, NotFound, ApiError."""
    (source_at, source), (target_at, target) = map(place, others)
    quiet = bool(given.get("quiet")) if "quiet" in given else not sys.stdout.isatty()
    follow = bool(given.get("follow-link"))
    if source_at and target_at:
        raise Invalid("copying between containers is not supported")
    if not source_at and not target_at:
        raise Invalid("must specify at least one container source")
    if source_at:
        count = from_container(api, source_at, source, target, follow)
    else:
        count = to_container(api, source, target_at, target, follow, bool(given.get("archive")))
    if not quiet and target != _STREAM:
        shown = f"{target_at}:{target}" if target_at else target
        print(f"Successfully copied {shown_size(count)} to {shown}", file=sys.stderr)
    return 0


def place(text: str) -> tuple[str, str]:
    """`CONTAINER:PATH` as (container, path), and a path of this host as ("", path).

    A path with a colon is one of this host's when it begins with `/` or `.`.
    """
    container, separator, path = text.partition(":")
    if text.startswith(("/", ".")) or not separator:
        return "", text
    return container, path


def from_container(api: Api, container: str, source: str, target: str, follow: bool) -> int:
    """Copy out of a container; returns the archive's size in bytes. Raises Invalid, ApiError."""
    if follow and (found := status(api, container, source)) is not None and found.link:
        source = posixpath.join(posixpath.dirname(source.rstrip("/")), found.link)
    if target != _STREAM:
        _may_write(target)
    with api.open("GET", container_path(container, "archive"), {"path": source}) as response:
        if target == _STREAM:
            count = 0
            for piece in response.pieces():
                write_all(1, piece)
                count += len(piece)
            return count
        found = _read(response.headers.get("x-docker-container-path-stat", ""))
        directory, base = local_target(source, found.directory, target)
        archive = Pieces(response.pieces())
        unpack(archive, directory, base)
        return archive.given


def local_target(source: str, source_is_directory: bool, target: str) -> tuple[str, str]:
    """Where a copy to this host goes: (a directory that exists, its name there; empty for that directory itself).

    Raises Invalid and NotFound.
    """
    if os.path.isdir(target):
        contents = source_is_directory and _of_contents(source)
        return target, "" if contents else posixpath.basename(source.rstrip("/"))
    above, base = os.path.split(target.rstrip("/"))
    if os.path.lexists(target):
        if source_is_directory:
            raise Invalid("cannot copy directory")
        if not os.path.isfile(target):
            raise Invalid(f'destination "{target}" must be a directory or a regular file')
    elif target.endswith("/") and not source_is_directory:
        raise NotFound(f"no such directory: {target}")
    if not os.path.isdir(above or "."):
        raise NotFound(f"invalid output path: directory {os.path.abspath(above or '.')!r} does not exist")
    return above or ".", base


def _may_write(target: str) -> None:
    above = os.path.dirname(target.rstrip("/")) or "."
    if not os.path.isdir(target) and not os.path.isdir(above):
        raise NotFound(f'invalid output path: directory "{os.path.abspath(above)}" does not exist')


def to_container(api: Api, source: str, container: str, target: str, follow: bool, archive: bool) -> int:
    """Copy into a container; returns the archive's size in bytes. Raises Invalid, NotFound, ApiError."""
    found = status(api, container, target)
    links = 0
    while found is not None and found.link and links < 10:
        target = posixpath.join(posixpath.dirname(target.rstrip("/")), found.link)
        found, links = status(api, container, target), links + 1
    if source == _STREAM:
        if found is None or not found.directory:
            raise Invalid(f'destination "{container}:{target}" must be a directory')
        return _put(api, container, target, _read_input(), archive)
    path = os.path.realpath(source) if follow else source.rstrip("/") or "/"
    if not os.path.lexists(path):
        raise NotFound(f"lstat {os.path.abspath(path)}: no such file or directory")
    directory, name = remote_target(source, stat.S_ISDIR(os.lstat(path).st_mode), target, found)
    entries: Iterable[Entry] = walked(path, name)
    return _put(api, container, directory, pieces(entries), archive)


def remote_target(source: str, source_is_directory: bool, target: str, found: Stat | None) -> tuple[str, str]:
    """Where a copy into a container goes: (a directory there, the copy's name in it; empty for its contents alone).

    found: what `target` is; None where it does not exist. Raises Invalid and NotFound.
    """
    if found is not None and found.directory:
        contents = source_is_directory and _of_contents(source)
        return target, "" if contents else os.path.basename(os.path.abspath(source))
    if found is not None and source_is_directory:
        raise Invalid("cannot copy directory")
    if found is None and target.endswith("/") and not source_is_directory:
        raise NotFound(f"no such directory: {target}")
    above, base = posixpath.split(target.rstrip("/"))
    return above or "/", base


def status(api: Api, container: str, path: str) -> Stat | None:
    """What a path of a container is; None where there is nothing. Raises ApiError."""
    try:
        with api.open("HEAD", container_path(container, "archive"), {"path": path}) as response:
            return _read(response.headers.get("x-docker-container-path-stat", ""))
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise
    # It is the path that is missing, if the container is there.
    api.call("GET", container_path(container, "json"))
    return None


def _read(header: str) -> Stat:
    try:
        said: Object = json.loads(base64.b64decode(header))
        mode = int(said["mode"])
        return Stat(bool(mode & _GO_DIRECTORY), str(said["linkTarget"]) if mode & _GO_LINK else "")
    except (ValueError, KeyError, TypeError) as error:
        raise Invalid("the daemon did not say what the path is") from error


def _put(api: Api, container: str, directory: str, data: Iterable[bytes], archive: bool) -> int:
    counted = [0]
    query = {"path": directory, "noOverwriteDirNonDir": "true", "copyUIDGID": "true" if archive else None}
    headers = {"Content-Type": "application/x-tar"}
    body = _counting(data, counted)
    with api.open("PUT", container_path(container, "archive"), query, body=body, headers=headers) as response:
        response.read()
    return counted[0]


def _counting(data: Iterable[bytes], counted: list[int]) -> Iterator[bytes]:
    for piece in data:
        counted[0] += len(piece)
        yield piece


def _read_input() -> Iterator[bytes]:
    while piece := os.read(0, _PIECE):
        yield piece


def _of_contents(source: str) -> bool:
    """Whether `DIRECTORY/.` was written: what is in it, and not itself."""
    return source.endswith("/.") or source == "."


FUNCTIONS = {"cp": (cp_verb, OPTIONS)}
