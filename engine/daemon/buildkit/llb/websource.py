"""The sources `http` and `https`: a tree of one file that a server gives.

An operation of the build graph. Without a checksum the server is asked in each build; what it gave decides what those
find in the cache that use it. Where it gives an ETag, the file is kept under that: the next build asks whether it has
changed, and the body of an answer with an ETag that is known is not read.
"""

import collections
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from typing import NoReturn
from urllib.parse import urlsplit

from engine.daemon.builder.copying import fetching
from engine.daemon.builder.copying.fetching import Fetched
from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import HOST_NETWORK, Giver, Work
from engine.daemon.buildkit.llb import layered
from engine.daemon.images.archives.remote import NOT_MODIFIED, Remote
from engine.daemon.tar.writer import Chunk, Packer
from engine.dataclass import dataclass
from engine.errors import Invalid, NotBuilt, NotFound
from engine.literals import natural
from engine.redact import redacted

_MOST_MODE, _MOST_ID = 0o7777, (1 << 32) - 2
_MODE = 0o600
_CHECKSUM, _NAME, _PERMISSIONS, _USER, _GROUP = "http.checksum", "http.filename", "http.perm", "http.uid", "http.gid"
_SECRET, _HEADER = "http.authheadersecret", "http.header."
OF_FILES = (_NAME, _PERMISSIONS, _USER, _GROUP)
"""The attributes that say how the file is to be."""
_KNOWN = (_CHECKSUM, _SECRET, *OF_FILES)
_HEADERS = {"accept": "Accept", "user-agent": "User-Agent"}
# Secrets that a client may have for a host, by their names, and what stands before each in the field of the request.
_OF_HOSTS = {"HTTP_AUTH_HEADER_": "", "HTTP_AUTH_TOKEN_": "Bearer "}
_LONGEST, _LONGEST_ETAG = 64 * 1024, 256
_MOST_URLS, _MOST_ETAGS = 1000, 4
UNNAMED = "download"
"""The name of a file that neither its URL nor its server names."""

_changed = threading.Lock()
# The ETags with which sources were found, and the identities of what is kept of them. Guarded by `_changed`.
_etags: collections.OrderedDict[str, dict[str, str]] = collections.OrderedDict()


class _Absent(Exception):
    """Nothing is kept."""


