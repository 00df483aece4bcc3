"""Where a client wants what a build has made to go: a cache in a registry, in a directory of its own, or in the image.

Runs on the thread of Control/Solve, after the result was exported.
"""

import contextlib
import io
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from engine.annotating import Protocol
from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.builder.graph.traced import Step
from engine.daemon.buildkit import authority
from engine.daemon.buildkit.caches import cacheconfig, manifests, written
from engine.daemon.buildkit.caches.written import Written
from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.buildkit.exporters import layering
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.exporters.layering import Blob, Wanted
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.outcome import Outcome, Tree
from engine.daemon.buildkit.progress import Vertex
from engine.daemon.buildkit.sessions import Session
from engine.daemon.images import image as documents
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import Content, digest_of
from engine.daemon.images.reference import Reference
from engine.daemon.images.registry.choice import Document, Plan
from engine.daemon.images.verbs.push import push_plan
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, replace
from engine.errors import Invalid

MANIFEST = "cache.manifest"
"""What the client is told: the descriptor of the cache's manifest, which it writes into its directory's index."""
_MODES = ("min", "max")


@dataclass(frozen=True, slots=True)
class CacheWork:
    """One export of a cache. vertex: tells of it; session: of the client; held: keeps what is exported from removal"""

    store: Catalogue
    job: Job
    session: Callable[[], Session]
    outcome: Outcome
    vertex: Vertex
    held: ExitStack


class Target(Protocol):
    """One place, made of its options. title: of its vertex; ignored: a failure of it is none of the build's"""

    title: str
    ignored: bool

    def export(self, work: CacheWork) -> dict[str, str]:
        """Write the cache; what the client is told. Raises EngineErrors."""


@dataclass(frozen=True, slots=True)
class _Documents:
    """A cache that is ready to be sent. parts: descriptors of its layers"""

    parts: list[Object]
    config: bytes
    config_part: Object
    manifest: bytes
    manifest_part: Object


class _Whole:
    """What a cache in a registry and one in a directory share."""

    def __init__(self, attrs: Attrs) -> None:
        """Raises Invalid, NotBuilt, Unavailable."""
        mode = attrs.text("mode", "min")
        if mode not in _MODES:
            raise Invalid(f"invalid cache export mode: {mode}")
        self._most = mode == "max"
        self.ignored = attrs.flag("ignore-error")
        self._oci = attrs.flag("oci-mediatypes", True)
        self._image = attrs.flag("image-manifest", self._oci)
        if self._image and not self._oci:
            raise Invalid(
                "invalid configuration for remote cache, OCI mediatypes are required for image-manifest cache format"
            )
        number, force = attrs.number("compression-level"), attrs.flag("force-compression")
        self._layers = Wanted(attrs.text("compression"), number, force, oci=self._oci)
        self._layers.check()

    def _composed(self, work: CacheWork) -> _Documents | None:
        """The cache of the build; None where there is no layer in it."""
        made = written.written(*self._converted(work))
        if not made.blobs:
            work.vertex.count("skipping cache export for empty result", 0, ended=True)
            return None
        work.vertex.count("preparing build cache for export", 0, ended=True)
        config = cacheconfig.dump(made.config)
        config_part = documents.descriptor(cacheconfig.MEDIA_TYPE, digest_of(config), len(config))
        parts = list(made.blobs.values())
        manifest = manifests.manifest(parts, config_part, self._image, self._oci)
        data = documents.dump(manifest)
        part = documents.descriptor(manifest["mediaType"], digest_of(data), len(data))
        return _Documents(parts, config, config_part, data, part)

    def _converted(self, work: CacheWork) -> tuple[list[Step], list[tuple[Part, ...]] | None]:
        """The steps with their layers as they are wanted, and the trees that `min` is about."""
        known: dict[str, Part] = {}

        def converted(parts: Sequence[Part]) -> tuple[Part, ...]:
            return tuple(self._part(work, part, known) for part in parts)

        steps: list[Step] = []
        for tree in work.outcome.trees:
            before = len(steps)
            for step in tree.steps():
                inputs = tuple(place + before for place in step.inputs)
                wanted = Snapshot(converted(step.tree.parts)) if step.cached else step.tree
                steps.append(replace(step, inputs=inputs, tree=wanted))
        return steps, None if self._most else [converted(tree.parts) for tree in work.outcome.trees]

    def _part(self, work: CacheWork, part: Part, known: dict[str, Part]) -> Part:
        digest = part.descriptor["digest"]
        if digest not in known:
            (blob,) = layering.blobs(work.store, work.held, [part], (), self._layers, None, work.job.check)
            known[digest] = Part(part.layer, blob.descriptor)
        return known[digest]


