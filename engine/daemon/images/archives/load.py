"""Loading images from an archive: what `docker save`, podman and skopeo write, docker-archives and OCI layouts alike.

Runs in the daemon, on the request's thread. The outer tar is read once, as it arrives; each file in it goes straight
into the content store, hashed on the way, and what no image turned out to need is removed at the end. Members' names
are keys of a table and never paths. Formats: docker's image spec v1.2, OCI image-layout.
"""

import contextlib
import io
import posixpath
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from engine.daemon.images import image as documents
from engine.daemon.images import platform
from engine.daemon.images.image import Image
from engine.daemon.images.making import add_made
from engine.daemon.images.reference import Reference
from engine.daemon.store import images as table
from engine.daemon.tar import compression
from engine.daemon.tar import reader as tar
from engine.daemon.tar.compression import Unpacked
from engine.errors import Invalid, NotFound

if TYPE_CHECKING:
    from engine.daemon.images.store import ImageStore

_BUFFER = 256 * 1024
# Images, their layers, and in the oldest form three files for each; an archive with more is none of images.
_MOST_MEMBERS = 20_000
_MOST_LINKS = 8
_DEEPEST_INDEX = 3
_NAME = "io.containerd.image.name"
_REF_NAME = "org.opencontainers.image.ref.name"
_BLOBS = "blobs/sha256/"

Progress = Callable[[dict], None]


def load(store: "ImageStore", stream: BinaryIO, progress: Progress) -> list[Image]:
    """Load every image of the archive in `stream` (plain or compressed); the images, in the archive's order.

    Progress: `{"stream": "Loaded image: busybox:latest\\n"}` for each name. Raises Invalid, SystemFailure.
    """
    with contextlib.ExitStack() as stack:
        members = _Members(store, stack)
        members.read(tar.TarReader(io.BufferedReader(Unpacked(stream), _BUFFER)))
        images = []
        for image in _images(store, members):
            names = [f"Loaded image: {name}\n" for name in image.repo_tags] or [f"Loaded image ID: {image.id}\n"]
            for name in names:
                progress({"stream": name})
            store.announce("load", image.id, image.id, image)
            images.append(image)
        return images


class _Members:
    """The files of one archive: name → digest and size in the content store, where they are pinned meanwhile."""

    def __init__(self, store: "ImageStore", stack: contextlib.ExitStack):
        self._store = store
        self._content = store.content
        self._stack = stack
        self._files: dict[str, tuple[str, int]] = {}
        self._links: dict[str, str] = {}

    def read(self, reader: tar.TarReader) -> None:
        """Keep every file that the archive holds."""
        for entry in reader:
            name = posixpath.normpath("/" + entry.name).lstrip("/")
            if len(self._files) + len(self._links) >= _MOST_MEMBERS:
                raise Invalid(f"more than {_MOST_MEMBERS} files in the archive")
            if entry.kind == tar.FILE and entry.fragments is None:
                self._keep(name, reader)
            elif entry.kind == tar.SYMLINK:
                self._links[name] = posixpath.normpath(posixpath.join("/", posixpath.dirname(name), entry.link))[1:]
            elif entry.kind == tar.LINK:
                self._links[name] = posixpath.normpath("/" + entry.link).lstrip("/")
            elif entry.kind != tar.DIRECTORY:
                raise Invalid(f"invalid archive: {entry.name!r} is no plain file")

    def _keep(self, name: str, reader: tar.TarReader) -> None:
        with self._content.incoming() as blob:
            for data in reader.chunks():
                blob.write(data)
            # Called back in reverse order: first the pin goes, then the blob, unless an image holds it by then.
            self._stack.callback(self._release, blob.digest)
            self._stack.enter_context(self._content.pinned([blob.digest]))
            self._files[name] = blob.digest, blob.size
            blob.keep()

    def _release(self, digest: str) -> None:
        with self._store.database.reading() as connection:
            held = table.blob_is_held(connection, digest)
        if not held:
            self._content.remove(digest)

    def find(self, name: str) -> tuple[str, int] | None:
        """digest and size of a file, by way of the archive's own links; None where there is none."""
        name = posixpath.normpath("/" + name).lstrip("/")
        for _ in range(_MOST_LINKS):
            if name in self._files:
                return self._files[name]
            if name not in self._links:
                return None
            name = self._links[name]
        raise Invalid(f"invalid archive: too many links at {name!r}")

    def document(self, name: str) -> bytes | None:
        """A file's bytes, if it is there and no larger than a document may be."""
        found = self.find(name)
        return found and self._content.read(found[0], documents.LARGEST_DOCUMENT)

    def blob(self, part: dict) -> dict:
        """The descriptor, if its blob is in the archive, or in the store, with that digest and size."""
        found = self.find(_BLOBS + part["digest"].partition(":")[2])
        if found is not None and found != (part["digest"], part["size"]):
            raise Invalid(f"invalid archive: the blob {part['digest']} has digest {found[0]} and {found[1]} bytes")
        if found is None and not self._content.has(part["digest"], part["size"]):
            raise NotFound(f"content digest {part['digest']}: not found")
        return part


def _images(store: "ImageStore", members: _Members) -> Iterator[Image]:
    index, manifest = members.document("index.json"), members.document("manifest.json")
    # dockerd writes both since version 25; the layout has the image's own digests and is read first.
    if index is not None:
        yield from _from_layout(store, members, documents.load(index, "index.json"))
    elif manifest is not None:
        yield from _from_docker_archive(store, members, manifest)
    else:
        raise Invalid("unrecognized image format")


# OCI layouts


