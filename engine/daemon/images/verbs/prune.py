"""Pruning: removing the images that nobody uses (POST /images/prune).

Runs in the daemon, on the request's thread; each image is judged and removed under the store's lock, and the lock is
given back before the next one. Removes no image that a container stands on, and no name that one was made from.
"""

from collections.abc import Mapping, Sequence

from engine.daemon import locks
from engine.daemon.images import filters as rules
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.daemon.images.usedby import UsedBy, User
from engine.daemon.images.verbs import remove
from engine.daemon.jsontext import Object
from engine.errors import Conflict, Invalid, NotFound

FILTERS = ("dangling", "label", "label!", "until")
_running = locks.Lock("pruning of images")


def prune(store: Catalogue, filters: Mapping[str, Sequence[str]], used_by: UsedBy) -> tuple[list[Object] | None, int]:
    """Remove the images without a name, with `dangling=false` all that no container uses, that pass the filters.

    Returns the records of what was untagged and deleted (None for nothing), and the bytes set free.
    Raises Invalid, and Conflict while another prune is under way.
    """
    chosen = dict(filters)
    dangling = chosen.pop("dangling", ())
    only_dangling = rules.truth("dangling", dangling) if dangling else True
    tests = rules.compile_filters(store, chosen, FILTERS)
    if not _running.acquire(blocking=False):
        raise Conflict("a prune operation is already running")
    try:
        return _prune(store, tests, only_dangling, used_by)
    finally:
        _running.release()


def _prune(
    store: Catalogue, tests: list[rules.Match], only_dangling: bool, used_by: UsedBy
) -> tuple[list[Object] | None, int]:
    store.release(used_by)
    removed = remove.Removed()
    for image in store.all():
        if only_dangling and image.names:
            continue
        with store.changing:
            try:
                current = store.find(image.id)
            except NotFound:  # it went as the parent of one before it, or another client was faster
                continue
            if all(test(current) for test in tests):
                _one(store, current, only_dangling, used_by, removed)
    store.layers.collect()
    if not tests:
        # What no image has, no filter can speak of.
        removed.blobs += store.drop_leftovers()
    freed = removed.freed(store)
    store.announce_prune(freed)
    return removed.records or None, freed


def _one(
    store: Catalogue,
    image: Image,
    only_dangling: bool,
    used_by: UsedBy,
    removed: remove.Removed,
) -> None:
    """Remove what may go of one image: all of it, or the names that no container was made from."""
    containers = used_by(image.id)
    if containers:
        remove.untag(store, image, [] if only_dangling else _unused_names(image, containers), removed)
    elif image.names:
        if not only_dangling:
            remove.delete(store, image, False, used_by, removed)
    elif not store.has_children(image) and not store.held[image.id]:
        removed.records.append({"Untagged": image.id})
        remove.delete(store, image, False, used_by, removed)


def _unused_names(image: Image, containers: Sequence[User]) -> list[str]:
    """The names that may go though containers stand on the image; one always stays."""
    kept = {name for container in containers for name in _names_of(container.image)} & set(image.names)
    if not kept:
        kept = set(image.names[:1])
    return [name for name in image.names if name not in kept]


def _names_of(text: str) -> list[str]:
    """The names that a container's image may have been found by."""
    try:
        reference = Reference.parse(text)
    except Invalid:
        return []  # an id
    tagged = Reference(reference.domain, reference.path, reference.tag).canonical if reference.tag else ""
    return [reference.with_default_tag().canonical, tagged]
