"""The names that people see of a graph's operations: those that the client gave, or else BuildKit's own.

Pure. Source: buildkit, solver/llbsolver/vertex.go.
"""

from engine.daemon.buildkit.llb.definition import Vertex
from engine.daemon.buildkit.messages import ops

_LONGEST = 4096
_CUSTOM = "llb.customname"


def name_of(vertex: Vertex, below: list[str]) -> str:
    """What people see. below: the names of the operations that it needs, in the order of its inputs"""
    given = vertex.metadata["description"].get(_CUSTOM)
    return (given or _own(vertex.op, below))[:_LONGEST]


def _own(op: ops.Op, below: list[str]) -> str:
    if (source := op["source"]) is not None:
        return source["identifier"]
    if (run := op["exec"]) is not None:
        return " ".join(run["meta"]["args"]) if run["meta"] else ""
    if (files := op["file"]) is not None:
        return ", ".join(map(_action, files["actions"]))
    if op["build"] is not None:
        return "build"
    if op["merge"] is not None:
        return f"merge ({', '.join(below)})"
    if (diff := op["diff"]) is not None:
        lower, upper = diff["lower"] or {"input": -1}, diff["upper"] or {"input": -1}
        return f"diff {_side(lower['input'], below)} -> {_side(upper['input'], below)}"
    return f"passthrough {op['passthrough']['id'] if op['passthrough'] else ''}"


def _side(input: int, below: list[str]) -> str:
    return "scratch" if input < 0 else f"({below[input]})"


def _action(action: ops.FileAction) -> str:
    if (made := action["mkdir"]) is not None:
        return f"mkdir {made['path']}"
    if (file := action["mkfile"]) is not None:
        return f"mkfile {file['path']}"
    if (link := action["symlink"]) is not None:
        return f"symlink {link['newpath']} -> {link['oldpath']}"
    if (removed := action["rm"]) is not None:
        return f"rm {removed['path']}"
    copied = action["copy"]
    return f"copy {copied['src']} {copied['dest']}" if copied else ""
