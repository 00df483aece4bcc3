"""Pushing images to a registry: blobs on several threads at once, then the manifests and indexes that name them.

Runs in the daemon, on the request's thread and on some threads of its own, which have ended when `push` returns.
The bytes that are sent are those that were pulled, loaded or made, so digests never change.

`choice` decides what is sent of an index if the daemon has only some of its platforms.
"""

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator

from engine.daemon.images import platform
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference, check_digest
from engine.daemon.images.registry.atonce import UPLOADS
from engine.daemon.images.registry.auth import TokenRefused
from engine.daemon.images.registry.choice import Choice, Document, Fixed, Plan
from engine.daemon.images.registry.download import Cancelled
from engine.daemon.images.registry.report import Progress, Report
from engine.daemon.images.registry.upload import Blob
from engine.daemon.images.registry.writes import Upload, Writer
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.daemon.store import blobsources
from engine.errors import Invalid, NotFound, Unauthorized

log = logging.getLogger(__name__)

_MOST_SOURCES = 3
# Other repositories to ask for in one token; each makes the URL of that request longer.
_MOST_NEIGHBOURS = 16


@timed("image_actions", "push")
def push(
    store: Catalogue, text: str, tag: str, platform_text: str | None, auth: Object | None, progress: Progress
) -> None:
    """Push the image that `text` and `tag` name; with neither tag nor digest, all tags of that repository.

    auth: the decoded X-Registry-Auth. Raises Invalid for an invalid name or platform before the first progress message;
    NotFound, Conflict, Unauthorized, SystemFailure.
    """
    reference = _reference(text, tag)
    wanted = platform.parse(platform_text) if platform_text else None
    report = Report(progress)
    report.line(f"The push refers to repository [{reference.name}]")
    images = _images(store, reference)
    writer = Writer(reference, tuple(store.settings.insecure_registries), auth)
    with contextlib.closing(writer.transport), _told_as_docker():
        pushes = [
            _Push(store, writer, named, Choice(store.content, image.descriptor), report, wanted, image)
            for named, image in images
        ]
        with contextlib.ExitStack() as stack:
            for one in pushes:
                stack.enter_context(one.pinned())
            neighbours = {source for one in pushes for source in one.all_sources()}
            writer.greet(sorted(neighbours)[:_MOST_NEIGHBOURS])
            for one in pushes:
                one.run()


def push_target(
    store: Catalogue,
    reference: Reference,
    target: Object,
    insecure: bool,
    auth: Object | None,
    progress: Progress,
    look: Callable[[], None],
) -> None:
    """Push an index or manifest with all that it names from the content store, which need be no image there.

    target: its descriptor; the others: as of `push_plan`
    """
    push_plan(store, reference, Choice(store.content, target).whole(), insecure, auth, progress, look)


def push_plan(
    store: Catalogue,
    reference: Reference,
    plan: Plan,
    insecure: bool,
    auth: Object | None,
    progress: Progress,
    look: Callable[[], None],
) -> None:
    """Push what is planned, whose blobs are in the content store.

    reference: name with the tag or the digest under which it is pushed; look: called now and then, and raises to end
    it; insecure: the registry may be one without TLS, or with a certificate of its own
    Raises NotFound, Conflict, Unauthorized, SystemFailure.
    """
    trusted = (*store.settings.insecure_registries, *((reference.domain,) if insecure else ()))
    writer = Writer(reference, trusted, auth)
    with contextlib.closing(writer.transport), _told_as_docker():
        one = _Push(store, writer, reference, Fixed(plan), Report(progress), look=look)
        with one.pinned():
            writer.greet(sorted(one.all_sources())[:_MOST_NEIGHBOURS])
            one.run()


def _reference(text: str, tag: str) -> Reference:
    reference = Reference.parse(text)
    if not tag:
        return reference
    if reference.digest:
        raise Invalid("refusing to create a tag with a digest reference")
    if tag.startswith("sha"):
        with contextlib.suppress(Invalid):  # a tag that begins like a digest
            check_digest(tag)
            return reference.with_digest(tag)
    return reference.with_tag(tag)


def _images(store: Catalogue, reference: Reference) -> list[tuple[Reference, Image]]:
    """(reference to push it under, image) of each image to be pushed. Raises NotFound."""
    if reference.tag or reference.digest:
        try:
            return [(reference, store.find(reference.familiar))]
        except NotFound as error:
            raise NotFound(f"tag does not exist: {reference.familiar}") from error
    named = [(Reference.parse(name), image) for image in store.all() for name in image.names]
    found = [(other, image) for other, image in named if other.name == reference.name and other.tag]
    if not found:
        raise NotFound(f"An image does not exist locally with the tag: {reference.familiar_name}")
    return sorted(found, key=lambda pair: pair[0].tag)


@contextlib.contextmanager
def _told_as_docker() -> Iterator[None]:
    """A context that puts a registry's refusal of a push into dockerd's words."""
    try:
        yield
    except TokenRefused:
        raise
    except Unauthorized as error:
        text = f"push access denied, repository does not exist or may require authorization: {error}"
        raise Unauthorized(text) from error


