"""Brings over dockerd's containers: what they were made with, how they ended, their own files and their logs.

A container keeps its id and its name. Its directory is made whole before its record is written; what a run that was cut
off has left is made anew by the next. Nothing is started: the next daemon obeys the restart policies.
"""

import contextlib
import json
import os
from contextlib import AbstractContextManager

from engine.daemon import moments
from engine.daemon.api import body, schemas
from engine.daemon.containers import config as completing
from engine.daemon.containers import files, naming, paths, unbuilt, validate
from engine.daemon.containers.contents import initlayer
from engine.daemon.containers.endpoints import legacylinks
from engine.daemon.containers.output import logconfig
from engine.daemon.containers.record import Container, State
from engine.daemon.images import image as documents
from engine.daemon.images.image import Image
from engine.daemon.images.layers import storage
from engine.daemon.jsontext import Object
from engine.daemon.store import containers as table
from engine.daemon.tar.trees import remove_path
from engine.errors import EngineError, Invalid, NotFound
from engine.literals import INT64
from engine.migrate import layeredimages, oldlogs, oldmounts
from engine.migrate.accounting import Telling
from engine.migrate.cloning import clone
from engine.migrate.newroot import Target
from engine.migrate.oldroot import Source
from engine.migrate.storedimages import Containerd

_ROOT = "containers"
_LOST = 255  # the exit code of a container whose end dockerd did not see
_SHORT = 12
_SNAPSHOTTER = "overlayfs"  # containerd's, which dockerd shows as its driver
_ASKED_OF_ENDPOINT = ("IPAMConfig", "Links", "DriverOpts", "GwPriority")


def images_of(source: Source) -> set[str]:
    """The ids of the images that containers were made from."""
    found = set()
    for identity in source.identifiers(_ROOT):
        with contextlib.suppress(EngineError):  # `bring` tells what is wrong with it
            found.add(str(source.document(f"{_ROOT}/{identity}/config.v2.json").get("Image") or ""))
    return found


def bring(source: Source, stored: Containerd | None, target: Target, telling: Telling) -> None:
    """Bring over every container whose id and name are free here. stored: has the files of those with its images"""
    with target.database.reading() as connection:
        known = table.load_all(connection)
    there, taken = {each.id for each in known}, {each.name for each in known}
    found = {}
    for identity in source.identifiers(_ROOT):
        with telling.passing_over(f"container {identity[:_SHORT]}"):
            found[identity] = source.document(f"{_ROOT}/{identity}/config.v2.json")
    names = {str(each.get("Name") or "").removeprefix("/"): identity for identity, each in found.items()}
    for identity, document in found.items():
        name = str(document.get("Name") or "").removeprefix("/")
        shown = name or identity[:_SHORT]
        if identity in there:
            telling.found("container", shown)
            continue
        with telling.passing_over(f"container {shown}"):
            if naming.check(name) in taken:
                raise Invalid("another container has its name here")
            _Work(source, stored, target, telling, names).container(identity, document, name)
            taken.add(name)
            telling.took("container", shown)