def _from_layout(store: "ImageStore", members: _Members, index: dict) -> Iterator[Image]:
    targets: dict[str, tuple[dict, list[Reference]]] = {}
    for part in documents.index_entries(index):
        _, names = targets.setdefault(part["digest"], (part, []))
        names += _names_of(part)
    for part, names in targets.values():
        yield _layout_image(store, members, part, names)


def _names_of(part: dict) -> list[Reference]:
    """The name that an entry of index.json carries; a bare tag (skopeo, umoci) names nothing by itself."""
    annotations = part.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    for text in (annotations.get(_NAME), annotations.get(_REF_NAME)):
        if isinstance(text, str) and (":" in text or "/" in text):
            return [Reference.parse(text).with_default_tag()]
    return []


def _layout_image(store: "ImageStore", members: _Members, target: dict, names: list[Reference]) -> Image:
    with contextlib.ExitStack() as stack:
        part, document = _read_document(store, members, stack, target)
        target = chosen = part
        chain = [part]
        for _ in range(_DEEPEST_INDEX):
            if chosen["mediaType"] not in documents.INDEXES:
                break
            chosen, document = _read_document(store, members, stack, _choose(members, document))
            chain.append(chosen)
        else:
            raise Invalid("invalid index: too many indexes inside one another")
        config_part, layer_parts = documents.manifest_parts(document)
        parts = (config_part, *layer_parts)
        stack.enter_context(store.content.pinned(part["digest"] for part in parts))
        for part in parts:
            members.blob(part)
        config = store.content.read(config_part["digest"], documents.LARGEST_DOCUMENT)
        diff_ids = documents.diff_ids_of(documents.config_of(config, len(layer_parts)))
        session = stack.enter_context(store.session())
        layers = [
            _layer(store, session, part["digest"], diff) for part, diff in zip(layer_parts, diff_ids, strict=True)
        ]
        blobs = [(part["digest"], part["size"]) for part in (*chain, *parts)]
        return store.add(session, target, chosen["digest"], config, layers, blobs, names)


def _read_document(
    store: "ImageStore", members: _Members, stack: contextlib.ExitStack, part: dict
) -> tuple[dict, dict]:
    """A manifest or index: its descriptor, of the type that it says itself, and the document. Pinned."""
    stack.enter_context(store.content.pinned([part["digest"]]))
    members.blob(part)
    document = documents.load(store.content.read(part["digest"], documents.LARGEST_DOCUMENT), "manifest")
    kind = documents.media_type_of(document, part.get("mediaType", ""))
    return documents.descriptor(kind, part["digest"], part["size"]), document


def _choose(members: _Members, index: dict) -> dict:
    """The entry for this host; where it is not in the archive, any whole one: `docker save` writes what it has."""
    entries = [part for part in documents.index_entries(index) if members.find(_BLOBS + part["digest"][7:])]
    real = [part for part in entries if (part.get("platform") or {}).get("architecture") != "unknown"]
    chosen = platform.choose(real, platform.host(), strict=False) or (real[0] if len(real) == 1 else None)
    if chosen is None:
        raise NotFound(f"no matching manifest for {platform.host()} in the manifest list entries")
    return chosen


# docker-archives


def _from_docker_archive(store: "ImageStore", members: _Members, manifest: bytes) -> Iterator[Image]:
    wrapped = documents.load(b'{"images":' + manifest + b"}", "manifest.json")
    entries = wrapped.get("images")
    if not isinstance(entries, list):
        raise Invalid("invalid manifest.json: it is no list")
    for entry in entries:
        config, layers, tags = _entry_of(entry)
        yield _archive_image(store, members, config, layers, tags)


def _entry_of(entry: object) -> tuple[str, list[str], list[str]]:
    """Config, Layers and RepoTags of one image in manifest.json."""
    entry = entry if isinstance(entry, dict) else {}
    config, layers, tags = entry.get("Config"), entry.get("Layers") or [], entry.get("RepoTags") or []
    if not isinstance(config, str) or not _is_texts(layers) or not _is_texts(tags):
        raise Invalid("invalid manifest.json: Config, Layers or RepoTags is of the wrong type")
    return config, layers, tags


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _archive_image(
    store: "ImageStore", members: _Members, config_name: str, layer_names: list[str], tags: list[str]
) -> Image:
    config = members.document(config_name)
    if config is None:
        raise Invalid(f"invalid archive: {config_name!r} is missing")
    if len(layer_names) > documents.MOST_LAYERS:
        raise Invalid(f"max depth exceeded: {len(layer_names)} layers, where {documents.MOST_LAYERS} are allowed")
    diff_ids = documents.diff_ids_of(documents.config_of(config, len(layer_names)))
    names = [Reference.parse(tag).with_default_tag() for tag in tags]
    with store.session() as session:
        parts, layers = [], []
        for name, diff_id in zip(layer_names, diff_ids, strict=True):
            found = members.find(name)
            if found is None:
                raise Invalid(f"invalid archive: {name!r} is missing")
            layers.append(_layer(store, session, found[0], diff_id))
            parts.append(documents.descriptor(_layer_type(store, found[0]), *found))
        return add_made(store, session, config, parts, layers, names)


def _layer_type(store: "ImageStore", digest: str) -> str:
    """The media type of a layer's blob, by its first bytes."""
    with store.content.open(digest) as blob:
        form = compression.Peeked(blob).form
    return f"{documents.OCI_LAYER}+{form}" if form else documents.OCI_LAYER


def _layer(store: "ImageStore", session: object, digest: str, diff_id: str) -> object:
    return session.layer(diff_id, lambda: store.content.open(digest))
