"""Removing images: what DELETE /images/{name} untags, what it deletes, and when it refuses.

Runs in the daemon, on the request's thread, under the store's lock from the first look to the last row. The rules
and the words are those of a current dockerd (transcript 217-219, 234, 237).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.daemon.images import platform
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.daemon.images.usedby import UsedBy, User, standing
from engine.daemon.jsontext import Object
from engine.daemon.store import images as table
from engine.errors import Conflict, Invalid, NotFound

_SHORT = 12


@dataclass(slots=True)
class Removed:
    """What a removal has done so far.

    records: `{"Untagged": ...}` and `{"Deleted": ...}`; blobs: bytes of those that are gone; layers: number → bytes of
    those that may go with `layers.collect`
    """

    records: list[Object] = field(default_factory=list)
    blobs: int = 0
    layers: dict[str, int] = field(default_factory=dict)

    def freed(self, store: Catalogue) -> int:
        """The bytes that are free again, once the layers have been collected."""
        with store.database.reading() as connection:
            known = table.layer_numbers(connection)
        return self.blobs + sum(size for number, size in self.layers.items() if int(number) not in known)


def short_id(identity: str) -> str:
    """The first twelve hex digits of an id, as docker shows it."""
    return identity.removeprefix("sha256:")[:_SHORT]


def remove(
    store: Catalogue, ref: str, force: bool, noprune: bool, used_by: UsedBy, platforms: Sequence[str] = ()
) -> list[Object]:
    """Untag the image called `ref`, or delete it when that was its last name; `[{"Untagged": ...}, {"Deleted": ...}]`.

    force: delete in spite of stopped containers and further names. noprune: leave untagged parents alone.
    used_by: image id → its containers. platforms: delete only these, which takes force. Raises NotFound, Conflict,
    Invalid.
    """
    if platforms and not force:
        # dockerd's own words, dash and all.
        raise Invalid(
            "Content will be removed from all images referencing this variant. Use \N{EM DASH}-force to force delete."
        )
    store.release(used_by)
    removed = Removed()
    with store.changing:
        if platforms:
            _remove_platforms(store, store.find(ref), platforms, noprune, used_by, removed)
        else:
            _remove(store, ref, force, noprune, used_by, removed)
    # Thousands of files, maybe: not while others wait for the lock.
    store.layers.collect()
    return removed.records


def _remove(store: Catalogue, ref: str, force: bool, noprune: bool, used_by: UsedBy, removed: Removed) -> None:
    image = store.find(ref)
    if _is_id(ref, image):
        _check_unused(image, force, used_by(image.id))
        return delete(store, image, noprune, used_by, removed)
    reference = Reference.parse(ref).with_default_tag()
    same = _same_names(reference, image.names)
    if len(same) < len(image.names):
        return untag(store, image, same, removed)
    containers = used_by(image.id)
    if containers and not force:
        raise Conflict(
            f"conflict: unable to delete {reference.familiar} (must be forced) - container "
            f"{short_id(containers[0].id)} is using its referenced image {short_id(image.id)}"
        )
    if containers:
        # The name goes; the image stays, untagged, for as long as its containers are there.
        untag(store, image, image.names, Removed())
        removed.records.append({"Untagged": reference.familiar})
        return None
    return delete(store, image, noprune, used_by, removed)


def _remove_platforms(
    store: Catalogue, image: Image, wanted: Sequence[str], noprune: bool, used_by: UsedBy, removed: Removed
) -> None:
    """Delete single platforms; with the last one that is here the image goes."""
    here = store.platforms(image)
    chosen: dict[str, Image] = {}
    for text in wanted:
        parsed = platform.parse(text)
        one = platform.best(here, parsed, strict=True)
        if one is None:
            raise NotFound(
                f"failed to delete platform {parsed} for image {image.id}: image with reference {image.id} was found "
                f"but does not provide the specified platform ({parsed})"
            )
        chosen[one.manifest] = one
    for one in chosen.values():
        _check_unused(one, True, standing(one.layers, used_by(one.id)))
    removed.records += [{"Deleted": manifest} for manifest in chosen if manifest != image.id]
    if len(chosen) == len(here):
        delete(store, image, noprune, used_by, removed)
    else:
        _forget(store, list(chosen.values()), used_by(image.id), removed)


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
    same: list[str] = []
    others: list[str] = []
    for name in names:
        known = Reference.parse(name)
        if known.name == reference.name:
            (same if known.tag == reference.tag or not known.tag else others).append(name)
    return [name for name in same if Reference.parse(name).tag or not others]


def _check_unused(image: Image, force: bool, containers: Sequence[User]) -> None:
    """Raises Conflict for containers, and for several names, unless the force given outweighs them."""
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


def untag(store: Catalogue, image: Image, names: Sequence[str], removed: Removed) -> None:
    """Take canonical names away, and tell so; the image stays."""
    if names:
        store.untag(names)
        _tell_untagged(store, image, names, removed)


def _tell_untagged(store: Catalogue, image: Image, names: Sequence[str], removed: Removed) -> None:
    shown = [Reference.parse(name).familiar for name in names]
    for name in shown:
        store.announce("untag", image.id, name)
    removed.records += [{"Untagged": name} for name in shown]


def delete(store: Catalogue, image: Image, noprune: bool, used_by: UsedBy, removed: Removed) -> None:
    """Delete the image, and then its parents for as long as they have neither a name nor another use."""
    _delete_one(store, image, used_by, removed)
    while not noprune and image.parent:
        try:
            image = store.find(image.parent)
        except NotFound:
            return
        if image.names or used_by(image.id) or store.has_children(image) or store.held[image.id]:
            return
        _forget(store, store.platforms(image), (), removed)
        _tell_deleted(store, image, removed)


def _delete_one(store: Catalogue, image: Image, used_by: UsedBy, removed: Removed) -> None:
    _forget(store, store.platforms(image), used_by(image.id), removed)
    _tell_untagged(store, image, image.names, removed)
    if not image.names:
        store.announce("untag", image.id, image.id)  # docker's images are never without a name, if only a made one
    _tell_deleted(store, image, removed)


def _forget(store: Catalogue, platforms: Sequence[Image], containers: Sequence[User], removed: Removed) -> None:
    """Let go of platforms of one image; the layers that containers stand on are held."""
    for hold in (True, False):
        gone = [one for one in platforms if bool(standing(one.layers, containers)) is hold]
        if gone:
            removed.blobs += store.forget(gone[0].id, hold, [one.manifest for one in gone])
        for one in gone:
            removed.layers.update(zip(one.layers, one.layer_sizes, strict=True))


def _tell_deleted(store: Catalogue, image: Image, removed: Removed) -> None:
    store.announce("delete", image.id, image.id)
    removed.records.append({"Deleted": image.id})
