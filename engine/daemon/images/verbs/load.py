"""Loading images from an archive (POST /images/load): OCI layouts and docker-archives of docker, podman and skopeo.

Runs in the daemon, on the request's thread. The outer tar is read once, as it arrives (see `members`). Then the
documents in it say which images it has. Hostile documents end in Invalid or NotFound, and what was not added to the
store by then is removed. Formats: docker's image spec v1.2, OCI image-layout; the oldest format is in `legacy`.
"""

import contextlib
import io
from collections.abc import Iterator, Sequence, Sized

from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.archives import legacy
from engine.daemon.images.archives.members import Bundle, Members, Progress
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.layers import comparing
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.making import add_made
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.daemon.streams import Source
from engine.daemon.tar import compression
from engine.daemon.tar import reader as tar
from engine.daemon.tar.compression import Unpacked
from engine.errors import Invalid, NotFound

_BUFFER = 64 << 10
# Each image is synced to the disk by itself, so many of them take long.
_MOST_IMAGES = 1_000
_MOST_MANIFESTS = 1_000
_DEEPEST_INDEX = 3
_NAME = "io.containerd.image.name"
_REF_NAME = "org.opencontainers.image.ref.name"


def load(store: Catalogue, stream: Source, progress: Progress, wanted: Sequence[Platform] = ()) -> list[Image]:
    """Load all images of the archive in `stream`, which may be compressed; returns them in the archive's order.

    wanted: load only these platforms of each image, which must all be there; empty: all that are there
    progress: gets `{"stream": "Loaded image: busybox:latest\\n"}` for each name, and the progress of layers
    Raises Invalid, NotFound, SystemFailure.
    """
    with store.session() as session, contextlib.closing(Members(store, session, progress)) as members:
        # Far smaller than a piece, most of which is read to where it stays then.
        outer = io.BufferedReader(Unpacked(stream), _BUFFER)
        members.read(tar.TarReader(outer))
        tar.read_rest(outer, "invalid archive: it")
        images = []
        loading = _Loading(store, session, members, wanted)
        for image, names in loading.images():
            for text in [f": {name.familiar}" for name in names] or [f" ID: {image.id}"]:
                progress({"stream": f"Loaded image{text}\n"})
            if not image.is_unpacked:
                name, whole = (names[0].familiar, names[0].canonical) if names else (image.id, "")
                words = f'apply layer error for "{whole}": {loading.trouble}'
                progress({"stream": f"Error unpacking image {name}: {words}\n"})
            store.announce("load", image.id, image.id, image)
            images.append(image)
        return images


def described(store: Catalogue, session: Session, members: Bundle) -> Iterator[tuple[Image, list[Reference]]]:
    """Add each image that the files describe; yields it with the names that they give it. Raises Invalid, NotFound."""
    return _Loading(store, session, members, ()).images()


