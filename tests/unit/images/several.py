"""Indexes of several platforms, put into a store one platform at a time, as a pull or a load does."""

import io
from collections.abc import Sequence

from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import OCI_INDEX, Image
from engine.daemon.images.reference import Reference
from engine.daemon.images.verbs import import_ as importing
from tests.unit.images import made
from tests.unit.images.made import MadeImage, archive, member


def images(*architectures: str, shared: bytes = b"", **config: object) -> dict[str, MadeImage]:
    """One image for each architecture, with a layer of its own, above a layer of all when `shared` is its contents."""
    below = [archive(member("shared", shared))] if shared else []
    return {
        name: MadeImage(*below, archive(member(name, name.encode())), architecture=name, config=config or None)
        for name in architectures
    }


def index_of(members: dict[str, MadeImage], *more: dict) -> bytes:
    """The index of all of them."""
    return made.index(*(image.entry(architecture=name) for name, image in members.items()), *more)


def add(store: Catalogue, index: bytes, image: MadeImage, *names: str) -> Image:
    """Add one platform of an index."""
    target = made.part(OCI_INDEX, index)
    blobs = [index, image.manifest, *image.blobs.values()]
    with store.session() as session, store.content.pinned([made.digest(blob) for blob in blobs]):
        for blob in blobs:
            store.content.put(blob)
        layers = [
            session.layer(made.digest(layer), lambda packed=packed: io.BytesIO(packed))
            for layer, packed in zip(image.layers, image.packed, strict=True)
        ]
        pairs = [(made.digest(blob), len(blob)) for blob in blobs]
        references = [Reference.parse(name).with_default_tag() for name in names]
        return store.add(session, target, image.digest, image.config, layers, pairs, references)


def import_(store: Catalogue, repo: str = "", contents: bytes = b"x", changes: Sequence[str] = ()) -> Image:
    """An image of one file."""
    stream = io.BytesIO(archive(member("file", contents)))
    return importing.import_rootfs(store, stream, repo, "", "", changes, None)
