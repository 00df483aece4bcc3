"""The methods of the service Control that say what this builder is; a client calls them before it builds anything.

Each method runs in a thread of its own.
"""

import functools
from collections.abc import Callable
from typing import Any

from engine.daemon.buildkit import fieldfilters, methods, workers
from engine.daemon.buildkit.messages import control
from engine.daemon.buildkit.messages.worker import WorkerRecord
from engine.daemon.buildkit.serving import Call
from engine.daemon.parts import DaemonParts


def list_workers(engine: DaemonParts, call: Call[control.ListWorkersRequest, control.ListWorkersResponse]) -> None:
    """The one worker that there is, if the client's filters choose it."""
    chosen = fieldfilters.compiled(call.one()["filter"])
    record = workers.record(engine)
    call.send({"record": [record] if chosen(lambda path: _worker_field(record, path)) else []})


def _worker_field(record: WorkerRecord, path: tuple[str, ...]) -> str | None:
    if path == ("id",):
        return record["ID"]
    if path[0] == "labels" and len(path) > 1:
        return record["Labels"].get(".".join(path[1:]))
    return None


def info(_engine: DaemonParts, call: Call[control.InfoRequest, control.InfoResponse]) -> None:
    """Whose API this is."""
    call.one()
    call.send({"buildkitVersion": workers.VERSION})


_METHODS: dict[str, Callable[[DaemonParts, Any], None]] = {
    methods.CONTROL + "ListWorkers": list_workers,
    methods.CONTROL + "Info": info,
}


def served(engine: DaemonParts) -> dict[str, Callable[[Any], None]]:
    """The methods by their paths."""
    return {path: functools.partial(method, engine) for path, method in _METHODS.items()}