class RegistryCache(_Whole):
    """A cache in a registry."""

    title = "exporting cache to registry"

    def __init__(self, attrs: Attrs) -> None:
        name = attrs.text("ref")
        if not name:
            raise Invalid("a cache in a registry needs a ref")
        self._reference = Reference.parse(name).with_default_tag()
        self._insecure = attrs.flag("registry.insecure")
        super().__init__(attrs)

    def export(self, work: CacheWork) -> dict[str, str]:
        """Push the layers, the config, and the manifest under the ref."""
        made = self._composed(work)
        if made is None:
            return {}
        work.held.enter_context(work.store.content.pinned([made.config_part["digest"]]))
        work.store.content.put(made.config)
        blobs = {part["digest"]: part for part in (*made.parts, made.config_part)}
        plan = Plan(
            [Document(made.manifest_part, made.manifest)], blobs, frozenset(part["digest"] for part in made.parts)
        )
        check = work.job.check
        auth = authority.credentials(work.session(), self._reference.domain, check)
        push_plan(work.store, self._reference, plan, self._insecure, auth, lambda _: check(), check)
        work.vertex.count(f"writing cache image manifest {made.manifest_part['digest']}", 0, ended=True)
        return {MANIFEST: documents.dump(made.manifest_part).decode()}


class LocalCache(_Whole):
    """A cache in a directory of the client."""

    title = "exporting cache to client directory"

    def __init__(self, attrs: Attrs) -> None:
        self._place = attrs.text("dest")
        if not self._place:
            raise Invalid("a local cache needs a dest")
        attrs.text("tag")  # under which the client notes what it is told
        attrs.flag("reset")  # by which the client removes afterwards what no cache in its directory names
        super().__init__(attrs)

    def export(self, work: CacheWork) -> dict[str, str]:
        """Write everything into the content store that the client serves."""
        made = self._composed(work)
        if made is None:
            return {}
        there = ClientStore(work.session(), f"local:{self._place}", work.job.check)
        for part in made.parts:
            _put(work.store.content, there, part)
            work.vertex.count(f"writing layer {part['digest']}", part["size"], ended=True)
        for part, data in ((made.config_part, made.config), (made.manifest_part, made.manifest)):
            there.put(part["digest"], io.BytesIO(data), part["size"])
        work.vertex.count(f"writing cache image manifest {made.manifest_part['digest']}", 0, ended=True)
        return {MANIFEST: documents.dump(made.manifest_part).decode()}


def _put(content: Content, there: ClientStore, part: Object) -> None:
    with contextlib.closing(content.open(part["digest"])) as blob:
        there.put(part["digest"], blob, part["size"])


class InlineCache:
    """A cache inside the image's config, about the layers that the image has anyway."""

    title = "preparing layers for inline cache"

    def __init__(self, attrs: Attrs) -> None:
        self.ignored = attrs.flag("ignore-error")
        if attrs.text("mode", "min") != "min":
            raise Invalid("an inline cache has the result's own layers alone (mode=min)")

    def export(self, work: CacheWork) -> dict[str, str]:
        """Nothing more: it went with the image."""
        work.vertex.count("preparing layers for inline cache", 0, ended=True)
        return {}


def inline(tree: Tree, layers: Sequence[Blob]) -> bytes | None:
    """The cache that goes into the config of an image of this tree; None where it would have nothing.

    A layer whose times were set back is another one than its step has made, so nothing of such an image is a cache.
    """
    if any(blob.diff_id != part.layer.diff_id for blob, part in zip(layers, tree.parts, strict=True)):
        return None
    parts = {
        part.layer.diff_id: Part(part.layer, blob.descriptor) for part, blob in zip(tree.parts, layers, strict=True)
    }
    own = tuple(parts[part.layer.diff_id] for part in tree.parts)
    steps = []
    for step in tree.steps():
        same = [parts.get(part.layer.diff_id, part) for part in step.tree.parts]
        steps.append(replace(step, tree=Snapshot(tuple(same))))
    made: Written = written.written(steps, [own])
    return cacheconfig.dump(made.config) if made.blobs else None
