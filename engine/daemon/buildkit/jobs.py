"""The builds that clients have begun, each by the name (ref) that its client gave it.

Control/Solve begins and ends a build in its own thread. Other calls of the same client meet it by the ref: Status
watches it, those of LLBBridge feed it. Some that have ended unwatched are kept, because Status may come late. The lock
is held for a look or a change, and never while a client is waited for."""

import collections
import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Caller, Lend
from engine.daemon.buildkit import workroom
from engine.daemon.buildkit.llb.references import References
from engine.daemon.buildkit.llb.rooms import Rooms
from engine.daemon.buildkit.messages.control import CacheOptionsEntry, SolveRequest
from engine.daemon.buildkit.messages.gateway import Result
from engine.daemon.buildkit.progress import Progress
from engine.daemon.buildkit.provenance.captured import Captured
from engine.daemon.buildkit.serving import Cancelled
from engine.daemon.buildkit.workroom import Workroom
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass, field
from engine.errors import Conflict, EngineError, Invalid, NotFound, Unavailable

Found = TypeVar("Found")

_PATIENCE_SECONDS = 6.0  # as long as BuildKit waits for a build that a client asks about before it begins
_MOST_ENDED = 8
_MOST_RUNNING = 1000
_LOOK_SECONDS = 0.5
_MOST_LARGE = 4  # answers that may have megabytes, and are made and sent for one build at a time
_MOST_PROGRAMS = 32  # frontends of images at work for one build, in each other and side by side


class Lender(Protocol):
    """Caches that lend a build what others have made. `wait` waits until they are read."""

    def lend(self, identity: str, keeper: Keeper, /) -> Snapshot | None: ...

    def wait(self) -> None: ...


