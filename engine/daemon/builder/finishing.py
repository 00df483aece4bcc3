"""The end of a build: the document of the image that a solved stage is.

The history is BuildKit's: a step that makes files has the moment in which they were made, also when they come out of
the cache. So a build that finds all in the cache makes the same image again.
"""

import time

from engine.daemon.builder import historytext
from engine.daemon.builder.converting import Built, Entry
from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.builder.graph.solver import Solver
from engine.daemon.builder.state import shown_config
from engine.daemon.clock import rfc3339
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.jsontext import Object


def document(built: Built, solver: Solver, asked: Platform | None) -> tuple[Object, tuple[Part, ...]]:
    """The document of the stage's image (OCI image-spec, config.md) and its layers, once all its nodes are solved.

    asked: the platform that the client has named, which the image is said to be for whatever it stands on
    """
    tree = solver.snapshot(built.tree) if built.tree is not None else Snapshot()
    base = built.base
    known = base.get("history")
    history = [_step(entry, solver) for entry in built.entries]
    steps = [*(known if isinstance(known, list) else []), *_dated(history, base)]
    platform = asked or (platforms.of(base) if base.get("architecture") else platforms.host())
    author = built.state.author or base.get("author")
    created = steps[-1].get("created") if steps else None
    made: Object = {
        "created": created if isinstance(created, str) and created else rfc3339(time.time_ns()),
        **({"author": author} if author else {}),
        "architecture": platform.architecture,
        **({"variant": platform.variant} if platform.variant else {}),
        "os": platform.os,
        **({"os.features": list(platform.features)} if platform.features else {}),
        **({"os.version": platform.version} if platform.version else {}),
        "config": _config(built),
        "rootfs": {"type": "layers", "diff_ids": tree.diff_ids},
        "history": steps,
    }
    return made, tree.parts


def planned(built: Built, asked: Platform | None) -> Object:
    """What is known of the image's document before its nodes are solved. asked: as of `document`"""
    platform = asked or platforms.host()
    return {
        "architecture": platform.architecture,
        "os": platform.os,
        "config": _config(built),
        "rootfs": {"type": "layers", "diff_ids": []},
    }


def _config(built: Built) -> Object:
    """The config of the image; that of Windows has its own slashes."""
    found = shown_config(built.state.config)
    if built.state.platform.os == "windows" and "WorkingDir" in found:
        found["WorkingDir"] = found["WorkingDir"].replace("/", "\\")
    return found


def _step(entry: Entry, solver: Solver) -> Object:
    step: Object = {"created_by": entry.created_by, "comment": historytext.COMMENT}
    if entry.node is not None:
        solved = solver.solved(entry.node)
        below = solver.solved(entry.node.inputs[0].node).outputs[entry.node.inputs[0].index]
        if len(solved.outputs[0].parts) > len(below.parts):
            # Of what somebody else has made the moment is unknown.
            return {"created": rfc3339(solved.created_ns), **step} if solved.created_ns else step
    return {**step, "empty_layer": True}


def _dated(history: list[Object], base: Object) -> list[Object]:
    """The steps, each with a moment: one without files has that of the step before, or of the first with files."""
    first = next((step["created"] for step in history if "created" in step), None)
    last = first or base.get("created") or rfc3339(time.time_ns())
    found: list[Object] = []
    for step in history:
        last = step.get("created") or last
        found.append({"created": last, **step})
    return found
