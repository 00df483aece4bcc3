"""What an exporter is given, and what it has to be: the contract between `exporting` and the kinds of exporters."""

import base64
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol

from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.buildkit.exporters.annotations import PREFIX, Annotations
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.exporters.composing import Composed, Result, Wish
from engine.daemon.buildkit.exporters.layering import Wanted
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.progress import Vertex
from engine.daemon.buildkit.sessions import Session
from engine.daemon.images import image as documents
from engine.daemon.images.reference import Reference
from engine.daemon.parts import DaemonParts
from engine.dataclass import dataclass
from engine.errors import Invalid

DIGEST, CONFIG_DIGEST = "containerimage.digest", "containerimage.config.digest"
DESCRIPTOR, NAME = "containerimage.descriptor", "image.name"
"""What a client is told of an image (buildkit, exporter/containerimage/exptypes/types.go)."""
CONFIG = "containerimage.config"
"""What begins the names of an image's documents, in options as in a result's metadata."""
_FRONTENDS = "*"


@dataclass(frozen=True, slots=True)
class Work:
    """One export. result: with the names of this exporter; vertex: tells of it; session: of the client

    held: keeps what is exported from removal, until the export ends
    """

    engine: DaemonParts
    job: Job
    session: Callable[[], Session]
    result: Result
    vertex: Vertex
    held: ExitStack

    def layer_names(self, tree: int) -> tuple[str, ...]:
        """The names of the directories of a tree's layers, lowest first."""
        return Snapshot(self.result.outcome.trees[tree].parts).layers


class Kind(Protocol):
    """One exporter of a client's, made of its number and its options; making it checks these.

    title: of its vertex; names: of the image that it makes, None for what the frontend calls it
    epoch: seconds since 1970 that its options ask for; documents: of images, in the place of the frontend's
    """

    title: str
    names: tuple[Reference, ...] | None
    epoch: int | None
    documents: dict[str, str]

    def export(self, work: Work) -> dict[str, str]:
        """Export; what the client is told. Raises EngineErrors."""


def wish_of(attrs: Attrs, inline: bool) -> Wish:
    """How an image is to be. inline: attestations for images alone go with it unless the client says otherwise

    Raises Invalid, NotBuilt, Unavailable.
    """
    oci = attrs.flag("oci-mediatypes", True)
    layers = Wanted(
        attrs.text("compression"),
        attrs.number("compression-level"),
        attrs.flag("force-compression"),
        attrs.flag("rewrite-timestamp"),
        oci,
        attrs.flag("prefer-nondist-layers"),
    )
    layers.check()
    artifact = attrs.flag("oci-artifact")
    if artifact and not oci:
        raise Invalid('exporter option "oci-artifact=true" conflicts with "oci-mediatypes=false"')
    attrs.beginning("buildinfo")  # which BuildKit has not made since 0.12, and passes over itself
    annotations = Annotations(attrs.beginning(PREFIX))
    return Wish(layers, annotations, attrs.flag("attestation-inline", inline), artifact)


def asked_names(text: str) -> tuple[Reference, ...] | None:
    """The names that a client asks for; None where the frontend is to name the image. Raises Invalid."""
    return None if text == _FRONTENDS else names_of(text)


def names_of(text: str) -> tuple[Reference, ...]:
    """The names of an image, separated by commas. Raises Invalid."""
    found = [Reference.parse(name.strip()) for name in text.split(",") if name.strip()]
    if any(name.digest for name in found):
        raise Invalid("build tag cannot contain a digest")
    return tuple(name.with_default_tag() for name in found)


def described(composed: Composed, names: Sequence[Reference], config: bool) -> dict[str, str]:
    """What the client is told of an image. config: also the digest of its config, where it is for one platform"""
    told = {
        DIGEST: composed.target["digest"],
        DESCRIPTOR: base64.b64encode(documents.dump(composed.target)).decode(),
    }
    if names:
        told[NAME] = ",".join(name.canonical for name in names)
    if config and not composed.indexed:
        told[CONFIG_DIGEST] = composed.trees[0].config_part["digest"]
    return told
