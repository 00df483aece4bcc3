"""Create a container: check the request, make its volumes and files, and write its durable record.

Runs in the daemon's request threads, in dockerd's order: invalid values are refused first, then the image is found and
its values are added, then the name is checked, then the options, then what this engine has not built. Only after that
something is made that stays.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Mapping

from engine.daemon.containers import config as settings
from engine.daemon.containers import files, naming, paths, unbuilt, validate
from engine.daemon.containers.announce import announce
from engine.daemon.containers.endpoints import requested
from engine.daemon.containers.mounts import points
from engine.daemon.containers.output import logconfig
from engine.daemon.containers.record import Container
from engine.daemon.containers.security import cgroupparent, lacking, specify, walls
from engine.daemon.images import platform as platforms
from engine.daemon.images.image import Image
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.daemon.network.record import BUILTIN
from engine.daemon.parts import ContainerParts
from engine.daemon.store import containers as table
from engine.daemon.tar.trees import remove_path
from engine.dataclass import dataclass
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late
from engine.settings.runtimes import programs
from engine.settings.storagedriver import OVERLAY2

if TYPE_CHECKING:  # loaded for the few containers that have links
    from engine.daemon.containers.endpoints import legacylinks
else:
    legacylinks = late("engine.daemon.containers.endpoints.legacylinks")

if TYPE_CHECKING:  # loaded for the first container with a working directory
    from engine.daemon.containers.contents import workingdir
else:
    workingdir = late("engine.daemon.containers.contents.workingdir")

if TYPE_CHECKING:  # loaded for images of several platforms
    from engine.daemon.images.verbs import listing
else:
    listing = late("engine.daemon.images.verbs.listing")

if TYPE_CHECKING:  # loaded where containers have user namespaces
    from engine.daemon.containers.security import remapping
else:
    remapping = late("engine.daemon.containers.security.remapping")

if TYPE_CHECKING:  # loaded where the daemon is to give labels
    from engine.daemon.containers.security import labels
else:
    labels = late("engine.daemon.containers.security.labels")

_SHORT = 12


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees of files that are no images, which the caller keeps until the container is removed.

    layers: directories of those that the container stands on, lowest first
    shown: those of each mount of the type `image`, by the source of the mount
    """

    layers: tuple[str, ...]
    shown: Mapping[str, tuple[str, ...]]


@timed("container_actions", "create")
def create(
    engine: ContainerParts,
    name: str | None,
    body: Object,
    platform: str | None,
    *,
    lasting: bool = True,
    beside: Callable[[sqlite3.Connection, str], None] | None = None,
    trees: Trees | None = None,
    shallow: bool = False,
) -> tuple[Container, list[str]]:
    """Make a container and return it with the warnings of create.

    name: None or empty for a random one; body: the decoded body of `POST /containers/create`; platform: as
        `os/arch[/variant]`, None or empty for the host's
    lasting: False for a container that need not outlive a loss of power
    beside: writes further rows in the transaction of the record; it is called with the connection and the container's
        id
    trees: what it stands on and shows in place of images; shallow: see `points.resolve`

    Raises Invalid, NotFound for the image, Conflict for the name, NotBuilt for what this engine lacks, SystemFailure
    when the disk fails.
    """
    if not settings.CONFIG.keys() & body.keys():
        raise Invalid("config cannot be empty in order to create a container")
    config = settings.container_config(body)
    host_config = settings.host_config(body.get("HostConfig") or {}, settings.defaults(engine.settings))
    warnings = validate.check(config, host_config, programs(engine.settings.runtimes), engine.cgroups)
    warnings += lacking.discard(engine.cgroups, host_config)
    if engine.settings.userns_remap:
        remapping.check(engine.settings, host_config)
    cgroupparent.check(host_config["CgroupParent"], engine.cgroups.driver)
    image = engine.images.find(config["Image"], platform or None) if config["Image"] else None
    walls.adapt(engine, body.get("HostConfig") or {}, host_config)
    networking = settings.networking(body.get("NetworkingConfig") or {}, host_config["NetworkMode"])
    networking = {} if config["NetworkDisabled"] else requested.settled(engine, networking)
    if image is not None:
        image.check_unpacked()
        warnings += _platform_warnings(image, platform)
        settings.merge_image(config, image.config.get("config") or {})
    settings.normalise(config)
    path, arguments = settings.command(config)
    host_config["LogConfig"] = logconfig.capped(
        logconfig.completed(host_config["LogConfig"], engine.settings.log_driver, engine.settings.log_opts)
    )
    logconfig.check(host_config["LogConfig"], engine.plugins)
    name = naming.check(name) if name else None
    container_id = _new_id()
    if not config["Hostname"]:
        config["Hostname"] = os.uname().nodename if host_config["NetworkMode"] == "host" else container_id[:_SHORT]
    container = Container(
        id=container_id,
        name="",
        created_ns=time.time_ns(),
        image=config["Image"],
        image_id=image.id if image else "",
        config=config,
        host_config=host_config,
        networking=networking,
        path=path,
        args=arguments,
        layers=trees.layers if trees else tuple(image.layers) if image else (),
        manifest=image.manifest if image else "",
    )
    engine.containers.reserve(container, name)
    try:
        validate.check_late(host_config)
        if engine.settings.selinux_enabled:
            asked = walls.security(host_config["SecurityOpt"]).labels
            container.process_label, container.file_label = labels.made(engine, asked)
        unbuilt.refuse(host_config)
        # dockerd has links in its own networks alone; in another it passes over those of HostConfig.
        links = host_config["Links"] if host_config["NetworkMode"] in BUILTIN else None
        host_config["Links"] = legacylinks.resolved(engine, links) if links else None
        shown = trees.shown if trees else {}
        _mount(engine, container, shown, shallow)
        if trees is None:
            _make_working_directory(engine, container)
        _keep(engine, container, _descriptor(engine, image) if image else None, lasting, beside, shown)
    except BaseException:
        points.release(engine, container, volumes=True)
        engine.containers.release(container)
        raise
    engine.containers.add(container)
    announce(engine, container, "create")
    return container, warnings


