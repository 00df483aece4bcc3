"""Make an image of a container, for POST /commit.

Runs in the request's thread. The image has its parent's layers and one layer more, which is packed from the container's
changes. Nothing is written to the container. The container is paused while the layer is packed, unless the client
forbids it.
"""

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from engine.daemon.clock import rfc3339
from engine.daemon.containers import config, ports
from engine.daemon.containers.announce import announce
from engine.daemon.containers.contents import changes, initlayer
from engine.daemon.containers.contents.changes import DELETED, Change
from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import Config
from engine.daemon.containers.verbs import pause as pausing
from engine.daemon.images import changes as instructions
from engine.daemon.images import image as documents
from engine.daemon.images import making, platform
from engine.daemon.images.content import Incoming
from engine.daemon.images.image import Image
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.layers.whiteouts import WHITEOUT
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.daemon.parts import ContainerParts, ContentParts
from engine.daemon.tar.chunkstream import Stream
from engine.daemon.tar.writer import GONE, Chunk, Packer
from engine.dataclass import dataclass
from engine.errors import Conflict, Invalid, NotFound
from engine.kernel.beneath import open_beneath

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# The keys of a container's Config that an image has, in the order of the API's definition.
IMAGE_KEYS: Final = (
    "User",
    "ExposedPorts",
    "Env",
    "Entrypoint",
    "Cmd",
    "Volumes",
    "WorkingDir",
    "Labels",
    "StopSignal",
    "ArgsEscaped",
    "Healthcheck",
    "OnBuild",
    "Shell",
)


@dataclass(frozen=True, slots=True)
class AskedCommit:
    """The parameters of a commit request.

    config: the client's Config, complete, or None for the container's own; changes: Dockerfile instructions
    """

    repo: str = ""
    tag: str = ""
    comment: str = ""
    author: str = ""
    pause: bool = True
    changes: tuple[str, ...] = ()
    config: Config | None = None


@timed("container_actions", "commit")
def commit(engine: ContainerParts, container: Container, asked: AskedCommit) -> str:
    """Make the image and return its id. Raises Invalid, Conflict, NotFound, SystemFailure."""
    name = _name(asked)
    made = settings(container, asked)
    _check(container)
    with _paused(engine, container) if asked.pause else contextlib.nullcontext():
        image = _image(engine, container, asked, made, [name] if name else [])
        shown = name.familiar if name else ""
        engine.images.announce("create", image.id, image.id, image)
        if name:
            engine.images.announce("tag", image.id, shown, image)
        announce(engine, container, "commit", comment=asked.comment, imageID=image.id, imageRef=shown)
    return image.id


def settings(container: Container, asked: AskedCommit) -> Config:
    """The Config of the image: the client's or else the container's, changed by the instructions. Raises Invalid.

    What that leaves open is the container's.
    """
    # Made complete again: an instruction may have taken a key away, as ENTRYPOINT does with Cmd.
    made = config.container_config(instructions.apply(dict(asked.config or container.config), asked.changes))
    config.merge_image(made, container.config)
    return ports.with_protocols(made)


def _name(asked: AskedCommit) -> Reference | None:
    if not asked.repo:
        return None
    reference = Reference.parse(asked.repo)
    if reference.digest:
        raise Invalid("cannot import digest reference")
    return (reference.with_tag(asked.tag) if asked.tag else reference).with_default_tag()


def _check(container: Container) -> None:
    with container.changed:
        status = container.state.status
        if container.removed:
            raise NotFound(f"No such container: {container.id}")
    for refused, words in (("dead", "Dead"), ("removing", "being removed")):
        if status == refused:
            raise Conflict(f"You cannot commit container {container.id} which is {words}")


@contextlib.contextmanager
def _paused(engine: ContainerParts, container: Container) -> Iterator[None]:
    """Pause the container if it runs. A container that is paused already, or that ends just now, is left as it is."""
    run = None
    if container.snapshot().status == "running":
        with contextlib.suppress(Conflict):
            run = pausing.pause(engine, container, passing=True)
    try:
        yield
    finally:
        if run is not None:
            pausing.end_pause(engine, container, run)


