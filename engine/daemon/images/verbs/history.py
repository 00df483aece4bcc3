"""The history of an image (GET /images/{name}/history): the steps that made it, the newest first.

Runs in the daemon, on the request's thread, and changes nothing. The form is that of a current dockerd (transcript 211,
233): a step has an id and tags if the daemon has the image that it made; otherwise its id is `<missing>`.
"""

from collections.abc import Iterator

from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.verbs.listing import created_seconds
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.errors import NotFound, SystemFailure

_MISSING = "<missing>"
# More parents than an image's history can have; it ends a circle of parents.
_MOST_PARENTS = 10_000


@timed("image_actions", "history")
def history(store: Catalogue, image: Image) -> list[Object]:
    """A HistoryResponseItem of each step. Raises SystemFailure if the history has more layers than the image."""
    steps = image.config.get("history")
    steps = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    sizes = iter(_sizes(image))
    shown = [_step(step, sizes) for step in steps][::-1]
    _name(store, image, shown)
    return shown


def _sizes(image: Image) -> list[int | None]:
    """The size of the layer at each place of the image; a layer that it has twice is recorded at its upper place."""
    places = {diff_id: place for place, diff_id in enumerate(image.diff_ids)}
    sizes = dict(zip(sorted(places, key=places.__getitem__), image.layer_sizes, strict=False))
    return [sizes.get(diff_id, None if image.is_unpacked else 0) for diff_id in image.diff_ids]


def _step(step: Object, sizes: Iterator[int | None]) -> Object:
    size = 0 if step.get("empty_layer") is True else next(sizes, None)
    if size is None:
        raise SystemFailure("unable to find the size of the layer")
    return {
        "Comment": _text(step, "comment"),
        "Created": created_seconds(_text(step, "created")),
        "CreatedBy": _text(step, "created_by"),
        "Id": _MISSING,
        "Size": size,
        "Tags": None,
    }


def _text(step: Object, key: str) -> str:
    value = step.get(key)
    return value if isinstance(value, str) else ""


def _name(store: Catalogue, image: Image, shown: list[Object]) -> None:
    """Fill in the ids and tags of the images that the steps made: first this image, then its parents."""
    current = image
    for step in shown[:_MOST_PARENTS]:
        step["Id"], step["Tags"] = current.id, list(current.repo_tags) or None
        if not current.parent:
            return
        try:
            current = store.find(current.parent)
        except NotFound:  # the parent was removed, or was made on another host
            return
