"""Saving images: one tar that is an OCI layout and a docker-archive at once, as dockerd writes it since version 25.

Runs in the daemon, on the request's thread. What was asked for is found, checked and pinned before the first byte; the
blobs are then sent from their files and never through memory. The same images give the same bytes: times are zero,
owners root, and the order is the documents', then the digests'. Formats: OCI image-layout, docker's image spec v1.2.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import Protocol

from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import digest_of
from engine.daemon.images.image import Image
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.daemon.store import images as table
from engine.daemon.tar.reader import BLOCK
from engine.daemon.tar.writer import END, header
from engine.errors import NotFound, SystemFailure

NAME = "io.containerd.image.name"
REF_NAME = "org.opencontainers.image.ref.name"
BLOBS = "blobs/"
_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_DIRECTORIES = ("blobs/", "blobs/sha256/")
# No name is written so: it would be taken for an id.
_HEXADECIMAL = re.compile(r"(?:sha256:)?[a-f0-9]{64}")
# Written at once: many headers and small documents are one write.
_TOGETHER = 256 * 1024


class Sink(Protocol):
    """Where an archive goes: `api.streams.Stream`, or a file of a test."""

    def write_large(self, data: bytes) -> None:
        """Take the bytes."""

    def send_file(self, descriptor: int, count: int) -> None:
        """Take the first `count` bytes of an open file."""


class Archive:
    """What one archive will hold: documents made here, and blobs (digest → size), which are pinned."""

    def __init__(self, store: Catalogue):
        self._content = store.content
        self._documents: dict[str, bytes] = {}
        self._blobs: dict[str, int] = {}
        self.targets: list[Object] = []
        self._entries: dict[str, Object] = {}

    def add(self, target: Object, reference: Reference | None, shown: Object, blobs: dict[str, int]) -> None:
        """One image. target: what index.json is to point at; shown: the manifest for those who read manifest.json."""
        names = {NAME: reference.canonical, REF_NAME: reference.tag} if reference else {}
        entry = {**target, **({"annotations": names} if names else {})}
        if entry not in self.targets:
            self.targets.append(entry)
        config, layers = documents.manifest_parts(shown)
        place = self._entries.setdefault(
            config["digest"],
            {"Config": _path(config["digest"]), "RepoTags": None, "Layers": [_path(part["digest"]) for part in layers]},
        )
        if reference and reference.familiar not in (place["RepoTags"] or ()):
            place["RepoTags"] = [*(place["RepoTags"] or ()), reference.familiar]
        self._blobs.update(blobs)

    def document(self, data: bytes) -> str:
        """Put in a document that need not stand in any store; its digest."""
        digest = digest_of(data)
        self._documents[digest] = data
        return digest

    def send(self, sink: Sink) -> None:
        """Write the archive."""
        waiting = bytearray()
        for name in _DIRECTORIES:
            waiting += header(name.encode(), _status(stat.S_IFDIR | 0o755))
        for name, data in self._first():
            waiting += header(name.encode(), _status(stat.S_IFREG | 0o444, len(data))) + data + _padding(len(data))
        blobs = [blob for blob in self._blobs.items() if blob[0] not in self._documents]
        for digest, size in sorted(blobs, key=lambda blob: (blob[1] > _TOGETHER, blob[0])):
            waiting += header(_path(digest).encode(), _status(stat.S_IFREG | 0o444, size))
            with self._content.open(digest) as blob:
                if size <= _TOGETHER:
                    data = blob.read()
                    _check_whole(len(data), size, digest)
                    waiting += data
                else:
                    sink.write_large(bytes(waiting))
                    waiting.clear()
                    _check_whole(os.fstat(blob.fileno()).st_size, size, digest)
                    sink.send_file(blob.fileno(), size)
            waiting += _padding(size)
            if len(waiting) > _TOGETHER:
                sink.write_large(bytes(waiting))
                waiting.clear()
        sink.write_large(bytes(waiting + END))

    def _first(self) -> Iterator[tuple[str, bytes]]:
        """The documents by which readers find their way come first, so that one pass is enough."""
        index = {"schemaVersion": 2, "mediaType": documents.OCI_INDEX, "manifests": self.targets}
        yield "oci-layout", _LAYOUT
        yield "index.json", documents.dump(index)
        yield "manifest.json", documents.dump(list(self._entries.values()))
        for digest in sorted(self._documents):
            yield _path(digest), self._documents[digest]


@contextlib.contextmanager
def archive(store: Catalogue, names: Sequence[str], wanted: Sequence[Platform]) -> Iterator[Archive]:
    """The archive of the images called so, for as long as its blobs are held.

    names: as for `Catalogue.find`; one without a tag is every tag of that repository, an id is an image without a name
    wanted: only these platforms; none: all that are here. Raises NotFound, Invalid.
    """
    with contextlib.ExitStack() as held:
        made, found = Archive(store), []
        # No removal comes between the look and the pin.
        with store.changing:
            for name in names:
                for image, reference in _images(store, name):
                    _add(store, held, made, image, reference, wanted)
                    found.append(image)
        for image in found:
            store.announce("save", image.id, image.id, image)
        yield made


def _images(store: Catalogue, name: str) -> list[tuple[Image, Reference | None]]:
    """The images that a name stands for, each with the reference that it is to have in the archive."""
    try:
        image = store.find(name)
    except NotFound:
        image = None
    if image is not None and ("@" in name or image.id.removeprefix("sha256:").startswith(name.removeprefix("sha256:"))):
        return [(image, None)]
    if image is None and _HEXADECIMAL.fullmatch(name):
        raise NotFound(f"No such image: {name}")
    reference = Reference.parse(name)
    if not reference.tag:
        found = _repository(store, reference.name)
        if not found:
            raise NotFound(f"No such image: {reference.with_default_tag().familiar}")
        return found
    if image is None:
        raise NotFound(f"No such image: {reference.familiar}")
    return [(image, reference)]


def _repository(store: Catalogue, name: str) -> list[tuple[Image, Reference | None]]:
    """Every tag of a repository, in the order of their names."""
    found: list[tuple[Image, Reference]] = []
    for image in store.all():
        references = [Reference.parse(text) for text in image.names]
        found += [(image, reference) for reference in references if reference.name == name and reference.tag]
    return [*sorted(found, key=lambda pair: pair[1].canonical)]


def _add(
    store: Catalogue,
    held: contextlib.ExitStack,
    made: Archive,
    image: Image,
    reference: Reference | None,
    wanted: Sequence[Platform],
) -> None:
    here = store.platforms(image)
    chosen = _chosen(here, wanted, reference.familiar if reference else image.id)
    blobs = _held_blobs(store, held, chosen)
    texts = [store.content.read(one.manifest, documents.LARGEST_DOCUMENT) for one in chosen]
    manifests = [documents.load(text, "manifest") for text in texts]
    target = image.descriptor
    if wanted and chosen[0].manifest != image.id:
        # The index would speak of platforms that were not asked for: each manifest stands for itself, or in an index
        # of those alone.
        parts = [_own_descriptor(one, document, blobs) for one, document in zip(chosen, manifests, strict=True)]
        blobs = _reachable(parts, manifests, blobs)
        target = parts[0] if len(parts) == 1 else _index(made, chosen, parts)
    made.add(target, reference, manifests[0], blobs)


def _chosen(here: list[Image], wanted: Sequence[Platform], shown: str) -> list[Image]:
    """The wanted platforms of an image, in the order in which they are here. Raises NotFound in docker's words."""
    if not wanted:
        return here
    manifests = set()
    for one in wanted:
        found = platforms.best(here, one, strict=True)
        if found is None:
            raise NotFound(
                "no suitable export target found: "
                f"image with reference {shown} was found but does not provide the specified platform ({one})"
            )
        manifests.add(found.manifest)
    return [image for image in here if image.manifest in manifests]


