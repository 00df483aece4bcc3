"""Pulling an image from a registry: resolving its name, choosing the platform, fetching its parts, and adding it.

Runs in the daemon, on the request's thread. The layers have threads of their own (`fetching`), which have ended when
`pull` returns. The image becomes visible in one step at the end. An interrupted pull leaves only blobs from which a
later pull resumes; after a pull that filled the disk these are removed too.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import TypeVar

from engine.daemon.images import image as documents
from engine.daemon.images import platform
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import digest_of
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference, check_digest
from engine.daemon.images.registry import download
from engine.daemon.images.registry.auth import OWN_WORDS, UnexpectedStatus
from engine.daemon.images.registry.fetching import Pace, fetch_layers
from engine.daemon.images.registry.reads import Registry, registries, uncommitted
from engine.daemon.images.registry.report import Progress, Report
from engine.daemon.images.registry.transport import ConnectFailure
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.daemon.store import blobsources
from engine.daemon.tar.space import NoSpace
from engine.errors import EngineError, Invalid, NotFound, SystemFailure, Unauthorized

log = logging.getLogger(__name__)

_DEEPEST_INDEX = 3
_LAYER_KINDS = ("tar", "diff.tar")

Answer = TypeVar("Answer")


def pull(
    store: Catalogue,
    text: str,
    tag: str,
    platform_text: str | None,
    auth: Object | None,
    progress: Progress,
    gone: Callable[[], bool] = lambda: False,
    lone: bool = False,
    hidden: bool = False,
) -> Image:
    """Pull the image that `text` and `tag` (a tag, a digest, or empty) name.

    auth: the decoded X-Registry-Auth; gone: whether the client has hung up; lone: an image that is for one platform
    alone is pulled whatever platform is asked for; hidden: for a build alone: no list shows it, no event
    tells of it. No progress message is sent before the registry has resolved the reference, so that an error until then
    can still be the HTTP status.
    Raises Invalid, NotFound, SystemFailure.
    """
    wanted = platform.parse(platform_text) if platform_text else None
    return _pull(store, _reference(text, tag), wanted, auth, Report(progress), gone, lone, hidden)


def pull_all(
    store: Catalogue,
    text: str,
    platform_text: str | None,
    auth: Object | None,
    progress: Progress,
    gone: Callable[[], bool] = lambda: False,
) -> None:
    """Pull all tags of the repository that `text` names, one after another. Parameters and errors are as for `pull`."""
    wanted = platform.parse(platform_text) if platform_text else None
    reference = Reference.parse(text)
    report = Report(progress)
    registry, tags = first(store, reference, auth, Registry.tags, "failed to list the tags of")
    registry.transport.close()
    if not tags:
        raise NotFound(f"no tags found for {reference.familiar_name}")
    for tag in tags:
        one = Reference(reference.domain, reference.path).with_tag(tag)
        _pull(store, one, wanted, auth, report, gone)


@timed("image_actions", "pull")
def _pull(
    store: Catalogue,
    reference: Reference,
    wanted: platform.Platform | None,
    auth: Object | None,
    report: Report,
    gone: Callable[[], bool],
    lone: bool = False,
    hidden: bool = False,
) -> Image:
    def resolve(registry: Registry) -> str:
        return registry.resolve(reference.digest or reference.tag)

    registry, digest = first(store, reference, auth, resolve, "failed to resolve reference")
    with contextlib.closing(registry.transport):
        report.line(f"Pulling from {reference.path}", reference.tag or reference.digest)
        work = _Pull(store, registry, reference, wanted, report, gone, lone, hidden)
        try:
            image = work.run(digest)
        except NoSpace:
            work.give_back()
            raise
    if not hidden:
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
        # The digest decides, and a tag beside it is dropped, as docker does.
        return reference.with_digest(reference.digest)
    return reference.with_default_tag()


def first(
    store: Catalogue, reference: Reference, auth: Object | None, ask: Callable[[Registry], Answer], what: str
) -> tuple[Registry, Answer]:
    """The first endpoint for which `ask` succeeds, with its connections open, and the result.

    what: the beginning of the error message. Raises the error of the last endpoint; where that cannot be reached, and a
    mirror has said that there is no such image, docker's words for that.
    """
    mirrors, insecure = store.settings.registry_mirrors, store.settings.insecure_registries
    endpoints = registries(reference, tuple(mirrors), tuple(insecure), auth)
    missing = False
    for registry in endpoints:
        try:
            return registry, ask(registry)
        except EngineError as error:
            registry.transport.close()
            if registry is not endpoints[-1]:
                log.info("the mirror %s does not have %s: %s", registry.origin.netloc, reference.canonical, error)
                missing = missing or isinstance(error, NotFound)
                continue
            if missing and isinstance(error, ConnectFailure):
                raise _denied(reference) from error
            raise _unresolved(reference, error, what) from error
    raise AssertionError("there is always the registry itself")


def _unresolved(reference: Reference, error: EngineError, what: str) -> EngineError:
    """The error for a reference that no endpoint has resolved, in the words of dockerd (transcript 220)."""
    text = f'{what} "{reference.canonical}": '
    if isinstance(error, OWN_WORDS):
        return error
    if isinstance(error, UnexpectedStatus):
        return SystemFailure(f"{error.opinion}: {text}{error}")
    if isinstance(error, NotFound):
        return NotFound(f"{text}{reference.canonical}: not found")
    if isinstance(error, Unauthorized) and "no basic auth credentials" not in str(error):
        return _denied(reference)
    if isinstance(error, Unauthorized):
        # Not status 401, and so does dockerd: at a 401 the CLI asks for a password, and in a script waits for ever.
        return SystemFailure(
            f"{text}pull access denied, repository does not exist or may require authorization: {error}"
        )
    return type(error)(text + str(error))


def _denied(reference: Reference) -> NotFound:
    name = reference.familiar_name
    return NotFound(f"pull access denied for {name}, repository does not exist or may require 'docker login'")


class _Pull:
    """One pull from the registry that has the image."""

    def __init__(
        self,
        store: Catalogue,
        registry: Registry,
        reference: Reference,
        wanted: platform.Platform | None,
        report: Report,
        gone: Callable[[], bool],
        lone: bool,
        hidden: bool,
    ):
        self._store = store
        self._content = store.content
        self._registry = registry
        self._reference = reference
        self._wanted = wanted
        self._report = report
        self._gone = gone
        self._lone = lone
        self._hidden = hidden
        told = store.settings
        self._pace = Pace(told.max_concurrent_downloads, told.max_download_attempts or 1)
        # The digests of all documents and blobs of the image, in the order in which they are met.
        self._digests: list[str] = []

    def run(self, digest: str) -> Image:
        """Fetch everything from the manifest on, and add the image. digest: of the index or manifest, or empty"""
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

    def give_back(self) -> None:
        """Remove what came, unless an image or another pull uses it: on a full disk no pull can resume from it."""
        self._store.drop_unheld(self._digests)
        for digest in self._digests:
            download.forget(self._content, digest)

    def _child(self, stack: contextlib.ExitStack, index: Object) -> tuple[Object, Object, list[Object]]:
        """Choose the platform's entry in an index and fetch it; returns as `_document`. Raises NotFound."""
        wanted = self._wanted or platform.host()
        chosen = platform.choose(documents.index_entries(index), wanted, strict=self._wanted is not None)
        if chosen is None:
            raise NotFound(f"no matching manifest for {wanted} in the manifest list entries")
        return self._document(stack, chosen["digest"], chosen.get("mediaType", ""))

    def _document(self, stack: contextlib.ExitStack, reference: str, kind: str) -> tuple[Object, Object, list[Object]]:
        """Fetch, keep and pin a manifest or index by tag or digest; returns descriptor, document and [descriptor]."""
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
            raise SystemFailure(uncommitted("manifest", part["digest"], reference))
        stack.enter_context(self._content.pinned([part["digest"]]))
        self._digests.append(part["digest"])
        if not self._content.has(part["digest"]):
            self._content.put(data)
        return part, document, [part]

    def _image(
        self, stack: contextlib.ExitStack, target: Object, manifest_part: Object, document: Object, chain: list[Object]
    ) -> Image:
        config_part, layer_parts = documents.manifest_parts(document)
        for part in layer_parts:
            _check_layer_kind(part)
        wanted = [part["digest"] for part in (config_part, *layer_parts)]
        self._digests += wanted
        stack.enter_context(self._content.pinned(wanted))
        config = self._config(config_part, len(layer_parts))
        session = stack.enter_context(self._store.session())
        diff_ids = documents.diff_ids_of(documents.load(config, "image config"))
        layers = fetch_layers(
            *(self._content, self._registry, session, layer_parts, diff_ids, self._report, self._gone, self._pace)
        )
        before = self._present()
        blobs = [(part["digest"], part["size"]) for part in (*chain, config_part, *layer_parts)]
        names = [] if self._hidden else [self._reference]
        image = self._store.add(
            *(session, target, manifest_part["digest"], config, layers, blobs, names), hidden=self._hidden
        )
        with self._store.database.transaction() as connection:
            held = [digest for digest, _ in blobs]
            blobsources.remember(connection, self._reference.domain, self._reference.path, held)
        self._report.line(f"Digest: {target['digest']}")
        fresh = before != (image.id, image.manifest)
        what = "Downloaded newer image for" if fresh else "Image is up to date for"
        self._report.line(f"Status: {what} {self._reference.familiar}")
        return image

    def _present(self) -> tuple[str, str] | None:
        """Id and manifest of the image that the reference names in the daemon now, None if there is none."""
        try:
            image = self._store.find(self._reference.familiar)
        except NotFound:
            return None
        return image.id, image.manifest

    def _config(self, part: Object, layer_count: int) -> bytes:
        if part.get("mediaType") not in documents.CONFIGS:
            raise Invalid(f"unsupported image config of type {part.get('mediaType')!r}: this is not a container image")
        if part["size"] > documents.LARGEST_DOCUMENT:
            raise Invalid(f"the image config is larger than {documents.LARGEST_DOCUMENT} bytes")
        download.fetch(
            self._registry, self._content, part, self._report.cancelled, lambda _: None, attempts=self._pace.attempts
        )
        data = self._content.read(part["digest"], documents.LARGEST_DOCUMENT)
        config = documents.config_of(data, layer_count)
        offered = platform.of(config)
        if self._wanted and not self._lone and platform.rank(self._wanted, offered, strict=True) is None:
            raise NotFound(
                f"image with reference {self._reference.familiar} was found but does not match the specified platform: "
                f"wanted {self._wanted}, actual: {offered}"
            )
        return data


def _check_layer_kind(part: Object) -> None:
    """Raise Invalid for a blob that is no tar of a filesystem: an artifact, an encrypted or a foreign layer."""
    kind = part.get("mediaType", "").partition("+")[0].removesuffix(".gzip").removesuffix(".zstd")
    if "foreign" in kind or "nondistributable" in kind or not kind.endswith(_LAYER_KINDS):
        raise Invalid(f"unsupported layer of type {part.get('mediaType')!r}")
