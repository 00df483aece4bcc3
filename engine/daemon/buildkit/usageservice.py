"""The methods of the service Control for the build cache: what it holds, and its pruning.

Each method runs in a thread of its own. The records are those of `docker system df` and `docker builder prune`.
"""

import time

from engine.daemon.builder import prune as pruning
from engine.daemon.builder.prune import Record
from engine.daemon.buildkit import fieldfilters
from engine.daemon.buildkit.messages import control
from engine.daemon.buildkit.messages.known import moment
from engine.daemon.buildkit.serving import Call
from engine.daemon.parts import DaemonParts
from engine.errors import Invalid


def disk_usage(engine: DaemonParts, call: Call[control.DiskUsageRequest, control.DiskUsageResponse]) -> None:
    """All records that the client's filters choose, and that were not used for as long as it says."""
    asked = call.one()
    chosen, before = fieldfilters.compiled(asked["filter"]), time.time_ns() - asked["ageLimit"]
    call.send(
        {
            "record": [
                _shown(record)
                for record in pruning.records(engine)
                if chosen(lambda path, record=record: _field(record, path))  # type: ignore[misc]
                and (not asked["ageLimit"] or record.used_ns <= before)
            ]
        }
    )


def prune(engine: DaemonParts, call: Call[control.PruneRequest, control.UsageRecord]) -> None:
    """Remove what the client chooses, and tell of each record that is gone."""
    asked = call.one()
    numbers = asked["keepDuration"], asked["reservedSpace"], asked["maxUsedSpace"], asked["minFreeSpace"]
    if min(numbers) < 0:
        raise Invalid("a space or duration below zero")
    chosen, before = fieldfilters.compiled(asked["filter"]), time.time_ns() - asked["keepDuration"]

    def test(record: Record) -> bool:
        fresh = bool(asked["keepDuration"]) and record.used_ns > before
        return not fresh and chosen(lambda path: _field(record, path))

    wanted = pruning.AskedPruning(
        all=asked["all"],
        reserved=asked["reservedSpace"],
        most=asked["maxUsedSpace"],
        free=asked["minFreeSpace"],
        test=test,
    )
    for record in pruning.pruned(engine, wanted):
        call.send(_shown(record))


def _shown(record: Record) -> control.UsageRecord:
    return {
        "ID": record.id,
        "Mutable": record.mutable,
        "InUse": record.in_use,
        "Size": record.size,
        "CreatedAt": moment(record.created_ns),
        "LastUsedAt": moment(record.used_ns) if record.uses else None,
        "UsageCount": record.uses,
        "Description": record.description,
        "RecordType": record.type,
        "Shared": record.named,
        "Parents": list(record.parents),
    }


def _field(record: Record, path: tuple[str, ...]) -> str | None:
    """A field as filters see it; a flag is an empty text where it is set."""
    flags = {
        "inuse": record.in_use,
        "mutable": record.mutable,
        "immutable": not record.mutable,
        "shared": record.named,
        "private": not record.named,
    }
    if path[0] in flags:
        return "" if flags[path[0]] else None
    texts = {
        "id": record.id,
        "description": record.description,
        "type": record.type,
        "parents": ";".join(record.parents),
    }
    return texts.get(path[0]) or None
