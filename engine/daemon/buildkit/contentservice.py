"""The service Content of containerd, for reading alone: what the records of the build history refer to, by its digest.

Each method runs in a thread of its own. A digest that no record refers to is not found, whatever else the daemon keeps.
"""

import functools
import os
from collections.abc import Callable
from io import FileIO
from typing import Any

from engine.daemon.buildkit import buildhistory, historyblobs, methods
from engine.daemon.buildkit.messages import content
from engine.daemon.buildkit.messages.known import moment
from engine.daemon.buildkit.serving import Call
from engine.daemon.parts import DaemonParts
from engine.errors import NotFound
from engine.protocols import grpc

_PIECE = 1 << 18


def info(engine: DaemonParts, call: Call[content.InfoRequest, content.InfoResponse]) -> None:
    """How large it is, and since when it is here."""
    digest = call.one()["digest"]
    with _opened(engine, digest) as file:
        found = os.fstat(file.fileno())
    time = moment(found.st_mtime_ns)
    call.send({"info": {"digest": digest, "size": found.st_size, "created_at": time, "updated_at": time}})


def read(engine: DaemonParts, call: Call[content.ReadContentRequest, content.ReadContentResponse]) -> None:
    """Its bytes from an offset on: so many, or all that there are."""
    asked = call.one()
    place, wanted = asked["offset"], asked["size"]
    with _opened(engine, asked["digest"]) as file:
        size = os.fstat(file.fileno()).st_size
        if place < 0 or wanted < 0 or place > size:
            raise grpc.Failed(grpc.Status(grpc.OUT_OF_RANGE, f"offset {place} past object length {size} bytes"))
        file.seek(place)
        left = min(wanted or size, size - place)
        while left and (data := file.read(min(left, _PIECE))):
            call.send({"offset": place, "data": data})
            place, left = place + len(data), left - len(data)


def _opened(engine: DaemonParts, digest: str) -> FileIO:
    """The file of a digest: of the history, or of the image that a build has made. Raises Invalid, NotFound."""
    historyblobs.check(digest)
    if not buildhistory.holds(engine, digest):
        raise NotFound(f"content {digest}: not found")
    try:
        return historyblobs.opened(engine.settings.data_root, digest)
    except NotFound:
        return engine.images.content.open(digest)


_METHODS: dict[str, Callable[[DaemonParts, Any], None]] = {
    methods.CONTENT + "Info": info,
    methods.CONTENT + "Read": read,
}


def served(engine: DaemonParts) -> dict[str, Callable[[Any], None]]:
    """The methods by their paths."""
    return {path: functools.partial(method, engine) for path, method in _METHODS.items()}
