"""Pruning: removing the images that no container uses (POST /images/prune).

Runs in the daemon, on the request's thread. Each image is judged and removed under the catalogue's lock, which is
released before the next image. No image that a container uses is removed, nor a name that a container was made from.
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
from engine.daemon.patterns import truth
from engine.errors import Conflict, Invalid, NotFound

FILTERS = ("dangling", "label", "label!", "until")
_running = locks.Lock("pruning of images")


def prune(store: Catalogue, filters: Mapping[str, Sequence[str]], used_by: UsedBy) -> tuple[list[Object] | None, int]:
    """Remove the unused images that pass the filters: those without a name, or with `dangling=false` named ones too.

    Returns the records of what was untagged and deleted (None for nothing), and the freed bytes.
    Raises Invalid, and Conflict while another prune is under way.
    """
    chosen = dict(filters)
    dangling = chosen.pop("dangling", ())
    only_dangling = truth("dangling", dangling) if dangling else True
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
            except NotFound:  # removed as the parent of an image before it, or by another client
                continue
            if all(test(current) for test in tests):
                _one(store, current, only_dangling, used_by, removed)
    store.layers.collect()
    if not tests:
        # Blobs that belong to no image match no filter, so they are removed only where there is none.
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
    """Remove one image if it is unused; of a used one, the names that no container was made from."""
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
    """The names of a used image that may be removed: no container was made from them. One name always stays.

    It is the last in alphabetical order, as with dockerd.
    """
    kept = {name for container in containers for name in _names_of(container.image)} & set(image.names)
    if not kept:
        kept = set(sorted(image.names)[-1:])
    return [name for name in image.names if name not in kept]


def _names_of(text: str) -> list[str]:
    """The names, in canonical form, by which a container's image may have been found; none for an id."""
    try:
        reference = Reference.parse(text)
    except Invalid:
        return []  # an id
    tagged = Reference(reference.domain, reference.path, reference.tag).canonical if reference.tag else ""
    return [reference.with_default_tag().canonical, tagged]
