"""What a frontend may know of a source before it is taken: the document and digest of an image, or a download's digest.

Runs on the thread of the frontend's call.
"""

import contextlib

from engine.daemon.buildkit import authority, policyreading
from engine.daemon.buildkit.faultwords import words_of
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.messages import gateway, ops
from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.reference import Reference
from engine.daemon.images.verbs import resolution
from engine.daemon.parts import DaemonParts
from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid, NotBuilt, NotFound

_IMAGE = "docker-image://"
_MODES = ("", "default", "pull", "local")


@dataclass(frozen=True, slots=True)
class Resolved:
    """digest: of the image; config: the bytes of its document"""

    digest: str
    config: bytes


def image(engine: DaemonParts, job: Job, name: str, platform: ops.Platform | None, mode: str, title: str) -> Resolved:
    """What is known of an image, by its registry where it is not here. title: of the vertex that tells of it

    It is not pulled: what stands on it does that. Raises Invalid, NotFound, and what a pull raises.
    """
    if mode not in _MODES:
        raise Invalid(f"invalid image resolve mode: {mode}")
    name = policyreading.read(job.asked["SourcePolicy"]).image(name)
    reference = Reference.parse(name)
    wanted = platforms.host()
    if platform is not None and platform["OS"]:
        wanted = platforms.of(
            {"os": platform["OS"], "architecture": platform["Architecture"], "variant": platform["Variant"]}
        )

    vertex = job.progress.vertex(title or f"resolve image config for {name}")
    vertex.begin()
    words = "internal error"
    try:
        if mode != "pull":
            with contextlib.suppress(NotFound):  # then its registry has it, or nobody
                found = engine.images.find(name, str(wanted))
                words = ""
                return Resolved(found.id, documents.dump(found.config))
        credentials = authority.of_session(job.asked["Session"], job.check)(reference.domain)
        asked = resolution.resolve(engine.images, name, str(wanted), credentials)
        words = ""
        return Resolved(asked.digest, asked.data)
    except EngineError as error:
        words = words_of(error)
        raise
    finally:
        vertex.end(words)


def source(engine: DaemonParts, job: Job, asked: gateway.ResolveSourceMetaRequest) -> gateway.ResolveSourceMetaResponse:
    """What is known of a source. Raises Invalid, NotFound, NotBuilt."""
    op = asked["Source"]
    if op is None:
        raise Invalid("source is required")
    identifier = op["identifier"]
    if not identifier.startswith(_IMAGE):
        if identifier.startswith("local://"):
            return {"Source": op}
        raise NotBuilt(f"what is known of the source {identifier[:200]} is not built in this engine")
    name = identifier.removeprefix(_IMAGE)
    if asked["Image"] is not None and (asked["Image"]["AttestationChain"] or asked["Image"]["ResolveAttestations"]):
        raise NotBuilt("attestations of images are not built in this engine")
    found = image(engine, job, name, asked["Platform"], asked["ResolveMode"], asked["LogName"])
    config = b"" if asked["Image"] is not None and asked["Image"]["NoConfig"] else found.config
    return {"Source": op, "Image": {"Digest": found.digest, "Config": config}}
