"""Pulling an image: from a reference to a platform's manifest, its blobs, its unpacked layers, and its name.

Runs in the daemon, on the request's thread and on up to three of its own, which have ended when `pull` returns. The
image becomes visible in one step at the end; what an interrupted pull leaves is blobs to resume from, never an image.
"""

import contextlib
import io
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from engine.daemon.images import image as documents
from engine.daemon.images import platform
from engine.daemon.images.content import digest_of
from engine.daemon.images.image import Image
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.reference import Reference, check_digest
from engine.daemon.images.registries import download
from engine.daemon.images.registries.download import Cancelled
from engine.daemon.images.registries.registry import Registry, registries
from engine.errors import EngineError, Invalid, NotFound, SystemFailure, Unauthorized

if TYPE_CHECKING:
    from engine.daemon.images.store import ImageStore

log = logging.getLogger(__name__)

# dockerd's max-concurrent-downloads.
_AT_ONCE = 3
_DEEPEST_INDEX = 3
_REPORT_SECONDS = 0.1
_LAYER_KINDS = ("tar", "diff.tar")

Progress = Callable[[dict], None]


class _Report:
    """The progress lines of one pull: one at a time, whichever thread tells them, and not too many."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self._lock = threading.Lock()
        self._last: dict[str, float] = {}
        self.cancelled = threading.Event()

    def line(self, status: str, identity: str = "", detail: dict | None = None) -> None:
        """One line; a client that has gone away cancels the pull."""
        line: dict = {"status": status}
        if detail is not None:
            line["progressDetail"] = detail
        if identity:
            line["id"] = identity
        with self._lock:
            if self.cancelled.is_set():
                raise Cancelled("context canceled")
            try:
                self._progress(line)
            except BaseException:
                self.cancelled.set()
                raise

    def part(self, status: str, identity: str, current: int, total: int) -> None:
        """How far one layer is; told at most ten times a second for each."""
        now = time.monotonic()
        if now - self._last.get(identity, 0.0) >= _REPORT_SECONDS:
            self._last[identity] = now
            self.line(status, identity, {"current": current, "total": total})


class _Counted(io.RawIOBase):
    """A raw file that tells how far it was read."""

    def __init__(self, source: BinaryIO, told: Callable[[int], None]):
        self._source = source
        self._told = told
        self._count = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:
        """See io.RawIOBase."""
        count = self._source.readinto(buffer)
        self._count += count
        self._told(self._count)
        return count

    def close(self) -> None:
        """Close the file too."""
        self._source.close()
        super().close()


def pull(
    store: "ImageStore", text: str, tag: str, platform_text: str | None, auth: dict | None, progress: Progress
) -> Image:
    """Pull the image that `text` and `tag` (a tag, a digest, or empty) name.

    auth: the decoded X-Registry-Auth. No progress line is told before the registry has answered for the reference, so
    that an error until then can still be a status. Raises Invalid, NotFound, Unauthorized, SystemFailure.
    """
    reference = _reference(text, tag)
    wanted = platform.parse(platform_text) if platform_text else None
    report = _Report(progress)
    registry, digest = _resolve(store, reference, auth)
    with contextlib.closing(registry.transport):
        report.line(f"Pulling from {reference.path}", reference.tag or reference.digest)
        image = _Pull(store, registry, reference, wanted, report).run(digest)
    store.announce("pull", reference.familiar, reference.familiar_name, image)
    return image


def _reference(text: str, tag: str) -> Reference:
    reference = Reference.parse(text)
    if tag.startswith("sha"):
        with contextlib.suppress(Invalid):  # a tag that begins like a digest
            check_digest(tag)
            return reference.with_digest(tag)
    if tag:
        reference = Reference(reference.domain, reference.path).with_tag(tag)
    if reference.digest:
        # What the digest says counts; docker drops the tag beside it as well.
        return reference.with_digest(reference.digest)
    return reference.with_default_tag()


def _resolve(store: "ImageStore", reference: Reference, auth: dict | None) -> tuple[Registry, str]:
    """The first endpoint that has the reference, and the digest it says, if any."""
    mirrors, insecure = store.settings.registry_mirrors, store.settings.insecure_registries
    endpoints = registries(reference, tuple(mirrors), tuple(insecure), auth)
    for registry in endpoints:
        try:
            return registry, registry.resolve(reference.digest or reference.tag)
        except EngineError as error:
            registry.transport.close()
            if registry is not endpoints[-1]:
                log.info("the mirror %s does not have %s: %s", registry.origin.netloc, reference.canonical, error)
                continue
            raise _unresolved(reference, error) from error
    raise AssertionError("there is always the registry itself")


def _unresolved(reference: Reference, error: EngineError) -> EngineError:
    """The failure in the words of dockerd (transcript 220)."""
    text = f'failed to resolve reference "{reference.canonical}": '
    if isinstance(error, NotFound):
        return NotFound(f"{text}{reference.canonical}: not found")
    if isinstance(error, Unauthorized) and "no basic auth credentials" not in str(error):
        return NotFound(
            f"pull access denied for {reference.familiar_name}, repository does not exist or may require 'docker login'"
        )
    if isinstance(error, Unauthorized):
        return Unauthorized(
            f"{text}pull access denied, repository does not exist or may require authorization: {error}"
        )
    return type(error)(text + str(error))


class _Pull:
    """One pull, after its registry was found."""

    def __init__(
        self,
        store: "ImageStore",
        registry: Registry,
        reference: Reference,
        wanted: platform.Platform | None,
        report: _Report,
    ):
        self._store = store
        self._content = store.content
        self._registry = registry
        self._reference = reference
        self._wanted = wanted
        self._report = report

    def run(self, digest: str) -> Image:
        """Everything from the manifest on; the finished image."""
        with contextlib.ExitStack() as stack:
            if digest:
                check_digest(digest)
            target, document, chain = self._document(stack, self._reference.digest or digest or self._reference.tag, "")
            manifest_part = target
            for _ in range(_DEEPEST_INDEX):
                if manifest_part["mediaType"] not in documents.INDEXES:
                    break
                manifest_part, document, more = self._child(stack, document)
                chain += more
            else:
                raise Invalid("invalid index: too many indexes inside one another")
            return self._image(stack, target, manifest_part, document, chain)

    def _child(self, stack: contextlib.ExitStack, index: dict) -> tuple[dict, dict, list[dict]]:
        """The platform's entry of an index, fetched."""
        wanted = self._wanted or platform.host()
        chosen = platform.choose(documents.index_entries(index), wanted, strict=self._wanted is not None)
        if chosen is None:
            raise NotFound(f"no matching manifest for {wanted} in the manifest list entries")
        return self._document(stack, chosen["digest"], chosen.get("mediaType", ""))

    def _document(self, stack: contextlib.ExitStack, reference: str, kind: str) -> tuple[dict, dict, list[dict]]:
        """A manifest or index by tag or digest: its descriptor, the document, and [descriptor]; kept and pinned."""
        if ":" in reference:
            stack.enter_context(self._content.pinned([reference]))
        if ":" in reference and self._content.has(reference):
            data = self._content.read(reference, documents.LARGEST_DOCUMENT)
        else:
            data, said = self._registry.manifest(reference)
            kind = said or kind
        document = documents.load(data, "manifest")
        part = documents.descriptor(documents.media_type_of(document, kind), digest_of(data), len(data))
        if ":" in reference and part["digest"] != reference:
            raise SystemFailure(f"unexpected manifest digest {part['digest']}, expected {reference}")
        stack.enter_context(self._content.pinned([part["digest"]]))
        if not self._content.has(part["digest"]):
            self._content.put(data)
        return part, document, [part]

    def _image(
        self, stack: contextlib.ExitStack, target: dict, manifest_part: dict, document: dict, chain: list[dict]
    ) -> Image:
        config_part, layer_parts = documents.manifest_parts(document)
        for part in layer_parts:
            _check_layer_kind(part)
        stack.enter_context(self._content.pinned(part["digest"] for part in (config_part, *layer_parts)))
        config = self._config(config_part, len(layer_parts))
        session = stack.enter_context(self._store.session())
        layers = self._layers(session, layer_parts, documents.diff_ids_of(documents.load(config, "image config")))
        before = self._present()
        blobs = [(part["digest"], part["size"]) for part in (*chain, config_part, *layer_parts)]
        image = self._store.add(session, target, manifest_part["digest"], config, layers, blobs, [self._reference])
        self._report.line(f"Digest: {target['digest']}")
        fresh = before != (image.id, image.manifest)
        what = "Downloaded newer image for" if fresh else "Image is up to date for"
        self._report.line(f"Status: {what} {self._reference.familiar}")
        return image

    def _present(self) -> tuple[str, str] | None:
        """What the reference names here before this pull: id and manifest."""
        try:
            image = self._store.find(self._reference.familiar)
        except NotFound:
            return None
        return image.id, image.manifest

    def _config(self, part: dict, layer_count: int) -> bytes:
        if part.get("mediaType") not in documents.CONFIGS:
            raise Invalid(f"unsupported image config of type {part.get('mediaType')!r}: this is no container image")
        if part["size"] > documents.LARGEST_DOCUMENT:
            raise Invalid(f"the image config is larger than {documents.LARGEST_DOCUMENT} bytes")
        download.fetch(self._registry, self._content, part, self._report.cancelled, lambda _: None)
        data = self._content.read(part["digest"], documents.LARGEST_DOCUMENT)
        config = documents.config_of(data, layer_count)
        offered = platform.of(config)
        if self._wanted and platform.rank(self._wanted, offered, strict=True) is None:
            raise NotFound(
                f"image with reference {self._reference.familiar} was found but does not match the specified platform: "
                f"wanted {self._wanted}, actual: {offered}"
            )
        return data

    # Layers

    def _layers(self, session: Session, parts: Sequence[dict], diff_ids: Sequence[str]) -> list[Layer]:
        """Download and unpack what is missing, three at a time; the layers, lowest first."""
        # A layer may stand in an image more than once.
        jobs = {(part["digest"], diff_id): part for part, diff_id in zip(parts, diff_ids, strict=True)}
        for part in parts:
            here = self._content.has(part["digest"], part["size"])
            self._report.line("Already exists" if here else "Pulling fs layer", _short(part["digest"]), {})
        done: dict[str, Layer] = {}
        failures: list[BaseException] = []
        waiting = [(part, diff_id) for (_, diff_id), part in jobs.items()][::-1]
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    if not waiting or failures:
                        return
                    part, diff_id = waiting.pop()
                try:
                    done[diff_id] = self._layer(session, part, diff_id)
                except BaseException as error:
                    with lock:
                        failures.append(error)
                    self._report.cancelled.set()
                    # The others must not wait for a silent registry first.
                    self._registry.transport.close()

        threads = [threading.Thread(target=work, name=f"pull-{number}") for number in range(min(_AT_ONCE, len(jobs)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            # The first one: the others are only told that it is over.
            raise next((error for error in failures if not isinstance(error, Cancelled)), failures[0])
        return [done[diff_id] for diff_id in diff_ids]

    def _layer(self, session: Session, part: dict, diff_id: str) -> Layer:
        identity, size = _short(part["digest"]), part["size"]
        fresh = download.fetch(
            self._registry,
            self._content,
            part,
            self._report.cancelled,
            lambda current: self._report.part("Downloading", identity, current, size),
        )
        if fresh:
            self._report.line("Download complete", identity, {})

        def told(current: int) -> None:
            if self._report.cancelled.is_set():
                raise Cancelled("context canceled")
            self._report.part("Extracting", identity, current, size)

        layer = session.layer(diff_id, lambda: _Counted(self._content.open(part["digest"]), told))
        if fresh:
            self._report.line("Pull complete", identity, {})
        return layer


def _short(digest: str) -> str:
    return digest.partition(":")[2][:12]


def _check_layer_kind(part: dict) -> None:
    """Raises Invalid for what is no file system's tar: an artifact's blob, an encrypted layer, a foreign one."""
    kind = part.get("mediaType", "").partition("+")[0].removesuffix(".gzip").removesuffix(".zstd")
    if "foreign" in kind or "nondistributable" in kind or not kind.endswith(_LAYER_KINDS):
        raise Invalid(f"unsupported layer of type {part.get('mediaType')!r}")
