"""Importing: one image made of the tar of a root filesystem (POST /images/create?fromSrc=-).

Runs in the daemon, on the request's thread. One pass over the stream: what is read is kept as the layer's blob and
unpacked at the same time, so neither the memory nor a second copy grows with it.
"""

import io
import time
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from engine.daemon.clock import rfc3339
from engine.daemon.images import changes as instructions
from engine.daemon.images import image as documents
from engine.daemon.images import platform
from engine.daemon.images.compression import Peeked, Unpacked
from engine.daemon.images.content import Incoming, digest_of
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference

if TYPE_CHECKING:
    from engine.daemon.images.store import ImageStore

# Half the size for a tenth of the time that the best level takes: an import waits for it.
_LEVEL = 1
_CHUNK = 256 * 1024
# Compressions that a layer may be in by itself; anything else is stored as gzip.
_KEPT_FORMS = ("gzip", "zstd")


class _Tee(io.RawIOBase):
    """Bytes read through it are also written into a blob, compressed on the way when `squeeze`."""

    def __init__(self, source: BinaryIO, blob: Incoming, squeeze: bool):
        self._source = source
        self._blob = blob
        self._gzip = zlib.compressobj(_LEVEL, wbits=31) if squeeze else None

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:
        """See io.RawIOBase."""
        data = self._source.read(min(len(buffer), _CHUNK))
        buffer[: len(data)] = data
        self._blob.write(self._gzip.compress(data) if self._gzip else data)
        return len(data)

    def finish(self) -> None:
        """Write what is left: the rest of the source, then the compressor's."""
        while self.read(_CHUNK):
            pass
        if self._gzip:
            self._blob.write(self._gzip.flush())


def import_rootfs(
    store: "ImageStore",
    stream: BinaryIO,
    repo: str,
    tag: str,
    message: str,
    changes: Sequence[str],
    platform_text: str | None,
) -> Image:
    """Make an image of one layer out of `stream`, a tar, plain or compressed; an empty repo gives it no name.

    changes: Dockerfile instructions for its config. Raises Invalid, SystemFailure.
    """
    names = [_name(repo, tag)] if repo else []
    config = instructions.apply({}, changes)
    target = platform.parse(platform_text) if platform_text else platform.host()
    with store.session() as session, store.content.incoming() as blob:
        layer, form = unpack(session, stream, blob)
        layer_part = documents.descriptor(f"{documents.OCI_LAYER}+{form}", blob.digest, blob.size)
        with store.content.pinned([blob.digest]):
            blob.keep()
            document = _config(config, layer.diff_id, message or "Imported from -", target)
            image = add_made(store, session, document, [layer_part], [layer], names)
    for name in names:
        store.announce("tag", image.id, name.familiar, image)
    store.announce("import", image.id, image.id, image)
    return image


def add_made(
    store: "ImageStore",
    session: object,
    config: dict | bytes,
    layer_parts: list[dict],
    image_layers: Sequence,
    names: Sequence[Reference],
    parent: str = "",
) -> Image:
    """Make the OCI manifest of an image that came without one, and add the image. The layers' blobs are there, pinned.

    config: the document, or the exact bytes of one that must keep its digest.
    """
    data = config if isinstance(config, bytes) else documents.dump(config)
    config_part = documents.descriptor(documents.OCI_CONFIG, digest_of(data), len(data))
    manifest = documents.dump(documents.manifest_document(config_part, layer_parts))
    target = documents.descriptor(documents.OCI_MANIFEST, digest_of(manifest), len(manifest))
    with store.content.pinned([config_part["digest"], target["digest"]]):
        store.content.put(data)
        store.content.put(manifest)
        blobs = [(part["digest"], part["size"]) for part in (target, config_part, *layer_parts)]
        return store.add(session, target, target["digest"], data, image_layers, blobs, names, parent)


def _name(repo: str, tag: str) -> Reference:
    reference = Reference.parse(repo)
    return (reference.with_tag(tag) if tag else reference).with_default_tag()


def unpack(session: object, stream: BinaryIO, blob: Incoming) -> tuple[object, str]:
    """The layer unpacked from the stream, its blob filled on the way, and the compression that the blob is in."""
    peeked = Peeked(stream)
    kept = peeked.form in _KEPT_FORMS
    tee = _Tee(peeked if kept else Unpacked(peeked), blob, squeeze=not kept)
    layer = session.unpack(tee)
    tee.finish()
    return layer, peeked.form if kept else "gzip"


def _config(config: dict, diff_id: str, message: str, target: platform.Platform) -> dict:
    created = rfc3339(time.time_ns())
    return {
        "created": created,
        "architecture": target.architecture,
        **({"variant": target.variant} if target.variant else {}),
        "os": target.os,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": created, "comment": message}],
    }
