"""Learning what a registry has under a name without pulling it: the digest, and the image's document for a platform.

Runs in the daemon, on the request's thread. It keeps nothing, and needs no image in the daemon.
"""

import contextlib

from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import digest_of
from engine.daemon.images.reference import Reference, check_digest
from engine.daemon.images.registry.reads import Registry, uncommitted
from engine.daemon.images.registry.transport import read_body
from engine.daemon.images.verbs import pull
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound, SystemFailure

_DEEPEST_INDEX = 3


@dataclass(frozen=True, slots=True)
class Resolved:
    """digest: of the index or manifest that the name stands for

    config: the image's document (OCI image-spec); data: its bytes
    """

    digest: str
    config: Object
    data: bytes


def resolve(store: Catalogue, text: str, platform_text: str, auth: Object | None) -> Resolved:
    """What the name stands for at its registry, or at a mirror of it. platform_text: empty for the host's own

    Raises Invalid, NotFound, Unauthorized, SystemFailure, as a pull does.
    """
    reference = Reference.parse(text).with_default_tag()
    wanted = platforms.wanted(platform_text)

    def ask(registry: Registry) -> tuple[bytes, str]:
        return registry.manifest(reference.digest or reference.tag)

    registry, answer = pull.first(store, reference, auth, ask, "failed to resolve reference")
    with contextlib.closing(registry.transport):
        return _chosen(registry, reference, answer, wanted, strict=bool(platform_text))


def _chosen(
    registry: Registry, reference: Reference, answer: tuple[bytes, str], wanted: platforms.Platform, strict: bool
) -> Resolved:
    """Follow indexes to the manifest of the platform. answer: the first document, and its media type"""
    data, said = answer
    digest, expected = digest_of(data), reference.digest
    for _ in range(_DEEPEST_INDEX + 1):
        if expected and digest_of(data) != expected:
            raise SystemFailure(uncommitted("manifest", digest_of(data), expected))
        document = documents.load(data, "manifest")
        if documents.media_type_of(document, said) not in documents.INDEXES:
            config = _config(registry, document)
            return Resolved(digest, documents.config_of(config, len(documents.manifest_parts(document)[1])), config)
        chosen = platforms.choose(documents.index_entries(document), wanted, strict=strict)
        if chosen is None:
            raise NotFound(f"no match for platform in manifest: no manifest of {reference.familiar} is for {wanted}")
        expected = chosen["digest"]
        check_digest(expected)
        data, said = registry.manifest(expected)
    raise Invalid("invalid index: too many indexes inside one another")


def _config(registry: Registry, manifest: Object) -> bytes:
    part, _ = documents.manifest_parts(manifest)
    if part["size"] > documents.LARGEST_DOCUMENT:
        raise Invalid(f"the image config is larger than {documents.LARGEST_DOCUMENT} bytes")
    with contextlib.ExitStack() as stack:
        answer, _ = stack.enter_context(registry.blob(part["digest"]))
        data = read_body(answer, part["size"])
    if digest_of(data) != part["digest"]:
        raise SystemFailure(f"the image config is not what its digest {part['digest']} says")
    return data
