"""The service LLBBridge: what a frontend asks of the build that it belongs to.

A call of the client's own frontend names its build by a field of its head. The frontend of an image has a connection of
its own. Each method takes one message and gives one, in a thread of its own.
"""

import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

from engine.daemon.builder import sourcechecks
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.sourcepolicies import Source
from engine.daemon.buildkit import caching, failures, jobs, methods, policyevaluator, workers
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import asking, returned, showing, sourcemeta
from engine.daemon.buildkit.llb.asker import Asker, own
from engine.daemon.buildkit.messages import gateway, ops, policy
from engine.daemon.buildkit.messages.fsutil import Stat
from engine.daemon.buildkit.messages.known import Status
from engine.daemon.buildkit.serving import Call
from engine.daemon.images.layers import merged
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid, NotBuilt, NotFound
from engine.late import TYPE_CHECKING, late
from engine.protocols import grpc, protobuf

if TYPE_CHECKING:  # few frontends run containers, and few commands fail
    from engine.daemon.buildkit.llb import execprocess, failedsteps
else:
    execprocess = late("engine.daemon.buildkit.llb.execprocess")
    failedsteps = late("engine.daemon.buildkit.llb.failedsteps")

Seen = TypeVar("Seen")

_META = gateway.ResolveSourceMetaRequest
_BUILD = b"buildkit-controlapi-buildid"


def ping(engine: DaemonParts, _asker: Asker, _asked: gateway.PingRequest) -> gateway.PongResponse:
    """What the frontend may ask."""
    return {
        "FrontendAPICaps": workers.frontend_capabilities(),
        "LLBCaps": workers.graph_capabilities(),
        "Workers": [workers.record(engine)],
    }


def solve(engine: DaemonParts, asker: Asker, asked: gateway.SolveRequest) -> gateway.SolveResponse:
    """Promise what a definition is about, or what another frontend makes."""
    caching.lend_more(engine, asker.job, asked["CacheImports"], own=not asker.depth)
    if asked["Final"]:
        raise NotBuilt("a frontend that ends without LLBBridge/Return is not built in this engine")
    found = asking.solve(
        engine,
        asker.job,
        asked["Definition"],
        asked["Frontend"],
        asked["FrontendOpt"],
        asked["FrontendInputs"],
        served_to,
        asker.depth,
        asked["SourcePolicies"],
    )
    if asked["Evaluate"]:
        returned.outcome(found)
    return returned.told(found, asker.references, asked)


def evaluate(_engine: DaemonParts, asker: Asker, asked: gateway.EvaluateRequest) -> gateway.EvaluateResponse:
    """Make what was promised."""
    asker.references.find(asked["Ref"]).tree()
    return {}


def read_file(engine: DaemonParts, asker: Asker, asked: gateway.ReadFileRequest) -> gateway.ReadFileResponse:
    """The bytes of a file of a tree that was promised, or some of them."""
    return {"Data": _looked(engine, asker, asked["Ref"], _file(asked))}


def read_dir(engine: DaemonParts, asker: Asker, asked: gateway.ReadDirRequest) -> gateway.ReadDirResponse:
    """The entries of a directory of such a tree."""
    return {"entries": _looked(engine, asker, asked["Ref"], _directory(asked))}


def stat_file(engine: DaemonParts, asker: Asker, asked: gateway.StatFileRequest) -> gateway.StatFileResponse:
    """What a path of such a tree is."""
    return {"stat": _looked(engine, asker, asked["Ref"], _one(asked))}


def _looked(engine: DaemonParts, asker: Asker, ref: str, look: Callable[[int], Seen]) -> Seen:
    tree = asker.references.find(ref).tree()
    return merged.within(engine.images.layer_root, Snapshot(tree.parts).layers, look)


def read_file_container(_engine: DaemonParts, asker: Asker, asked: gateway.ReadFileRequest) -> gateway.ReadFileResponse:
    """As `read_file`, of a container that the frontend has made."""
    return {"Data": execprocess.looked(asker, asked["Ref"], asked["MountIndex"], _file(asked))}


def read_dir_container(_engine: DaemonParts, asker: Asker, asked: gateway.ReadDirRequest) -> gateway.ReadDirResponse:
    """As `read_dir`, of such a container."""
    return {"entries": execprocess.looked(asker, asked["Ref"], asked["MountIndex"], _directory(asked))}


