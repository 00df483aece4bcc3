"""Downloading all layers of a pull on several threads, and unpacking each layer while it arrives.

Runs in the daemon. The pull's thread reports to the client and looks whether it is still connected. The other threads
never wait for the client, and have ended when `fetch_layers` returns. A download waits for no other work. The unpacking
of a layer follows its download. The first failure ends all of them.
"""

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from engine.daemon.images.content import Content
from engine.daemon.images.layers import comparing
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.registry.atonce import DOWNLOADS
from engine.daemon.images.registry.download import Arriving, Cancelled, Following, fetch
from engine.daemon.images.registry.reads import Registry
from engine.daemon.images.registry.report import Report
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field
from engine.errors import Invalid

# More unpackings at once than processors only take memory.
_UNPACKINGS = min(3, len(os.sched_getaffinity(0)))
_SHORT = 12


def short(digest: str) -> str:
    """The id of a layer in progress messages: the first twelve hex digits of its digest."""
    return digest.partition(":")[2][:_SHORT]


@dataclass(slots=True)
class _Job:
    """The work on one layer: its descriptor and diff id, its download, and the unpacked layer in the end.

    fresh: the blob was downloaded now; told: set once `fresh` is known and the end of the download was reported
    """

    part: Object
    diff_id: str
    arriving: Arriving
    fresh: bool = False
    told: threading.Event = field(default_factory=threading.Event)
    layer: Layer | None = None


@dataclass
class _Work:
    """The state that the threads share. taken: kind of thread → number of jobs that its threads have taken"""

    jobs: Sequence[_Job]
    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: list[BaseException] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)

    def take(self, kind: str) -> _Job | None:
        """The next job for a thread of that kind, in the image's order; None when there is none, or after a failure."""
        with self.lock:
            number = self.taken.get(kind, 0)
            if self.failures or number == len(self.jobs):
                return None
            self.taken[kind] = number + 1
            return self.jobs[number]


class Pace(NamedTuple):
    """What the daemon's settings say of downloads. at_once: of all pulls, 0 for no bound; attempts: of one layer"""

    at_once: int = 3
    attempts: int = 5


def fetch_layers(
    content: Content,
    registry: Registry,
    session: Session,
    parts: Sequence[Object],
    diff_ids: Sequence[str],
    report: Report,
    gone: Callable[[], bool],
    pace: Pace,
) -> list[Layer]:
    """Download and unpack the missing layers; returns all layers, lowest first.

    parts, diff_ids: descriptor and diff id of each layer, lowest first
    gone: whether the client has hung up; it is called regularly, because while a registry is silent nothing is written
        that would fail
    Raises the first error of a thread.
    """
    # An image may have the same layer more than once.
    unique = {(part["digest"], diff_id): part for part, diff_id in zip(parts, diff_ids, strict=True)}
    jobs = [_Job(part, diff_id, Arriving(part, report.cancelled)) for (_, diff_id), part in unique.items()]
    for part in parts:
        here = content.has(part["digest"], part["size"])
        report.line("Already exists" if here else "Pulling fs layer", short(part["digest"]), {})
    work = _Work(jobs)
    layers = _Layers(content, registry, session, report, pace)
    kinds = {"download": (layers.download, pace.at_once or len(jobs)), "unpack": (layers.unpack, _UNPACKINGS)}
    works = [
        (f"pull-{kind}-{number}", partial(_each, work, kind, do, registry, report))
        for kind, (do, most) in kinds.items()
        for number in range(min(most, len(jobs)))
    ]

    def look() -> None:
        if gone() and not report.cancelled.is_set():
            _end(registry, report)

    report.attend(works, lambda: _end(registry, report), look)
    if work.failures:
        # The first failure that is not Cancelled is the cause; the other threads were cancelled because of it.
        raise next((error for error in work.failures if not isinstance(error, Cancelled)), work.failures[0])
    report.check()
    return [next(job.layer for job in jobs if job.layer is not None and job.diff_id == diff_id) for diff_id in diff_ids]


def _each(work: _Work, kind: str, do: Callable[[_Job], None], registry: Registry, report: Report) -> None:
    """Take jobs and do the work of this kind with each, until none is left; this is the function of each thread."""
    while (job := work.take(kind)) is not None:
        try:
            do(job)
        except BaseException as error:
            with work.lock:
                work.failures.append(error)
            _end(registry, report)


def _end(registry: Registry, report: Report) -> None:
    report.cancelled.set()
    # Breaks the connections, so that no thread waits for a silent registry first.
    registry.transport.interrupt()


class _Layers:
    """The two kinds of work with one layer, which run on two threads."""

    def __init__(self, content: Content, registry: Registry, session: Session, report: Report, pace: Pace):
        self._pace = pace
        self._content = content
        self._registry = registry
        self._session = session
        self._report = report

    def download(self, job: _Job) -> None:
        """Download the layer's blob into the content store, unless it is there. Raises what `fetch` raises."""
        identity, size = short(job.part["digest"]), job.part["size"]
        try:
            with DOWNLOADS.turn(self._pace.at_once, self._report.check):
                job.fresh = fetch(
                    self._registry,
                    self._content,
                    job.part,
                    self._report.cancelled,
                    lambda current: self._report.part("Downloading", identity, current, size),
                    job.arriving,
                    self._pace.attempts,
                )
            if job.fresh:
                self._report.line("Download complete", identity, {})
        except BaseException as error:
            job.arriving.ended(error)  # who unpacks must not wait for a download that has had no turn
            raise
        finally:
            job.told.set()

    def unpack(self, job: _Job) -> None:
        """Unpack the layer from its blob, which may still be arriving, unless the layer exists."""
        identity, size = short(job.part["digest"]), job.part["size"]

        def told(current: int) -> None:
            self._report.check()
            # Until then the client sees the progress of the download, which the unpacking cannot overtake.
            if job.arriving.is_whole:
                self._report.part("Extracting", identity, current, size)

        unpacked = False

        def arriving() -> Following:
            nonlocal unpacked
            unpacked = True
            return Following(job.arriving, self._content, told)

        try:
            job.layer = self._session.layer(job.diff_id, arriving, self._report.check)
        except Invalid:
            # A blob that came damaged is reported by its download: `wait` raises, and nothing of it is kept. After a
            # download that began anew, the layer is unpacked again from the whole blob. Otherwise the layer is invalid.
            job.arriving.wait()
            if not job.arriving.renewed:
                raise
            job.layer = self._session.layer(
                job.diff_id, lambda: self._content.open(job.part["digest"]), self._report.check
            )
        job.arriving.wait()
        job.told.wait()
        if not unpacked:  # the layer is here already, and the blob may be another one, also if it was here too
            comparing.check_same(
                *(self._session.database, self._content, job.part["digest"], job.diff_id, self._report.check)
            )
        if job.fresh:
            self._report.line("Pull complete", identity, {})