class _Loading:
    """Reads the documents of one archive, and adds the images that they describe.

    trouble: why the last image that could not be unpacked could not
    """

    def __init__(self, store: Catalogue, session: Session, members: Bundle, wanted: Sequence[Platform]):
        self._store = store
        self._session = session
        self._members = members
        self._wanted = wanted
        self.trouble = ""

    def images(self) -> Iterator[tuple[Image, list[Reference]]]:
        """Add each image; yields it with the names that the archive gives it. Raises Invalid, NotFound."""
        index, manifest = self._members.document("index.json"), self._members.document("manifest.json")
        # dockerd writes both since version 25. The OCI layout is preferred, because it has the image's own digests.
        if index is not None:
            yield from self._layout(documents.load(index, "index.json"))
        elif manifest is not None:
            yield from self._docker_archive(manifest)
        elif (repositories := self._members.document("repositories")) is not None:
            for config, digests, names in legacy.images(self._members, repositories):
                yield self._made(config, digests, names), names
        else:
            raise Invalid("unrecognized image format")

    # OCI layouts

    def _layout(self, index: Object) -> Iterator[tuple[Image, list[Reference]]]:
        targets: dict[str, tuple[Object, list[Reference]]] = {}
        for part in documents.index_entries(index):
            _, names = targets.setdefault(part["digest"], (part, []))
            names += [name for name in _names_of(part) if name not in names]
        _check_count(targets)
        for part, names in targets.values():
            yield self._target(part, names), names

    def _target(self, target: Object, names: list[Reference]) -> Image:
        """Add the image of an entry of index.json, with its platforms that the archive has and the client wants."""
        whole, broken = [], None
        walk = _Walk(self._store, self._members)
        for leaf in walk.leaves(target):
            try:
                whole.append(self._checked(leaf))
            except NotFound as error:
                # `docker save` writes the index of all platforms, but only those platforms that it has.
                broken = broken or error
        chosen = self._choose(whole, names, target)
        if not chosen:
            raise broken or NotFound(f"no matching manifest for {platforms.host()} in the manifest list entries")
        # The best platform is added last, because the last `image` is returned.
        for leaf in reversed(chosen):
            image = self._add(walk.top, leaf, names if leaf is chosen[0] else [])
        return image

    def _choose(self, whole: list["_Leaf"], names: list[Reference], target: Object) -> list["_Leaf"]:
        """The platforms to be added, best first. Raises NotFound when a wanted one is missing."""
        if not self._wanted:
            return platforms.sorted_for(platforms.host(), whole)
        chosen = []
        for one in self._wanted:
            found = platforms.best(whole, one, strict=True)
            if found is None:
                raise _without(one, names[0].familiar if names else target["digest"])
            if found not in chosen:
                chosen.append(found)
        return chosen

    def _checked(self, leaf: "_Leaf") -> "_Leaf":
        """The leaf with its config, checked. Raises NotFound for a missing blob, Invalid for a wrong one."""
        config_part, layer_parts = documents.manifest_parts(leaf.document)
        for part in (config_part, *layer_parts):
            self._members.blob(part)
        leaf.data = self._store.content.read(config_part["digest"], documents.LARGEST_DOCUMENT)
        leaf.config = documents.config_of(leaf.data, len(layer_parts))
        return leaf

    def _add(self, target: Object, leaf: "_Leaf", names: list[Reference]) -> Image:
        config_part, layer_parts = documents.manifest_parts(leaf.document)
        diff_ids = documents.diff_ids_of(leaf.config)
        layers = self._layers([part["digest"] for part in layer_parts], diff_ids)
        blobs = [(part["digest"], part["size"]) for part in (*leaf.chain, config_part, *layer_parts)]
        manifest = leaf.chain[-1]["digest"]
        return self._store.add(self._session, target, manifest, leaf.data, layers, blobs, names)

    def _layers(self, digests: list[str], diff_ids: list[str]) -> list[Layer]:
        """The layers of an image; none where one of them is no tar: such an image is kept, as by docker, for its blobs.

        Raises Invalid where a blob is another layer than its image says, NotFound, SystemFailure.
        """
        try:
            return self._members.layers(digests, diff_ids)
        except tar.NotTar as error:
            for digest, diff_id in zip(digests, diff_ids, strict=True):
                comparing.check_same(self._store.database, self._store.content, digest, diff_id, lambda: None)
            self.trouble = str(error)
            return []

    # docker-archives

    def _docker_archive(self, manifest: bytes) -> Iterator[tuple[Image, list[Reference]]]:
        wrapped = documents.load(b'{"images":' + manifest + b"}", "manifest.json")
        entries = wrapped.get("images")
        if not isinstance(entries, list):
            raise Invalid("invalid manifest.json: it is not a list")
        _check_count(entries)
        for entry in entries:
            config_name, layer_names, tags = _entry_of(entry)
            config = self._members.document(config_name)
            if config is None:
                raise Invalid(f"invalid archive: {config_name!r} is missing")
            if len(layer_names) > documents.MOST_LAYERS:
                raise Invalid(
                    f"max depth exceeded: {len(layer_names)} layers, where {documents.MOST_LAYERS} are allowed"
                )
            diff_ids = documents.diff_ids_of(documents.config_of(config, len(layer_names)))
            files = [self._file(*each) for each in zip(layer_names, diff_ids, strict=True)]
            names = [_name(tag) for tag in tags]
            yield self._made(config, files, names), names

    def _file(self, name: str, diff_id: str) -> tuple[str, int]:
        """Digest and size of a layer's blob. Raises Invalid if the file is missing, or empty, and the layer not here.

        A layer of an image that is here keeps its own blob, whatever else the archive has in its place. Neither is
        believed: an earlier release may have left another blob there.
        """
        found = self._members.find(name)
        if found and found[1] and self._is_layer(found[0], diff_id):
            return found
        tried: set[str] = set()
        for part in comparing.descriptors(self._store.database, self._store.content, diff_id):
            if part["digest"] not in tried and self._members.keeps(part) and self._is_layer(part["digest"], diff_id):
                return part["digest"], part["size"]
            tried.add(part["digest"])
        if found is None or not found[1]:
            raise Invalid(f"invalid archive: {name!r} is missing")
        raise Invalid(f"invalid archive: {name!r} is another layer than {diff_id}")

    def _is_layer(self, digest: str, diff_id: str) -> bool:
        """Whether the blob is the layer, also a damaged one that is no tar."""
        try:
            comparing.check_blob(self._store.content, digest, diff_id)
        except Invalid:
            return False
        return True

    def _made(self, config: bytes, files: list[tuple[str, int]], names: list[Reference]) -> Image:
        """Add an image that came without a manifest. files: (digest, size) of each layer, lowest first"""
        document = documents.config_of(config, len(files))
        for one in self._wanted:
            if platforms.rank(one, platforms.of(document), strict=True) is None:
                raise _without(one, names[0].familiar if names else "of the archive")
        diff_ids = documents.diff_ids_of(document)
        layers = self._layers([digest for digest, _ in files], diff_ids)
        parts = [documents.descriptor(self._layer_type(digest), digest, size) for digest, size in files]
        return add_made(self._store, self._session, config, parts, layers, names)

    def _layer_type(self, digest: str) -> str:
        """The media type of a layer's blob, detected from its first bytes."""
        with self._store.content.open(digest) as blob:
            return documents.layer_type(compression.Peeked(blob).form)


