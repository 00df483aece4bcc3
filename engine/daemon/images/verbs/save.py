"""Saving images to one tar (GET /images/get) that is both an OCI layout and a docker-archive, as dockerd since 25.

Runs in the daemon, on the request's thread. The images are found, checked and pinned before the first byte is sent.
Large blobs are then sent from their files without going through memory. The same images give the same bytes: times are
zero, owners are root, the documents come first, and blobs are sorted by digest, the small ones first. Formats: OCI
image-layout, docker's image spec v1.2.
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
# The form of an id, which no name can have.
_HEXADECIMAL = re.compile(r"(?:sha256:)?[a-f0-9]{64}")
# Bytes that are collected before a write, so that many headers and small blobs make one write.
_TOGETHER = 256 * 1024


class Sink(Protocol):
    """The receiver of an archive's bytes: `api.streams.Stream`, or a file of a test."""

    def write_large(self, data: bytes) -> None:
        """Write the bytes."""

    def send_file(self, descriptor: int, count: int) -> None:
        """Write the first `count` bytes of an open file."""


class Archive:
    """The contents of one archive to be sent: documents made for it, and pinned blobs of the content store.

    docker: it also has the manifest.json of docker's own form
    """

    def __init__(self, store: Catalogue, docker: bool = True):
        self._content = store.content
        self._docker = docker
        self._documents: dict[str, bytes] = {}
        self._blobs: dict[str, int] = {}
        self.targets: list[Object] = []
        self._entries: dict[str, Object] = {}

    def add(self, target: Object, reference: Reference | None, shown: Object, blobs: dict[str, int]) -> None:
        """Add one image. target: the descriptor for index.json; shown: the manifest to describe in manifest.json

        blobs: digest → size of all blobs of the image
        """
        names = {NAME: reference.canonical, REF_NAME: reference.tag} if reference else {}
        annotations = {**(target.get("annotations") or {}), **names}
        entry = {**target, **({"annotations": annotations} if annotations else {})}
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
        """Add a document that the content store need not have; returns its digest."""
        digest = digest_of(data)
        self._documents[digest] = data
        return digest

    def send(self, sink: Sink) -> None:
        """Write the whole archive to the sink. Raises SystemFailure for a damaged blob."""
        waiting = bytearray()
        for name in _DIRECTORIES:
            waiting += header(name.encode(), _status(stat.S_IFDIR | 0o755))
        for name, data in self._first():
            mode = stat.S_IFREG | (0o644 if name.endswith(".json") else 0o444)
            waiting += header(name.encode(), _status(mode, len(data))) + data + _padding(len(data))
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
        """(name, data) of the documents; they come first, so that a program can read the archive in one pass."""
        index = {"schemaVersion": 2, "mediaType": documents.OCI_INDEX, "manifests": self.targets}
        yield "oci-layout", _LAYOUT
        yield "index.json", documents.dump(index)
        if self._docker:
            yield "manifest.json", documents.dump(list(self._entries.values()))
        for digest in sorted(self._documents):
            yield _path(digest), self._documents[digest]


@contextlib.contextmanager
def archive(store: Catalogue, names: Sequence[str], wanted: Sequence[Platform]) -> Iterator[Archive]:
    """A context with the archive of the named images, whose blobs are pinned until it ends.

    names: in the forms that `Catalogue.find` takes; a name without a tag means all tags of that repository, and an id
        means the image without a name
    wanted: only these platforms; empty: all that the daemon has. Raises NotFound, Invalid.
    """
    with contextlib.ExitStack() as held:
        made, found = Archive(store), []
        # Under the lock, so that no image is removed between being found and being pinned.
        with store.changing:
            for name in names:
                for image, reference in _images(store, name):
                    _add(store, held, made, image, reference, wanted)
                    found.append(image)
        for image in found:
            store.announce("save", image.id, image.id, image)
        yield made


def _images(store: Catalogue, name: str) -> list[tuple[Image, Reference | None]]:
    """The images that a name means, each with its reference in the archive, None for an id. Raises NotFound."""
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
    """The image and reference of each tag of a repository, sorted by reference."""
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
        # The image's index also names platforms that were not asked for. So the archive gets the one manifest by
        # itself, or a new index of the wanted ones.
        parts = [_own_descriptor(one, document, blobs) for one, document in zip(chosen, manifests, strict=True)]
        blobs = _reachable(parts, manifests, blobs)
        target = parts[0] if len(parts) == 1 else _index(made, chosen, parts)
    made.add(target, reference, manifests[0], blobs)


def _chosen(here: list[Image], wanted: Sequence[Platform], shown: str) -> list[Image]:
    """The wanted platforms of an image, in the order of `here`. Raises NotFound in docker's words."""
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
    """digest → size of all blobs of these platforms, which are pinned and checked to exist. Raises NotFound."""
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
    """Those of the blobs that the manifests name, and the manifests; the image's own index is left out."""
    named = {part["digest"] for part in parts}
    for document in manifests:
        config, layers = documents.manifest_parts(document)
        named |= {part["digest"] for part in (config, *layers)}
    return {digest: size for digest, size in blobs.items() if digest in named}


def _index(made: Archive, chosen: list[Image], parts: list[Object]) -> Object:
    """Add an index of some of an image's platforms to the archive; returns its descriptor."""
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
    """Raise SystemFailure for a damaged blob, whose file has `found` bytes instead of `size`."""
    if found != size:
        raise SystemFailure(f"the blob {digest} is damaged: its file has {found} bytes instead of {size}")
