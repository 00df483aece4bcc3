"""Learning what is attested of an image, and who has signed that, without pulling it: the documents as they are.

Runs in the daemon, on the request's thread. Nothing is verified here but digests: who asks decides what it believes.
An index names the attestations of each of its manifests, and the registry the signatures of those (referrers).
Source: buildkit, source/containerimage; moby/policy-helpers, image.
"""

import contextlib
from collections.abc import Sequence

from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import digest_of
from engine.daemon.images.reference import Reference
from engine.daemon.images.registry.reads import Registry
from engine.daemon.images.registry.transport import read_body
from engine.daemon.images.verbs import pull
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field
from engine.errors import Invalid, NotFound, SystemFailure

_BUNDLE, _COSIGN = "application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.dev.cosign.artifact.sig.v1+json"
_KIND, _ABOUT, _PREDICATE = "vnd.docker.reference.type", "vnd.docker.reference.digest", "in-toto.io/predicate-type"
_ATTESTED = "attestation-manifest"
_LARGEST = 8 << 20  # of all documents: they are sent in one message


@dataclass(slots=True)
class Chain:
    """What was found, by digests. root: the index; image, attestation, signature: manifests, empty for none

    blobs: descriptor and bytes of each document
    """

    root: str
    image: str
    attestation: str = ""
    signature: str = ""
    blobs: dict[str, tuple[Object, bytes]] = field(default_factory=dict)
    _size: int = 0

    def add(self, descriptor: Object, data: bytes) -> Object:
        """Take in a document; its descriptor. Raises Invalid for too many bytes, SystemFailure for wrong ones."""
        self._size += len(data)
        if self._size > _LARGEST:
            raise Invalid(f"what is attested of the image has more than {_LARGEST} bytes")
        if digest_of(data) != descriptor["digest"]:
            raise SystemFailure(f"digest mismatch for blob {descriptor['digest']}")
        self.blobs[descriptor["digest"]] = descriptor, data
        return descriptor


def resolve(
    store: Catalogue, text: str, platform_text: str, auth: Object | None, predicates: Sequence[str]
) -> Chain | None:
    """What is attested of an image for a platform; None of one that has no index. predicates: kinds that are wanted

    Raises Invalid, NotFound, Unauthorized, SystemFailure, as a pull does.
    """
    reference = Reference.parse(text).with_default_tag()
    wanted = platforms.parse(platform_text) if platform_text else platforms.host()

    def ask(registry: Registry) -> tuple[bytes, str]:
        return registry.manifest(reference.digest or reference.tag)

    registry, (data, said) = pull.first(store, reference, auth, ask, "failed to resolve reference")
    with contextlib.closing(registry.transport):
        document = documents.load(data, "manifest")
        if documents.media_type_of(document, said) != documents.OCI_INDEX:
            return None
        return _followed(registry, data, documents.index_entries(document), wanted, predicates)


def _followed(
    registry: Registry, data: bytes, entries: list[Object], wanted: platforms.Platform, predicates: Sequence[str]
) -> Chain:
    image = platforms.choose(entries, wanted, strict=True)
    if image is None:
        raise NotFound(f"no match for platform in manifest: no manifest is for {wanted}")
    root = digest_of(data)
    chain = Chain(root, image["digest"])
    chain.add(documents.descriptor(documents.OCI_INDEX, root, len(data)), data)
    about = (_ATTESTED, image["digest"])
    attested = next((each for each in entries if (_note(each, _KIND), _note(each, _ABOUT)) == about), None)
    if attested is None:
        return chain
    layers = _manifest(registry, chain, attested)
    chain.attestation = attested["digest"]
    signed = [each for each in registry.referrers(attested["digest"]) if each.get("artifactType") in (_BUNDLE, _COSIGN)]
    if signed:
        chosen = min(signed, key=lambda each: each["artifactType"] != _BUNDLE)
        for each in _manifest(registry, chain, chosen):
            _blob(registry, chain, each)
        chain.signature = chosen["digest"]
    for each in layers:
        if _note(each, _PREDICATE) in predicates and each["digest"] not in chain.blobs:
            _blob(registry, chain, each)
    return chain


def _note(descriptor: Object, key: str) -> str:
    notes = descriptor.get("annotations")
    value = notes.get(key, "") if isinstance(notes, dict) else ""
    return value if isinstance(value, str) else ""


def _manifest(registry: Registry, chain: Chain, descriptor: Object) -> list[Object]:
    """Read a manifest; the descriptors of its layers. Raises EngineErrors."""
    data, _ = registry.manifest(descriptor["digest"])
    chain.add(descriptor, data)
    return documents.manifest_parts(documents.load(data, "manifest"))[1]


def _blob(registry: Registry, chain: Chain, descriptor: Object) -> None:
    if descriptor["size"] > _LARGEST:
        raise Invalid(f"what is attested of the image has more than {_LARGEST} bytes")
    with registry.blob(descriptor["digest"]) as (answer, _):
        data = read_body(answer, descriptor["size"])
    chain.add(descriptor, data)