class _Push:
    """The push of one image under one name. image: None for what is none here"""

    def __init__(
        self,
        store: Catalogue,
        writer: Writer,
        reference: Reference,
        choice: Choice | Fixed,
        report: Report,
        wanted: platform.Platform | None = None,
        image: Image | None = None,
        look: Callable[[], None] = lambda: None,
    ):
        self._store = store
        self._content = store.content
        self._writer = writer
        self._reference = reference
        self._image = image
        self._look = look
        self._wanted = wanted
        self._report = report
        self._choice = choice
        self._at_once = store.settings.max_concurrent_uploads

    def pinned(self) -> contextlib.AbstractContextManager[None]:
        """A context during which no document or blob of the image can be removed."""
        return self._content.pinned(self._choice.everything())

    def all_sources(self) -> set[str]:
        """The repositories of the registry from which a blob of the image might be mounted."""
        blobs = self._choice.blobs()
        with self._store.database.reading() as connection:
            return {source for digest in blobs for source in self._sources(connection, digest)}

    def _sources(self, connection: sqlite3.Connection, digest: str) -> list[str]:
        # One more is asked for, in case this repository itself is among them.
        found = blobsources.repositories(connection, self._reference.domain, digest, _MOST_SOURCES + 1)
        return [source for source in found if source != self._reference.path][:_MOST_SOURCES]

    def run(self) -> None:
        """Push the blobs and documents, report the digest, and publish the event."""
        plan = self._plan()
        self._blobs(plan)
        for document in plan.documents:
            self._manifest(document, document is plan.documents[-1])
        held = [*plan.blobs, *(document.part["digest"] for document in plan.documents)]
        with self._store.database.transaction() as connection:
            blobsources.remember(connection, self._reference.domain, self._reference.path, held)
        name, target = self._reference.tag or self._reference.digest, plan.target
        self._report.line(f"{name}: digest: {target['digest']} size: {target['size']}")
        if self._image is not None and target["digest"] != self._image.id and self._wanted is None:
            instead = {"originalIndex": self._image.descriptor, "selectedManifest": target}
            self._report.aux({"manifestPushedInsteadOfIndex": True, **instead})
        result = {"Tag": self._reference.tag, "Digest": target["digest"], "Size": target["size"]}
        self._report.aux(result)
        self._store.announce("push", self._reference.familiar, self._reference.familiar_name, self._image)

    def _plan(self) -> Plan:
        if isinstance(self._choice, Fixed):
            return self._choice.whole()
        familiar = self._reference.familiar
        if self._wanted is not None:
            return self._choice.of_platform(self._wanted, familiar)
        missing = self._choice.missing
        if missing and not all(self._writer.has_manifest(part["digest"], part["mediaType"]) for part in missing):
            return self._choice.best(familiar)
        return self._choice.whole()

    def _manifest(self, document: Document, is_last: bool) -> None:
        """Put a manifest or index, unless the registry resolves its tag or digest to it already."""
        part = document.part
        reference = self._reference.tag if is_last and self._reference.tag else part["digest"]
        self._report.check()
        try:
            there = self._writer.resolve(reference) == part["digest"]
        except NotFound:
            there = False
        if not there:
            self._writer.put_manifest(reference, part["digest"], part["mediaType"], document.data)

    # Blobs

    def _blobs(self, plan: Plan) -> None:
        """Upload all blobs that the repository does not have, some at a time. Raises the first error of a thread."""
        parts = list(plan.blobs.values())
        layers = [part for part in parts if part["digest"] in plan.layers]
        for part in layers:
            self._report.line("Preparing", _short(part["digest"]), {})
        for part in layers[self._at_once :] if self._at_once else ():
            self._report.line("Waiting", _short(part["digest"]), {})
        waiting = parts[::-1]
        failures: list[BaseException] = []
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    if not waiting or failures:
                        return
                    part = waiting.pop()
                try:
                    with UPLOADS.turn(self._at_once, self._report.check):
                        self._blob(part, part["digest"] in plan.layers)
                except BaseException as error:
                    with lock:
                        failures.append(error)
                    end()

        def end() -> None:
            self._report.cancelled.set()
            # Breaks the connections, so that no thread waits for a silent registry first.
            self._writer.transport.interrupt()

        self._report.attend(
            [(f"push-{number}", work) for number in range(min(self._at_once or len(parts), len(parts)))],
            end,
            self._look,
        )
        if failures:
            # The first failure that is not Cancelled is the cause; the other threads were cancelled because of it.
            raise next((error for error in failures if not isinstance(error, Cancelled)), failures[0])

    def _blob(self, part: Object, shown: bool) -> None:
        digest, size = part["digest"], part["size"]
        identity = _short(digest)

        def told(gone: int) -> None:
            if shown:
                self._report.part("Pushing", identity, gone, size)

        self._report.check()
        status = "Layer already exists"
        if not self._writer.has_blob(digest):
            blob = Blob(self._writer, part, self._report.cancelled, told)
            source, upload = blob.mounted(self._blob_sources(digest), lambda source: self._forget(digest, source))
            if not source:
                self._send(blob, part, upload)
            status = f"Mounted from {source}" if source else "Pushed"
        if shown:
            self._report.line(status, identity, {})

    def _send(self, blob: Blob, part: Object, upload: Upload | None) -> None:
        try:
            blob.send(self._content, upload)
        except NotFound:
            self._report.aux({"contentMissing": True, "desc": part})
            raise

    def _blob_sources(self, digest: str) -> list[str]:
        with self._store.database.reading() as connection:
            return self._sources(connection, digest)

    def _forget(self, digest: str, source: str) -> None:
        with self._store.database.transaction() as connection:
            blobsources.forget(connection, self._reference.domain, digest, source)


def _short(digest: str) -> str:
    return digest.partition(":")[2][:12]
