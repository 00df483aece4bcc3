"""The exporters `image` and `moby`: an image in the store of this daemon, in a registry, or in both.

Runs on the thread of Control/Solve. The image is visible under its names once it is durable. It is pushed after that,
as upstream does, so a registry that refuses it leaves it here.
"""

from engine.daemon.buildkit import authority
from engine.daemon.buildkit.exporters import composing
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.exporters.composing import Composed, Made
from engine.daemon.buildkit.exporters.kind import CONFIG, Work, asked_names, described, wish_of
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.layers.store import Session as Unpacking
from engine.daemon.images.platform import host, rank
from engine.daemon.images.reference import Reference
from engine.daemon.images.verbs.push import push_target
from engine.daemon.jsontext import Object
from engine.errors import Invalid

# Options that have no effect here: an image of this store is unpacked, and complete.
_WITHOUT_EFFECT = ("load", "unpack", "unsafe-internal-store-allow-incomplete")


class ImageExporter:
    """An image. Raises Invalid, NotBuilt and Unavailable for options that cannot be."""

    title = "exporting to image"

    def __init__(self, _number: int, attrs: Attrs, moby: bool = False) -> None:
        """moby: it is the exporter of a docker daemon, whose clients take an image by the digest that names it"""
        self.names = asked_names(attrs.text("name"))
        self.documents = attrs.beginning(CONFIG)
        self.epoch = attrs.number("source-date-epoch")
        self._wish = wish_of(attrs, inline=True)
        self._push = attrs.flag("push")
        self._by_digest = attrs.flag("push-by-digest")
        self._insecure = attrs.flag("registry.insecure")
        self._store = attrs.flag("store", True)
        self._canonical = attrs.flag("name-canonical")
        dangling, only_empty = attrs.text("dangling-name-prefix"), attrs.flag("danging-name-empty-only")
        self._dangling = Reference.parse(dangling) if dangling and not (only_empty and self.names != ()) else None
        # Images are known here by the digest of their index or manifest, so a config's would name none.
        self._told_of_config = not attrs.flag("prefer-image-digest") and not moby
        for key in _WITHOUT_EFFECT:
            attrs.flag(key)
        if self._push and self.names == ():
            raise Invalid("an image that is pushed needs a name")

    def export(self, work: Work) -> dict[str, str]:
        """Compose, store, name, push."""
        store, vertex = work.engine.images, work.vertex
        vertex.count("exporting layers", 0)
        composed = composing.compose(store, work.held, work.result, self._wish, work.job.check)
        vertex.count("exporting layers", 0, ended=True)
        keep(store, work, composed)
        if self._store:
            self._named(work, composed)
        if self._push:
            for name in work.result.names:
                self._pushed(work, composed, name)
        return described(composed, work.result.names, self._told_of_config)

    def _named(self, work: Work, composed: Composed) -> None:
        store, vertex = work.engine.images, work.vertex
        digest = composed.target["digest"]
        image = _added(store, work, composed)
        work.job.workroom(work.engine).results.settled()  # adding it has synced all files to the disk
        store.announce("create", image.id, image.id, image)
        vertex.count(f"writing image {image.id}", 0, ended=True)
        names = [*work.result.names]
        names += [name.with_digest(digest) for name in names] if self._canonical else []
        names += [self._dangling.with_digest(digest)] if self._dangling else []
        for name in names:
            store.tag(image, name)
            vertex.count(f"naming to {name.canonical}", 0, ended=True)

    def _pushed(self, work: Work, composed: Composed, name: Reference) -> None:
        digest = composed.target["digest"]
        under = name.with_digest(digest) if self._by_digest else name
        vertex = work.vertex
        vertex.count("pushing layers", 0)
        layers: dict[str, int] = {}

        def progress(line: Object) -> None:
            work.job.check()
            detail = line.get("progressDetail") or {}
            if line.get("status") == "Pushing" and "current" in detail:
                layers[line["id"]] = detail["current"]
                vertex.count("pushing layers", sum(layers.values()))

        auth = authority.credentials(work.session(), name.domain, work.job.check)
        push_target(work.engine.images, under, composed.target, self._insecure, auth, progress, work.job.check)
        vertex.count("pushing layers", sum(layers.values()), ended=True)
        vertex.count(f"pushing manifest for {name.canonical}@{digest}", 0, ended=True)


def keep(store: Catalogue, work: Work, composed: Composed) -> None:
    """Put the documents of an image into the content store, kept from removal until the export ends."""
    work.held.enter_context(store.content.pinned(composed.documents))
    for data in composed.documents.values():
        store.content.put(data)
    for tree in composed.trees:
        work.vertex.count(f"exporting manifest {tree.manifest['digest']}", 0, ended=True)
        work.vertex.count(f"exporting config {tree.config_part['digest']}", 0, ended=True)
    if composed.indexed:
        work.vertex.count(f"exporting manifest list {composed.target['digest']}", 0, ended=True)


def _added(store: Catalogue, work: Work, composed: Composed) -> Image:
    """The image in the store, with all its platforms; the best one for the host is returned."""
    unpacking = work.held.enter_context(store.session())
    wanted = host()
    places = {id(tree): rank(wanted, tree.platform, strict=False) for tree in composed.trees}
    # The best platform comes last, because the last image is returned.
    ordered = sorted(composed.trees, key=lambda tree: (places[id(tree)] is None, places[id(tree)] or 0), reverse=True)
    for tree in ordered:
        image = _platform_added(store, unpacking, composed, tree)
    return image


def _platform_added(store: Catalogue, unpacking: Unpacking, composed: Composed, tree: Made) -> Image:
    target = {key: composed.target[key] for key in ("mediaType", "digest", "size")}
    layers = [layer.unpacked(store.content, unpacking) for layer in tree.layers]
    sizes = {target["digest"]: target["size"]}
    for part in (tree.manifest, tree.config_part, *(layer.descriptor for layer in tree.layers)):
        sizes[part["digest"]] = part["size"]
    blobs = [*sizes.items(), *tree.beside]
    return store.add(unpacking, target, tree.manifest["digest"], tree.config, layers, blobs, [])
