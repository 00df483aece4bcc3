"""The layers of one pull: downloaded side by side, and each unpacked while it arrives.

Runs in the daemon: on the pull's thread, which tells the client and looks whether it is still there, and on threads of
its own, which never wait for the client and have ended when `fetch_layers` returns. Downloads wait for nobody; an
unpacking follows the download of its layer. The first failure ends them all.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from engine.daemon.images.content import Content
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.registry.download import Arriving, Cancelled, Following, fetch
from engine.daemon.images.registry.reads import Registry
from engine.daemon.images.registry.report import Report
from engine.daemon.jsontext import Object
from engine.errors import Invalid

# dockerd's max-concurrent-downloads. More unpackings than processors only take memory.
_DOWNLOADS = 3
_UNPACKINGS = min(3, len(os.sched_getaffinity(0)))
_SHORT = 12


def short(digest: str) -> str:
    """A layer's name in progress lines."""
    return digest.partition(":")[2][:_SHORT]


@dataclass(slots=True)
class _Job:
    """One layer: its descriptor and diff id, and what has become of it.

    fresh: it was not here before; told: set once `fresh` is known and a client has heard of it
    """

    part: Object
    diff_id: str
    arriving: Arriving
    fresh: bool = False
    told: threading.Event = field(default_factory=threading.Event)
    layer: Layer | None = None


@dataclass
class _Work:
    """What the threads share: jobs that nobody has taken, and what has gone wrong."""

    jobs: Sequence[_Job]
    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: list[BaseException] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)

    def take(self, kind: str) -> _Job | None:
        """The next job, in the image's order, for a thread of that kind; None when there is no more to do."""
        with self.lock:
            number = self.taken.get(kind, 0)
            if self.failures or number == len(self.jobs):
                return None
            self.taken[kind] = number + 1
            return self.jobs[number]


def fetch_layers(
    content: Content,
    registry: Registry,
    session: Session,
    parts: Sequence[Object],
    diff_ids: Sequence[str],
    report: Report,
    gone: Callable[[], bool],
) -> list[Layer]:
    """Download and unpack what is missing; the layers, lowest first.

    gone: says whether the client has hung up, which a registry that is silent would hide
    Raises what a thread met first.
    """
    # A layer may stand in an image more than once.
    unique = {(part["digest"], diff_id): part for part, diff_id in zip(parts, diff_ids, strict=True)}
    jobs = [_Job(part, diff_id, Arriving(part, report.cancelled)) for (_, diff_id), part in unique.items()]
    for part in parts:
        here = content.has(part["digest"], part["size"])
        report.line("Already exists" if here else "Pulling fs layer", short(part["digest"]), {})
    work = _Work(jobs)
    layers = _Layers(content, registry, session, report)
    kinds = {"download": (layers.download, _DOWNLOADS), "unpack": (layers.unpack, _UNPACKINGS)}
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
        # The first one: the others are only told that it is over.
        raise next((error for error in work.failures if not isinstance(error, Cancelled)), work.failures[0])
    report.check()
    return [next(job.layer for job in jobs if job.layer is not None and job.diff_id == diff_id) for diff_id in diff_ids]


def _each(work: _Work, kind: str, do: Callable[[_Job], None], registry: Registry, report: Report) -> None:
    """A thread: do what is to be done with each job that it can take."""
    while (job := work.take(kind)) is not None:
        try:
            do(job)
        except BaseException as error:
            with work.lock:
                work.failures.append(error)
            _end(registry, report)


def _end(registry: Registry, report: Report) -> None:
    report.cancelled.set()
    # The others must not wait for a silent registry first.
    registry.transport.interrupt()


class _Layers:
    """What is done with one layer; its two methods run on two threads."""

    def __init__(self, content: Content, registry: Registry, session: Session, report: Report):
        self._content = content
        self._registry = registry
        self._session = session
        self._report = report

    def download(self, job: _Job) -> None:
        """Have the blob in the content store."""
        identity, size = short(job.part["digest"]), job.part["size"]
        try:
            job.fresh = fetch(
                self._registry,
                self._content,
                job.part,
                self._report.cancelled,
                lambda current: self._report.part("Downloading", identity, current, size),
                job.arriving,
            )
            if job.fresh:
                self._report.line("Download complete", identity, {})
        finally:
            job.told.set()

    def unpack(self, job: _Job) -> None:
        """Have the layer unpacked, from the blob that may still be arriving."""
        identity, size = short(job.part["digest"]), job.part["size"]

        def told(current: int) -> None:
            self._report.check()
            # Until then a client sees how far the download is, which is how far this can be.
            if job.arriving.is_whole:
                self._report.part("Extracting", identity, current, size)

        try:
            job.layer = self._session.layer(
                job.diff_id, lambda: Following(job.arriving, self._content, told), self._report.check
            )
        except Invalid:
            # What came damaged is told as such, and nothing is kept of it: the download finds out at its end.
            job.arriving.wait()
            if not job.arriving.renewed:
                raise
            job.layer = self._session.layer(
                job.diff_id, lambda: self._content.open(job.part["digest"]), self._report.check
            )
        job.arriving.wait()
        job.told.wait()
        if job.fresh:
            self._report.line("Pull complete", identity, {})
