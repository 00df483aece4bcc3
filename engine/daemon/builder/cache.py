"""The build cache: finds the image that an earlier build has made of the same step, by a key over all that decides it.

Runs on the thread that builds. As with docker, a client that names images with `cachefrom` wants no other cache: of the
daemon's own images only those serve that such an image stands on.

An image serves for a step only when this daemon itself has made it in that very step. A
row of the database says so. The image's own history never does, as the image's author could have written anything there
(CVE-2024-24557). The one exception are the images that the client names with `cachefrom`: by naming them the client
trusts them. Keys cover contents and never times.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping

from engine.daemon.images import image as documents
from engine.daemon.images.image import Image
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.daemon.store import builds as table
from engine.daemon.store import images as image_table
from engine.errors import NotFound

# Part of every key. It is changed whenever a step makes something else of the same input than before.
_FORMAT = 1


def key_of(parent: str, platform: str, config: Object, step: Mapping[str, object]) -> str:
    """The cache key of a step: sha256 in hex.

    parent: the id of the image below, which is a digest of all that the image is
    config: of the image that the step makes
    step: what else decides the outcome: kind, text, digest of contents, what a command sees
    """
    parts = [_FORMAT, parent, platform, config, step]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Cache:
    """The cache as one build sees it.

    blind: no lookup finds anything (nocache), but what the build makes is remembered
    sources: the images of `cachefrom`
    """

    def __init__(self, engine: ContainerParts, blind: bool, sources: tuple[str, ...]):
        self._engine = engine
        self._blind = blind
        self._sources = () if blind else sources
        self._used: list[str] = []

    def find(self, key: str) -> Image | None:
        """The image that a step with this key has made, None where there is none any more."""
        if self._blind:
            return None
        images = self._engine.images
        with self._engine.database.reading() as connection:
            identity = table.cached(connection, key)
        if identity is None:
            return None
        try:
            image = images.find(identity)
        except NotFound:  # the image was removed since
            return None
        if self._sources and not any(_stands_on(source, image) for source in self._trusted()):
            return None
        self._used.append(key)
        return image

    def keep(self, key: str, image: Image, step: str) -> None:
        """Remember the image that a step has made.

        Nothing is kept, and nothing raised, for an image that is gone already.
        """
        with self._engine.database.transaction() as connection:
            if image_table.image(connection, image.id) is not None:
                table.keep(connection, key, image.id, time.time_ns(), step)

    def close(self) -> None:
        """Write the time of use of all keys that were found, in one transaction at the end of the build."""
        if self._used:
            with self._engine.database.transaction() as connection:
                table.use(connection, self._used, time.time_ns())

    def trusted(self, parent: Image | None, created_by: str) -> tuple[Image, int] | None:
        """An image of `cachefrom` that continues `parent` with this very step, and the step's place in its history."""
        for image in self._trusted():
            place = _next_step(image.config, parent.config if parent else {})
            if place is not None and _history(image.config)[place].get("created_by") == created_by:
                return image, place
        return None

    def _trusted(self) -> Iterator[Image]:
        """The images of `cachefrom`. As with docker, none of them need exist."""
        for name in self._sources:
            with contextlib.suppress(NotFound):
                yield self._engine.images.find(name)


def _stands_on(source: Image, image: Image) -> bool:
    """Whether an image is another one, or was made of it by further steps."""
    return source.id == image.id or _next_step(source.config, image.config) is not None


def _history(config: Object) -> list[Object]:
    history = config.get("history")
    return history if isinstance(history, list) and all(isinstance(step, dict) for step in history) else []


def _next_step(config: Object, parent: Object) -> int | None:
    """The index in an image's history of the first step after `parent`; None when it does not stand on `parent`."""
    above, below = _history(config), _history(parent)
    layers, layers_below = documents.diff_ids_of(config), documents.diff_ids_of(parent)
    if len(above) <= len(below) or above[: len(below)] != below or layers[: len(layers_below)] != layers_below:
        return None
    return len(below)