def _held_blobs(store: Catalogue, held: contextlib.ExitStack, chosen: list[Image]) -> dict[str, int]:
    """digest → size of all that the platforms are made of, pinned and there. Raises NotFound."""
    blobs: dict[str, int] = {}
    with store.database.reading() as connection:
        for image in chosen:
            blobs.update(table.image_blobs(connection, image.id, image.manifest))
    held.enter_context(store.content.pinned(blobs))
    for digest, size in blobs.items():
        if not store.content.has(digest, size):
            raise NotFound(f"content digest {digest}: not found")
    return blobs


def _own_descriptor(image: Image, document: Object, blobs: dict[str, int]) -> Object:
    kind = documents.media_type_of(document)
    return documents.descriptor(kind, image.manifest, blobs[image.manifest])


def _reachable(parts: list[Object], manifests: list[Object], blobs: dict[str, int]) -> dict[str, int]:
    """Of the blobs those that the manifests name; the index that they were taken out of is none of them."""
    named = {part["digest"] for part in parts}
    for document in manifests:
        config, layers = documents.manifest_parts(document)
        named |= {part["digest"] for part in (config, *layers)}
    return {digest: size for digest, size in blobs.items() if digest in named}


def _index(made: Archive, chosen: list[Image], parts: list[Object]) -> Object:
    """An index of some of an image's platforms, made for this archive; its descriptor."""
    entries = []
    for image, part in zip(chosen, parts, strict=True):
        its = platforms.of(image.config)
        variant = {"variant": its.variant} if its.variant else {}
        entries.append({**part, "platform": {"architecture": its.architecture, "os": its.os, **variant}})
    data = documents.dump({"schemaVersion": 2, "mediaType": documents.OCI_INDEX, "manifests": entries})
    return documents.descriptor(documents.OCI_INDEX, made.document(data), len(data))


def _path(digest: str) -> str:
    return BLOBS + digest.replace(":", "/")


def _status(mode: int, size: int = 0) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, 0, 0, size, 0, 0, 0))


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCK)


def _check_whole(found: int, size: int, digest: str) -> None:
    """Raises SystemFailure for a blob of which the disk has lost some, or has more: so many bytes were found."""
    if found != size:
        raise SystemFailure(f"the blob {digest} is damaged: it has not its {size} bytes")