def _image(
    engine: ContentParts, container: Container, asked: AskedCommit, made: Config, names: list[Reference]
) -> Image:
    store = engine.images
    parent = store.origin(container.image_id, container.layers)
    with store.session() as session, store.content.incoming() as blob, contextlib.ExitStack() as pins:
        manifest = documents.load(store.content.read(parent.manifest, documents.LARGEST_DOCUMENT), "manifest")
        _, parts = documents.manifest_parts(manifest)
        # Pinned, since the image and the container may both be removed meanwhile.
        pins.enter_context(store.content.pinned(part["digest"] for part in parts))
        layers = [session.layer(diff_id, _not_there(diff_id)) for diff_id in parent.diff_ids]
        new = layer(engine, container, session, blob)
        if new is not None:
            if len(parts) >= documents.MOST_LAYERS:
                raise Invalid(f"max depth exceeded: {documents.MOST_LAYERS} layers are allowed")
            added, form = new
            pins.enter_context(store.content.pinned([blob.digest]))
            blob.keep()
            layers.append(added)
            parts = [*parts, documents.descriptor(documents.layer_type(form), blob.digest, blob.size)]
        document = _document(parent.config, container, asked, made, layers[-1].diff_id if new else "")
        return making.add_made(store, session, document, parts, layers, names, parent=parent.id)


def _not_there(diff_id: str) -> Callable[[], NoReturn]:
    def refuse() -> NoReturn:
        raise NotFound(f"the layer {diff_id} of the container's image is missing")

    return refuse


def layer(
    engine: ContentParts,
    container: Container,
    session: Session,
    blob: Incoming,
    own: frozenset[str] = initlayer.PATHS,
) -> tuple[Layer, str] | None:
    """Pack the container's changes into a layer of the session; its blob is filled on the way. own: see `changes`

    Returns the layer and the blob's compression, or None where nothing has changed.
    """

    def made(top: int, found: Iterator[Change]) -> tuple[Layer, str] | None:
        return unpacked(top, found, session, blob)

    return changes.compare(engine, container, made, own)


def unpacked(top: int, found: Iterator[Change], session: Session, blob: Incoming) -> tuple[Layer, str] | None:
    """The layer of these changes, and its blob's compression; None where there are none. top: see `changes.compare`"""
    first = next(found, None)
    return None if first is None else making.unpack(session, Stream(_packed(top, first, found)), blob)


def _packed(top: int, first: Change, found: Iterator[Change]) -> Iterator[Chunk]:
    """The layer's tar: a changed file is packed as it is, a deleted one as a whiteout."""
    packer = Packer()
    above, parent = "", os.dup(top)
    # The directories that the present one is in, as far as they are in the archive as directories. A program in a
    # container that is not paused may put a link in the place of one: nothing could be unpacked below that.
    inside = [""]
    whiteout = os.stat_result((stat.S_IFREG, 0, 0, 1, 0, 0, 0, 0, 0, 0))
    try:
        for change in itertools.chain((first,), found):
            directory, _, name = change.path[1:].rpartition("/")
            while len(inside) > 1 and not f"{directory}/".startswith(f"{inside[-1]}/"):
                inside.pop()
            if inside[-1] != directory:
                continue
            if directory != above:
                if parent >= 0:
                    os.close(parent)
                parent = -1
                try:
                    parent = open_beneath(top, directory or "/", _DIRECTORY, no_symlinks=True)
                except OSError as error:
                    if error.errno not in GONE:
                        raise
                    above = "\0"  # no directory is called so: look again for the next one
                    continue
                above = directory
            if change.kind == DELETED:
                packer.blank(f"{directory}/{WHITEOUT}{name}".lstrip("/"), whiteout)
            elif (yield from packer.one(parent, name, change.path[1:])):
                inside.append(change.path[1:])
        yield packer.end()
    finally:
        if parent >= 0:
            os.close(parent)


def _document(parent: Object, container: Container, asked: AskedCommit, made: Config, diff_id: str) -> Object:
    """The new image's config: the parent's, with the container's Config and one more step in its history."""
    created = rfc3339(time.time_ns())
    author = asked.author or parent.get("author") or ""
    step: Object = {"created": created}
    command = " ".join(container.config["Cmd"] or ())
    for key, value in (("created_by", command), ("author", author), ("comment", asked.comment)):
        if value:
            step[key] = value
    if not diff_id:
        step["empty_layer"] = True
    host = platform.host()
    diff_ids = documents.diff_ids_of(parent)
    history = parent.get("history")
    return {
        "created": created,
        **({"author": author} if author else {}),
        "architecture": parent.get("architecture") or host.architecture,
        **({"variant": parent["variant"]} if parent.get("variant") else {}),
        "os": parent.get("os") or host.os,
        "config": {key: made[key] for key in IMAGE_KEYS if made[key]},
        "rootfs": {"type": "layers", "diff_ids": [*diff_ids, diff_id] if diff_id else diff_ids},
        "history": [*(history if isinstance(history, list) else []), step],
    }
