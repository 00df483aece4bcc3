"""Choosing which documents and blobs of an image a push sends: those of the whole image, or of one platform.

Runs in the daemon, on the request's thread. It reads the content store only.

The daemon may have only some platforms of an index. Then the choice is that of docker with containerd's store. The
whole index is sent if the repository has the missing manifests already, which the caller finds out. Otherwise one
platform is sent by itself under the tag: the only one that the daemon has, or the host's among several. A progress
message (`manifestPushedInsteadOfIndex`) says so. If the client names a platform, only that one is sent.
"""

from typing import NamedTuple

from engine.daemon.images import image as documents
from engine.daemon.images import platform
from engine.daemon.images.content import Content
from engine.daemon.jsontext import Object
from engine.errors import Conflict, Invalid, NotFound

_DEEPEST_INDEX = 3


class Document(NamedTuple):
    """A manifest or index from the content store. part: its descriptor; data: its bytes"""

    part: Object
    data: bytes


class Plan(NamedTuple):
    """What a push sends: documents, the one that the tag will name last; and the blobs that they need.

    blobs: digest → descriptor of each config and layer; layers: the digests of the layers among them
    """

    documents: list[Document]
    blobs: dict[str, Object]
    layers: frozenset[str]

    @property
    def target(self) -> Object:
        """The descriptor of the document that the tag will name."""
        return self.documents[-1].part


class Choice:
    """The parts of an image that the content store has, and the choice among them.

    root: descriptor of the image's index or manifest
    missing: descriptors of the manifests of its index that the store does not have, or not with all their blobs
    """

    def __init__(self, content: Content, root: Object):
        self._content = content
        self._root = self._document(root)
        self._offered: list[tuple[Plan, platform.Platform, bool]] = []
        self._indexes: list[Document] = []
        self._seen: set[str] = set()
        self.missing: list[Object] = []
        if root["mediaType"] in documents.INDEXES:
            self._look(self._root, 1)
        else:
            document = documents.load(self._root.data, "manifest")
            self._offered.append((self._plan(self._root, document), self._platform(root, document), False))

    def whole(self) -> Plan:
        """The plan to send the whole image."""
        if not self._indexes:
            return self._offered[0][0]
        blobs = {digest: part for plan, _, _ in self._offered for digest, part in plan.blobs.items()}
        layers = frozenset().union(*(plan.layers for plan, _, _ in self._offered))
        manifests = {plan.target["digest"]: plan.documents[0] for plan, _, _ in self._offered}
        # The innermost index comes first: a registry may refuse an index before the manifests in it.
        return Plan([*manifests.values(), *self._indexes[::-1]], blobs, layers)

    def best(self, familiar: str) -> Plan:
        """The plan to send the only platform that the store has, or the host's. Raises NotFound, Conflict."""
        here = [(plan, offered) for plan, offered, is_attestation in self._offered if not is_attestation]
        if len(here) == 1:
            return here[0][0]
        if not here:
            raise NotFound(f"image with reference {familiar} was found but does not provide any platform")
        ranked = [(platform.rank(platform.host(), offered, strict=False), plan) for plan, offered in here]
        fitting = [(place, plan) for place, plan in ranked if place is not None]
        if not fitting:
            raise Conflict("multiple matching manifests found but no specific platform requested")
        return min(fitting, key=lambda pair: pair[0])[1]

    def of_platform(self, wanted: platform.Platform, familiar: str) -> Plan:
        """The plan to send that platform's manifest by itself. Raises NotFound, Conflict for several such manifests."""
        ranked = [
            (place, plan)
            for plan, offered, is_attestation in self._offered
            if not is_attestation and (place := platform.rank(wanted, offered, strict=True)) is not None
        ]
        if not ranked:
            raise NotFound(
                f"image with reference {familiar} was found but does not provide the specified platform ({wanted})"
            )
        best = min(place for place, _ in ranked)
        found = {plan.target["digest"]: plan for place, plan in ranked if place == best}
        if len(found) > 1:
            raise Conflict(f"multiple manifests found for platform {wanted}")
        return next(iter(found.values()))

    def blobs(self) -> set[str]:
        """The digests of all configs and layers that the store has."""
        return {digest for plan, _, _ in self._offered for digest in plan.blobs}

    def everything(self) -> list[str]:
        """The digests of all documents and blobs that may be sent."""
        manifests = (plan.target["digest"] for plan, _, _ in self._offered)
        return [
            self._root.part["digest"],
            *(index.part["digest"] for index in self._indexes),
            *manifests,
            *self.blobs(),
        ]

    def _look(self, index: Document, depth: int) -> None:
        """Note which manifests of an index, and of the indexes in it, the store has."""
        if depth > _DEEPEST_INDEX:
            raise Invalid("invalid index: too many indexes inside one another")
        self._indexes.append(index)
        for entry in documents.index_entries(documents.load(index.data, "index")):
            part = documents.descriptor(
                entry.get("mediaType") or documents.OCI_MANIFEST, entry["digest"], entry["size"]
            )
            if part["digest"] in self._seen:
                continue
            self._seen.add(part["digest"])
            if not self._content.has(part["digest"], part["size"]):
                self.missing.append(part)
                continue
            document = self._document(part)
            if part["mediaType"] in documents.INDEXES:
                self._look(document, depth + 1)
                continue
            manifest = documents.load(document.data, "manifest")
            plan = self._plan(document, manifest)
            if not all(self._content.has(digest, blob["size"]) for digest, blob in plan.blobs.items()):
                self.missing.append(part)
                continue
            self._offered.append((plan, self._platform(entry, manifest), _is_attestation(entry)))

    def _document(self, part: Object) -> Document:
        return Document(part, self._content.read(part["digest"], documents.LARGEST_DOCUMENT))

    @staticmethod
    def _plan(document: Document, manifest: Object) -> Plan:
        config, layers = documents.manifest_parts(manifest)
        blobs = {part["digest"]: part for part in (*layers, config)}
        return Plan([document], blobs, frozenset(part["digest"] for part in layers))

    def _platform(self, entry: Object, manifest: Object) -> platform.Platform:
        """The platform in an entry of an index, or else in the config."""
        if isinstance(entry.get("platform"), dict):
            return platform.of(entry["platform"])
        digest = manifest["config"]["digest"]
        if not self._content.has(digest):
            return platform.of({})
        return platform.of(documents.load(self._content.read(digest, documents.LARGEST_DOCUMENT), "image config"))


class Fixed:
    """A plan that is made already, in place of a choice."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def whole(self) -> Plan:
        """The plan."""
        return self._plan

    def blobs(self) -> set[str]:
        """The digests of its configs and layers."""
        return set(self._plan.blobs)

    def everything(self) -> list[str]:
        """The same, for there are no documents of it in the store."""
        return list(self._plan.blobs)


def _is_attestation(entry: Object) -> bool:
    """True for an attestation, which BuildKit adds to an image's index; it has no platform of its own."""
    annotations = entry.get("annotations")
    return isinstance(annotations, dict) and "vnd.docker.reference.type" in annotations
