"""Composes the documents of an image from a build's result: configs, manifests, attestations, and the index of them.

Runs on the thread that exports. What is composed is in memory and names blobs that `held` keeps; nothing is visible to
anybody until an exporter takes it. Formats: OCI image-spec (manifest.md, image-index.md, config.md), and docker's
schema 2.
"""

import base64
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from engine.daemon import moments
from engine.daemon.buildkit.exporters import annotations as marks
from engine.daemon.buildkit.exporters import intoto, layering
from engine.daemon.buildkit.exporters.annotations import Annotations
from engine.daemon.buildkit.exporters.intoto import Attestation, Subject
from engine.daemon.buildkit.exporters.layering import Blob
from engine.daemon.buildkit.outcome import Outcome, Tree
from engine.daemon.clock import SECOND, rfc3339
from engine.daemon.images import image as documents
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import digest_of
from engine.daemon.images.platform import Platform
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field, replace
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # few clients ask for a bill of materials
    from engine.daemon.buildkit.exporters import layerids
else:
    layerids = late("engine.daemon.buildkit.exporters.layerids")

_INLINE_CACHE = "moby.buildkit.cache.v0"
_COMMENT = "buildkit.exporter.image.v0"
_BASE = "containerimage.base.config"

InlineCache = Callable[[Tree, Sequence[Blob]], bytes | None]
"""What of the build's cache goes into the config of a tree that has these layers."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How the image is to be.

    inline: attestations that are for images alone go with it; artifact: attestations have the form of OCI artifacts
    """

    layers: layering.Wanted
    annotations: Annotations
    inline: bool = True
    artifact: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What is exported. names: of the image; attestations: for each tree of the outcome, in order

    epoch: seconds since 1970 after which nothing may have been made, or None; inline_cache: see there, None for none
    """

    outcome: Outcome
    names: Sequence[Reference] = ()
    attestations: Sequence[Sequence[Attestation]] = ()
    epoch: int | None = None
    inline_cache: InlineCache | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """The image for one platform. manifest: its descriptor; config: the bytes of the document

    beside: descriptors of the documents and blobs that are no part of it and go with it: those of its attestations
    """

    platform: Platform
    manifest: Object
    config: bytes
    config_part: Object
    layers: Sequence[Blob]
    beside: Sequence[tuple[str, int]] = ()


@dataclass(slots=True)
class Composed:
    """An image. target: descriptor of its index or manifest; documents: bytes of what was made here, by digest

    blobs: digest → size of everything in it; the layers among these are in the content store
    """

    target: Object
    trees: list[Made]
    documents: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, int] = field(default_factory=dict)

    @property
    def indexed(self) -> bool:
        """Whether the target is an index."""
        return self.target["mediaType"] in documents.INDEXES

    def keep(self, data: bytes) -> str:
        """Add a document; returns its digest."""
        digest = digest_of(data)
        self.documents[digest] = data
        self.blobs[digest] = len(data)
        return digest


def compose(store: Catalogue, held: ExitStack, result: Result, wish: Wish, check: Callable[[], None]) -> Composed:
    """The image of a result. Raises Invalid for wishes that exclude each other, NotFound, SystemFailure.

    held: keeps its blobs from removal; check: called now and then, and raises to end it
    """
    wanted = [tree.platform for tree in result.outcome.trees]
    wish = replace(wish, annotations=wish.annotations.above(result.outcome.metadata))
    said = _fitting(result, wish)
    indexed = result.outcome.several or any(said)
    if any(said) and not wish.layers.oci:
        raise Invalid('cannot export attestations with "oci-mediatypes=false"')
    wish.annotations.check(wanted, wish.layers.oci, indexed)
    made = Composed({}, [])
    for tree in result.outcome.trees:
        made.trees.append(_tree(store, held, result, tree, wish, made, check))
    if indexed:
        trees = zip(result.outcome.trees, made.trees, said, strict=True)
        _index(made, result, [_noted(store.layer_root, *each, check) for each in trees], wish)
    else:
        made.target = {**made.trees[0].manifest, "platform": _platform(made.trees[0].platform)}
    return made


def _fitting(result: Result, wish: Wish) -> list[list[Attestation]]:
    given = result.attestations or [()] * len(result.outcome.trees)
    return [[each for each in one if wish.inline or not each.inline_only] for one in given]


def _tree(
    store: Catalogue,
    held: ExitStack,
    result: Result,
    tree: Tree,
    wish: Wish,
    made: Composed,
    check: Callable[[], None],
) -> Made:
    base = base_config(result.outcome, tree)
    based = documents.diff_ids_of(base)
    layers = layering.blobs(store, held, tree.parts, based, wish.layers, result.epoch, check)
    cached = result.inline_cache(tree, layers) if result.inline_cache is not None else None
    config = documents.dump(dict(sorted(_config(tree, layers, base, result.epoch, cached).items())))
    config_type = documents.OCI_CONFIG if wish.layers.oci else documents.DOCKER_CONFIG
    config_part = documents.descriptor(config_type, made.keep(config), len(config))
    manifest = documents.manifest_document(config_part, [layer.descriptor for layer in layers])
    manifest["layers"] = manifest["layers"] or None  # as Go writes an empty list
    manifest["mediaType"] = documents.OCI_MANIFEST if wish.layers.oci else documents.DOCKER_MANIFEST
    annotations = wish.annotations.manifest(tree.platform)
    manifest |= {"annotations": annotations} if annotations else {}
    data = documents.dump(manifest, documents.INDENT)
    part = documents.descriptor(manifest["mediaType"], made.keep(data), len(data))
    annotations = wish.annotations.manifest_descriptor(tree.platform)
    part |= {"annotations": annotations} if annotations else {}
    made.blobs |= {layer.descriptor["digest"]: layer.descriptor["size"] for layer in layers}
    return Made(tree.platform, part, config, config_part, layers)


def base_config(outcome: Outcome, tree: Tree) -> Object:
    """The config of the image that a tree stands on, as the frontend tells it; empty where it stands on none."""
    for key in (f"{_BASE}/{tree.platform_id}", _BASE):
        if outcome.metadata.get(key) and (key != _BASE or not outcome.several):
            found = documents.load(outcome.metadata[key], "base image config")
            return documents.config_of(outcome.metadata[key], len(documents.diff_ids_of(found)))
    return {}


def _config(tree: Tree, layers: Sequence[Blob], base: Object, epoch: int | None, cached: bytes | None) -> Object:
    config = {**tree.config}
    diff_ids = [layer.diff_id for layer in layers]
    if documents.diff_ids_of(config) != diff_ids or not diff_ids or "rootfs" not in config:
        config["rootfs"] = {"type": "layers", "diff_ids": diff_ids or None}
    history = _history(config, len(layers))
    if epoch is not None:
        moment = rfc3339(epoch * SECOND) if epoch else "1970-01-01T00:00:00Z"
        history = _clamped(history, base.get("history") or [], epoch, moment)
        # One that adds nothing to its base is as old as that.
        based = history[-1].get("created") if history and history == base.get("history") else None
        if "created" not in config or (_is_later(config["created"], epoch) and config["created"] != based):
            config["created"] = moment
    if history != config.get("history", []):
        config["history"] = history
    if not layers and not history:  # as Go writes what there is not
        config |= {"history": None, "created": config.get("created")}
    if cached is not None:
        config[_INLINE_CACHE] = base64.b64encode(cached).decode()
    return config


def _history(config: Object, layers: int) -> list[Object]:
    """One entry with a layer for each layer; a graph of a client's own has told nothing of them."""
    history: list[Object] = [dict(step) for step in config.get("history") or []]
    filled = sum(1 for step in history if not step.get("empty_layer"))
    for step in history:
        if filled <= layers:
            break
        if not step.get("empty_layer"):
            step["empty_layer"] = True
            filled -= 1
    missing = {"created_by": "created by buildkit", "comment": _COMMENT}
    return history + [{**missing} for _ in range(layers - filled)]


