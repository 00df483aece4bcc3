"""The cache: what this daemon has built before, found by everything that decides a step's outcome.

Runs on the thread that builds. An image serves for a step only when this daemon itself has made it in that very step: a
row of the database says so, never the image's own history, which whoever made it has written (CVE-2024-24557). The one
exception is what the client names with `cachefrom`, as it thereby trusts it. Keys hold contents and never times.
"""

import hashlib
import json
import time
from collections.abc import Mapping

from engine.daemon.images import image as documents
from engine.daemon.images.image import Image
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.daemon.store import builds as table
from engine.daemon.store import images as image_table
from engine.errors import NotFound

# Part of every key: changed whenever what a step makes of the same input changes.
_FORMAT = 1


def key_of(parent: str, platform: str, config: Object, step: Mapping[str, object]) -> str:
    """The key of a step.

    parent: the id of the image below, a digest of all that it is; config: of the image that the step makes
    step: what else decides: kind, text, digest of contents, what a command sees
    """
    parts = [_FORMAT, parent, platform, config, step]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Cache:
    """The cache as one build sees it.

    blind: nothing is looked up (nocache), but what is made is remembered; sources: the images of `cachefrom`
    """

    def __init__(self, engine: ContainerParts, blind: bool, sources: tuple[str, ...]):
        self._engine = engine
        self._blind = blind
        self._sources = () if blind else sources
        self._used: list[str] = []

    def find(self, key: str) -> Image | None:
        """The image that a step with this key made."""
        if self._blind:
            return None
        images = self._engine.images
        with self._engine.database.reading() as connection:
            identity = table.cached(connection, key)
        if identity is None:
            return None
        try:
            image = images.find(identity)
        except NotFound:  # it was removed since
            return None
        self._used.append(key)
        return image

    def keep(self, key: str, image: Image, step: str) -> None:
        """Remember what a step has made. An image that is just being removed is not worth an error."""
        with self._engine.database.transaction() as connection:
            if image_table.image(connection, image.id) is not None:
                table.keep(connection, key, image.id, time.time_ns(), step)

    def close(self) -> None:
        """Note what has served, once for the build."""
        if self._used:
            with self._engine.database.transaction() as connection:
                table.use(connection, self._used, time.time_ns())

    def trusted(self, parent: Image | None, created_by: str) -> tuple[Image, int] | None:
        """Of the images of `cachefrom` one that goes on from `parent` with this very step; the step's place there."""
        for name in self._sources:
            try:
                image = self._engine.images.find(name)
            except NotFound:  # as docker: it need not be there
                continue
            place = _next_step(image.config, parent.config if parent else {})
            if place is not None and _history(image.config)[place].get("created_by") == created_by:
                return image, place
        return None


def _history(config: Object) -> list[Object]:
    history = config.get("history")
    return history if isinstance(history, list) and all(isinstance(step, dict) for step in history) else []


def _next_step(config: Object, parent: Object) -> int | None:
    """Where in the history of an image that stands on `parent` what follows that begins; None when it does not."""
    above, below = _history(config), _history(parent)
    layers, layers_below = documents.diff_ids_of(config), documents.diff_ids_of(parent)
    if len(above) <= len(below) or above[: len(below)] != below or layers[: len(layers_below)] != layers_below:
        return None
    return len(below)
