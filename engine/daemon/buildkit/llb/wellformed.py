"""Checks that one operation of a definition says what its kind must say, with places that lie within its inputs.

Pure. The rules are those of BuildKit (solver/llbsolver/ops), in its words where a client shows them. What this checks
is relied on by all that read an operation afterwards.
"""

from collections.abc import Callable, Iterator

from engine.daemon.buildkit.messages import ops
from engine.errors import Invalid, NotBuilt

EMPTY = -1
"""The input of what stands on nothing, and the output of what gives none."""
_MOST_INPUTS = 5_000
_MOST_PARTS = 5_000  # mounts of a command, or actions on files
_ROOT = "/"
_MOST_ID = (1 << 32) - 2


def kind(op: ops.Op) -> str:
    """The name of the field that says what the operation does. Raises Invalid for none and for several."""
    found = [name for name in _CHECKS if op[name] is not None]  # type: ignore[literal-required]
    if len(found) != 1:
        raise Invalid("invalid LLB: a vertex has exactly one operation that is known here")
    return found[0]


def operation(op: ops.Op) -> None:
    """Raise Invalid for an operation that is not whole, NotBuilt for one that asks for another worker."""
    if len(op["inputs"]) > _MOST_INPUTS:
        raise Invalid(f"invalid LLB: a vertex with more than {_MOST_INPUTS} inputs")
    _CHECKS[kind(op)](op)
    if op["constraints"] is not None and op["constraints"]["filter"]:
        raise NotBuilt("constraints that choose a worker are not built in this engine: it has one")


def outputs(op: ops.Op) -> int:
    """How many outputs the operation has."""
    if (run := op["exec"]) is not None:
        return sum(map(has_output, run["mounts"]))
    if (files := op["file"]) is not None:
        return sum(1 for action in files["actions"] if action["output"] != EMPTY)
    if (passed := op["passthrough"]) is not None:
        return len(passed["outputs"])
    return 1


def has_output(mount: ops.Mount) -> bool:
    """Whether what a command leaves there is an output. Of other mounts than these BuildKit's clients leave it at 0."""
    return mount["output"] != EMPTY and mount["mountType"] in (ops.BIND, ops.CACHE)


def locations(sources: ops.Source | None) -> None:
    """Raise Invalid for a place in a text that is not told."""
    for digest, found in (sources or {"locations": {}})["locations"].items():
        for each in found["locations"]:
            if sources is None or not 0 <= each["sourceIndex"] < len(sources["infos"]):
                raise Invalid(f"invalid source index {each['sourceIndex']} for vertex {digest}")


def _within(op: ops.Op, input: int, what: str) -> None:
    """Raise Invalid unless the place is that of an input, or EMPTY."""
    if not EMPTY <= input < len(op["inputs"]):
        raise Invalid(f"invalid {what} index {input}: the vertex has {len(op['inputs'])} inputs")


def _source(op: ops.Op) -> None:
    if op["inputs"]:
        raise Invalid(f"invalid source op with {len(op['inputs'])} inputs")


def _exec(op: ops.Op) -> None:
    run = op["exec"]
    assert run is not None  # the kind says so
    meta = run["meta"]
    if meta is None:
        raise Invalid("invalid exec op with no meta")
    if not meta["args"]:
        raise Invalid("invalid exec op with no args")
    if not run["mounts"]:
        raise Invalid("invalid exec op with no mounts")
    if len(run["mounts"]) > _MOST_PARTS:
        raise Invalid(f"invalid exec op with more than {_MOST_PARTS} mounts")
    if [mount["dest"] for mount in run["mounts"]].count(_ROOT) != 1:
        raise Invalid("invalid exec op with no rootfs" if _ROOT not in _targets(run) else "invalid exec op: two roots")
    if run["network"] not in (ops.UNSET, ops.HOST, ops.NONE) or run["security"] not in (ops.SANDBOX, ops.INSECURE):
        raise Invalid("invalid exec op: an unknown network or security mode")
    _in_order([mount["output"] for mount in run["mounts"] if has_output(mount)], "exec")
    for mount in run["mounts"]:
        _mount(op, mount)


def _targets(run: ops.ExecOp) -> set[str]:
    return {mount["dest"] for mount in run["mounts"]}