class _Leaf:
    """One platform of an image in the archive.

    chain: the descriptors from the target down to its manifest; document: the manifest
    data, config: bytes and document of its config, which `_Loading._checked` fills in
    """

    __slots__ = ("chain", "config", "data", "document")

    def __init__(self, chain: list[Object], document: Object):
        self.chain = chain
        self.document = document
        self.data = b""
        self.config: Object = {}


class _Walk:
    """Finds the manifests below an entry of index.json, also in indexes within indexes. top: descriptor of the entry"""

    def __init__(self, store: Catalogue, members: Bundle):
        self._store = store
        self._members = members
        self._seen: set[str] = set()
        self.top: Object = {}

    def leaves(self, target: Object) -> Iterator[_Leaf]:
        """Yield each manifest that the archive has, once. Raises NotFound, Invalid."""
        part, document = self._read(target)
        self.top = part
        yield from self._below([part], document)

    def _below(self, chain: list[Object], document: Object) -> Iterator[_Leaf]:
        if chain[-1]["mediaType"] not in documents.INDEXES:
            yield _Leaf(chain, document)
            return
        if len(chain) > _DEEPEST_INDEX:
            raise Invalid("invalid index: too many indexes inside one another")
        for entry in documents.index_entries(document):
            architecture = (entry.get("platform") or {}).get("architecture")
            # Attestations, which BuildKit adds to an index, have the platform `unknown`.
            if entry["digest"] in self._seen or architecture == "unknown" or not self._members.has(entry):
                continue
            part, below = self._read(entry)
            yield from self._below([*chain, part], below)

    def _read(self, part: Object) -> tuple[Object, Object]:
        """The descriptor and document of a manifest or index; the media type is the one in the document, if any."""
        self._seen.add(part["digest"])
        if len(self._seen) > _MOST_MANIFESTS:
            raise Invalid(f"invalid index: more than {_MOST_MANIFESTS} manifests")
        self._members.blob(part)
        document = documents.load(self._store.content.read(part["digest"], documents.LARGEST_DOCUMENT), "manifest")
        kind = documents.media_type_of(document, part.get("mediaType", ""))
        return documents.descriptor(kind, part["digest"], part["size"]), document


def _names_of(part: Object) -> list[Reference]:
    """The name in an entry of index.json, as a list; none for a mere tag (skopeo, umoci), which has no repository."""
    annotations = part.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    for text in (annotations.get(_NAME), annotations.get(_REF_NAME)):
        if isinstance(text, str) and (":" in text or "/" in text):
            return [_name(text, part["digest"])]
    return []


def _name(text: str, digest: str = "") -> Reference:
    """A name that an archive gives to an image. Raises Invalid if it has a digest that is not the image's own.

    A client that uses such a name would get this image and take it for the one with that digest.
    """
    reference = Reference.parse(text).with_default_tag()
    if reference.digest not in ("", digest):
        raise Invalid(f'invalid tag "{reference.familiar}"')
    return reference


def _entry_of(entry: object) -> tuple[str, list[str], list[str]]:
    """Config, Layers and RepoTags of one image in manifest.json. Raises Invalid."""
    entry = entry if isinstance(entry, dict) else {}
    config, layers, tags = entry.get("Config"), entry.get("Layers") or [], entry.get("RepoTags") or []
    if not isinstance(config, str) or not _is_texts(layers) or not _is_texts(tags):
        raise Invalid("invalid manifest.json: Config, Layers or RepoTags is of the wrong type")
    return config, layers, tags


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _check_count(images: Sized) -> None:
    if len(images) > _MOST_IMAGES:
        raise Invalid(f"invalid archive: more than {_MOST_IMAGES} images")


def _without(wanted: Platform, shown: str) -> NotFound:
    return NotFound(f"image {shown} doesn't provide the requested platform ({wanted})")
