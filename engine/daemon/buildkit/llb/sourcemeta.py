"""What a frontend may know of a source before it is taken: an image's document and digest, a file's digest, a commit.

Runs on the thread of the frontend's call.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping

from engine.daemon.builder.copying import fetching
from engine.daemon.builder.git import checkout
from engine.daemon.builder.graph.work import HOST_NETWORK
from engine.daemon.buildkit import authority, layoutsource, sessions
from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.buildkit.faultwords import words_of
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import laidout, repositories, websource
from engine.daemon.buildkit.messages import gateway, ops
from engine.daemon.buildkit.offers import SessionGiver
from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import Reference
from engine.daemon.images.verbs import attestations, resolution
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid, NotBuilt, NotFound

_IMAGE = "docker-image://"
_CHUNK = 1 << 20
_LONGEST_SUFFIX = 4096
_ALGORITHMS = {
    gateway.CHECKSUM_ALGO_SHA256: "sha256",
    gateway.CHECKSUM_ALGO_SHA384: "sha384",
    gateway.CHECKSUM_ALGO_SHA512: "sha512",
}
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
    reference = Reference.parse(name)
    wanted = _platform(platform)
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


def _platform(named: ops.Platform | None) -> Platform:
    if named is None or not named["OS"]:
        return platforms.host()
    return platforms.of({"os": named["OS"], "architecture": named["Architecture"], "variant": named["Variant"]})


def source(
    engine: DaemonParts, job: Job, op: ops.SourceOp, asked: gateway.ResolveSourceMetaRequest
) -> gateway.ResolveSourceMetaResponse:
    """What is known of a source, which is judged already. asked: what is to be known

    Raises Invalid, NotFound, NotBuilt.
    """
    identifier = op["identifier"]
    scheme = identifier.partition("://")[0]
    if scheme == "local":
        return {"Source": op}
    if scheme in _OTHERS:
        return {"Source": op, **_OTHERS[scheme](engine, job, op, asked)}
    if not identifier.startswith(_IMAGE):
        raise NotBuilt(f"what is known of the source {identifier[:200]} is not built in this engine")
    name, more = identifier.removeprefix(_IMAGE), asked["Image"]
    attested = more is not None and bool(more["AttestationChain"] or more["ResolveAttestations"])
    mode = "pull" if attested else asked["ResolveMode"]  # an image that is here has lost what was attested of it
    found = image(engine, job, name, asked["Platform"], mode, asked["LogName"])
    config = b"" if more is not None and more["NoConfig"] else found.config
    told: gateway.ResolveSourceImageResponse = {"Digest": found.digest, "Config": config}
    if more is not None and attested:
        told["AttestationChain"] = _chain(engine, job, name, asked["Platform"], more["ResolveAttestations"])
    return {"Source": op, "Image": told}


def _chain(
    engine: DaemonParts, job: Job, name: str, platform: ops.Platform | None, predicates: list[str]
) -> gateway.AttestationChain | None:
    """What is attested of an image, and who has signed that; None of one that has no index. Raises EngineErrors."""
    credentials = authority.of_session(job.asked["Session"], job.check)(Reference.parse(name).domain)
    found = attestations.resolve(engine.images, name, str(_platform(platform)), credentials, predicates)
    if found is None:
        return None
    return {
        "Root": found.root,
        "ImageManifest": found.image,
        "AttestationManifest": found.attestation,
        "SignatureManifests": [found.signature] if found.signature else [],
        "Blobs": {
            digest: {"descriptor": _described(part), "data": data} for digest, (part, data) in found.blobs.items()
        },
    }


def _described(part: Object) -> gateway.Descriptor:
    notes = part.get("annotations")
    texts = {key: value for key, value in notes.items() if isinstance(value, str)} if isinstance(notes, dict) else {}
    kind = part.get("mediaType")
    return {
        "media_type": kind if isinstance(kind, str) else "",
        "digest": part["digest"],
        "size": part["size"],
        "annotations": texts,
    }


def layout(
    job: Job, identifier: str, attrs: Mapping[str, str], platform: ops.Platform | None
) -> gateway.ResolveSourceImageResponse:
    """What is known of an image in a content store of the client's. Raises Invalid, NotFound, Unavailable."""
    found = laidout.read(identifier, attrs, job.asked["Session"], _platform(platform))
    store = ClientStore(sessions.find(found.session), found.store, job.check)
    config = layoutsource.read(store, found.image, found.platform).config
    return {"Digest": found.image, "Config": documents.dump(config)}


