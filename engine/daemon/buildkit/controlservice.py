"""The service Control: what a client of BuildKit asks of the daemon about builds as a whole.

Each method runs in a thread of its own.
"""

import contextlib
import functools
import socket
from collections.abc import Callable
from typing import Any

from engine.daemon.buildkit import (
    attesting,
    attestwishes,
    bridgeservice,
    caching,
    entitlements,
    exporting,
    failures,
    frontend,
    historyservice,
    jobs,
    methods,
    recording,
    sessions,
    usageservice,
)
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.llb import asking, returned
from engine.daemon.buildkit.messages import control
from engine.daemon.buildkit.outcome import Outcome
from engine.daemon.buildkit.serving import Call
from engine.daemon.parts import DaemonParts
from engine.daemon.runtime import worker
from engine.errors import EngineError, Invalid, NotBuilt

_PIECE = 32 * 1024
_LONGEST_REF = 256


def session(_engine: DaemonParts, call: Call[control.BytesMessage, control.BytesMessage]) -> None:
    """A session whose connection of HTTP/2 travels in the messages of this call."""
    fields = dict(call.metadata)
    offers = b",".join(value for name, value in call.stream.fields or () if name == sessions.OFFERS.encode())
    near, far = socket.socketpair()
    with far:
        worker.begin("session in", lambda: _carry_in(call, far))
        worker.begin("session out", lambda: _carry_out(call, far))
        sessions.serve(
            sessions.Session(
                fields.get(sessions.ID.encode(), b"").decode("ascii", "replace"),
                fields.get(sessions.SHARED_KEY.encode(), b"").decode("utf-8", "replace"),
                sessions.offered(offers.decode("ascii", "replace")),
                Link(near, True),
            )
        )


def _carry_in(call: Call[control.BytesMessage, control.BytesMessage], far: socket.socket) -> None:
    try:
        for message in call.every():
            far.sendall(message["data"])
    except (OSError, EngineError):  # either side has gone, which the other one is told by the end of the socket
        pass
    with contextlib.suppress(OSError):
        far.shutdown(socket.SHUT_RDWR)


def _carry_out(call: Call[control.BytesMessage, control.BytesMessage], far: socket.socket) -> None:
    try:
        while data := far.recv(_PIECE):
            call.send({"data": data})
    except (OSError, EngineError):
        with contextlib.suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)


def status(engine: DaemonParts, call: Call[control.StatusRequest, control.StatusResponse]) -> None:
    """All that a build tells, from its begin to its end, or has told."""
    ref = call.one()["Ref"]
    past = recording.replayed(engine, ref)
    if past is not None:
        call.head([historyservice.timestamp()])
        for each in past:
            call.send(each)
        return
    progress = jobs.watched(ref)
    call.head([historyservice.timestamp()])
    for event in progress.follow():
        if event is not None:
            call.send(event)
        elif call.stream.gone:
            return


def solve(engine: DaemonParts, call: Call[control.SolveRequest, control.SolveResponse]) -> None:
    """A build, from its begin to its end."""

    def begun(job: Job) -> None:
        call.stream.on_cut(lambda: job.give_up("the client has gone"))

    call.send({"ExporterResponse": built(engine, call.one(), begun, call.metadata.get(b"traceparent", b""))})


def built(
    engine: DaemonParts, asked: control.SolveRequest, begun: Callable[[Job], None], parent: bytes = b""
) -> dict[str, str]:
    """Build, and export the result; what the client is told of it.

    The client's own frontend, or one of this engine, says what is built.
    begun: is called once others can watch the build; it must not wait; parent: as of `recording.recorded`
    Raises EngineErrors.
    """
    exporters = exporting.asked_of(asked)
    kinds = exporting.kinds_of(exporters)
    attests = attestwishes.read(asked["FrontendAttrs"])
    targets = caching.targets_of(asked)
    _refuse(asked)
    _check_ref(asked["Ref"])
    with failures.plainly():
        allowed = entitlements.granted(asked["Entitlements"], engine.settings.entitlements)
    job = jobs.begin(asked, allowed, functools.partial(caching.lend_to, engine))
    try:
        with recording.recorded(engine, asked, exporters, job.progress, parent) as record:
            begun(job)
            _follow_session(job)
            said = attesting.Attesting(engine, job, attests)
            with failures.plainly():
                outcome = _result(engine, job)
                job.settled()
                record.told = exporting.export(engine, job, outcome, kinds, said, targets)
    finally:
        jobs.end(job)
    return dict(record.told)


def _follow_session(job: Job) -> None:
    """Have the build end when its client's session does, which may come a little later, whatever the build is of."""
    id = job.asked["Session"]
    session = sessions.known(id)
    if session is not None:
        frontend.end_with(session, job)
    elif id:
        worker.begin("session of a build", lambda: _follow_later(job, id))


def _follow_later(job: Job, id: str) -> None:
    with contextlib.suppress(EngineError):  # it does not come, which is told where it is needed; or the build is over
        session = sessions.find(id)
        with jobs.worked_for(job):
            frontend.end_with(session, job)


def _check_ref(ref: str) -> None:
    """Raise Invalid for what no client calls a build."""
    if not 0 < len(ref) <= _LONGEST_REF or not ref.isprintable():
        raise Invalid("a build's ref has 1 to 256 printable characters")


def _refuse(asked: control.SolveRequest) -> None:
    """Raise NotBuilt for what this engine cannot do."""
    wanted: tuple[tuple[str, object], ...] = (
        ("exporting through the session", asked["EnableSessionExporter"]),
        ("a network that leads through a proxy of the builder", asked["ProxyNetwork"]),
        ("a result as another version of BuildKit makes it", asked["CompatibilityVersion"]),
    )
    for what, value in wanted:
        if value:
            raise NotBuilt(f"{what} is not built in this engine")


def _result(engine: DaemonParts, job: Job) -> Outcome:
    """What is built. Raises EngineErrors."""
    asked = job.asked
    if asked["Frontend"] or asked["Definition"] is not None:
        name, options, inputs = asked["Frontend"], asked["FrontendAttrs"], asked["FrontendInputs"]
        serve = bridgeservice.served_to
        return returned.outcome(asking.solve(engine, job, asked["Definition"], name, options, inputs, serve))
    return returned.outcome(returned.read(job.wait_for_answer(), job.references))


_METHODS: dict[str, Callable[[DaemonParts, Any], None]] = {
    methods.CONTROL + "Session": session,
    methods.CONTROL + "Status": status,
    methods.CONTROL + "Solve": solve,
    methods.CONTROL + "DiskUsage": usageservice.disk_usage,
    methods.CONTROL + "Prune": usageservice.prune,
    methods.CONTROL + "ListenBuildHistory": historyservice.listen,
    methods.CONTROL + "UpdateBuildHistory": historyservice.update,
}


def served(engine: DaemonParts) -> dict[str, Callable[[Any], None]]:
    """The methods by their paths."""
    return {path: functools.partial(method, engine) for path, method in _METHODS.items()}
