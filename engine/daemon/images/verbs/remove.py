"""Removing and untagging images (DELETE /images/{name}), with the checks for containers that use them.

Runs in the daemon, on the request's thread, under the catalogue's lock from the first check to the last change of the
database. The rules and the messages are those of a current dockerd (transcript 217-219, 234, 237).
"""

from collections.abc import Sequence

from engine.daemon.images import platform
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.daemon.images.usedby import UsedBy, User, standing
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.daemon.store import images as table
from engine.dataclass import dataclass, field
from engine.errors import Conflict, Invalid, NotFound

_SHORT = 12


@dataclass(slots=True)
class Removed:
    """What a removal has done so far.

    records: `{"Untagged": ...}` and `{"Deleted": ...}`; blobs: bytes of the removed blobs
    layers: number → bytes of the layers that `layers.collect` may remove
    """

    records: list[Object] = field(default_factory=list)
    blobs: int = 0
    layers: dict[str, int] = field(default_factory=dict)

    def freed(self, store: Catalogue) -> int:
        """The freed bytes, to be asked for after `layers.collect`."""
        with store.database.reading() as connection:
            known = table.layer_numbers(connection)
        return self.blobs + sum(size for number, size in self.layers.items() if int(number) not in known)


def short_id(identity: str) -> str:
    """The first twelve hex digits of an image's or a container's id, as docker shows it."""
    return identity.removeprefix("sha256:")[:_SHORT]


@timed("image_actions", "delete")
def remove(
    store: Catalogue, ref: str, force: bool, noprune: bool, used_by: UsedBy, platforms: Sequence[str] = ()
) -> list[Object]:
    """Untag the image called `ref`, or delete it if that was its last name; `[{"Untagged": ...}, {"Deleted": ...}]`.

    force: delete in spite of stopped containers and other names; noprune: keep untagged parents
    used_by: image id → its containers; platforms: delete only these platforms, which needs force
    Raises NotFound, Conflict, Invalid.
    """
    if platforms and not force:
        # dockerd's own words, dash and all.
        raise Invalid(
            "Content will be removed from all images referencing this variant. Use \u2014-force to force delete."
        )
    store.release(used_by)
    removed = Removed()
    with store.changing:
        if platforms:
            _remove_platforms(store, store.find(ref), platforms, noprune, used_by, removed)
        else:
            _remove(store, ref, force, noprune, used_by, removed)
    # After the lock is released: there may be thousands of files, and other threads wait for the lock.
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
        # The name is removed. The image stays, untagged, as long as it has containers.
        untag(store, image, image.names, Removed())
        removed.records.append({"Untagged": reference.familiar})
        return None
    return delete(store, image, noprune, used_by, removed)


def _remove_platforms(
    store: Catalogue, image: Image, wanted: Sequence[str], noprune: bool, used_by: UsedBy, removed: Removed
) -> None:
    """Delete single platforms of an image; with its last one the image is deleted. Raises NotFound, Conflict."""
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
    """True when `ref` is the image's (short) id, and not a name that happens to look like one."""
    digits = ref.removeprefix("sha256:")
    if not digits or not image.id.removeprefix("sha256:").startswith(digits):
        return False
    try:
        return Reference.parse(ref).with_default_tag().canonical not in image.names
    except Invalid:
        return True  # 64 hex digits can only be an id


def _same_names(reference: Reference, names: Sequence[str]) -> list[str]:
    """The names that are removed with `reference`: itself, and its digest form if no other tag of it is left."""
    if reference.digest:
        repository = [name for name in names if Reference.parse(name).name == reference.name]
        tagged = [name for name in repository if Reference.parse(name).tag]
        # A reference with a digest also removes the tag of that repository if there is only one.
        return repository if len(tagged) <= 1 else [name for name in repository if name not in tagged]
    same: list[str] = []
    others: list[str] = []
    for name in names:
        known = Reference.parse(name)
        if known.name == reference.name:
            (same if known.tag == reference.tag or not known.tag else others).append(name)
    return [name for name in same if Reference.parse(name).tag or not others]


def _check_unused(image: Image, force: bool, containers: Sequence[User]) -> None:
    """Raise Conflict for running containers; without force also for stopped ones and for several names."""
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
    """Delete canonical names of the image, record that and publish it; the image stays."""
    if names:
        store.untag(names)
        _tell_untagged(store, image, names, removed)


def _tell_untagged(store: Catalogue, image: Image, names: Sequence[str], removed: Removed) -> None:
    shown = [Reference.parse(name).familiar for name in names]
    for name in shown:
        store.announce("untag", image.id, name)
    removed.records += [{"Untagged": name} for name in shown]


def delete(store: Catalogue, image: Image, noprune: bool, used_by: UsedBy, removed: Removed) -> None:
    """Delete the image, and then (unless `noprune`) its parents as long as they have no name and no other use."""
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
        store.announce("untag", image.id, image.id)  # dockerd gives a nameless image a made-up name
    _tell_deleted(store, image, removed)


def _forget(store: Catalogue, platforms: Sequence[Image], containers: Sequence[User], removed: Removed) -> None:
    """Remove platforms of one image from the catalogue; layers that containers use are kept."""
    for hold in (True, False):
        gone = [one for one in platforms if bool(standing(one.layers, containers)) is hold]
        if gone:
            removed.blobs += store.forget(gone[0].id, hold, [one.manifest for one in gone])
        for one in gone:
            removed.layers.update(zip(one.layers, one.layer_sizes, strict=True))


def _tell_deleted(store: Catalogue, image: Image, removed: Removed) -> None:
    store.announce("delete", image.id, image.id)
    removed.records.append({"Deleted": image.id})