def stat_file_container(_engine: DaemonParts, asker: Asker, asked: gateway.StatFileRequest) -> gateway.StatFileResponse:
    """As `stat_file`, of such a container."""
    return {"stat": execprocess.looked(asker, asked["Ref"], asked["MountIndex"], _one(asked))}


def _file(asked: gateway.ReadFileRequest) -> Callable[[int], bytes]:
    part, path = asked["Range"], asked["FilePath"]
    offset, length = (part["Offset"], part["Length"]) if part is not None else (0, None)
    return lambda root: showing.file(root, path, offset, length)


def _directory(asked: gateway.ReadDirRequest) -> Callable[[int], list[Stat]]:
    return lambda root: showing.directory(root, asked["DirPath"], asked["IncludePattern"])


def _one(asked: gateway.StatFileRequest) -> Callable[[int], Stat]:
    return lambda root: showing.one(root, asked["Path"])


def resolve_image_config(
    engine: DaemonParts, asker: Asker, asked: gateway.ResolveImageConfigRequest
) -> gateway.ResolveImageConfigResponse:
    """The document of an image. A source that is converted is named in the answer."""
    source = sourcechecks.of_image(asked["Ref"])
    if asked["ResolverType"]:  # a content store of the client's has it
        attrs = {"oci.session": asked["SessionID"], "oci.store": asked["StoreID"]}
        attrs = {key: value for key, value in attrs.items() if value}
        source = Source(f"{sourcechecks.LAYOUT}://{asked['Ref']}", attrs)
    found = _judged(engine, asker, source, asked["Platform"], asked["SourcePolicies"])
    more = {key: asked[key] for key in ("Platform", "ResolveMode", "LogName")}
    told = sourcemeta.source(engine, asker.job, found, protobuf.decode(_META, protobuf.encode(_META, more)))
    image = told.get("Image")
    if image is None:
        raise Invalid(f"ref mutated by policy to non-image: {source.identifier} -> {found['identifier']}")
    ref = asked["Ref"] if found["identifier"] == source.identifier else found["identifier"].partition("://")[2]
    return {"Digest": image["Digest"], "Config": image["Config"], "Ref": ref}


def resolve_source_meta(
    engine: DaemonParts, asker: Asker, asked: gateway.ResolveSourceMetaRequest
) -> gateway.ResolveSourceMetaResponse:
    """What is known of a source before it is taken."""
    op = asked["Source"]
    if op is None:
        raise Invalid("source is required")
    source = Source(op["identifier"], dict(op["attrs"]))
    found = _judged(engine, asker, source, asked["Platform"], asked["SourcePolicies"])
    return sourcemeta.source(engine, asker.job, found, asked)


def _judged(
    engine: DaemonParts, asker: Asker, source: Source, platform: ops.Platform | None, policies: list[policy.Policy]
) -> ops.SourceOp:
    """The source that is to be used. policies: of the frontend. Raises Forbidden, Invalid, NotBuilt."""
    with policyevaluator.prefixed("could not resolve image due to policy"):
        found = policyevaluator.of(engine, asker.job, before=policies).judged(source, platform)
    return {"identifier": found.identifier, "attrs": dict(found.attributes)}


def return_(_engine: DaemonParts, asker: Asker, asked: gateway.ReturnRequest) -> gateway.ReturnResponse:
    """The frontend has ended."""
    error = asked["error"]
    if error is not None:
        status = grpc.Status(error["code"], error["message"], protobuf.encode(Status, error))
        asker.answer(None, grpc.Failed(status))
        return {}
    if asked["result"] is None:
        raise Invalid("result is required")
    returned.read(asked["result"], asker.references)  # so that the frontend learns of what it does not have
    asker.answer(asked["result"], None)
    return {}


def inputs(_engine: DaemonParts, asker: Asker, _asked: gateway.InputsRequest) -> gateway.InputsResponse:
    """The definitions that the frontend was given."""
    return {"Definitions": dict(asker.inputs)}


