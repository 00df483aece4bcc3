"""The layers of a result as an export wants them: which compression, which media type, how young a file may be.

Runs on the thread that exports. Layers are taken as they are where nothing else is asked for. A layer that is
compressed anew goes from its blob through a decompressor and a compressor to a blob of its own, a piece at a time.
"""

import io
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from engine.daemon.builder.graph.snapshot import Part
from engine.daemon.images import image as documents
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import Content, sha256
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.jsontext import Object
from engine.daemon.tar.compression import Peeked, Unpacked
from engine.daemon.tar.retime import Retimed
from engine.daemon.tar.squeeze import FORMATS, compressor
from engine.dataclass import dataclass
from engine.errors import Invalid, NotBuilt, NotFound

_PIECE = 256 * 1024
_BUFFER = 256 * 1024
_USUAL = "gzip"
_RETIMED = "buildkit/rewritten-timestamp"
_OCI = "application/vnd.oci.image.layer.v1.tar"
_OCI_FOREIGN = "application/vnd.oci.image.layer.nondistributable.v1.tar"
_DOCKER = "application/vnd.docker.image.rootfs.diff.tar"
_DOCKER_FOREIGN = "application/vnd.docker.image.rootfs.foreign.diff.tar"
# What follows these in a media type, for each format.
_OCI_SUFFIXES = {"uncompressed": "", "gzip": "+gzip", "zstd": "+zstd"}
_DOCKER_SUFFIXES = {"uncompressed": "", "gzip": ".gzip", "zstd": ".zstd"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """How layers are to be.

    form: of FORMATS, empty for gzip where none is there yet; level: of the compression; force: of other images'
    layers too; retimed: no file is younger than the epoch; oci: media types of OCI, or docker's
    foreign: a layer that must not be distributed keeps a media type that says so
    """

    form: str = ""
    level: int | None = None
    force: bool = False
    retimed: bool = False
    oci: bool = True
    foreign: bool = False

    def check(self) -> None:
        """Raise Invalid, NotBuilt, or Unavailable for what cannot be."""
        if self.form == "estargz":
            raise NotBuilt("layers in estargz are not built in this engine: it has uncompressed, gzip and zstd")
        if self.form and self.form not in FORMATS:
            raise Invalid(f"unsupported layer compression type {self.form}")
        compressor(self.form or _USUAL, self.level)


@dataclass(frozen=True, slots=True)
class Blob:
    """One layer as it is exported. descriptor: of its blob; diff_id: digest of the tar in it

    layer: its files where they are unpacked already
    """

    descriptor: Object
    diff_id: str
    layer: Layer | None

    def unpacked(self, content: Content, session: Session) -> Layer:
        """Its files, unpacked where they are not yet; pinned by the session."""
        return session.layer(self.diff_id, lambda: content.open(self.descriptor["digest"]))


def blobs(
    store: Catalogue,
    held: ExitStack,
    parts: Sequence[Part],
    based: Sequence[str],
    wanted: Wanted,
    epoch: int | None,
    check: Callable[[], None],
) -> list[Blob]:
    """The layers as they are wanted, whose blobs are kept from removal by `held`.

    based: diff ids of the image that the result stands on, whose layers are left alone as far as they are the same
    epoch: seconds since 1970, or None; check: called now and then, and raises to end it
    Raises NotFound for a blob that is gone, SystemFailure.
    """
    found, own = [], False
    for place, part in enumerate(parts):
        digest = part.descriptor["digest"]
        held.enter_context(store.content.pinned([digest]))
        if not store.content.has(digest, part.descriptor["size"]):
            raise NotFound(f"content digest {digest}: not found")
        own = own or place >= len(based) or based[place] != part.layer.diff_id
        found.append(_blob(store.content, held, part, wanted, epoch if own and wanted.retimed else None, own, check))
    return found


def _blob(
    content: Content,
    held: ExitStack,
    part: Part,
    wanted: Wanted,
    epoch: int | None,
    own: bool,
    check: Callable[[], None],
) -> Blob:
    there = form_of(part.descriptor["mediaType"])
    anew = bool(wanted.form or wanted.level is not None) and (wanted.force or own)
    same = there == (wanted.form or _USUAL) and wanted.level is None and not wanted.force
    if epoch is None and (not anew or same):
        kind = _media_type(part.descriptor["mediaType"], there, wanted)
        return Blob({**part.descriptor, "mediaType": kind}, part.layer.diff_id, part.layer)
    form = wanted.form or _USUAL
    squeezed = compressor(form, wanted.level)
    hashed = sha256()
    with content.open(part.descriptor["digest"]) as source, content.incoming() as made:
        plain: io.RawIOBase = Unpacked(Peeked(source))
        if epoch is not None:
            plain = Retimed(io.BufferedReader(plain, _BUFFER), epoch)
        while data := plain.read(_PIECE):
            check()
            hashed.update(data)
            made.write(squeezed.compress(data))
        made.write(squeezed.flush())
        held.enter_context(content.pinned([made.digest]))
        kind = _media_type(part.descriptor["mediaType"], form, wanted)
        descriptor = documents.descriptor(kind, made.digest, made.size)
        if epoch is not None and wanted.oci:
            descriptor["annotations"] = {_RETIMED: str(epoch)}
        made.keep()
    diff_id = f"sha256:{hashed.hexdigest()}"
    return Blob(descriptor, diff_id, part.layer if diff_id == part.layer.diff_id else None)


def form_of(media_type: str) -> str:
    """The format of a layer's blob, as its media type says it."""
    return next((form for form in ("gzip", "zstd") if media_type.endswith(form)), "uncompressed")


def _media_type(given: str, form: str, wanted: Wanted) -> str:
    foreign = wanted.foreign and given.startswith((_OCI_FOREIGN, _DOCKER_FOREIGN))
    if wanted.oci:
        return (_OCI_FOREIGN if foreign else _OCI) + _OCI_SUFFIXES[form]
    return (_DOCKER_FOREIGN if foreign else _DOCKER) + _DOCKER_SUFFIXES[form]
