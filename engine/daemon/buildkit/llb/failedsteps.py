"""What a client may look at of a command that has failed: what it was run on, and what it has left in its mounts.

The client gets ids of these trees beside the operation, and makes containers of them (buildx debug). Source: buildkit,
frontend/gateway/gateway.go, wrapSolveError.
"""

import json
from collections.abc import Callable

from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.mounting import Mount
from engine.daemon.builder.run import Running, StepFailed
from engine.daemon.buildkit.failures import detail
from engine.daemon.buildkit.faultwords import causes
from engine.daemon.buildkit.llb import execution, explaining
from engine.daemon.buildkit.llb.references import Reference, References
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.messages.known import Status
from engine.daemon.buildkit.outcome import Tree
from engine.daemon.images import platform as platforms
from engine.daemon.jsontext import Object
from engine.protocols import grpc, protobuf

_KINDS = {"bind": ops.BIND, "secret": ops.SECRET, "ssh": ops.SSH, "cache": ops.CACHE, "tmpfs": ops.TMPFS}


def offered(error: grpc.Failed, references: References) -> grpc.Failed:
    """The failure of a call, with ids among these references where a command has failed and can be looked at."""
    step = step_of(error)
    if step is None:
        return error
    status = protobuf.decode(Status, error.status.details)
    name = f"{explaining.SOLVE}+json"
    known = [each for each in status["details"] if each["type_url"].endswith(name)]
    said: Object = json.loads(known[0]["value"]) if known else {"op": {"exec": _exec(step.operation)}}
    said |= _ids(step, said["op"]["exec"]["mounts"], references)
    status["details"] = [each for each in status["details"] if each not in known]
    status["details"].append(detail(explaining.SOLVE, said))
    return grpc.Failed(grpc.Status(error.status.code, error.status.words, protobuf.encode(Status, status)))


def step_of(error: BaseException | None) -> StepFailed | None:
    """The failure of a command that can be looked at, which an error comes from; None for any other."""
    return next((each for each in causes(error) if isinstance(each, StepFailed)), None)


def _ids(step: StepFailed, mounts: list[Object], references: References) -> Object:
    """The ids of what each mount of the operation was made of, and of what the command has left there."""
    known: dict[str, str] = {}

    def promise(tree: Snapshot) -> str:
        if tree.chain not in known:
            known[tree.chain] = _promise(references, lambda: tree)
        return known[tree.chain]

    others, written = iter(step.operation.mounts), iter(step.written)
    inputs, outputs = list[str](), list[str]()
    for mount in mounts:
        if mount["dest"] == execution.ROOT:
            inputs.append(promise(step.inputs[0]))
            outputs.append(_promise(references, step.root))
            continue
        other = next(others)
        inputs.append(promise(step.inputs[other.source]) if other.source is not None else "")
        outputs.append(promise(next(written)) if other.output else inputs[-1])
    return {"inputIDs": inputs, "mountIDs": outputs}


def _promise(references: References, make: Callable[[], Snapshot]) -> str:
    nothing: ops.Definition = {"ops": [], "metadata": {}, "Source": None}
    return references.add(Reference(nothing, lambda: Tree(platforms.host(), make().parts, {})))


def _exec(operation: Running) -> Object:
    """The command of a Dockerfile as an operation of a graph has it."""
    command = operation.command
    hosts = [dict(zip(("Host", "IP"), each.split(":", 1), strict=True)) for each in command.hosts]
    meta = {
        "args": command.argv,
        "env": command.env,
        "cwd": command.workdir,
        "user": command.user,
        "hostname": command.hostname,
        "extraHosts": hosts,
    }
    root = {"dest": execution.ROOT, "readonly": command.readonly}
    mounts = [root, *(_mount(each) for each in operation.mounts if each.target)]
    network = {"network": execution.network_mode(command.network)}
    security = {"security": ops.INSECURE if command.security == "insecure" else ops.SANDBOX}
    made: Object = explaining.shown({"meta": meta, "mounts": mounts, **network, **security})
    return made


def _mount(mount: Mount) -> Object:
    made = {"dest": mount.target, "selector": mount.selector, "readonly": mount.readonly, "output": -1}
    made |= {"input": -1} if mount.source is None else {}
    about = {"ID": mount.id, "uid": mount.uid, "gid": mount.gid, "mode": mount.mode, "optional": not mount.required}
    own: Object = {
        "cache": {"cacheOpt": {"ID": mount.id or mount.target, "sharing": execution.sharing_mode(mount.sharing)}},
        "tmpfs": {"TmpfsOpt": {"size": mount.size}},
        "secret": {"secretOpt": about},
        "ssh": {"SSHOpt": about},
    }
    return {**made, "mountType": _KINDS[mount.type], **own.get(mount.type, {})}
