"""Importing an image from the tar of a root filesystem (POST /images/create?fromSrc=-).

Runs in the daemon, on the request's thread.
"""

import time
from collections.abc import Sequence

from engine.daemon.clock import rfc3339
from engine.daemon.images import image as documents
from engine.daemon.images import platform
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.making import add_made, unpack
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.daemon.streams import Source
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first import with changes, with the Dockerfile's grammar
    from engine.daemon.images import changes as instructions
else:
    instructions = late("engine.daemon.images.changes")


def import_rootfs(
    store: Catalogue,
    stream: Source,
    repo: str,
    tag: str,
    message: str,
    changes: Sequence[str],
    platform_text: str | None,
) -> Image:
    """Make an image of one layer from `stream`, a tar that may be compressed; with an empty repo it gets no name.

    message: the comment in its history; changes: Dockerfile instructions for its config. Raises Invalid, SystemFailure.
    """
    names = [_name(repo, tag)] if repo else []
    config = _changed(changes) if changes else {}
    target = platform.parse(platform_text) if platform_text else platform.host()
    if target.os != platform.host().os:
        raise Invalid("operating system is not supported")
    with store.session() as session, store.content.incoming() as blob:
        layer, form = unpack(session, stream, blob)
        layer_part = documents.descriptor(documents.layer_type(form), blob.digest, blob.size)
        with store.content.pinned([blob.digest]):
            blob.keep()
            document = _config(config, layer.diff_id, message or "Imported from -", target)
            image = add_made(store, session, document, [layer_part], [layer], names)
    for name in names:
        store.announce("tag", image.id, name.familiar, image)
    store.announce("import", image.id, image.id, image)
    return image


def _changed(changes: Sequence[str]) -> Object:
    return instructions.apply({}, changes)


def _name(repo: str, tag: str) -> Reference:
    reference = Reference.parse(repo)
    if reference.digest:
        raise Invalid("cannot import digest reference")
    return (reference.with_tag(tag) if tag else reference).with_default_tag()


def _config(config: Object, diff_id: str, message: str, target: platform.Platform) -> Object:
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
