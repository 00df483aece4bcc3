"""Removing images: what DELETE /images/{name} untags, what it deletes, and when it refuses.

Runs in the daemon, on the request's thread, under the store's lock from the first look to the last row. The rules
and the words are those of a current dockerd (transcript 217-219, 234, 237).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.errors import Conflict, Invalid

if TYPE_CHECKING:
    from engine.daemon.images.store import ImageStore

_SHORT = 12


def short_id(identity: str) -> str:
    """The first twelve hex digits of an id, as docker shows it."""
    return identity.removeprefix("sha256:")[:_SHORT]


def remove(store: "ImageStore", ref: str, force: bool, noprune: bool, used_by: Callable[[str], Sequence]) -> list[dict]:
    """Untag the image called `ref`, or delete it when that was its last name; `[{"Untagged": ...}, {"Deleted": ...}]`.

    force: delete in spite of stopped containers and further names. noprune: leave untagged parents alone.
    used_by: image id → its containers. Raises NotFound, Conflict.
    """
    store.release(used_by)
    with store.changing:
        records = _remove(store, ref, force, noprune, used_by)
    # Thousands of files, maybe: not while others wait for the lock.
    store.layers.collect()
    return records


def _remove(
    store: "ImageStore", ref: str, force: bool, noprune: bool, used_by: Callable[[str], Sequence]
) -> list[dict]:
    image = store.find(ref)
    if _is_id(ref, image):
        _check_unused(image, force, used_by)
        return _delete(store, image, noprune, used_by)
    reference = Reference.parse(ref).with_default_tag()
    same = _same_names(reference, image.names)
    if len(same) < len(image.names):
        store.untag(same)
        return _untagged(store, image, same)
    containers = used_by(image.id)
    if containers and not force:
        raise Conflict(
            f"conflict: unable to delete {reference.familiar} (must be forced) - container "
            f"{short_id(containers[0].id)} is using its referenced image {short_id(image.id)}"
        )
    if containers:
        # The name goes; the image stays, untagged, for as long as its containers are there.
        store.untag(image.names)
        _untagged(store, image, image.names)
        return [{"Untagged": reference.familiar}]
    return _delete(store, image, noprune, used_by)


def _is_id(ref: str, image: Image) -> bool:
    """True when `ref` names the image by its digits, and not by a name that happens to look like them."""
    digits = ref.removeprefix("sha256:")
    if not digits or not image.id.removeprefix("sha256:").startswith(digits):
        return False
    try:
        return Reference.parse(ref).with_default_tag().canonical not in image.names
    except Invalid:
        return True  # 64 digits are an id and nothing else


def _same_names(reference: Reference, names: Sequence[str]) -> list[str]:
    """The names that go when `reference` is removed: itself, and its digest form once no other tag of it is left."""
    if reference.digest:
        repository = [name for name in names if Reference.parse(name).name == reference.name]
        tagged = [name for name in repository if Reference.parse(name).tag]
        # By digest, every tag of that repository is meant when there is one of them.
        return repository if len(tagged) <= 1 else [name for name in repository if name not in tagged]
    same, others = [], []
    for name in names:
        known = Reference.parse(name)
        if known.name == reference.name:
            (same if known.tag == reference.tag or not known.tag else others).append(name)
    return [name for name in same if Reference.parse(name).tag or not others]


def _check_unused(image: Image, force: bool, used_by: Callable[[str], Sequence]) -> None:
    """Raises Conflict for containers, and for several names, unless the force given outweighs them."""
    containers = used_by(image.id)
    running = [container for container in containers if container.snapshot().running]
    if running:
        raise _conflict(
            image, "cannot be forced", f"image is being used by running container {short_id(running[0].id)}"
        )
    if force:
        return
    references = [Reference.parse(name) for name in image.names]
    tags = sum(1 for reference in references if reference.tag)
    if tags > 1 or len({reference.name for reference in references}) > 1:
        raise _conflict(image, "must be forced", "image is referenced in multiple repositories")
    if containers:
        why = f"image is being used by stopped container {short_id(containers[0].id)}"
        raise _conflict(image, "must be forced", why)


def _conflict(image: Image, force: str, why: str) -> Conflict:
    return Conflict(f"conflict: unable to delete {short_id(image.id)} ({force}) - {why}")


def _untagged(store: "ImageStore", image: Image, names: Sequence[str]) -> list[dict]:
    """Tell that the image has lost these names; the records of that."""
    shown = [Reference.parse(name).familiar for name in names]
    for name in shown:
        store.announce("untag", image.id, name)
    return [{"Untagged": name} for name in shown]


def _deleted(store: "ImageStore", image: Image) -> dict:
    store.announce("delete", image.id, image.id)
    return {"Deleted": image.id}


def _delete(store: "ImageStore", image: Image, noprune: bool, used_by: Callable[[str], Sequence]) -> list[dict]:
    """Delete the image, and then its parents for as long as they have neither a name nor another use."""
    store.forget(image.id, hold_layers=bool(used_by(image.id)))
    records = _untagged(store, image, image.names)
    if not image.names:
        store.announce("untag", image.id, image.id)  # docker's images are never without a name, if only a made one
    records.append(_deleted(store, image))
    parents = {other.id: other for other in store.all()}
    parent = parents.get(image.parent)
    while not noprune and parent and not parent.names and not used_by(parent.id):
        if any(other.parent == parent.id for other in store.all()):
            break
        store.forget(parent.id, hold_layers=False)
        records.append(_deleted(store, parent))
        parent = parents.get(parent.parent)
    return records
