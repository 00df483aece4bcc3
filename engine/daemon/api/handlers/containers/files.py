"""The endpoints of a container's files: archive (for `docker cp`), export, changes and commit.

Each function runs in its request's thread. It imports its verb at the first request: an idle daemon does without the
code that packs and unpacks archives.
"""

import base64
import contextlib
from collections.abc import Callable

from engine.daemon.api import schemas
from engine.daemon.api.answers import Empty, Json, Response, encode_json
from engine.daemon.api.request import Request
from engine.daemon.containers.config import container_config
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # each is loaded by the first request for it
    from engine.daemon.containers.contents import archive
    from engine.daemon.containers.contents import changes as comparing
    from engine.daemon.containers.contents import commit as committing
    from engine.daemon.containers.contents import export as exporting
else:
    archive = late("engine.daemon.containers.contents.archive")
    comparing = late("engine.daemon.containers.contents.changes")
    committing = late("engine.daemon.containers.contents.commit")
    exporting = late("engine.daemon.containers.contents.export")

_TAR = "application/x-tar"
_BINARY = "application/octet-stream"
_STAT = "X-Docker-Container-Path-Stat"


def _path(request: Request) -> str:
    path = request.query.text("path")
    if not path:
        raise Invalid("bad parameter: path cannot be empty")
    return path


def _stat_field(status: Object) -> tuple[tuple[str, str], ...]:
    return ((_STAT, base64.b64encode(encode_json(status)).decode()),)


def archive_status(engine: DaemonParts, request: Request) -> Response:
    """HEAD /containers/{id}/archive: tell what is at a path, in a header."""
    path, reference = _path(request), request.parameters["id"]
    status = archive.status(engine, engine.containers.find(reference), reference, path)
    return Empty(200, _stat_field(status))


def archive_get(engine: DaemonParts, request: Request) -> None:
    """GET /containers/{id}/archive: send a file or directory as a tar archive."""
    path, reference = _path(request), request.parameters["id"]
    with contextlib.ExitStack() as stack:

        def begin(status: Object) -> Callable[[bytes | memoryview], None]:
            return stack.enter_context(request.stream(200, _TAR, _stat_field(status))).write_large

        archive.send(engine, engine.containers.find(reference), reference, path, begin)


def archive_put(engine: DaemonParts, request: Request) -> Response:
    """PUT /containers/{id}/archive: unpack a tar archive into a directory of the container."""
    query, reference = request.query, request.parameters["id"]
    asked = archive.AskedCopy(_path(request), query.flag("noOverwriteDirNonDir"), query.flag("copyUIDGID"))
    archive.receive(engine, engine.containers.find(reference), reference, asked, request.body)
    return Empty(200)


def export(engine: DaemonParts, request: Request) -> None:
    """GET /containers/{id}/export: send the whole file system as a tar archive."""
    with contextlib.ExitStack() as stack:

        def begin() -> Callable[[bytes | memoryview], None]:
            return stack.enter_context(request.stream(200, _BINARY)).write_large

        exporting.export(engine, engine.containers.find(request.parameters["id"]), begin)


def changes(engine: DaemonParts, request: Request) -> Response:
    """GET /containers/{id}/changes: list what differs from the image; `null` without changes, as Go
    writes a nil list.
    """
    return Json(comparing.changes(engine, engine.containers.find(request.parameters["id"])) or None)


def commit(engine: DaemonParts, request: Request) -> Response:
    """POST /commit: make an image of a container."""
    query = request.query
    body = request.json(schemas.CONTAINER_CONFIG)
    container = engine.containers.find(query.text("container"))
    asked = committing.AskedCommit(
        repo=query.text("repo"),
        tag=query.text("tag"),
        comment=query.text("comment"),
        author=query.text("author"),
        pause=query.flag("pause", default=True),
        changes=tuple(query.every("changes")),
        config=container_config(body) if body else None,
    )
    return Json({"Id": committing.commit(engine, container, asked)}, 201)
