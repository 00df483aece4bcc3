"""The answer to `frontend.outline` (docker buildx build --call=outline): what one can give to a build of a stage.

Pure. These are the arguments that the stage and the stages below it use, and the secrets and agents that they mount.
The form is BuildKit's (frontend/subrequests/outline).
"""

import posixpath
from collections.abc import Iterator

from engine.daemon.builder import stages
from engine.daemon.buildkit.lint.review import Declared, Review, Seen
from engine.daemon.buildkit.subrequests.columns import columns
from engine.daemon.buildkit.subrequests.descriptions import described
from engine.daemon.buildkit.subrequests.excerpts import ranges
from engine.daemon.buildkit.subrequests.source import Answer, Source, dumped
from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.statements import Instruction
from engine.daemon.jsontext import Object

VERSION = "1.0.0"
_DEFAULT_AGENT = "default"


def report(review: Review, source: Source) -> Answer:
    """The answer. Raises Misplaced for a Dockerfile that cannot be built."""
    if review.fault is not None:
        raise review.fault
    target = review.stages[-1]
    needed = _needed(review)
    steps = [seen for seen in review.steps if seen.stage in needed]
    arguments = _arguments(review, needed, steps)
    mounted = {kind: _mounted(steps, kind) for kind in ("secret", "ssh")}
    told: Object = {
        "name": target.name,
        "description": described(target.start.comments, target.name),
        "args": [_argument(one) for one in arguments],
        "secrets": [_mount(*one) for one in mounted["secret"]],
        "ssh": [_mount(*one) for one in mounted["ssh"]],
        "sources": [source.encoded],
    }
    document = {key: value for key, value in told.items() if value}
    return {
        "result.json": dumped(document),
        "result.txt": _text(document).encode("utf-8", "replace"),
        "version": VERSION.encode(),
    }


def _needed(review: Review) -> set[int]:
    """The numbers of the stages that the last one stands on or copies from, and its own."""
    earlier = stages.Earlier(review.stages)
    below = {stage.index: [earlier.named(stage.base or "", stage.index)] for stage in review.stages}
    for seen in review.steps:
        below[seen.stage] += [earlier.find(name, seen.stage) for name in _named(seen)]
    last = review.stages[-1].index
    return stages.reached(last, lambda index: [stage.index for stage in below[index] if stage is not None])


def _named(seen: Seen) -> list[str]:
    if isinstance(seen.command, commands.Copy):
        return [seen.command.from_]
    if isinstance(seen.command, commands.Run):
        return [mount.from_ for mount in seen.command.mounts]
    return []


def _arguments(review: Review, needed: set[int], steps: list[Seen]) -> list[Declared]:
    used: dict[str, Declared] = {}
    waiting = {name for opened in review.opened if opened.index in needed for name in opened.taken}
    for seen in steps:
        for one in seen.declared:
            if not one.inherited:
                used[one.name] = one
            waiting |= one.uses | ({one.name} if one.inherited else set())
    visited: set[str] = set()
    while waiting:
        name = waiting.pop()
        outer = review.arguments.get(name)
        if name not in visited and outer is not None:
            used.setdefault(name, outer)
            waiting |= outer.uses
        visited.add(name)
        waiting -= visited
    return sorted(used.values(), key=lambda one: one.instruction.line)


def _mounted(steps: list[Seen], kind: str) -> list[tuple[str, bool, Instruction]]:
    """The secrets or agents that RUNs mount: name, whether it is required, and the first RUN that does."""
    found: dict[str, tuple[str, bool, Instruction]] = {}
    for seen in steps:
        for mount in _mounts(seen):
            if mount.type == kind:
                name = _name(mount)
                found.setdefault(name, (name, mount.required, seen.instruction))
    return sorted(found.values(), key=lambda one: one[2].line)


def _mounts(seen: Seen) -> Iterator[commands.Mount]:
    if isinstance(seen.command, commands.Run):
        yield from seen.command.mounts


def _name(mount: commands.Mount) -> str:
    if mount.type == "ssh":
        return mount.id or _DEFAULT_AGENT
    return mount.id or mount.source or posixpath.basename(mount.target)


def _argument(one: Declared) -> Object:
    told: Object = {
        "name": one.name,
        "description": described(one.instruction.comments, one.name),
        "value": one.value or "",
        "location": _location(one.instruction),
    }
    return {key: value for key, value in told.items() if value}


def _mount(name: str, required: bool, one: Instruction) -> Object:
    return {"name": name, **({"required": True} if required else {}), "location": _location(one)}


def _location(one: Instruction) -> Object:
    return {"ranges": ranges(one.line, one.last_line)}


def _text(document: Object) -> str:
    parts: list[str] = []
    if "name" in document or "description" in document:
        rows = [("TARGET:", document.get("name") or "(default)")]
        rows += [("DESCRIPTION:", document["description"])] if "description" in document else []
        parts.append(columns(rows, 1))
    if "args" in document:
        rows3 = [(one["name"], one.get("value", ""), one.get("description", "")) for one in document["args"]]
        parts.append(columns([("BUILD ARG", "VALUE", "DESCRIPTION"), *rows3], 3))
    for key, title in (("secrets", "SECRET"), ("ssh", "SSH")):
        if key in document:
            rows2 = [(one["name"], "true" if one.get("required") else "") for one in document[key]]
            parts.append(columns([(title, "REQUIRED"), *rows2], 3))
    return "".join(f"{part}\n" for part in parts)
