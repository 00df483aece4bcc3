"""What GET /images/{name}/history shows: the steps that an image was made in, the newest first.

Runs in the daemon, on the request's thread; reads, and changes nothing. The shape is that of a current dockerd
(transcript 211, 233): a step is known by an id and tags where the image it made is here, and is `<missing>` elsewhere.
"""

from collections.abc import Iterator

from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.verbs.listing import created_seconds
from engine.daemon.jsontext import Object
from engine.errors import NotFound, SystemFailure

_MISSING = "<missing>"
# An image's parents: more than its history can have, and a chain that bites its tail ends here.
_MOST_PARENTS = 10_000


def history(store: Catalogue, image: Image) -> list[Object]:
    """HistoryResponseItem of every step. Raises SystemFailure for an image whose history is of other layers."""
    steps = image.config.get("history")
    steps = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    sizes = iter(_sizes(image))
    shown = [_step(step, sizes) for step in steps][::-1]
    _name(store, image, shown)
    return shown


def _sizes(image: Image) -> list[int | None]:
    """Of the layer at each place; one that stands there twice is on the disk once, and noted at its upper place."""
    places = {diff_id: place for place, diff_id in enumerate(image.diff_ids)}
    sizes = dict(zip(sorted(places, key=places.__getitem__), image.layer_sizes, strict=False))
    return [sizes.get(diff_id) for diff_id in image.diff_ids]


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
    """Give the steps the ids and tags of the images that they made: the image's own, and its parents'."""
    current = image
    for step in shown[:_MOST_PARENTS]:
        step["Id"], step["Tags"] = current.id, list(current.repo_tags) or None
        if not current.parent:
            return
        try:
            current = store.find(current.parent)
        except NotFound:  # it was removed, or came from elsewhere
            return
