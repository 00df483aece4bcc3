"""The source `oci-layout`: an image in a directory of the client's, which the client serves as a content store.

An operation of the build graph. Its documents are read before the graph is made, its layers when a step needs them.
What the client gives is compared with its digest, and a layer's contents with what the image's config says of them.
"""

from collections.abc import Sequence

from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import check_digest
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound

_DEEPEST_INDEX = 3
_STORES = "oci:"  # which clients put before the names of these stores


@dataclass(frozen=True, slots=True)
class LayoutSource:
    """The operation. layers: descriptors, lowest first; diff_ids: digests of their contents; config: the document

    name: of the store, with the digest that was asked for
    """

    store: ClientStore
    layers: tuple[Object, ...]
    diff_ids: tuple[str, ...]
    config: Object
    name: str = ""

    kind = "regular"
    title = "OCI load from client"

    def key(self) -> str:
        """The contents of the layers."""
        return digest("oci-layout", list(self.diff_ids))

    def identity(self, _work: Work, _inputs: Sequence[Snapshot]) -> str | None:
        """None: the layers are kept by who uses them."""
        return None

    def make(self, work: Work, _inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """Fetch the layers that are not here. Raises NotFound, Invalid, Unavailable, SystemFailure."""
        tree = Snapshot()
        content = work.keeper.store.content
        for part, diff_id in zip(self.layers, self.diff_ids, strict=True):
            work.check()
            work.keeper.pin([part["digest"]])
            if not content.has(part["digest"], part["size"]):
                with work.waiting(), work.keeper.incoming() as into:
                    self.store.fetch(part["digest"], part["size"], into)
                    into.keep()
            tree = tree.above(work.keeper.borrowed(diff_id, part, tree, work.check))
        return (tree,)


def name_of(place: str) -> tuple[str, str]:
    """What the client calls the store, and the digest, in `name[:tag]@sha256:...`. Raises Invalid."""
    name, at, found = place.partition("@")
    if not at or not name:
        raise Invalid(f"oci-layout reference {place} has no digest")
    check_digest(found)
    last = name.rpartition("/")[2]
    bare = name.removesuffix(":" + last.partition(":")[2]) if ":" in last else name
    return f"{_STORES}{bare}", found


def read(store: ClientStore, found: str, wanted: Platform) -> LayoutSource:
    """The operation of the image of that digest for a platform. Raises NotFound, Invalid, Unavailable."""
    for _ in range(_DEEPEST_INDEX + 1):
        document = documents.load(store.read(found, documents.LARGEST_DOCUMENT), "manifest")
        if documents.media_type_of(document, "") not in documents.INDEXES:
            return _of_manifest(store, document)
        chosen = platforms.choose(documents.index_entries(document), wanted, strict=False)
        if chosen is None:
            raise NotFound(f"no matching manifest for {wanted} in the OCI layout of the client")
        found = chosen["digest"]
        check_digest(found)
    raise Invalid("invalid index: too many indexes inside one another")


def _of_manifest(store: ClientStore, manifest: Object) -> LayoutSource:
    part, layers = documents.manifest_parts(manifest)
    config = documents.config_of(store.read(part["digest"], documents.LARGEST_DOCUMENT), len(layers))
    kept = tuple(documents.descriptor(each["mediaType"], each["digest"], each["size"]) for each in layers)
    return LayoutSource(store, kept, tuple(map(str, documents.diff_ids_of(config))), config)
