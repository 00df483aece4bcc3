"""Keeps the build cache from filling the disk: after a build, what was not used for long goes, by BuildKit's own rules.

Runs in a thread of its own, begun when a build ends, and at most once in ten minutes. What a build uses stays, and so
does what an image with a name stands on, as its removal would free nothing.
"""

import logging
import os
import threading
import time

from engine.daemon.build import prune
from engine.daemon.build.prune import AskedPruning, Record
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime.background import later
from engine.dataclass import dataclass

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 600.0
_HOUR_NS = 3600 * 10**9
_lock = threading.Lock()
_next_at = 0.0  # guarded by `_lock`


@dataclass(frozen=True, slots=True)
class Rule:
    """What goes: records of these kinds (None: of all) that were not used for `idle_ns`, while there is too much.

    reserved: bytes that may stay, or percent of the disk where that is not 0; most, free: percent of the disk that the
    cache may take, and that are to be free, 0 for no such bound
    """

    kinds: frozenset[str] | None = None
    idle_ns: int = 0
    reserved_bytes: int = 0
    reserved: int = 0
    most: int = 0
    free: int = 0


# As in BuildKit's cmd/buildkitd/config, gcpolicy.go.
RULES = (
    Rule(frozenset({"source.local", "exec.cachemount"}), 48 * _HOUR_NS, reserved_bytes=512 << 20),
    Rule(idle_ns=60 * 24 * _HOUR_NS, reserved=10),
    Rule(reserved=10, most=75, free=20),
)


def begin(engine: ContainerParts) -> None:
    """Tend the cache in the background, unless that was done a short while ago."""
    global _next_at
    with _lock:
        if time.monotonic() < _next_at:
            return
        _next_at = time.monotonic() + _PAUSE_SECONDS
    later(tend, engine)


def tend(engine: ContainerParts) -> None:
    """Apply each rule in turn. Raises SystemFailure where the database cannot be written."""
    found = os.statvfs(engine.settings.data_root)
    disk = found.f_blocks * found.f_frsize
    now = time.time_ns()
    for rule in RULES:
        asked = AskedPruning(
            reserved=max(rule.reserved_bytes, disk * rule.reserved // 100),
            most=disk * rule.most // 100,
            free=disk * rule.free // 100,
            test=lambda record, rule=rule: _fits(record, rule, now),  # type: ignore[misc]
        )
        removed = prune.pruned(engine, asked, told=False)
        if removed:
            freed = sum(record.size for record in removed)
            log.info("the build cache has let go of %d records with %d bytes", len(removed), freed)


def _fits(record: Record, rule: Rule, now: int) -> bool:
    return (rule.kinds is None or record.type in rule.kinds) and now - record.used_ns >= rule.idle_ns
