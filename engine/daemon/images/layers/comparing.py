"""Looks whether a blob is the layer that somebody says it is, where that layer is here already and is not unpacked.

Runs on any thread that was given the blob. Else whoever knows the diff id of a layer has its files for any blob, and
what is made of both names a blob that is no such layer. What was found is remembered: two digests say the same of each
other for ever.
"""

import threading
from collections.abc import Callable

from engine.daemon.images.content import Content, sha256
from engine.daemon.tar.compression import Peeked, Unpacked
from engine.errors import Invalid

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


def check_same(content: Content, digest: str, diff_id: str, check: Callable[[], None]) -> None:
    """Raise Invalid unless the tar in a blob of the store has that digest. check: called now and then; may raise"""
    if (digest, diff_id) in _same:
        return
    hashed = sha256()
    with content.open(digest) as blob:
        plain = Unpacked(Peeked(blob))
        while data := plain.read(_PIECE):
            check()
            hashed.update(data)
    if f"sha256:{hashed.hexdigest()}" != diff_id:
        raise Invalid(f"the blob {digest} is another layer than {diff_id}")
    learn(digest, diff_id)
