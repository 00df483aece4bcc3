"""Attestations: what is said of a build's result, as statements of in-toto, and the manifest that carries them.

Pure. An attestation of an image is a manifest of its own in the image's index, with a platform that no host has, and
with annotations that name the manifest which it is about (buildkit, docs/attestations/attestation-storage.md).
"""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from engine.daemon.images import image as documents
from engine.daemon.images.content import digest_of
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass

SPDX = "https://spdx.dev/Document"
"""The type of a bill of materials."""
_STATEMENT = "https://in-toto.io/Statement/v1"
_LAYER = "application/vnd.in-toto+json"
_PREDICATE_TYPE = "in-toto.io/predicate-type"
_ARTIFACT = "application/vnd.docker.attestation.manifest.v1+json"
_EMPTY_TYPE, _EMPTY = "application/vnd.oci.empty.v1+json", b"{}"
PLATFORM = {"architecture": "unknown", "os": "unknown"}
"""The platform of an attestation's manifest."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an attestation is about. digests: each as `sha256:...`

    own: it is about the result, which is called by this name too
    """

    name: str
    digests: tuple[str, ...]
    own: bool = False


NAMELESS = "_"
"""The name of a subject that has none."""
_RESULT = Subject(NAMELESS, (), own=True)


@dataclass(frozen=True, slots=True)
class Attestation:
    """What is said of one tree of a result.

    kind: URI of the predicate's type; predicate: the JSON document; name: of its file where it is exported as one
    inline_only: it is for images alone, and no exporter of files gets it
    subjects: what it is about by its own words, none for the result; core: it is about the result's files, and may say
    more of them
    """

    kind: str
    predicate: bytes
    name: str
    inline_only: bool = False
    subjects: tuple[Subject, ...] = ()
    core: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """An attestation about something. kind: as of the attestation; data: the JSON document"""

    kind: str
    data: bytes


def statement(said: Attestation, subjects: Sequence[Subject]) -> Statement:
    """The attestation as a statement about these, unless it says itself what it is about."""
    about = [
        {"name": each.name, "digest": dict(digest.split(":", 1) for digest in each.digests)}
        for each in _about(said.subjects or (_RESULT,), subjects)
    ]
    head = documents.dump({"_type": _STATEMENT, "predicateType": said.kind, "subject": about})
    return Statement(said.kind, head[:-1] + b',"predicate":' + said.predicate + b"}")


def _about(asked: Sequence[Subject], result: Sequence[Subject]) -> Iterator[Subject]:
    """Those subjects that are no further ones of the result; for each of the others, all names of the result."""
    for each in asked:
        if not each.own:
            yield each
            continue
        for one in result:
            yield one
            if each.name != NAMELESS:
                yield Subject(each.name, one.digests)


def package_url(reference: Reference, platform: Platform | None, kind: str = "docker") -> str:
    """The name of an image as a package URL (github.com/package-url/purl-spec)."""
    named = reference.with_default_tag()
    version = f"@{quote(named.tag, safe='')}" if named.tag else ""
    qualifiers = [("digest", named.digest)] if named.digest else []
    qualifiers += [("platform", str(platform))] if platform else []
    shown = "&".join(f"{key}={quote(value, safe=':')}" for key, value in qualifiers)
    path = "/".join(quote(part, safe=":") for part in named.familiar_name.split("/"))
    return f"pkg:{kind}/{path}{version}" + (f"?{shown}" if shown else "")


def manifest(target: Object, statements: Sequence[Statement], oci: bool, artifact: bool) -> tuple[Object, list[bytes]]:
    """The manifest of statements about an image: its descriptor, as the index has it, and all documents, itself last.

    target: descriptor of the image's manifest; oci: media types of OCI; artifact: the form of an OCI artifact
    """
    layers, contents = [], []
    for each in statements:
        part = documents.descriptor(_LAYER, digest_of(each.data), len(each.data))
        layers.append({**part, "annotations": {_PREDICATE_TYPE: each.kind}})
        contents.append(each.data)
    config, config_type = _EMPTY, _EMPTY_TYPE
    if not artifact:
        diff_ids = [part["digest"] for part in layers]
        config = documents.dump({**PLATFORM, "config": {}, "rootfs": {"type": "layers", "diff_ids": diff_ids}})
        config_type = documents.OCI_CONFIG if oci else documents.DOCKER_CONFIG
    config_part = documents.descriptor(config_type, digest_of(config), len(config))
    whole = documents.manifest_document(config_part, layers)
    whole["mediaType"] = documents.OCI_MANIFEST if oci else documents.DOCKER_MANIFEST
    if artifact:
        subject = {key: target[key] for key in ("mediaType", "digest", "size")}
        whole |= {"artifactType": _ARTIFACT, "subject": subject}
    data = documents.dump(whole, documents.INDENT)
    about = {"vnd.docker.reference.digest": target["digest"], "vnd.docker.reference.type": "attestation-manifest"}
    found = documents.descriptor(whole["mediaType"], digest_of(data), len(data))
    return {**found, "annotations": about, "platform": PLATFORM}, [*contents, config, data]
