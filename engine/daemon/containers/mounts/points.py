"""Resolve a container's mount points at create, show them in inspect and the listing, and release them at remove.

Runs in the daemon's request threads. The shape of a mount point is in `containers.shapes`. It is stored with the
container and never changed again. This module makes the volumes, and fills them with the image's files at their paths.
It mounts nothing: `mounts.preparing` makes what a start needs.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from engine.daemon.containers import paths
from engine.daemon.containers.mounts import borrowing, requests
from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import MountPoint, MountSpec
from engine.daemon.images.layers import merged
from engine.daemon.images.layers.storage import OVERLAY
from engine.daemon.jsontext import Object
from engine.daemon.parts import MountParts
from engine.daemon.volumes import fill
from engine.daemon.volumes import options as driver_options
from engine.daemon.volumes.volume import Volume
from engine.errors import Conflict, Invalid, NotFound, SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.sandbox.mounts import words

if TYPE_CHECKING:  # loaded for volumes with options
    from engine.daemon.volumes import mounted
    from engine.daemon.volumes.store import Volumes
else:
    mounted = late("engine.daemon.volumes.mounted")

log = logging.getLogger(__name__)

_OPTIONAL = frozenset({"Type", "Name", "Driver"})
# dockerd relabels its own volumes, and shows this mode in place of an empty one.
_RELABELLED = "z"
_ETC = {"HostnamePath": "/etc/hostname", "HostsPath": "/etc/hosts", "ResolvConfPath": "/etc/resolv.conf"}


def resolve(
    engine: MountParts,
    container: Container,
    make_root: Callable[[], None],
    trees: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    shallow: bool = False,
) -> None:
    """Set `container.mounts` from the request, making and filling volumes, in dockerd's order.

    The container's name is reserved, and the container is not visible yet. make_root: makes the container's root, of
    which volumes are filled; trees: layers of those sources of `image` mounts that are no images; shallow: what is
    mounted below a read-only bind stays as it is. The caller calls `release` when the creation fails. Raises what
    `requests` raises, NotFound for an image or driver, SystemFailure when the disk fails.
    """
    points: dict[str, MountPoint] = {}
    host_config = container.host_config
    # `_keep` sets `container.mounts` at each mount point, so a creation that fails half-way releases the volumes so
    # far.
    for text in host_config["VolumesFrom"] or ():
        _inherit(engine, container, text, points)
    driver = host_config["VolumeDriver"]
    for bind in host_config["Binds"] or ():
        _add(engine, container, _of_depth(requests.parse_bind(bind, driver), shallow), points, trees)
    for mount in host_config["Mounts"] or ():
        _add(engine, container, _of_depth(requests.parse_mount(mount), shallow), points, trees)
    tmpfs = {requests.clean(target) for target in host_config["Tmpfs"] or ()}
    for target in container.config["Volumes"] or ():
        if requests.clean(f"/{target}") not in tmpfs:
            _add_anonymous(engine, container, target, points)
    _fill_volumes(engine, container, points, make_root)


def _of_depth(point: MountPoint, shallow: bool) -> MountPoint:
    """The mount point; with `shallow` that of a bind which makes nothing below it read-only."""
    if not shallow or point["Type"] != "bind" or point["RW"]:
        return point
    return {**point, "Spec": {**point["Spec"], "ReadOnlyNonRecursive": True}}


def _keep(engine: MountParts, container: Container, points: dict[str, MountPoint], point: MountPoint) -> None:
    """Add a mount point; one of VolumesFrom that has the same path goes, and the container is no user of its volume."""
    former = points.get(point["Destination"])
    points[point["Destination"]] = point
    container.mounts = tuple(points[target] for target in sorted(points))
    if former is not None and former["Type"] == "volume":
        _let_go(engine, container, former)


def _inherit(engine: MountParts, container: Container, text: str, points: dict[str, MountPoint]) -> None:
    """Take over the mount points of another container (one entry of VolumesFrom)."""
    name, writable = requests.parse_volumes_from(text)
    try:
        other = engine.containers.find(name)
    except NotFound as error:
        raise Invalid(str(error)) from error
    for theirs in other.mounts:
        point: MountPoint = {
            **theirs,
            "RW": theirs["RW"] and writable,
            "Mode": "",
            "Spec": {**theirs["Spec"], "Copy": False},
        }
        if point["Type"] == "volume":
            # The volume exists as long as the other container does; if that is just being removed, it is made again.
            volume = engine.volumes.create(point["Name"], point["Driver"], user=container.id)
            point["Source"] = volume.path
        _keep(engine, container, points, point)


def _add(
    engine: MountParts,
    container: Container,
    point: MountPoint,
    points: dict[str, MountPoint],
    trees: Mapping[str, tuple[str, ...]],
) -> None:
    """Add one entry of Binds or Mounts."""
    spec = point["Spec"]
    if point["Type"] == "volume":
        volume = engine.volumes.create(
            point["Name"], point["Driver"], spec.get("DriverOptions"), spec.get("Labels"), user=container.id
        )
        point["Name"], point["Driver"], point["Source"] = volume.name, volume.driver, volume.path
        point["Mode"] = point["Mode"] or _RELABELLED
    elif point["Type"] == "image" and point["Name"] in trees:
        spec["Image"], spec["Layers"] = point["Name"], list(trees[point["Name"]])
        if part := spec.get("Subpath"):
            spec["Subpath"] = f"/{part}"  # a build takes the tree for the root, also for the targets of links
    elif point["Type"] == "image":
        image = engine.images.find(point["Name"])
        image.check_unpacked()
        spec["Image"], spec["Layers"] = image.id, list(image.layers)
    elif point["Type"] == "bind" and _touches(point["Source"], engine.settings.data_root):
        _let_unmounts_through(point, engine.settings.data_root)
    _keep(engine, container, points, point)


def _touches(source: str, data_root: str) -> bool:
    def below(path: str, above: str) -> bool:
        return path == above or path.startswith(above.rstrip("/") + "/")

    return below(source, data_root) or below(data_root, source)


def _let_unmounts_through(point: MountPoint, data_root: str) -> None:
    """Apply dockerd's rule for binds of its data root: they must propagate the host's unmounts, or hold its mounts."""
    if point["Spec"].pop("DefaultPropagation", False):
        point["Propagation"] = "rslave"
        point["Spec"]["Fallback"] = True
    elif point["Propagation"] not in ("rslave", "rshared"):
        raise Invalid(
            'invalid mount config: must use either propagation mode "rslave" or "rshared" when mount source is within'
            f' the daemon root, daemon root: "{data_root}", bind mount source: "{point["Source"]}",'
            f' propagation: "{point["Propagation"]}"'
        )


def _let_go(engine: MountParts, container: Container, point: MountPoint) -> None:
    if not any(other["Name"] == point["Name"] for other in container.mounts if other["Type"] == "volume"):
        engine.volumes.release(point["Name"], container.id)


def _add_anonymous(engine: MountParts, container: Container, target: str, points: dict[str, MountPoint]) -> None:
    """Add a volume of Config.Volumes, the image's or the client's, where nothing else is mounted.

    Its path begins at the container's root, whether it says so (`VOLUME /data`) or not (`VOLUME data`).
    """
    target = requests.clean(f"/{target}")
    if target in points:
        return
    volume = engine.volumes.create("", container.host_config["VolumeDriver"], user=container.id)
    spec: MountSpec = {"Copy": True, "Anonymous": True}
    point = requests.point("volume", target, spec, name=volume.name, driver=volume.driver, source=volume.path)
    _keep(engine, container, points, point)


def _fill_volumes(
    engine: MountParts, container: Container, points: dict[str, MountPoint], make_root: Callable[[], None]
) -> None:
    """Copy the image's files into each volume that is empty, unless the client has asked for an empty one."""
    asked = [(point, engine.volumes.get(point["Name"])) for point in points.values() if point["Spec"].get("Copy")]
    try:
        for _, volume in asked:
            engine.volumes.mend(volume)
    except OSError as error:
        raise SystemFailure(f"the directory of a volume cannot be made: {words(error)}") from error
    mounted = [
        (point, volume, None if volume.remote else driver_options.mounting(volume.options)) for point, volume in asked
    ]
    waiting = [each for each in mounted if _takes_copies(*each)]
    if not waiting:
        return
    with borrowing.meanwhile(engine, container, [point for point, volume, _ in waiting if volume.remote]) as lent:
        _fill_waiting(engine, container, waiting, lent, make_root)


