"""How the failure of a graph is told: the words, the operation that failed, its exit code, and the lines that it is of.

Pure. The details are those of BuildKit, from which a client draws an excerpt of the text that made the operation.
"""

import base64
from typing import Any

from engine.daemon.buildkit.failures import denied, detail
from engine.daemon.buildkit.faultwords import words_of
from engine.daemon.buildkit.llb.definition import Graph
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.messages.known import Status
from engine.daemon.buildkit.serving import status_of
from engine.daemon.jsontext import Object
from engine.errors import CommandFailed, EngineError
from engine.protocols import grpc, protobuf

SOLVE = "errdefs.Solve"
"""The detail that says which operation has failed, and by which ids its trees can be looked at."""
_NAMES = {"ops": "def"}  # names of fields that differ from those of ops.proto
_MOST_SHOWN = 4  # texts of one failure
_LARGEST, _LONGEST = 1 << 20, 2000  # bytes of a text, and characters of the words


def explained(error: EngineError, digest: str, graph: Graph | None) -> EngineError:
    """The error with its details; itself where it has some already.

    digest: of the operation that failed, empty where none did; graph: that it is of, None for none of a client's
    """
    if isinstance(error, grpc.Failed):
        return error
    code, words = status_of(error).code, words_of(error)[:_LONGEST]
    details = [
        detail("errdefs.Source", each) for each in _excerpts(digest, graph.sources if graph is not None else None)
    ]
    if digest:
        details.append(detail("errdefs.Vertex", {"digest": digest}))
    if isinstance(error, CommandFailed):
        details.append(detail("gatewayapi.ExitMessage", {"Code": error.code}))
    vertex = next((each for each in (graph.vertices if graph is not None else ()) if each.digest == digest), None)
    if vertex is not None:
        description = vertex.metadata["description"]
        details.append(detail(SOLVE, {"op": shown(vertex.op)} | ({"description": description} if description else {})))
    details += denied(error)
    status: Status = {"code": code, "message": words, "details": details}
    return grpc.Failed(grpc.Status(code, words, protobuf.encode(Status, status)))


def shown(value: Any) -> Any:
    """A part of an operation in the JSON of its message, without what is zero."""
    if isinstance(value, dict):
        kept = {_NAMES.get(name, name): each for name, each in value.items() if each or isinstance(each, dict)}
        return {name: shown(each) for name, each in kept.items()}
    if isinstance(value, (list, tuple)):
        return [shown(each) for each in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


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
