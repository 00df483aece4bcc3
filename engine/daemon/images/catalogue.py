"""The catalogue of the daemon's images: finding them by any name or id, adding, naming and removing them.

Runs in the daemon. Any thread may call any method; changes are made one at a time, under a lock. The long work
(downloading, unpacking) is done without the lock in the modules of the API's verbs. It ends in `add`, which makes an
image durable before it becomes visible. A partial image is never visible: what a crash leaves is removed when the
catalogue is opened.
"""

import collections
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence

from engine.daemon import locks
from engine.daemon.images import lookup, platform
from engine.daemon.images.content import Content
from engine.daemon.images.image import Image, load
from engine.daemon.images.layers import storage
from engine.daemon.images.layers.store import Layer, LayerStore, Session
from engine.daemon.images.layers.whiteouts import TRUSTED_OPAQUE, USER_OPAQUE
from engine.daemon.images.reference import Reference
from engine.daemon.images.usedby import UsedBy, standing
from engine.daemon.jsontext import Object
from engine.daemon.store import buildresults, builds
from engine.daemon.store import images as table
from engine.daemon.store.database import Database
from engine.errors import NotFound
from engine.settings.every import Settings

log = logging.getLogger(__name__)

Publish = Callable[[str, str, str, dict[str, str]], None]

# Images found by `find` are cached, because every create and inspect asks. Each change empties the cache.
_MOST_REMEMBERED = 64


def _tell_nobody(kind: str, action: str, actor: str, attributes: dict[str, str]) -> None:
    """The `publish` of a catalogue without an event bus."""


def _as_platform(here: list[Image], ref: str, platform_text: str) -> Image:
    """The one of an image's platforms that the client has named; `ref` is for the error. Raises NotFound, Invalid."""
    wanted = platform.parse(platform_text)
    image = platform.best(here, wanted, strict=True)
    if image is None:
        tagged = f"{ref}:latest"
        ref = tagged if any(tagged in each.repo_tags for each in here) else ref
        raise NotFound(f"image with reference {ref} was found but does not provide the specified platform ({wanted})")
    return image