def _layout(
    _engine: DaemonParts, job: Job, op: ops.SourceOp, asked: gateway.ResolveSourceMetaRequest
) -> gateway.ResolveSourceMetaResponse:
    return {"Image": layout(job, op["identifier"], op["attrs"], asked["Platform"])}


def _git(
    engine: DaemonParts, job: Job, op: ops.SourceOp, asked: gateway.ResolveSourceMetaRequest
) -> gateway.ResolveSourceMetaResponse:
    address = repositories.read(op["identifier"], op["attrs"]).address
    place = os.readlink(f"/proc/self/fd/{job.workroom(engine).scratch}")
    session = sessions.find(job.asked["Session"]) if job.asked["Session"] else None
    giver = SessionGiver(session, job.check) if session is not None else None
    found = checkout.resolve(address, place, giver, job.check)
    ref = found.branch or found.ref or address.ref
    told: gateway.ResolveSourceGitResponse = {"Checksum": found.tag or found.commit, "Ref": ref}
    told["CommitChecksum"] = found.commit if found.tag else ""
    if asked["Git"] is not None and asked["Git"]["ReturnObject"]:
        told["CommitObject"], told["TagObject"] = checkout.objects(address, found, place, giver, job.check)
    return {"Git": told}


def _web(
    engine: DaemonParts, job: Job, op: ops.SourceOp, asked: gateway.ResolveSourceMetaRequest
) -> gateway.ResolveSourceMetaResponse:
    """The file is downloaded for this, since nobody else knows its digest."""
    wanted = websource.read(op["identifier"], op["attrs"])
    request = asked["HTTP"]["ChecksumRequest"] if asked["HTTP"] is not None else None
    if request is not None and (request["Algo"] not in _ALGORITHMS or len(request["Suffix"]) > _LONGEST_SUFFIX):
        raise Invalid(f"unsupported checksum algorithm {request['Algo']}, or a suffix of more than {_LONGEST_SUFFIX}")
    scratch = job.workroom(engine).scratch
    session = sessions.find(job.asked["Session"]) if job.asked["Session"] else None
    found = fetching.download(
        wanted.url,
        wanted.checksum,
        scratch,
        shown="http source",
        check=job.check,
        loopback=HOST_NETWORK in job.allowed,
        headers=wanted.request(SessionGiver(session, job.check) if session is not None else None),
    )
    assert found is not None  # all of it is wanted
    try:
        seconds = os.stat(found.stored, dir_fd=scratch).st_mtime_ns // 1_000_000_000
        told: gateway.ResolveSourceHTTPResponse = {
            "Checksum": _sum(scratch, found.stored, "sha256", b"", job),
            "Filename": wanted.name(found.said),
            "LastModified": {"seconds": seconds, "nanos": 0} if seconds else None,
        }
        if request is not None:
            digest = _sum(scratch, found.stored, _ALGORITHMS[request["Algo"]], request["Suffix"], job)
            told["ChecksumResponse"] = {"Digest": digest, "Suffix": request["Suffix"]}
    finally:
        os.unlink(found.stored, dir_fd=scratch)
    return {"HTTP": told}


def _sum(directory: int, name: str, algorithm: str, suffix: bytes, job: Job) -> str:
    """The digest of a file with a suffix behind it."""
    total = hashlib.new(algorithm)
    with open(name, "rb", opener=lambda path, flags: os.open(path, flags, dir_fd=directory)) as file:
        while data := file.read(_CHUNK):
            job.check()
            total.update(data)
    total.update(suffix)
    return f"{algorithm}:{total.hexdigest()}"


_OTHERS: Mapping[
    str,
    Callable[[DaemonParts, Job, ops.SourceOp, gateway.ResolveSourceMetaRequest], gateway.ResolveSourceMetaResponse],
] = {"git": _git, "http": _web, "https": _web, "oci-layout": _layout}
