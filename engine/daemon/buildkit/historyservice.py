"""The methods of the service Control for the history of builds: listening to it, and changing its records.

Each method runs in a thread of its own.
"""

import datetime

from engine.daemon.buildkit import buildhistory
from engine.daemon.buildkit.messages import control
from engine.daemon.buildkit.serving import Call
from engine.daemon.parts import DaemonParts
from engine.protocols.hpack import Field


def timestamp() -> Field:
    """The field by which a client learns the daemon's time."""
    time = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return b"buildkit-current-timestamp", time.encode()


def listen(engine: DaemonParts, call: Call[control.BuildHistoryRequest, control.BuildHistoryEvent]) -> None:
    """Builds that run and that have ended, and, unless the client wants to know no more, what happens to them."""
    events = buildhistory.listen(engine, call.one())
    call.head([timestamp()])
    for event in events:
        if event is not None:
            call.send(event)
        elif call.stream.gone:
            return


def update(
    engine: DaemonParts, call: Call[control.UpdateBuildHistoryRequest, control.UpdateBuildHistoryResponse]
) -> None:
    """Remove a record, or have it stay. A record has its trace from the first, so there is nothing to finalize."""
    asked = call.one()
    if asked["Delete"]:
        buildhistory.delete(engine, asked["Ref"])
    elif not asked["Finalize"]:
        buildhistory.pin(engine, asked["Ref"], asked["Pinned"])
    call.send({})