class Catalogue:
    """The images below data_root, and their rows in `database` (made with `store.images.SCHEMA`).

    settings: `registry_mirrors` and `insecure_registries` are read
    storage_kind: the result of `storage.choose`; userxattr: overlays are to be mounted with that option; opaque: the
    attribute that marks an opaque directory in them; `layer_root` is the `base` of a container's `sandbox.spec.Root`
    publish: called with each event (kind, action, actor, attributes)
    """

    def __init__(
        self,
        database: Database,
        data_root: str,
        settings: Settings,
        storage_kind: str = storage.OVERLAY,
        publish: Publish = _tell_nobody,
    ):
        self.database = database
        self.settings = settings
        self._publish = publish
        self.content = Content(data_root)
        self.layer_root = os.path.join(data_root, "layers")
        self.userxattr = storage.marks_of_user(data_root)
        self.opaque = USER_OPAQUE if self.userxattr else TRUSTED_OPAQUE
        self.layers = LayerStore(database, self.layer_root, storage_kind == storage.OVERLAY, self.opaque)
        self.changing = locks.Reentrant("images")
        # Ids of images that running builds use, so that no prune removes them; guarded by `changing`.
        self.held: collections.Counter[str] = collections.Counter()
        self._found: dict[tuple[str, str], Image] = {}

    def sweep(self) -> None:
        """Delete what an earlier daemon was making or removing; called before any client is answered.

        Nothing tells what is left from what is being made: a build's context is there before its images are looked for.
        """
        self.layers.sweep()
        with self.database.reading() as connection:
            held = table.held_blobs(connection)
        self.content.sweep(held)

    # Finding

    def find(self, ref: str, platform_text: str | None = None) -> Image:
        """The image called `ref`: name, name:tag, name@digest, id, or a short id that no other image shares.

        platform_text: the platform `os[/arch[/variant]]` that the image must have. Without it, the platform is the best
            one for the host, or any that the image has. Raises NotFound in docker's words, Invalid.
        """
        key = (ref, platform_text or "")
        image = self._found.get(key)
        if image is not None:
            return image
        with self.changing:
            here = self._platforms(self.resolve(ref))
            image = _as_platform(here, ref, platform_text) if platform_text else here[0]
            if len(self._found) >= _MOST_REMEMBERED:
                self._found.clear()
            self._found[key] = image
            return image

    def platforms(self, image: Image) -> list[Image]:
        """The image as each of its platforms that the daemon has, the best one for the host first. Raises NotFound."""
        return self._platforms(image.id)

    def has_children(self, image: Image) -> bool:
        """True when an image that the daemon has was made on top of it."""
        with self.database.reading() as connection:
            return table.has_children(connection, image.id)

    def check(self, identity: str, layers: Sequence[str]) -> None:
        """Raise NotFound unless the image of this id still has a platform with these layers."""
        wanted = tuple(layers)
        with self.changing:
            # The cache answers first, because each new container asks. A change would have emptied it.
            if any(image.id == identity and image.layers == wanted for image in self._found.values()):
                return
            if not any(image.layers == wanted for image in self._platforms(identity)):
                raise NotFound(f"No such image: {identity}")

    def origin(self, identity: str, container_layers: Sequence[str] | None = None) -> Image:
        """The image that a container was made from, also when it was removed since. Raises NotFound.

        container_layers: the container's layers, to choose the platform that it was made from
        """
        with self.database.reading() as connection:
            row = table.any_image(connection, identity)
            kept = (table.SHOWN, table.FOR_CONTAINERS)
            found = row and [image for each in kept for image in lookup.platforms(connection, row, each)]
        if not found:
            raise NotFound(f"No such image: {identity}")
        same = [image for image in found if container_layers is None or image.layers == tuple(container_layers)]
        return (same or found)[0]

    def base(self, identity: str, platform_text: str) -> Image | None:
        """The image of that id for a platform (empty: the best one) that a build has begun with, shown or not.

        None where it is not here for that platform. Raises Invalid.
        """
        with self.database.reading() as connection:
            row = table.any_image(connection, identity)
            kept = (table.SHOWN, table.FOR_BUILDS, table.FOR_CONTAINERS)
            found = [image for each in kept for image in lookup.platforms(connection, row, each)] if row else []
        return (
            platform.best(found, platform.parse(platform_text), strict=True)
            if platform_text
            else next(iter(found), None)
        )

    def resolve(self, ref: str) -> str:
        """The id of the image called `ref`, which has the forms that `find` takes. Raises NotFound, Invalid."""
        with self.database.reading() as connection:
            return lookup.identity(connection, ref)

    def all(self) -> list[Image]:
        """Every image, each as the platform that `find` would choose, newest first."""
        with self.database.reading() as connection:
            images = [lookup.platforms(connection, row)[0] for row in table.images(connection)]
        return sorted(images, key=lambda image: image.created, reverse=True)

    def count(self) -> int:
        """The number of images, without those that are removed and kept only for containers."""
        with self.database.reading() as connection:
            return table.count_images(connection)

    def _platforms(self, identity: str) -> list[Image]:
        with self.database.reading() as connection:
            row = table.image(connection, identity)
            if row is None:
                raise NotFound(f"No such image: {identity}")
            return lookup.platforms(connection, row)

    # Changing

    def session(self) -> Session:
        """A context in which the layers of one image are found and unpacked; `add` is called before it ends."""
        return self.layers.session()

    def add(
        self,
        session: Session,
        target: Object,
        manifest: str,
        config: bytes,
        image_layers: Sequence[Layer],
        blobs: Iterable[tuple[str, int]],
        names: Iterable[Reference],
        parent: str = "",
        boot: str = "",
        hidden: bool = False,
    ) -> Image:
        """Make an image of the layers that were unpacked in `session`: first durable, then visible under `names`.

        target: descriptor of the index or manifest that the names point at; manifest: digest of the platform's own
        config: the checked config document; blobs: (digest, size) of all blobs in `content` that belong to it
        boot: the host's boot id, for an image that a later `settle` makes durable; a loss of power before undoes it
        hidden: only builds see it, unless it is shown already; it has no names
        """
        session.settle(image_layers)
        if not boot:
            self.content.flush()
        document = load(config, "image config")
        with self.changing:
            with self.database.transaction(durable=not boot) as connection:
                table.mark_layers_ready(connection, [layer.number for layer in image_layers])
                table.add_image(
                    connection,
                    identity=target["digest"],
                    media_type=target["mediaType"],
                    descriptor_size=target["size"],
                    manifest=manifest,
                    config=config.decode("utf-8", "replace"),
                    created=document.get("created") or "",
                    parent=parent,
                    layers=[layer.number for layer in image_layers],
                    blobs=blobs,
                    kept=table.FOR_BUILDS if hidden else table.SHOWN,
                )
                if boot:
                    builds.unsettled(connection, target["digest"], boot)
                for name in names:
                    table.set_name(connection, name.canonical, target["digest"], time.time_ns())
                row = table.any_image(connection, target["digest"])
                assert row is not None  # it was added just now
                found = [image for kept in range(3) for image in lookup.platforms(connection, row, kept)]
            self._found.clear()
            return next(image for image in found if image.manifest == manifest)

    def tag(self, image: Image, reference: Reference) -> None:
        """Make a name (with the tag `latest` if it has none) point at the image, whatever it pointed at before.

        The change is durable before its event is published. Raises NotFound when the image was removed meanwhile.
        """
        reference = reference.with_default_tag()
        with self.changing:
            with self.database.transaction(durable=True) as connection:
                if table.image(connection, image.id) is None:
                    raise NotFound(f"No such image: {image.id}")
                table.set_name(connection, reference.canonical, image.id, time.time_ns())
            self._found.clear()
            self.announce("tag", image.id, reference.familiar, image)

    def settle(self, images: Iterable[str]) -> None:
        """Make images durable that were added with a `boot`. images: their ids"""
        self.content.flush()
        with self.database.transaction(durable=True, frees=True) as connection:
            builds.settle(connection, images)

    def untag(self, names: Iterable[str]) -> None:
        """Delete these names, given in the form of `Reference.canonical`; their images stay."""
        with self.changing:
            with self.database.transaction(durable=True, frees=True) as connection:
                for name in names:
                    table.drop_name(connection, name)
            self._found.clear()

    def announce(self, action: str, actor: str, name: str, image: Image | None = None) -> None:
        """Publish an event of an image: `pull`, `load`, `import`, `create`, `tag`, `untag` or `delete`.

        actor: the image's id (for a pull: its name); image: its labels become attributes, where docker adds them
        """
        labels = (image.config.get("config") or {}).get("Labels") or {} if image else {}
        self._publish("image", action, actor, {**labels, "name": name})

    def announce_prune(self, freed: int) -> None:
        """Publish that a prune has freed so many bytes."""
        self._publish("image", "prune", "", {"reclaimed": str(freed)})

    def forget(self, identity: str, hold_layers: bool, manifests: Sequence[str] = ()) -> int:
        """Remove an image and the blobs that no other image has; `layers.collect` removes its layers. Returns the freed
        bytes of blobs.

        hold_layers: containers still use its layers, which stay until `release`
        manifests: remove only the platforms with these manifests; an image goes with its last platform
        """
        with self.changing:
            with self.database.transaction(durable=True, frees=True) as connection:
                gone = manifests or table.manifests(connection, identity)
                blobs = [blob for manifest in gone for blob in table.image_blobs(connection, identity, manifest)]
                for manifest in gone:
                    change = table.hide_platform if hold_layers else table.forget_platform
                    change(connection, identity, manifest)
            self._found.clear()
            return 0 if hold_layers else self._drop_blobs({digest for digest, _ in blobs})

    def _drop_blobs(self, digests: Iterable[str]) -> int:
        """Remove those of these blobs that belong to no image; returns the freed bytes."""
        freed = 0
        for digest in digests:
            with self.database.reading() as connection:
                held = table.blob_is_held(connection, digest)
            freed += 0 if held else self.content.remove(digest)
        return freed

    def drop_leftovers(self) -> int:
        """Remove the blobs that failed pulls have left for a later pull to resume; returns the freed bytes."""
        return self.drop_unheld(self.content.digests())

    def drop_unheld(self, digests: Iterable[str]) -> int:
        """Remove those of these blobs that belong to no image and are not pinned; returns the freed bytes."""
        freed = 0
        for digest in digests:
            # `add` holds this lock too, and until then the thread that makes an image has its blobs pinned.
            with self.changing:
                freed += self._drop_blobs([digest])
        return freed

    def release(self, used_by: UsedBy) -> None:
        """Delete removed images whose layers no container uses any more; called after a container is removed."""
        with self.changing:
            with self.database.reading() as connection:
                removed = table.platforms_kept(connection, table.FOR_CONTAINERS)
                layers = {
                    key: tuple(str(row["number"]) for row in table.image_layers(connection, *key)) for key in removed
                }
            unused = [key for key in removed if not standing(layers[key], used_by(key[0]))]
            for identity, manifest in unused:
                self.forget(identity, hold_layers=False, manifests=[manifest])
        if unused:
            self.layers.collect()

    def release_bases(self) -> None:
        """Delete the hidden images of which no result of a build and no running build has a layer any more."""
        with self.changing:
            with self.database.reading() as connection:
                used = buildresults.held_layers(connection)
                unused = [
                    (identity, manifest)
                    for identity, manifest in table.platforms_kept(connection, table.FOR_BUILDS)
                    if identity not in self.held
                    and used.isdisjoint(row["number"] for row in table.image_layers(connection, identity, manifest))
                ]
            for identity, manifest in unused:
                self.forget(identity, hold_layers=False, manifests=[manifest])
        if unused:
            self.layers.collect()

    # The files of a container without an overlay

    def copy_layers(self, layers: Sequence[str], target: str) -> None:
        """Copy the files of the layers into a container's root directory, where the storage is `copy`."""
        storage.copy_layers(self.layer_root, layers, target)
