"""A graph of operations as provenance shows it: steps with numbers in the place of digests, in BuildKit's JSON.

Pure. The definition has been read before, or is this engine's own. Form: buildkit,
solver/llbsolver/provenance/buildconfig.go; the names of the fields are those of ops.proto, and what is zero is left
out.
"""

import base64
from collections.abc import Mapping
from typing import Any

from engine.daemon.buildkit.llb.definition import digest_of
from engine.daemon.buildkit.messages import ops
from engine.daemon.jsontext import Object
from engine.protocols import protobuf

_KINDS = ("exec", "source", "file", "build", "merge", "diff", "passthrough")
_ACTIONS = ("copy", "mkfile", "mkdir", "rm", "symlink")
_OF_A_SESSION = ("local.session", "local.unique")


def shown(definition: ops.Definition | None) -> tuple[Object, dict[str, str]]:
    """The `llbDefinition` and `digestMapping` of a definition, and the steps by their digests; empty for none."""
    if definition is None or not definition["ops"]:
        return {}, {}
    known = {digest_of(data): protobuf.decode(ops.Op, data) for data in definition["ops"]}
    names: dict[str, str] = {}
    steps: list[Object] = []
    waiting = [(digest_of(definition["ops"][-1]), False)]
    while waiting:
        digest, entered = waiting.pop()
        if digest in names or digest not in known:
            continue
        inputs = known[digest]["inputs"]
        if not entered:
            waiting.append((digest, True))
            waiting += [(each["digest"], False) for each in reversed(inputs)]
            continue
        names[digest] = f"step{len(steps)}"
        step: Object = {"id": names[digest], "op": _operation(known[digest])}
        if inputs:
            step["inputs"] = [f"{names[each['digest']]}:{each['index']}" for each in inputs if each["digest"] in names]
        steps.append(step)
    return {"llbDefinition": steps, "digestMapping": dict(sorted(names.items()))}, names


def sources(definition: ops.Definition, names: Mapping[str, str]) -> Object:
    """The texts that the operations were made from, and where in them each step is. names: steps by their digests"""
    source = definition["Source"]
    if source is None or not source["infos"]:
        return {}
    infos = []
    for info in source["infos"]:
        told = {key: info[key] for key in ("filename", "language") if info[key]}
        told |= {"data": base64.b64encode(info["data"]).decode()} if info["data"] else {}
        infos.append({**told, **shown(info["definition"])[0]})
    locations = {names[digest]: _plain(each) for digest, each in source["locations"].items() if digest in names}
    return {"infos": infos, "locations": locations}


def _operation(op: ops.Op) -> Object:
    kind = next((name for name in _KINDS if op[name] is not None), None)  # type: ignore[literal-required]
    what = {} if kind is None else {kind: _plain(op[kind])}  # type: ignore[literal-required]
    if kind == "source":
        attrs = what["source"].get("attrs", {})
        kept = {name: value for name, value in sorted(attrs.items()) if name not in _OF_A_SESSION}
        what["source"] = {"identifier": what["source"].get("identifier", ""), **({"attrs": kept} if kept else {})}
    if kind == "file" and op["file"] is not None:
        what["file"] = {"actions": [_action(each) for each in op["file"]["actions"]]}
    beside = {name: op[name] for name in ("platform", "constraints") if op[name] is not None}
    return {"Op": what, **{name: _plain(value) for name, value in beside.items()}}


def _action(action: ops.FileAction) -> Object:
    places = {name: action[name] for name in ("input", "secondaryInput", "output")}
    done = {name: action[name] for name in _ACTIONS if action[name] is not None}  # type: ignore[literal-required]
    return {**places, "Action": {name: _plain(value) for name, value in done.items()}}


def _plain(value: Any) -> Any:
    """A part of a message without what is zero; a message that is there stays, though it be empty."""
    if isinstance(value, dict):
        if "byName" in value and "byID" in value:  # a user or group, one of two
            named = value["byName"] is not None
            return {"User": {"byName": _plain(value["byName"])} if named else {"byId": value["byID"]}}
        kept = {name: each for name, each in value.items() if isinstance(each, dict) or each}
        return {name: _plain(each) for name, each in kept.items() if each != {} or name not in ("attrs", "inputs")}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
