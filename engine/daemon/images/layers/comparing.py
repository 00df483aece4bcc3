"""Looks whether a blob is the layer that somebody says it is, where that layer is here already and is not unpacked.

Runs on any thread that was given the blob. Else whoever knows the diff id of a layer has its files for any blob, and
what is made of both names a blob that is no such layer. What was found is remembered: two digests say the same of each
other for ever. The images that are here say it too, since each was looked at when it came; but earlier releases took
what a load had in the place of a known layer's blob, an empty file too.
"""

import io
import threading
from collections.abc import Callable, Iterator

from engine.daemon.images import image as documents
from engine.daemon.images.content import Content
from engine.daemon.images.layers.store import Hashing, Layer, Session
from engine.daemon.jsontext import Object
from engine.daemon.store import images as table
from engine.daemon.store.database import Database
from engine.daemon.tar.compression import Unpacked
from engine.daemon.tar.reader import NotTar
from engine.errors import Invalid, NotFound

_PIECE = 256 * 1024
_MOST = 10_000
_lock = threading.Lock()
_same: dict[tuple[str, str], None] = {}  # digests of a blob and of its layer, the oldest first; changed under `_lock`


def learn(digest: str, diff_id: str) -> None:
    """The blob was unpacked, and is the layer."""
    with _lock:
        _same[digest, diff_id] = None
        while len(_same) > _MOST:
            del _same[next(iter(_same))]


def descriptors(database: Database, content: Content, diff_id: str, digest: str = "") -> Iterator[Object]:
    """What the images that are here call the layer with these contents: the descriptor of its blob, in each of them.

    Those are left out that cannot be right, and those whose blob is not here with its size. Each manifest is read when
    its turn comes. digest: of the only blob that is looked for
    """
    with database.reading() as connection:
        places = table.layer_places(connection, diff_id, digest)
    for manifest, place in places:
        try:
            document = documents.load(content.read(manifest, documents.LARGEST_DOCUMENT), "manifest")
        except NotFound:  # it was removed just now
            continue
        _, parts = documents.manifest_parts(document)
        part = parts[place]
        plain = part["mediaType"].endswith(".tar") and part["digest"] != diff_id
        if part["size"] and not plain and content.has(part["digest"], part["size"]):
            yield part


def check_same(database: Database, content: Content, digest: str, diff_id: str, check: Callable[[], None]) -> None:
    """Raise Invalid unless the tar in a blob of the store has that digest. check: called now and then; may raise"""
    if (digest, diff_id) not in _same and any(
        part["digest"] == digest for part in descriptors(database, content, diff_id, digest)
    ):
        learn(digest, diff_id)
    check_blob(content, digest, diff_id, check)


def check_blob(content: Content, digest: str, diff_id: str, check: Callable[[], None] = lambda: None) -> None:
    """Raise Invalid unless the blob and the tar in it have these digests, whatever images say; it is read once."""
    if (digest, diff_id) in _same:
        return
    with content.open(digest) as blob:
        whole = Hashing(blob)
        tar = Hashing(Unpacked(whole)) if digest != diff_id else whole
        while tar.read(_PIECE) or whole.read(_PIECE):
            check()
    if (whole.digest(), tar.digest()) != (digest, diff_id):
        raise Invalid(f"the blob {digest} is another layer than {diff_id}")
    learn(digest, diff_id)


def layer(session: Session, content: Content, digest: str, diff_id: str, check: Callable[[], None]) -> Layer:
    """The layer, unpacked from its blob where it is not here; else the blob is looked at, see `check_same`.

    Raises Invalid where the blob is another layer than that, NotTar where it is none, NotFound, SystemFailure.
    """
    unpacked = False

    def opened() -> io.RawIOBase:
        nonlocal unpacked
        unpacked = True
        return content.open(digest)

    try:
        found = session.layer(diff_id, opened, check)
    except NotTar as error:
        raise NotTar(f"failed to extract layer {diff_id}: {error}") from error
    if unpacked:
        learn(digest, diff_id)
    else:
        check_same(session.database, content, digest, diff_id, check)
    return found
