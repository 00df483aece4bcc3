"""The data root that is written to: its lock, its database and its stores, opened as a daemon opens them.

No daemon may have it meanwhile. What is written is what a daemon reads at its next start.
"""

import contextlib
from collections.abc import Iterator

from engine.daemon import dataroot
from engine.daemon.images import image as documents
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.layers import storage
from engine.daemon.images.reference import Reference
from engine.daemon.store.database import Database
from engine.daemon.volumes.store import Volumes
from engine.dataclass import dataclass
from engine.errors import NotFound
from engine.settings.every import Settings


class _Silence:
    """The event bus of a process that has no clients."""

    def publish(self, kind: str, action: str, actor: str, attributes: dict[str, str]) -> None:
        """Nothing."""


@dataclass(slots=True)
class Target:
    """An open data root.

    storage: `overlayfs` or `copy`; engine_id: of the daemons that have had it; layers_linked: layers are directories of
    the form that dockerd's overlay2 gives them
    images_known: digest of an image's config → the image's id here
    """

    settings: Settings
    database: Database
    storage: str
    engine_id: str
    images: Catalogue
    volumes: Volumes
    images_known: dict[str, str]

    @property
    def layers_linked(self) -> bool:
        """Whether a directory of overlay2's will do as a layer."""
        return self.storage == storage.OVERLAY and not self.images.userxattr

    def learn(self, image: Image) -> None:
        """Know an image by the configs of its platforms."""
        for platform in self.images.platforms(image):
            data = self.images.content.read(platform.manifest, documents.LARGEST_DOCUMENT)
            config, _ = documents.manifest_parts(documents.load(data, "manifest"))
            self.images_known.setdefault(config["digest"], image.id)

    def image(self, identity: str) -> Image | None:
        """The image of this id, or with this config, which was dockerd's id for it; None for one that is not here."""
        try:
            return self.images.find(self.images_known.get(identity, identity))
        except NotFound:
            return None

    def name(self, image: Image, names: list[Reference]) -> list[Reference]:
        """Give an image those of the names that no image has; returns those that another image has."""
        taken = []
        for name in names:
            try:
                if self.images.find(name.canonical).id != image.id:
                    taken.append(name)
            except NotFound:
                self.images.tag(image, name)
        return taken


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[Target]:
    """The data root of these settings, which is made where it is missing. Raises Unavailable while a daemon has it."""
    dataroot.make(settings)
    with dataroot.locked("data", settings.data_root), dataroot.locked("exec", settings.exec_root):
        database = dataroot.database(settings.data_root)
        with dataroot.usable("data root"):
            kind = storage.choose(settings.data_root, settings.storage_driver)
            identity = dataroot.engine_id(settings.data_root)
        images = Catalogue(database, settings.data_root, settings, kind)
        volumes = Volumes(database, settings.data_root, _Silence())
        target = Target(settings, database, kind, identity, images, volumes, {})
        for image in images.all():
            target.learn(image)
        yield target
