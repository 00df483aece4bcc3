"""The service LLBBridge: what the frontend of a client asks of the build that it belongs to.

A call names its build by a field of its head. Each method runs in a thread of its own.
"""

import functools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from engine.daemon.buildkit import frontend, jobs, methods, wishes, workers
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.messages import gateway
from engine.daemon.buildkit.messages.known import Status
from engine.daemon.buildkit.serving import Call
from engine.daemon.parts import DaemonParts
from engine.errors import NotBuilt
from engine.protocols import grpc, protobuf

_BUILD = b"buildkit-controlapi-buildid"


def ping(engine: DaemonParts, call: Call[gateway.PingRequest, gateway.PongResponse]) -> None:
    """What the client may ask."""
    call.one()
    with _job(call):
        call.send(
            {
                "FrontendAPICaps": workers.frontend_capabilities(),
                "LLBCaps": workers.graph_capabilities(),
                "Workers": [workers.record(engine)],
            }
        )


def solve(engine: DaemonParts, call: Call[gateway.SolveRequest, gateway.SolveResponse]) -> None:
    """Build what a frontend of this engine makes of the options; the client gets a reference to the result."""
    asked = call.one()
    if asked["Frontend"] != wishes.NAME:
        what = f"the frontend {asked['Frontend']}" if asked["Frontend"] else "a graph of operations (LLB)"
        raise NotBuilt(f"{what} is not built in this engine")
    if asked["FrontendInputs"] or asked["CacheImports"] or asked["SourcePolicies"]:
        raise NotBuilt("inputs, imported caches and source policies of a frontend are not built in this engine")
    with _job(call) as job:
        outcome = frontend.solve(engine, job, asked["FrontendOpt"])
        id = ""  # nothing was built: the client has asked a question, which the metadata answer
        if outcome.trees:
            id = os.urandom(16).hex()
            job.outcomes[id] = outcome
        call.send({"ref": id, "result": {"ref": {"id": id}, "metadata": outcome.metadata}})


def return_(_engine: DaemonParts, call: Call[gateway.ReturnRequest, gateway.ReturnResponse]) -> None:
    """The client's frontend has ended."""
    asked = call.one()
    error = asked["error"]
    with _job(call) as job:
        if error is not None:
            status = grpc.Status(error["code"], error["message"], protobuf.encode(Status, error))
            job.answer(None, grpc.Failed(status))
        else:
            job.answer(asked["result"])
        call.send({})


def _job(call: Call[Any, Any]) -> AbstractContextManager[Job]:
    return jobs.used(call.metadata.get(_BUILD, b"").decode("ascii", "replace"))


_METHODS: dict[str, Callable[[DaemonParts, Any], None]] = {
    methods.GATEWAY + "Ping": ping,
    methods.GATEWAY + "Solve": solve,
    methods.GATEWAY + "Return": return_,
}


def served(engine: DaemonParts) -> dict[str, Callable[[Any], None]]:
    """The methods by their paths."""
    return {path: functools.partial(method, engine) for path, method in _METHODS.items()}