class _Work:
    def __init__(
        self, source: Source, stored: Containerd | None, target: Target, telling: Telling, names: dict[str, str]
    ) -> None:
        self._source = source
        self._stored = stored
        self._target = target
        self._telling = telling
        self._names = names  # name → id, of all containers of the source

    def container(self, identity: str, document: Object, name: str) -> None:
        host = self._source.document(f"{_ROOT}/{identity}/hostconfig.json")
        image = self._image(document)
        made = self._made(identity, document, host, name, image)
        settings = self._target.settings
        where = paths.of(settings.data_root, settings.exec_root, identity)
        if os.path.lexists(where.home):
            remove_path(where.home)  # of a run that was cut off
        try:
            files.write(where, made)
            self._own_files(made, where, document.get("Driver") == _SNAPSHOTTER)
            self._log(identity, made, where)
            self._target.images.content.flush()
            with self._target.database.transaction(durable=True) as connection:
                table.insert(connection, made, _descriptor(image) if image else None)
        except BaseException:
            remove_path(where.home)
            raise

    def _image(self, document: Object) -> Image | None:
        identity = document.get("Image")
        if not identity:
            return None
        image = self._target.image(str(identity))
        if image is None:
            raise NotFound(f"its image {str(identity)[:19]} was not brought over")
        return image

    def _made(self, identity: str, document: Object, host: Object, name: str, image: Image | None) -> Container:
        decoded = body.decode(json.dumps(_body(document, host)).encode(), schemas.CONTAINER_CREATE)
        config = completing.container_config(decoded)
        asked = decoded.get("HostConfig") or {}
        host_config = completing.host_config({**asked, "Links": None})
        validate.check(config, host_config)
        validate.check_late(host_config)
        log = host_config["LogConfig"]
        host_config["LogConfig"] = logconfig.completed(log, self._target.settings.log_driver, ())
        logconfig.check(host_config["LogConfig"])
        unbuilt.refuse(host_config)
        host_config["Links"] = self._links(asked.get("Links") or []) or None
        networking = completing.networking(decoded.get("NetworkingConfig") or {}, host_config["NetworkMode"])
        if config["Image"]:
            with contextlib.suppress(NotFound):  # the name may mean nothing by now; what is none is refused
                self._target.images.find(config["Image"])
        path, arguments = document.get("Path"), document.get("Args") or []
        if not isinstance(path, str) or not isinstance(arguments, list) or {*map(type, arguments)} - {str}:
            raise Invalid("it has no command")
        return Container(
            id=identity,
            name=name,
            created_ns=max(_moment(document.get("Created")), 0),
            image=config["Image"],
            image_id=image.id if image else "",
            config=config,
            host_config=host_config,
            networking=networking,
            path=path,
            args=arguments,
            layers=tuple(image.layers) if image else (),
            mounts=oldmounts.points(document.get("MountPoints"), self._target, self._telling, name),
            manifest=image.manifest if image else "",
            state=_state(document),
        )

    def _links(self, links: list[str]) -> list[str]:
        found = []
        for text in links:
            other, alias = legacylinks.parse(text)
            if other in self._names:
                found.append(f"{self._names[other]}:{alias}")
        return found

    def _own_files(self, made: Container, where: paths.Paths, of_snapshot: bool) -> None:
        if self._target.storage != storage.OVERLAY or self._target.images.userxattr:
            raise Invalid("the files of its own are those of an overlay, and this data root has none")
        os.mkdir(where.work, 0o700)
        os.mkdir(f"{where.upper}.part", 0o755)
        sink = os.open(f"{where.upper}.part", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with self._writable(made.id, of_snapshot) as directory:
                done = clone(directory, sink, linked=False, tell=self._telling.progress)
        finally:
            os.close(sink)
        layer_root = self._target.images.layer_root
        initlayer.fill(f"{where.upper}.part", [os.path.join(layer_root, layer) for layer in made.layers])
        os.rename(f"{where.upper}.part", where.upper)
        self._telling.add(done)

    def _writable(self, identity: str, of_snapshot: bool) -> AbstractContextManager[int]:
        """The directory with what the container has written."""
        if not of_snapshot:
            return self._source.directory(layeredimages.writable(self._source, identity))
        if self._stored is None:
            raise NotFound("its files are in containerd's store, which was not found")
        return self._stored.directory(self._stored.snapshot(identity))

    def _log(self, identity: str, made: Container, where: paths.Paths) -> None:
        driver, form = made.host_config["LogConfig"]["Type"], logconfig.form(made)
        try:
            oldlogs.bring(self._source, f"{_ROOT}/{identity}", identity, form, driver, where)
        except Invalid as error:
            self._telling.lacks(f"a part of the log of container {made.name}", error)


def _moment(text: object) -> int:
    """A time of dockerd's in nanoseconds; Go's zero time, and what is no time, are 0. Raises Invalid."""
    try:
        found = max(moments.parse(text, 0), 0) if isinstance(text, str) and text else 0
    except (Invalid, ValueError):
        return 0
    if found > INT64[1]:
        raise Invalid(f"the time {text} in its record is out of range")
    return found


def _state(document: Object) -> State:
    told = document.get("State")
    state: Object = told if isinstance(told, dict) else {}
    if state.get("Dead") or state.get("RemovalInProgress"):
        raise Invalid("it was being removed")
    started = _moment(state.get("StartedAt"))
    ran_on = bool(state.get("Running"))  # dockerd was killed, and its containers with it
    exit_code = state.get("ExitCode")
    count = document.get("RestartCount")
    return State(
        status="exited" if started else "created",
        exit_code=_LOST if ran_on else exit_code if isinstance(exit_code, int) else 0,
        error=str(state.get("Error") or ""),
        oom_killed=bool(state.get("OOMKilled")),
        started_ns=started,
        finished_ns=_moment(state.get("FinishedAt")) or started,
        restart_count=count if isinstance(count, int) else 0,
        stopped_by_hand=bool(document.get("HasBeenManuallyStopped")),
    )


def _body(document: Object, host: Object) -> Object:
    """The body of POST /containers/create that asks for what this container was made with."""
    config = document.get("Config")
    if not isinstance(config, dict):
        raise Invalid("it has no Config")
    settings = document.get("NetworkSettings")
    networks = settings.get("Networks") if isinstance(settings, dict) else None
    asked = {}
    for name, told in (networks if isinstance(networks, dict) else {}).items():
        endpoint = told if isinstance(told, dict) else {}
        short = str(document.get("ID") or "")[:_SHORT]
        aliases = [each for each in endpoint.get("Aliases") or () if each != short]
        mac = endpoint.get("DesiredMacAddress") or (config.get("MacAddress") if len(networks or ()) == 1 else None)
        asked[name] = {
            **{key: endpoint.get(key) for key in _ASKED_OF_ENDPOINT},
            "Aliases": aliases or None,
            "MacAddress": mac or None,
        }
    return {**config, "HostConfig": host, "NetworkingConfig": {"EndpointsConfig": asked}}


def _descriptor(image: Image) -> Object:
    platform = {key: image.config[key] for key in ("architecture", "os", "variant") if image.config.get(key)}
    kind, size = documents.OCI_MANIFEST, image.descriptor["size"]
    shown = image.descriptor if image.manifest == image.id else documents.descriptor(kind, image.manifest, size)
    return {**shown, "platform": platform}