def _clamped(history: list[Object], base: list[Object], epoch: int, moment: str) -> list[Object]:
    """No step is younger than the epoch, but those of the image below keep their times."""
    same = 0
    while same < min(len(history), len(base)) and history[same] == base[same]:
        same += 1
    late = [{**step, "created": moment} if _is_later(step.get("created"), epoch) else step for step in history[same:]]
    return history[:same] + late


def _is_later(created: object, epoch: int) -> bool:
    if not isinstance(created, str) or not created:
        return True
    return moments.parse(created, time.time_ns()) > epoch * SECOND


def _noted(
    layer_root: str, tree: Tree, made: Made, said: Sequence[Attestation], check: Callable[[], None]
) -> list[Attestation]:
    """What is said of a tree; a bill of materials says of its files in which layers they are."""
    if not any(each.core for each in said):
        return list(said)
    layers = [
        layerids.Unpacked(os.path.join(layer_root, str(part.layer.number)), blob.descriptor["digest"])
        for part, blob in zip(tree.parts, made.layers, strict=True)
    ]
    return [
        replace(each, predicate=layerids.noted(each.predicate, layers, check)) if each.core else each for each in said
    ]


def _index(made: Composed, result: Result, said: Sequence[Sequence[Attestation]], wish: Wish) -> None:
    entries = [{**each.manifest, "platform": _platform(each.platform)} for each in made.trees]
    for number, (tree, attested) in enumerate(zip(list(made.trees), said, strict=True)):
        if not attested:
            continue
        named = [intoto.package_url(name, tree.platform) for name in result.names]
        subjects = [Subject(name, (tree.manifest["digest"],)) for name in named]
        whole = [intoto.statement(each, subjects) for each in attested]
        entry, contents = intoto.manifest(tree.manifest, whole, wish.layers.oci, wish.artifact)
        entries.append(entry)
        beside = [(made.keep(data), len(data)) for data in contents]
        made.trees[number] = Made(tree.platform, tree.manifest, tree.config, tree.config_part, tree.layers, beside)
    kind = documents.OCI_INDEX if wish.layers.oci else documents.DOCKER_LIST
    index: Object = {"schemaVersion": 2, "mediaType": kind, "manifests": entries}
    annotations = wish.annotations.whole(marks.INDEX)
    index |= {"annotations": annotations} if annotations else {}
    data = documents.dump(index, documents.INDENT)
    made.target = documents.descriptor(kind, made.keep(data), len(data))
    annotations = wish.annotations.whole(marks.INDEX_DESCRIPTOR)
    made.target |= {"annotations": annotations} if annotations else {}


def _platform(platform: Platform) -> Object:
    variant = {"variant": platform.variant} if platform.variant else {}
    return {"architecture": platform.architecture, "os": platform.os, **variant}