@dataclass(frozen=True, slots=True)
class WebSource:
    """The operation. checksum: `sha256:...` or empty; filename: of the file, empty for what the server calls it

    secret: the client's for the field Authorization, empty for those that have the host in their names
    fields: of the request, each with its value
    """

    url: str
    checksum: str = ""
    filename: str = ""
    mode: int = _MODE
    owner: tuple[int, int] = (0, 0)
    secret: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    kind = "regular"

    @property
    def title(self) -> str:
        """What BuildKit calls it."""
        return self.url

    def key(self) -> str:
        """What it is by definition."""
        fields = [list(each) for each in self.fields]
        return digest("http", self.url, self.checksum, self.filename, self.mode, *self.owner, self.secret, fields)

    def identity(self, _work: Work, _inputs: Sequence[Snapshot]) -> str | None:
        """Its definition where that says the contents, or else None."""
        return digest("http result", self.key()) if self.checksum else None

    def make(self, work: Work, _inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The file, downloaded where it has changed. Raises NotFound, SystemFailure, Invalid."""
        known = {} if self.checksum else self._kept(work)
        found: list[Snapshot] = []
        told: list[tuple[str, str]] = []  # the ETag of an answer with a body, and the identity

        def needed(answer: Remote) -> bool:
            etag = _etag(answer)
            if answer.status == NOT_MODIFIED:
                etag = etag or (next(iter(known)) if len(known) == 1 else "")
                if etag not in known:
                    raise Invalid(f"invalid not-modified ETag: {etag[:100]}")
                found.append(known[etag])
                return False
            if etag and not self.checksum:
                identity = digest("http result", self.key(), etag, self.name(fetching.disposed(answer)))
                told.append((etag, identity))
                there = self._there(work, identity)
                found.extend(there)
                return not there
            return True

        fetched = self._fetched(work, known, needed)
        if fetched is None:
            work.told.cached()
            tree = found[0]
        else:
            try:
                tree = layered.tree(work.keeper, self.chunks(fetched), work.check)
            finally:
                os.unlink(fetched.stored, dir_fd=fetched.directory)
        for etag, identity in told:
            work.kept(identity, self.kind, self.title, lambda: tree)
            self._remember(etag, identity)
        return (tree,)

    def request(self, giver: Giver | None) -> dict[str, str]:
        """The fields of the request. Raises NotFound where the client does not have the secret, Invalid."""
        host = urlsplit(self.url).hostname or ""
        wanted = {self.secret: ""} if self.secret else {f"{name}{host}": before for name, before in _OF_HOSTS.items()}
        found = dict(self.fields)
        for name, before in wanted.items():
            data = giver.secret(name) if giver is not None else None
            if data is not None:
                found["Authorization"] = before + _value(name, data)
            elif self.secret:
                raise NotFound(f"failed to retrieve HTTP auth secret {name}: secret {name}: not found")
        return found

    def _fetched(self, work: Work, known: dict[str, Snapshot], needed: fetching.Needed) -> Fetched | None:
        with work.waiting():
            fields = self.request(work.giver) | ({"If-None-Match": ", ".join(known)} if known else {})
            told = work.told.downloading("downloading", redacted(self.url))
            loopback = work.may(HOST_NETWORK)
            shown = "http source"
            found = fetching.download(
                self.url, self.checksum, work.scratch, told, shown, work.check, loopback, fields, needed
            )
            work.told.downloaded()
        return found

    def _kept(self, work: Work) -> dict[str, Snapshot]:
        """What is kept of the source, by its ETags."""
        with _changed:
            known = dict(_etags.get(self.key(), {}))
        return {etag: tree for etag, identity in known.items() for tree in self._there(work, identity)}

    def _there(self, work: Work, identity: str) -> list[Snapshot]:
        """The tree that is kept under an identity; none where none is."""

        def absent() -> NoReturn:
            raise _Absent

        try:
            return [work.kept(identity, self.kind, self.title, absent)]
        except _Absent:
            return []

    def _remember(self, etag: str, identity: str) -> None:
        with _changed:
            known = _etags.setdefault(self.key(), {})
            known.pop(etag, None)
            known[etag] = identity
            if len(known) > _MOST_ETAGS:
                del known[next(iter(known))]
            _etags.move_to_end(self.key())
            if len(_etags) > _MOST_URLS:
                _etags.popitem(last=False)

    def name(self, said: str) -> str:
        """The name of the file. said: what its server calls it"""
        return self.filename or said or fetching.of_path(self.url) or UNNAMED

    def chunks(self, fetched: Fetched) -> Iterator[Chunk]:
        """The archive of the file alone, as it is to be."""

        def shown(found: os.stat_result) -> os.stat_result:
            seconds = found.st_mtime_ns // 1_000_000_000
            mode = stat.S_IFREG | self.mode
            return os.stat_result((mode, 0, 0, 1, *self.owner, found.st_size, seconds, seconds, seconds))

        packer = Packer(shown_as=shown)
        yield from packer.one(fetched.directory, fetched.stored, self.name(fetched.said))
        yield packer.end()


def _etag(answer: Remote) -> str:
    """The ETag of an answer, without the mark of a weak one; empty for none, and for one that is none."""
    etag = answer.header("ETag").removeprefix("W/")
    fits = 2 <= len(etag) <= _LONGEST_ETAG and etag[0] == etag[-1] == '"' and etag.isascii() and etag.isprintable()
    return etag if fits else ""


def _value(name: str, data: bytes) -> str:
    """A secret as the value of a field. Raises Invalid."""
    text = data.decode("latin-1")
    if len(data) > _LONGEST or any(byte < 32 or byte == 127 for byte in data):
        raise Invalid(f"the secret {name} is too long, or has characters that a header cannot have")
    return text


def read(url: str, attrs: dict[str, str]) -> WebSource:
    """The operation of a source. Raises Invalid, NotBuilt."""
    fields = []
    for key, value in sorted(attrs.items()):
        field = _HEADERS.get(key.removeprefix(_HEADER).lower()) if key.startswith(_HEADER) else None
        if field is not None:
            fields.append((field, _value(key, value.encode("utf-8", "replace"))))
        elif key not in _KNOWN:
            raise NotBuilt(f"the attribute {key} of a download is not built in this engine")
    name = attrs.get(_NAME, "")
    if name in (".", "..") or "/" in name or "\0" in name:
        raise Invalid(f"invalid file name {name} of a download")
    mode = natural(attrs.get(_PERMISSIONS, "0"), _MOST_MODE, octal=True)
    owner = tuple(natural(attrs.get(key, "0"), _MOST_ID) for key in (_USER, _GROUP))
    if mode is None or owner[0] is None or owner[1] is None:
        raise Invalid(f"invalid mode or owner of the download {url}")
    checksum, secret = attrs.get(_CHECKSUM, ""), attrs.get(_SECRET, "")
    return WebSource(url, checksum, name, mode or _MODE, (owner[0], owner[1]), secret, tuple(fields))
