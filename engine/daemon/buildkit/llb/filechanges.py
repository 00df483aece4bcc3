"""The operation `file`: a client's actions on files, as the build graph does them.

Pure. What an action cannot have here is refused in words, before anything is made.
"""

from engine.daemon.builder.copying import permissions
from engine.daemon.builder.fileactions import (
    Action,
    FileActions,
    MakeDirectory,
    MakeFile,
    MakeLink,
    Named,
    Remove,
)
from engine.daemon.builder.treecopy import Copied
from engine.daemon.buildkit.llb.definition import Vertex
from engine.daemon.buildkit.messages import ops
from engine.daemon.dockerfile.ignore import Ignore
from engine.errors import Invalid

_UNSET = -1  # a mode or a time that the client leaves open
_MOST_MODE, _MOST_TIME = 0o7777, (1 << 63) - 1


def convert(vertex: Vertex, title: str) -> FileActions:
    """The operation of a vertex. Raises Invalid."""
    files = vertex.op["file"]
    assert files is not None  # the kind says so
    return FileActions([_action(each) for each in files["actions"]], len(vertex.inputs), title)


def _action(action: ops.FileAction) -> Action:
    does, owner, time = _does(action)
    if not _UNSET <= time <= _MOST_TIME:
        raise Invalid(f"invalid time {time} of a file")
    return Action(
        does,
        action["input"],
        action["secondaryInput"],
        action["output"],
        _who(owner["user"] if owner else None),
        _who(owner["group"] if owner else None),
        None if time == _UNSET else time,
    )


def _does(
    action: ops.FileAction,
) -> tuple[MakeDirectory | MakeFile | MakeLink | Remove | Copied, ops.ChownOpt | None, int]:
    """What the action does, who owns what it makes, and the time of that in ns."""
    if (made := action["mkdir"]) is not None:
        does = MakeDirectory(_path(made["path"]), _mode(made["mode"]), made["makeParents"])
        return does, made["owner"], made["timestamp"]
    if (file := action["mkfile"]) is not None:
        return MakeFile(_path(file["path"]), _mode(file["mode"]), file["data"]), file["owner"], file["timestamp"]
    if (link := action["symlink"]) is not None:
        if not link["oldpath"]:
            raise Invalid("invalid symlink: it leads to nothing")
        return MakeLink(_path(link["newpath"]), _path(link["oldpath"])), link["owner"], link["timestamp"]
    if (removed := action["rm"]) is not None:
        return Remove(_path(removed["path"]), removed["allowNotFound"], removed["allowWildcard"]), None, _UNSET
    copied = action["copy"]
    assert copied is not None  # a whole action is one of these
    return _copied(copied), copied["owner"], copied["timestamp"]


def _copied(copied: ops.FileActionCopy) -> Copied:
    if copied["modeStr"]:
        permissions.parse(copied["modeStr"])
    for patterns in (copied["include_patterns"], copied["exclude_patterns"]):
        Ignore("\n".join(map(_line, patterns)))
    return Copied(
        source=_path(copied["src"]),
        destination=_path(copied["dest"]),
        mode=None if copied["mode"] == _UNSET or copied["modeStr"] else _mode(copied["mode"]),
        mode_text=copied["modeStr"],
        follow=copied["followSymlink"],
        contents=copied["dirCopyContents"],
        unpack=copied["attemptUnpackDockerCompatibility"],
        parents=copied["createDestPath"],
        wildcard=copied["allowWildcard"],
        empty_wildcard=copied["allowEmptyWildcard"],
        include=tuple(copied["include_patterns"]),
        exclude=tuple(copied["exclude_patterns"]),
        required=tuple(map(_path, copied["required_paths"])),
        replace=copied["alwaysReplaceExistingDestPaths"],
    )


def _line(pattern: str) -> str:
    if "\n" in pattern:
        raise Invalid("invalid pattern: it has a line's end in it")
    return pattern


def _who(user: ops.UserOpt | None) -> int | Named | None:
    if user is None:
        return None
    return Named(user["byName"]["name"], user["byName"]["input"]) if user["byName"] is not None else user["byID"]


def _mode(mode: int) -> int:
    if not 0 <= mode <= _MOST_MODE:
        mode &= _MOST_MODE  # Go's callers send the kind of the file along
    return mode


def _path(path: str) -> str:
    if "\0" in path:
        raise Invalid("invalid path: it has a NUL in it")
    return path