def warn(_engine: DaemonParts, asker: Asker, asked: gateway.WarnRequest) -> gateway.WarnResponse:
    """A warning for whoever watches the build."""
    info = asked["info"] or {"data": b""}
    if not asker.job.progress.has_room(len(asked["short"]) + sum(map(len, asked["detail"])) + len(info["data"])):
        raise Invalid("the frontend has given too many warnings")
    told = {name: asked[name] for name in ("level", "short", "detail", "url", "info", "ranges")}
    asker.job.progress.add({"warnings": [{"vertex": asked["digest"], **told}]})  # type: ignore[typeddict-item]
    return {}


Method = Callable[[DaemonParts, Asker, Any], Any]

_METHODS: dict[str, Method] = {
    methods.GATEWAY + "Ping": ping,
    methods.GATEWAY + "Solve": solve,
    methods.GATEWAY + "Evaluate": evaluate,
    methods.GATEWAY + "ReadFile": read_file,
    methods.GATEWAY + "ReadDir": read_dir,
    methods.GATEWAY + "StatFile": stat_file,
    methods.GATEWAY + "ReadFileContainer": read_file_container,
    methods.GATEWAY + "ReadDirContainer": read_dir_container,
    methods.GATEWAY + "StatFileContainer": stat_file_container,
    methods.GATEWAY + "ResolveImageConfig": resolve_image_config,
    methods.GATEWAY + "ResolveSourceMeta": resolve_source_meta,
    methods.GATEWAY + "Return": return_,
    methods.GATEWAY + "Inputs": inputs,
    methods.GATEWAY + "Warn": warn,
    methods.GATEWAY + "NewContainer": lambda *given: execprocess.new_container(*given),
    methods.GATEWAY + "ReleaseContainer": lambda *given: execprocess.release_container(*given),
}
_LARGE = (read_file, read_dir, read_file_container, read_dir_container)
_LAST_ANSWER_SECONDS = 5.0
_EXEC = methods.GATEWAY + "ExecProcess"  # the one with streams


def _answer(engine: DaemonParts, asker: Asker, call: Call[Any, Any], method: Method, asked: Any) -> None:
    """Answer a call. A frontend has a hundred at once, and may ask with each for as much as a message holds."""
    with failures.reasoned(), asker.job.answering() if method in _LARGE else contextlib.nullcontext():
        try:
            answer = method(engine, asker, asked)
        except grpc.Failed as error:
            told = failedsteps.offered(error, asker.references)
            if told is error:
                raise
            raise told from error
        call.send(answer)


def _patience(job: Job, method: Method) -> Callable[[], None]:
    """What a call looks at while its client takes no answer: it does not keep the build from its end.

    Return itself ends the build. So its answer, which may have to wait for what containers write, has some seconds.
    """
    if method is not return_:
        return job.check
    until: list[float] = []

    def check() -> None:
        if job.gone():
            until[:] = until or [time.monotonic() + _LAST_ANSWER_SECONDS]
            if time.monotonic() > until[0]:
                job.check()

    return check


def served(engine: DaemonParts) -> dict[str, Callable[[Any], None]]:
    """The methods by their paths, for clients whose calls name their builds."""

    def run(method: Method, call: Call[Any, Any]) -> None:
        asked = call.one()
        ref = call.metadata.get(_BUILD, b"").decode("ascii", "replace")
        if not ref:  # which no build is going to have
            raise NotFound("no such job ")
        with jobs.used(ref) as job:
            call.stream.check = _patience(job, method)
            _answer(engine, own(job), call, method, asked)

    def converse(call: Call[Any, Any]) -> None:
        with jobs.used(call.metadata.get(_BUILD, b"").decode("ascii", "replace")) as job:
            execprocess.exec_process(engine, own(job), call)

    return {path: functools.partial(run, method) for path, method in _METHODS.items()} | {_EXEC: converse}


def served_to(engine: DaemonParts, asker: Asker) -> dict[str, Callable[[Any], None]]:
    """The methods by their paths, for the connection of one frontend."""

    def run(method: Method, call: Call[Any, Any]) -> None:
        call.stream.check = _patience(asker.job, method)
        asked = call.one()
        with jobs.worked_for(asker.job):  # the program may end before its calls do
            _answer(engine, asker, call, method, asked)

    def converse(call: Call[Any, Any]) -> None:
        with jobs.worked_for(asker.job):
            execprocess.exec_process(engine, asker, call)

    return {path: functools.partial(run, method) for path, method in _METHODS.items()} | {_EXEC: converse}
