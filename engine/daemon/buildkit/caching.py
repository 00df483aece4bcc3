"""The caches that a client names: those that a build borrows from (`--cache-from`), and those that get what it has made
(`--cache-to`).

Runs on the thread of Control/Solve. The tables have one row for each place; the options are checked before anything is
built. A cache that cannot be read is as an empty one. One that cannot be written fails the build, unless the client
has said otherwise.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from engine.daemon.buildkit import sessions
from engine.daemon.buildkit.caches import borrowed
from engine.daemon.buildkit.caches.borrowed import Opened
from engine.daemon.buildkit.caches.lending import Lender
from engine.daemon.buildkit.caches.targets import CacheWork, InlineCache, LocalCache, RegistryCache, Target
from engine.daemon.buildkit.exporters.attrs import Attrs
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.messages import gateway
from engine.daemon.buildkit.messages.control import CacheOptionsEntry, SolveRequest
from engine.daemon.buildkit.outcome import Outcome
from engine.daemon.parts import DaemonParts
from engine.errors import EngineError, Invalid, NotBuilt

_REGISTRY = "registry"
_MOST = 100
TARGETS: dict[str, Callable[[Attrs], Target]] = {
    _REGISTRY: RegistryCache,
    "local": LocalCache,
    "inline": InlineCache,
}
_SOURCES: dict[str, Callable[[DaemonParts, Job, Attrs], Opened | None]] = {
    _REGISTRY: borrowed.registry,
    "local": borrowed.local,
    "inline": borrowed.inline,
}


def targets_of(asked: SolveRequest) -> list[Target]:
    """The caches that are to be written. Raises NotBuilt for a kind that this engine does not have, Invalid."""
    cache = asked["Cache"] or {}
    found = list(cache.get("Exports") or [])
    if cache.get("ExportRefDeprecated"):  # clients before BuildKit 0.4
        old = {**cache["ExportAttrsDeprecated"], "ref": cache["ExportRefDeprecated"]}
        found.append({"Type": _REGISTRY, "Attrs": old})
    targets = []
    for each in found:
        if each["Type"] not in TARGETS:
            raise NotBuilt(f"the cache {each['Type']} (--cache-to) is not built in this engine")
        attrs = Attrs(f"the cache {each['Type']}", each["Attrs"])
        targets.append(TARGETS[each["Type"]](attrs))
        attrs.end()
    return targets


def lend_to(engine: DaemonParts, job: Job) -> None:
    """Let the build borrow from the caches that its client has named. Raises NotBuilt, Invalid."""
    _lend(engine, job, _imports(job))


def _imports(job: Job) -> list[CacheOptionsEntry]:
    """The caches that the client has named at the begin of the build."""
    cache = job.asked["Cache"] or {}
    found = list(cache.get("Imports") or [])
    return [*found, *({"Type": _REGISTRY, "Attrs": {"ref": ref}} for ref in cache.get("ImportRefsDeprecated") or [])]  # type: ignore[list-item]


def lend_more(engine: DaemonParts, job: Job, asked: Sequence[gateway.CacheOptionsEntry], own: bool) -> None:
    """Let the build borrow from caches that a frontend names. own: the frontend is the client's own

    The frontend of an image names those of the client alone: what it fills itself would be lent to others' steps.
    Raises NotBuilt, Invalid.
    """
    known = [*_imports(job), *job.named]
    more: list[CacheOptionsEntry] = [{"Type": each["Type"], "Attrs": each["Attrs"]} for each in asked]
    more = [each for each in more if each not in known]
    if len(known) + len(more) > _MOST:
        raise Invalid(f"a build borrows from at most {_MOST} caches")
    if more and not own:
        raise NotBuilt(
            "caches that a frontend of an image imports, and its client does not, are not built in this engine"
        )
    job.named.extend(more)
    _lend(engine, job, more)


def _lend(engine: DaemonParts, job: Job, found: Sequence[CacheOptionsEntry]) -> None:
    places = []
    for each in found:
        if each["Type"] not in _SOURCES:
            raise NotBuilt(f"the cache {each['Type']} (--cache-from) is not built in this engine")
        attrs = Attrs(f"the cache {each['Type']}", each["Attrs"])
        opened = _SOURCES[each["Type"]](engine, job, attrs)
        attrs.end()
        if opened is not None:
            places.append(opened)
    if places:
        lender = Lender(places, job.progress, job.check)
        job.held.callback(lender.close)
        job.borrow(lender)
        lender.begin()


def export(engine: DaemonParts, job: Job, outcome: Outcome, targets: list[Target]) -> dict[str, str]:
    """Write what the build has made to these; what the client is told. Raises EngineErrors."""
    told: dict[str, str] = {}
    for target in targets:
        vertex = job.progress.vertex(target.title)
        vertex.begin()
        try:
            with ExitStack() as held:
                session = functools.partial(sessions.find, job.asked["Session"])
                told |= target.export(CacheWork(engine.images, job, session, outcome, vertex, held))
        except EngineError as error:
            vertex.end(str(error))
            job.check()
            if not target.ignored:
                raise
        else:
            vertex.end()
    return told


def goes_inside(targets: list[Target]) -> bool:
    """Whether the image is to have a cache inside."""
    return any(isinstance(target, InlineCache) for target in targets)
