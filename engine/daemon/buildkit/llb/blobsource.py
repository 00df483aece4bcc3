"""The sources `docker-image+blob` and `oci-layout+blob`: a tree of one file, which is a blob of a repository in a
registry, or of a content store that the client serves.

An operation of the build graph. The digest says what the blob is, and what came is compared with it.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence

from engine.daemon.builder.copying.fetching import Fetched
from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.buildkit import layoutsource, sessions
from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.buildkit.llb import layered, websource
from engine.daemon.buildkit.llb.websource import WebSource
from engine.daemon.images.reference import Reference
from engine.daemon.images.registry.reads import registries
from engine.daemon.jsontext import Object
from engine.daemon.tar.space import check_space
from engine.dataclass import dataclass, field
from engine.errors import Invalid, NotBuilt, NotFound

_REGISTRY, _LAYOUT = "docker-image+blob", "oci-layout+blob"
SCHEMES = (_REGISTRY, _LAYOUT)
_SESSION, _STORE, _RECORD = "oci.session", "oci.store", "image.recordtype"
_RECORDS = ("", "regular", "internal", "frontend")
_STORES = "oci:"  # which clients put before the names of these stores
_PIECE = 256 * 1024
_LARGEST = 64 << 30
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Pieces = Callable[[Work], Generator[bytes, None, None]]


@dataclass(frozen=True, slots=True)
class BlobSource:
    """The operation. title: with the place and the digest; blob: digest; file: what the file is to be

    pieces: gives the bytes of the blob
    """

    title: str
    blob: str
    file: WebSource
    pieces: Pieces = field(compare=False)

    kind = "regular"

    def key(self) -> str:
        """What it is by definition."""
        return digest("blob", self.title, self.file.filename, self.file.mode, *self.file.owner)

    def identity(self, _work: Work, _inputs: Sequence[Snapshot]) -> str | None:
        """None: only who can reach the place gets what is there."""
        return None

    def make(self, work: Work, _inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """Fetch the blob. Raises NotFound, Invalid, Unavailable, SystemFailure."""
        stored = f"blob-{time.monotonic_ns()}"
        try:
            with work.waiting():
                self._store(work, stored)
            fetched = Fetched("", "", work.scratch, stored)
            return (layered.tree(work.keeper, self.file.chunks(fetched), work.check),)
        finally:
            with contextlib.suppress(FileNotFoundError):  # it was never made
                os.unlink(stored, dir_fd=work.scratch)

    def _store(self, work: Work, stored: str) -> None:
        total, count = hashlib.sha256(), 0
        fd = os.open(stored, _CREATE, 0o600, dir_fd=work.scratch)
        try:
            with contextlib.closing(self.pieces(work)) as pieces:
                for data in pieces:
                    work.check()
                    check_space(fd)
                    count += len(data)
                    if count > _LARGEST:
                        raise Invalid(f"{self.blob} has more than the {_LARGEST} bytes allowed")
                    total.update(data)
                    os.writev(fd, [data])
            os.utime(fd, (0, 0))
        finally:
            os.close(fd)
        if f"sha256:{total.hexdigest()}" != self.blob:
            raise Invalid(f"there is other content for {self.blob}")


def read(
    identifier: str, attrs: Mapping[str, str], session: str, credentials: Callable[[str], Object | None]
) -> BlobSource:
    """The operation of a source. session: that of the build, empty for none; credentials: gives those for a registry

    Raises Invalid, NotBuilt, NotFound.
    """
    scheme, _, place = identifier.partition("://")
    store, blob = layoutsource.name_of(place)
    own = {key: value for key, value in attrs.items() if key in websource.OF_FILES}
    allowed = (_RECORD, _SESSION, _STORE) if scheme == _LAYOUT else (_RECORD,)
    for key in attrs:
        if key not in own and key not in allowed:
            raise NotBuilt(f"the attribute {key} of a blob is not built in this engine")
    if attrs.get(_RECORD, "") not in _RECORDS:
        raise Invalid(f"invalid record type {attrs[_RECORD]}")
    file = websource.read(f"blob:{blob.partition(':')[2]}", own)
    if scheme == _REGISTRY:
        return BlobSource(identifier, blob, file, _of_registry(Reference.parse(place), blob, credentials))
    session = attrs.get(_SESSION) or session
    if not session:
        raise NotFound(f"no active session has the store {identifier}")
    name = f"{_STORES}{attrs[_STORE]}" if attrs.get(_STORE) else store
    return BlobSource(identifier, blob, file, _of_store(session, name, blob))


def _of_registry(reference: Reference, blob: str, credentials: Callable[[str], Object | None]) -> Pieces:
    def pieces(work: Work) -> Generator[bytes, None, None]:
        trusted = tuple(work.engine.settings.insecure_registries)
        registry = registries(reference, (), trusted, credentials(reference.domain))[-1]
        try:
            registry.ping()
            with registry.blob(blob) as (answer, _):
                while data := answer.read(_PIECE):
                    yield data
        finally:
            with contextlib.suppress(OSError):  # the connection may be broken already
                registry.transport.close()

    return pieces


def _of_store(session: str, name: str, blob: str) -> Pieces:
    return lambda work: ClientStore(sessions.find(session), name, work.check).pieces(blob)
