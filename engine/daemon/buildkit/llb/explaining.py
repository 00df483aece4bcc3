"""How the failure of a graph is told: the words, the operation that failed, its exit code, and the lines that it is of.

Pure. The details are those of BuildKit, from which a client draws an excerpt of the text that made the operation.
"""

import base64

from engine.daemon.buildkit.failures import detail
from engine.daemon.buildkit.faultwords import words_of
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.messages.known import Status
from engine.daemon.buildkit.serving import status_of
from engine.daemon.jsontext import Object
from engine.errors import CommandFailed, EngineError
from engine.protocols import grpc, protobuf

_MOST_SHOWN = 4  # texts of one failure
_LARGEST, _LONGEST = 1 << 20, 2000  # bytes of a text, and characters of the words


def explained(error: EngineError, digest: str, sources: ops.Source | None) -> EngineError:
    """The error with its details; itself where it has some already.

    digest: of the operation that failed, empty where none did; sources: of the definition that it is of
    """
    if isinstance(error, grpc.Failed):
        return error
    code, words = status_of(error).code, words_of(error)[:_LONGEST]
    details = [detail("errdefs.Source", each) for each in _excerpts(digest, sources)]
    if digest:
        details.append(detail("errdefs.Vertex", {"digest": digest}))
    if isinstance(error, CommandFailed):
        details.append(detail("gatewayapi.ExitMessage", {"Code": error.code}))
    status: Status = {"code": code, "message": words, "details": details}
    return grpc.Failed(grpc.Status(code, words, protobuf.encode(Status, status)))


def _excerpts(digest: str, sources: ops.Source | None) -> list[Object]:
    if sources is None or digest not in sources["locations"]:
        return []
    found: list[Object] = []
    for location in sources["locations"][digest]["locations"][:_MOST_SHOWN]:
        info = sources["infos"][location["sourceIndex"]]
        ranges = [{"start": _position(each["start"]), "end": _position(each["end"])} for each in location["ranges"]]
        if ranges and len(info["data"]) <= _LARGEST:
            data = base64.b64encode(info["data"]).decode()
            text = {"filename": info["filename"], "data": data, "language": info["language"]}
            found.append({"info": text, "ranges": ranges})
    return found


def _position(given: ops.Position | None) -> Object:
    return {"line": given["line"], "character": given["character"]} if given is not None else {}