def _new_id() -> str:
    """64 hex digits whose first twelve, the host name, are not all decimal: that would be taken for a number."""
    while True:
        made = os.urandom(32).hex()
        if not made[:_SHORT].isdigit():
            return made


def _mount(engine: ContainerParts, container: Container, shown: Mapping[str, tuple[str, ...]], shallow: bool) -> None:
    """Resolve the container's mount points; its volumes exist from here on."""
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)

    def make_root() -> None:
        os.makedirs(where.home, 0o700, exist_ok=True)
        specify.make_root(engine, container, where)

    try:
        points.resolve(engine, container, make_root, shown, shallow)
    except BaseException:
        _forget(where)
        raise


def _make_working_directory(engine: ContainerParts, container: Container) -> None:
    if not container.config["WorkingDir"]:
        return
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    try:
        os.makedirs(where.home, 0o700, exist_ok=True)
        workingdir.make(engine, container)
    except BaseException:
        _forget(where)
        raise


def _keep(
    engine: ContainerParts,
    container: Container,
    descriptor: Object | None,
    lasting: bool,
    beside: Callable[[sqlite3.Connection, str], None] | None,
    shown: Mapping[str, tuple[str, ...]],
) -> None:
    """Write the files, then the record: a crash in between leaves files that `files.sweep` finds, and no record."""
    used = [each for each in points.images_of(container) if each[0] not in shown]
    for image_id, layers in [(container.image_id, container.layers), *used] if container.image_id else used:
        # A removal that began before the name was reserved may have taken the image. A removal that begins now sees
        # that this container holds it. This is never done within a transaction: the images' lock comes before the
        # database's.
        with engine.images.changing:
            engine.images.check(image_id, layers)
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    try:
        files.write(where, container)
        if engine.settings.storage_driver == OVERLAY2:
            files.mount_id(where)
        with engine.database.transaction(durable=lasting) as connection:
            table.insert(connection, container, descriptor)
            if beside is not None:
                beside(connection, container.id)
    except OSError as error:
        _forget(where)
        raise SystemFailure(f"the files of the container cannot be made: {reasons.whole(error)}") from error
    except BaseException:
        _forget(where)
        raise
    if descriptor is not None:
        engine.containers.descriptors.setdefault((container.image_id, container.manifest), descriptor)


def _forget(where: paths.Paths) -> None:
    with contextlib.suppress(FileNotFoundError):  # the home itself could not be made
        remove_path(where.home)


def _descriptor(engine: ContainerParts, image: Image) -> Object:
    """The descriptor of the manifest that the container runs, with its platform, as inspect shows it."""
    known = engine.containers.descriptors.get((image.id, image.manifest))
    if known is not None:
        return known
    # The image's name may point at an index of several platforms.
    shown = image.descriptor if image.manifest == image.id else listing.entry_of(engine.images, image)
    platform = {key: image.config[key] for key in ("architecture", "os", "variant") if image.config.get(key)}
    return {"platform": platform, **shown}


def _platform_warnings(image: Image, platform: str | None) -> list[str]:
    host, made_for = platforms.host(), platforms.of(image.config)
    if platform or platforms.rank(host, made_for, strict=False) is not None:
        return []
    return [
        f"The requested image's platform ({made_for}) does not match the detected host platform ({host})"
        " and no specific platform was requested"
    ]
