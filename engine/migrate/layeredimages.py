"""Brings over the images of dockerd's own store with the storage driver overlay2.

An image is its config, whose digest is its id, and layers that are found by the digests of their tars. The directory of
a layer is of the form that the engine's layers have too, so the two share its files (see `cloning`). The tar, which a
push or a save needs, is put together again and compressed; its digest shows that the files are those of the image. The
image gets a manifest of its own here, so digests by which it was pulled do not name it any more.
"""

import hashlib
import io
import os
from collections.abc import Iterator, Sequence

from engine.daemon.images import image as documents
from engine.daemon.images.image import Image
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.making import add_made, squeeze, unpack
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.errors import EngineError, Invalid, NotFound, SystemFailure
from engine.migrate.accounting import Telling
from engine.migrate.cloning import clone
from engine.migrate.newroot import Target
from engine.migrate.oldroot import Source
from engine.migrate.tarsplit import Tar

DRIVER = "overlay2"
_STORE = f"image/{DRIVER}"
_CONFIGS = f"{_STORE}/imagedb/content/sha256"
_LAYERS = f"{_STORE}/layerdb/sha256"
_NAME_LETTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyz-")


def bring(source: Source, target: Target, telling: Telling, wanted: set[str]) -> None:
    """Bring over the images that have a name, that containers use, or that no other image stands on.

    wanted: the ids of containers' images (`sha256:...`)
    """
    names = _names(source, telling)
    identities = [f"sha256:{each}" for each in source.identifiers(_CONFIGS)]
    parents = {_parent(source, each) for each in identities}
    chosen = [each for each in identities if each in names or each in wanted or each not in parents]
    parts: dict[str, Object] = {}
    for number, identity in enumerate(chosen, 1):
        asked = names.get(identity, [])
        shown = ", ".join(each.familiar for each in asked) or identity[:19]
        with telling.passing_over(f"image {shown}"):
            image = target.image(identity)
            if image is None:
                telling.line(f"image {shown} ({number} of {len(chosen)}) ...")
                image = _Work(source, target, telling, parts).image(identity)
                target.learn(image)
                telling.took("image", shown)
            else:
                telling.found("image", shown)
            for name in target.name(image, asked):
                telling.lacks(f"the name {name.familiar} of {image.id[:19]}", "another image has it here")
    if left := len(identities) - len(chosen):
        telling.lacks(f"{left} images without a name", "they are steps of builds, on which other images stand")


def _names(source: Source, telling: Telling) -> dict[str, list[Reference]]:
    """Image's id → the names that it has."""
    try:
        repositories = source.document(f"{_STORE}/repositories.json").get("Repositories")
    except EngineError as error:
        if not isinstance(error, NotFound):
            telling.lacks("the names of the images", error)
        return {}
    found: dict[str, list[Reference]] = {}
    for references in (repositories if isinstance(repositories, dict) else {}).values():
        for text, identity in (references if isinstance(references, dict) else {}).items():
            try:
                reference = Reference.parse(text)
            except Invalid as error:
                telling.lacks(f"the name {text}", error)
                continue
            if isinstance(identity, str) and not reference.digest:
                found.setdefault(identity, []).append(reference)
    return found


def _parent(source: Source, identity: str) -> str:
    try:
        return source.text(f"{_STORE}/imagedb/metadata/sha256/{identity.removeprefix('sha256:')}/parent")
    except EngineError:
        return ""


class _Work:
    def __init__(self, source: Source, target: Target, telling: Telling, parts: dict[str, Object]) -> None:
        self._source = source
        self._target = target
        self._telling = telling
        self._parts = parts  # digest of a layer's tar → descriptor of its blob

    def image(self, identity: str) -> Image:
        data = self._source.data(f"{_CONFIGS}/{identity.removeprefix('sha256:')}", documents.LARGEST_DOCUMENT)
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != identity:
            raise Invalid("its config is not the one that its id is the digest of")
        count = len(documents.diff_ids_of(documents.load(data, "image config")))
        config = documents.config_of(data, count)
        if count > documents.MOST_LAYERS:
            raise Invalid(f"it has more than {documents.MOST_LAYERS} layers")
        with self._target.images.session() as session:
            layers = [self._layer(session, *each) for each in chains(documents.diff_ids_of(config))]
            parts = [self._parts[layer.diff_id] for layer in layers]
            with self._target.images.content.pinned([part["digest"] for part in parts]):
                return add_made(self._target.images, session, data, parts, layers, [])

    def _layer(self, session: Session, chain: str, diff_id: str) -> Layer:
        where = f"{_LAYERS}/{chain.removeprefix('sha256:')}"
        if self._source.text(f"{where}/diff") != diff_id:
            raise Invalid(f"its layer {chain} is not what its config says")
        place = self._source.text(f"{where}/cache-id")
        if not place or not _NAME_LETTERS.issuperset(place):
            raise Invalid(f"its layer {chain} has no directory")
        with (
            self._source.directory(f"{DRIVER}/{place}/diff") as directory,
            self._source.opened(f"{where}/tar-split.json.gz") as pieces,
            open(pieces, "rb", buffering=0, closefd=False) as file,
        ):
            return self._made(session, diff_id, directory, file)

    def _made(self, session: Session, diff_id: str, directory: int, pieces: io.FileIO) -> Layer:
        content = self._target.images.content
        if diff_id in self._parts and self._target.layers_linked:
            return session.filled(diff_id, lambda root: self._share(directory, root))
        with content.incoming() as blob:
            if self._target.layers_linked:
                found, form = squeeze(Tar(pieces, directory), blob)
                if found != diff_id:
                    raise Invalid(f"the files of its layer {diff_id} are not those that it was made of")
                layer = session.filled(diff_id, lambda root: self._share(directory, root))
            else:
                layer, form = unpack(session, Tar(pieces, directory), blob)
                if layer.diff_id != diff_id:
                    raise Invalid(f"the files of its layer {diff_id} are not those that it was made of")
            part = documents.descriptor(documents.layer_type(form), blob.digest, blob.size)
            # Nothing holds the blob until the image is there, and no other process is here that could remove it.
            blob.keep()
        self._parts[diff_id] = part
        return layer

    def _share(self, directory: int, root: int) -> int:
        done = clone(directory, root, linked=True, tell=self._telling.progress)
        self._telling.add(done)
        return done.size


def chains(diff_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(chain id, digest of the tar) of each layer, lowest first: the chain id is a digest of all up to that layer."""
    chain = ""
    for diff_id in diff_ids:
        chain = f"sha256:{hashlib.sha256(os.fsencode(f'{chain} {diff_id}')).hexdigest()}" if chain else diff_id
        yield chain, diff_id


def writable(source: Source, container_id: str) -> str:
    """The path of the directory with a container's own files. Raises NotFound, Invalid."""
    place = source.text(f"{_STORE}/layerdb/mounts/{container_id}/mount-id")
    if not place or not _NAME_LETTERS.issuperset(place):
        raise Invalid("its writable layer has no directory")
    return f"{DRIVER}/{place}/diff"


def others(source: Source) -> list[str]:
    """The storage drivers other than overlay2 whose images the root has."""
    found = []
    for name in source.names("image", missing=True):
        try:
            if name != DRIVER and source.identifiers(f"image/{name}/imagedb/content/sha256"):
                found.append(name)
        except (Invalid, SystemFailure):
            continue
    return found