def _mount(op: ops.Op, mount: ops.Mount) -> None:
    where = mount["dest"]
    if mount["mountType"] not in (ops.BIND, ops.SECRET, ops.SSH, ops.CACHE, ops.TMPFS):
        raise Invalid(f"mount type {mount['mountType']} not implemented")
    _within(op, mount["input"], "mount input")
    if where == _ROOT and mount["mountType"] != ops.BIND:
        raise Invalid(f"invalid mount type {mount['mountType']} for {where}")
    if not where or "\0" in where + mount["selector"]:
        raise Invalid("invalid mount: it has no destination, or a NUL in a path")
    changing = mount["output"] != EMPTY and not mount["readonly"] and mount["selector"].strip("/")
    if mount["contentCache"] == ops.ON and changing:
        raise Invalid(f"invalid mount cache content {where}")


def _file(op: ops.Op) -> None:
    files = op["file"]
    assert files is not None
    if not files["actions"]:
        raise Invalid("invalid file op with no actions")
    if len(files["actions"]) > _MOST_PARTS:
        raise Invalid(f"invalid file op with more than {_MOST_PARTS} actions")
    given = [action["output"] for action in files["actions"] if action["output"] != EMPTY]
    if not given:
        raise Invalid("no outputs specified")
    if len(set(given)) != len(given):
        raise Invalid("duplicate output")
    _in_order(sorted(given), "file")
    for place, action in enumerate(files["actions"]):
        _action(action, len(op["inputs"]) + place)


def _action(action: ops.FileAction, before: int) -> None:
    """before: how many inputs and actions stand before this one, which are those that it may use"""
    for input in (action["input"], action["secondaryInput"]):
        if not EMPTY <= input < before:
            raise Invalid(f"invalid input index {input}, {before} provided")
    each = (action["copy"], action["mkfile"], action["mkdir"], action["symlink"])
    if sum(one is not None for one in (*each, action["rm"])) != 1:
        raise Invalid("invalid file op: an action does exactly one thing that is known here")
    for owned in each:
        for user in _users(owned["owner"]) if owned is not None else ():
            name = user["byName"]
            if name is not None and not 0 <= name["input"] < before:
                raise Invalid(f"invalid user index: {name['input']}")
            if user["byID"] > _MOST_ID:
                raise Invalid(f"invalid user {user['byID']}")


def _users(owner: ops.ChownOpt | None) -> Iterator[ops.UserOpt]:
    for user in (owner["user"], owner["group"]) if owner is not None else ():
        if user is not None:
            yield user


def _build(op: ops.Op) -> None:
    build = op["build"]
    assert build is not None
    for each in build["inputs"].values():
        _within(op, each["input"], "build input")


def _merge(op: ops.Op) -> None:
    merge = op["merge"]
    assert merge is not None
    if len(merge["inputs"]) != len(op["inputs"]):
        inner, outer = len(merge["inputs"]), len(op["inputs"])
        raise Invalid(f"invalid merge op with {inner} inner inputs and {outer} outer inputs")
    for each in merge["inputs"]:
        _within(op, each["input"], "merge input")


def _diff(op: ops.Op) -> None:
    diff = op["diff"]
    assert diff is not None
    if diff["lower"] is None or diff["upper"] is None:
        raise Invalid("invalid diff op with nil lower or upper input")
    sides = (diff["lower"]["input"], diff["upper"]["input"])
    inner = sum(side != EMPTY for side in sides)
    if inner != len(op["inputs"]):
        raise Invalid(f"invalid diff op with {inner} inner inputs and {len(op['inputs'])} outer inputs")
    for side in sides:
        _within(op, side, "diff input")


def _passthrough(op: ops.Op) -> None:
    passed = op["passthrough"]
    assert passed is not None
    if not passed["id"]:
        raise Invalid("invalid passthrough op with no id")
    if not passed["outputs"]:
        raise Invalid("invalid passthrough op with no outputs")
    for output in passed["outputs"]:
        if not 0 <= output < len(op["inputs"]):
            raise Invalid(f"invalid passthrough output input index {output}")


def _in_order(given: list[int], what: str) -> None:
    if given != list(range(len(given))):
        raise Invalid(f"invalid {what} op: its outputs are not numbered from 0 on")


_CHECKS: dict[str, Callable[[ops.Op], None]] = {
    "exec": _exec,
    "source": _source,
    "file": _file,
    "build": _build,
    "merge": _merge,
    "diff": _diff,
    "passthrough": _passthrough,
}