@dataclass(slots=True, eq=False)
class Job:
    """One build. held: closed at its end; references: what LLBBridge/Solve has promised to the client's frontend
    rooms: containers of that

    named: caches that the client's frontend has named, beside those of its first call
    captured: what the build has used; allowed: entitlements that the client has asked for and may have
    returned: what the client's own frontend gave back
    users: calls that are at work for it; programs: frontends of images that are; both guarded by `_changed`
    """

    ref: str
    asked: SolveRequest
    progress: Progress
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    references: References = field(default_factory=References)
    rooms: Rooms = field(default_factory=Rooms)
    named: list[CacheOptionsEntry] = field(default_factory=list)
    captured: Captured = field(default_factory=lambda: Captured(time.time_ns()))
    allowed: frozenset[str] = frozenset()
    returned: Result | None = None
    failure: EngineError | None = None
    users: int = 0
    programs: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)  # of the answer, and of the descriptors and `_closed`
    _closed: bool = False
    _lenders: tuple[Lender, ...] = ()  # guarded by `_opening`, as is the next
    _workroom: Workroom | None = None
    _opening: threading.Lock = field(default_factory=threading.Lock)
    _large: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_MOST_LARGE))
    _answered: int = field(default_factory=lambda: os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
    _given_up: int = field(default_factory=lambda: os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
    _why: str = ""

    @property
    def caller(self) -> Caller:
        """How the builder learns that nobody waits any more."""
        return Caller(self.watch, self.check, self.gone)

    def workroom(self, engine: ContainerParts) -> Workroom:
        """What all solves of the build share."""
        with self._opening:
            if self._workroom is None:
                # Only a frontend of the client's own goes on after a failure.
                own = not self.asked["Frontend"] and self.asked["Definition"] is None
                room = workroom.opened(engine, self.caller, self.allowed, self._lend, own)
                self._workroom = self.held.enter_context(room)
            return self._workroom

    def borrow(self, lender: Lender) -> None:
        """Let the build borrow from these caches."""
        with self._opening:
            self._lenders = (*self._lenders, lender)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """One of the few large answers is made and sent. Raises Cancelled where nobody waits any more."""
        while not self._large.acquire(timeout=_LOOK_SECONDS):
            self.check()
        try:
            yield
        finally:
            self._large.release()

    def settled(self) -> None:
        """Wait until all caches are read, so that the client is told of one that cannot be. Raises Cancelled."""
        for lender in self._lenders:
            lender.wait()

    def _lend(self) -> Lend | None:
        lenders = self._lenders
        if not lenders:
            return None
        return lambda identity, keeper: next(
            (tree for each in lenders if (tree := each.lend(identity, keeper)) is not None), None
        )

    def answer(self, result: Result | None, failure: EngineError | None = None) -> None:
        """The client's frontend has ended, with a result or a failure. The first word counts."""
        with self._lock:
            if self.returned is None and self.failure is None:
                self.returned, self.failure = result, failure
        self._ring(self._answered)

    def _ring(self, bell: int) -> None:
        with self._lock:
            if not self._closed:
                os.eventfd_write(bell, 1)

    def wait_for_answer(self) -> Result:
        """What the client's frontend has ended with. Raises Cancelled, and the failure it ended with."""
        self.watch(self._answered)
        if self.returned is None:
            raise self.failure or Invalid("result is required")
        return self.returned

    def give_up(self, why: str) -> None:
        """Nobody waits for the build any more; may be called from any thread, and more than once."""
        self._why = self._why or why
        self._ring(self._given_up)

    def watch(self, descriptor: int) -> None:
        """Sleep until a descriptor is readable. Raises Cancelled."""
        poll = select.poll()
        poll.register(self._given_up, select.POLLIN)
        poll.register(descriptor, select.POLLIN)
        poll.poll()
        self.check()

    def check(self) -> None:
        """Raise Cancelled once nobody waits any more."""
        if self.gone():
            raise Cancelled(f"context canceled: {self._why}")

    def gone(self) -> bool:
        """Whether nobody waits any more."""
        return bool(self._why)

    def close(self) -> None:
        """The build has ended, and no call is at work for it any more."""
        self.progress.close()
        try:
            self.held.close()
        finally:
            with self._lock:
                self._closed = True
                os.close(self._answered)
                os.close(self._given_up)


_changed = threading.Condition()
_running: dict[str, Job] = {}  # guarded by `_changed`, as is the next
_ended: collections.OrderedDict[str, Progress] = collections.OrderedDict()


def begin(
    asked: SolveRequest, allowed: frozenset[str] = frozenset(), prepare: Callable[[Job], None] = lambda _: None
) -> Job:
    """A new build. allowed: its entitlements

    prepare: is called with it before others can find it; what it raises leaves no build
    Raises Conflict for a ref that is taken, Unavailable where too many builds run.
    """
    job = Job(asked["Ref"], asked, Progress(asked["Ref"]), allowed=allowed)
    try:
        prepare(job)
        with _changed:
            if job.ref in _running or job.ref in _ended:
                raise Conflict(f"job ID {job.ref} exists")
            if len(_running) >= _MOST_RUNNING:
                raise Unavailable(f"{_MOST_RUNNING} builds run already")
            _running[job.ref] = job
            _changed.notify_all()
    except BaseException:
        job.close()
        raise
    return job


def end(job: Job) -> None:
    """It runs no more; those who come late can still be told of it. Calls that are at work for it are ended first."""
    job.give_up("the build has ended")
    with _changed:
        del _running[job.ref]
        while job.users:
            _changed.wait()
    if not job.progress.followed:
        with _changed:
            _ended[job.ref] = job.progress
            while len(_ended) > _MOST_ENDED:
                _ended.popitem(last=False)
            _changed.notify_all()
    job.close()


@contextlib.contextmanager
def used(ref: str) -> Iterator[Job]:
    """The build of that ref, which does not end before the `with` does. Raises NotFound."""
    job = find(ref)
    with worked_for(job):
        yield job


@contextlib.contextmanager
def worked_for(job: Job) -> Iterator[None]:
    """The build does not end before the `with` does. Raises NotFound where it has ended."""
    with _changed:
        if _running.get(job.ref) is not job:
            raise NotFound(f"no such job {job.ref}")
        job.users += 1
    try:
        yield
    finally:
        with _changed:
            job.users -= 1
            _changed.notify_all()


@contextlib.contextmanager
def program(job: Job) -> Iterator[None]:
    """A frontend of an image works for the build. Raises Invalid where too many do: each may ask for further ones."""
    with _changed:
        if job.programs >= _MOST_PROGRAMS:
            raise Invalid(f"{_MOST_PROGRAMS} frontends of images are at work for the build already")
        job.programs += 1
    try:
        yield
    finally:
        with _changed:
            job.programs -= 1


def find(ref: str) -> Job:
    """The build of that ref, which may begin a little later. Raises NotFound."""
    return _found(ref, lambda: _running.get(ref))


def watched(ref: str) -> Progress:
    """What the build of that ref tells; it may have ended, or begin a little later. Raises NotFound."""
    return _found(ref, lambda: _running[ref].progress if ref in _running else _ended.get(ref))


def _found(ref: str, look: Callable[[], Found | None]) -> Found:
    until = time.monotonic() + _PATIENCE_SECONDS
    with _changed:
        while (found := look()) is None:
            left = until - time.monotonic()
            if left <= 0:
                raise NotFound(f"no such job {ref}")
            _changed.wait(left)
        return found
