"""Says where a Dockerfile's build comes from, for its provenance: its context, and the graph of operations.

Pure. The graph is made when somebody asks for it.
"""

import json
import posixpath
from collections.abc import Callable

from engine.daemon.builder.converting import Built, Conversion
from engine.daemon.builder.graph.node import Node
from engine.daemon.builder.localtree import Local, LocalTree
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.provenance import nodeforms
from engine.daemon.buildkit.provenance.captured import Captured
from engine.daemon.buildkit.subrequests import excerpts
from engine.daemon.buildkit.wishes import Asked
from engine.daemon.dockerfile.ignore import Ignore
from engine.daemon.jsontext import Object
from engine.redact import redacted


def context(ref: str, asked: Asked, root: int | None, ignored: str) -> Local:
    """The context of the build `ref`. root: its descriptor, None for a directory of the client that is not here yet

    ignored: the text of its .dockerignore
    """
    descriptor, id = -1 if root is None else root, f"context of {ref}"
    if asked.context:
        return Local(descriptor, id, identifier=redacted(asked.context))
    excluded = list(Ignore(ignored).patterns)
    attributes = {"local.sharedkeyhint": asked.context_key}
    attributes |= {"local.excludepatterns": json.dumps(excluded)} if excluded else {}
    return Local(descriptor, id, identifier=f"local://{asked.context_key}", attributes=attributes)


def described(
    captured: Captured, asked: Asked, text: bytes, target: Built, conversion: Conversion
) -> Callable[[], ops.Definition]:
    """What gives the graph of a target, as BuildKit's frontend would have made it. text: of the Dockerfile"""

    def lines(node: Node) -> list[Object]:
        made = conversion.of.get(node.key)
        return excerpts.ranges(made.line, made.last_line) if made is not None else []

    def describe() -> ops.Definition:
        info: ops.SourceInfo = {"filename": asked.filename, "language": "Dockerfile", "data": text}
        whole: ops.SourceInfo = {**info, "definition": _dockerfile(asked, conversion)}
        graph = nodeforms.Describing(conversion.platform, captured.graphs())
        return graph.definition(target.tree, lines, [whole])

    return describe


def _dockerfile(asked: Asked, conversion: Conversion) -> ops.Definition:
    """The graph that the Dockerfile itself comes from."""
    name, key = posixpath.basename(asked.filename), asked.dockerfile_key
    paths = [name, f"{name}.dockerignore", *([name.lower()] if name == "Dockerfile" else [])]
    attributes = {
        "local.differ": "none",
        "local.followpaths": json.dumps(paths, separators=(",", ":")),
        "local.sharedkeyhint": key,
    }
    source = Local(-1, key, identifier=f"local://{key}", attributes=attributes)
    if asked.context and not asked.own_dockerfile:
        source = Local(-1, key, identifier=redacted(asked.context))
    graph = nodeforms.Describing(conversion.platform, {})
    return graph.definition(Node(LocalTree(source, key)).output(), lambda _node: [], ())