def _fill_waiting(
    engine: MountParts,
    container: Container,
    waiting: list[tuple[MountPoint, Volume, driver_options.Mounting | None]],
    lent: borrowing.Lent,
    make_root: Callable[[], None],
) -> None:
    def work(root: int) -> None:
        for point, volume, mounting in waiting:
            place, part = point["Destination"], point["Spec"].get("Subpath", "")
            if mounting is not None:
                mounted.fill_mounted(root, place, volume, mounting, part)
            else:
                fill.fill(root, place, lent.get(place, volume.path), part)

    try:
        make_root()  # with the places for the engine's mounts, which dockerd's volumes get too
        where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
        layer_root = os.path.realpath(engine.images.layer_root)
        layers = container.layers if engine.storage == OVERLAY else ()
        # As seen from the layers: a data root's name may have characters that separate an overlay's options.
        own = os.path.relpath(os.path.realpath(where.upper), layer_root)
        merged.within(layer_root, (*layers, own), work)
    except OSError as error:
        raise SystemFailure(f"the volumes of the container cannot be filled: {words(error)}") from error


def _takes_copies(point: MountPoint, volume: Volume, mounting: driver_options.Mounting | None) -> bool:
    # A volume with options that mount something, or one that a plugin keeps, has contents only while it is mounted; a
    # tmpfs is empty at each mount.
    if mounting is not None:
        return mounting.kind != "tmpfs"
    return volume.remote or bool(point["Spec"].get("Subpath")) or fill.is_empty(volume.path)


