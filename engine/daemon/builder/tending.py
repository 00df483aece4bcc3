"""Keeps the build cache from filling the disk: after a build, what was not used for long goes, by BuildKit's own rules.

Runs in a thread of its own, begun when a build ends, and at most once in ten minutes. What a build uses stays, and so
does what an image with a name stands on, as its removal would free nothing.
"""

import logging
import os
import threading
import time

from engine.daemon.builder import prune
from engine.daemon.builder.prune import AskedPruning, Record
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime.background import later
from engine.dataclass import dataclass, replace
from engine.settings.gcpolicy import GcPolicy, GcRule

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 600.0
_HOUR_NS = 3600 * 10**9
_lock = threading.Lock()
_next_at = 0.0  # guarded by `_lock`


@dataclass(frozen=True, slots=True)
class Rule:
    """What goes: records of these kinds (None: of all) that were not used for `idle_ns`, while there is too much.

    all, filters: as of a pruning
    reserved: bytes that may stay, or percent of the disk where that is not 0; most, free: the same of what the cache
    may take, and of what is to be free; 0 for no such bound
    """

    kinds: frozenset[str] | None = None
    idle_ns: int = 0
    reserved_bytes: int = 0
    reserved: int = 0
    most: int = 0
    free: int = 0
    most_bytes: int = 0
    free_bytes: int = 0
    all: bool = False
    filters: tuple[tuple[str, str], ...] = ()


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


def rules_of(policy: GcPolicy) -> tuple[Rule, ...]:
    """The rules by the daemon's settings; as in dockerd, a bound of one kind there leaves those of no other kind."""
    if not policy.enabled:
        return ()
    if policy.rules is not None:
        return tuple(_bounded(Rule(all=each.all, filters=each.filters), each) for each in policy.rules)
    if policy.default == GcRule():
        return RULES
    return (RULES[0], *(_bounded(replace(each, reserved=0, most=0, free=0), policy.default) for each in RULES[1:]))


def _bounded(rule: Rule, bounds: GcRule) -> Rule:
    return replace(rule, reserved_bytes=bounds.reserved, most_bytes=bounds.most, free_bytes=bounds.free)


def tend(engine: ContainerParts) -> None:
    """Apply each rule in turn. Raises SystemFailure where the database cannot be written."""
    now = time.time_ns()
    for rule in rules(engine):
        asked = AskedPruning(
            all=rule.all,
            filters={name: tuple(value for of, value in rule.filters if of == name) for name, _ in rule.filters},
            reserved=rule.reserved_bytes,
            most=rule.most_bytes,
            free=rule.free_bytes,
            test=lambda record, rule=rule: _fits(record, rule, now),  # type: ignore[misc]
        )
        removed = prune.pruned(engine, asked, told=False)
        if removed:
            freed = sum(record.size for record in removed)
            log.info("the build cache has let go of %d records with %d bytes", len(removed), freed)


def rules(engine: ContainerParts) -> list[Rule]:
    """The rules of this daemon, whose bounds are all bytes of its disk."""
    found = os.statvfs(engine.settings.data_root)
    disk = found.f_blocks * found.f_frsize
    return [
        replace(
            rule,
            reserved_bytes=max(rule.reserved_bytes, disk * rule.reserved // 100),
            most_bytes=max(rule.most_bytes, disk * rule.most // 100),
            free_bytes=max(rule.free_bytes, disk * rule.free // 100),
        )
        for rule in rules_of(engine.settings.gc)
    ]


def _fits(record: Record, rule: Rule, now: int) -> bool:
    return (rule.kinds is None or record.type in rule.kinds) and now - record.used_ns >= rule.idle_ns