def release(engine: MountParts, container: Container, volumes: bool) -> None:
    """Release the container's volumes; with `volumes`, remove those without a name that no other container has."""
    for point in container.mounts:
        if point["Type"] != "volume":
            continue
        engine.volumes.release(point["Name"], container.id)
        if volumes and point["Spec"].get("Anonymous"):
            with contextlib.suppress(NotFound, Conflict):  # another container has it, or another call has removed it
                _remove_anonymous(engine, point)


def _remove_anonymous(engine: MountParts, point: MountPoint) -> None:
    try:
        engine.volumes.remove(point["Name"])
    except SystemFailure as error:
        if point["Driver"] in ("", "local"):
            raise
        # As with dockerd, a plugin that fails does not keep the container from being removed.
        log.warning("volume %s: its driver has not removed it: %s", point["Name"], error)


def tell_mounted(engine: MountParts, container: Container) -> None:
    """Publish the event `mount` for each volume of the container, as a run begins."""
    for point in container.mounts:
        if point["Type"] == "volume":
            attributes = {
                "driver": point["Driver"],
                "container": container.id,
                "destination": point["Destination"],
                "read/write": "true" if point["RW"] else "false",
                "propagation": point["Propagation"],
            }
            engine.events.publish("volume", "mount", point["Name"], attributes)


def tell_unmounted(engine: MountParts, container: Container) -> None:
    """Publish the event `unmount` for each volume of the container, as a run has ended."""
    for point in container.mounts:
        if point["Type"] == "volume":
            attributes = {"driver": point["Driver"], "container": container.id}
            engine.events.publish("volume", "unmount", point["Name"], attributes)


def hold(containers: Iterable[Container], volumes: "Volumes") -> None:
    """Tell a volume store that was just made which of these containers use each volume."""
    for container in containers:
        for point in container.mounts:
            if point["Type"] == "volume":
                volumes.hold(point["Name"], container.id)


def images_of(container: Container) -> list[tuple[str, Sequence[str]]]:
    """Ids and layers of the images that the container has mounted."""
    return [(point["Spec"]["Image"], point["Spec"]["Layers"]) for point in container.mounts if point["Type"] == "image"]


def show(container: Container) -> list[Object]:
    """The mount points as the API shows them."""
    return [
        {key: value for key, value in point.items() if key != "Spec" and (value or key not in _OPTIONAL)}
        for point in container.mounts
    ]


def show_etc(container: Container) -> dict[str, str]:
    """The fields of inspect for the host's files behind /etc, where the client has mounted a file of its own there."""
    sources = {point["Destination"]: point["Source"] for point in container.mounts}
    return {key: sources[target] for key, target in _ETC.items() if sources.get(target)}
