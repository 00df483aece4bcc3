"""Solves nodes of the graph of builds: each once, after its inputs, and side by side up to the host's processors.

One `Solver` belongs to one build. The thread that asks works too; others are started while there is work for them, and
none stays. A node that waits for a client, a server or another build's step holds no processor meanwhile. The first
failure ends the rest of the build. The lock is held for a look or a change, and never while a node is made.
"""

import contextlib
import heapq
import itertools
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.daemon.builder.graph import inflight, traced
from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.node import Input, Node, reachable
from engine.daemon.builder.graph.results import Results
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.telling import Telling
from engine.daemon.builder.graph.traced import Step
from engine.daemon.builder.graph.work import Caller, Giver, Lend, Work
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime import worker
from engine.dataclass import dataclass
from engine.errors import CommandFailed, EngineError

_LOOK_SECONDS = 0.2
# Threads of one call of `solve`, of which most wait: for a client, a server, another build.
_MOST_THREADS = 32
# Threads of all calls of one solver: a node may solve further nodes, and these further ones again.
_MOST_HELPERS = 64


class Teller:
    """Is told of the nodes of one build, by several threads at once. By itself it drops that."""

    def planned(self, node: Node) -> None:
        """The node is going to be solved. Its inputs were planned before."""

    def begun(self, node: Node) -> Telling:
        """All inputs of the node are there, and it is its turn."""
        return Telling()

    def ended(self, node: Node, error: BaseException | None) -> None:
        """The node is solved, or has failed with the error."""


class Stopped(EngineError):
    """Another node of the same build has failed."""


@dataclass(frozen=True, slots=True)
class Solved:
    """What a node has made. identity: of its result in the cache, empty for none

    outputs: by their places; of a node that was lent those alone that were needed
    created_ns: when it was made, since the epoch; 0 where that is unknown
    """

    outputs: Mapping[int, Snapshot]
    identity: str = ""
    created_ns: int = 0


def _whole(outputs: Sequence[Snapshot], identity: str = "", created_ns: int = 0) -> Solved:
    return Solved(dict(enumerate(outputs)), identity, created_ns)


def _output(solved: Mapping[str, Solved], wanted: Input) -> Snapshot:
    return solved[wanted.node.key].outputs[wanted.index]


def processors() -> int:
    """How many nodes a build makes at once: as many as there are processors, and two where there is one.

    What a command waits for, a disk or a server, is no processor's work.
    """
    return max(2, len(os.sched_getaffinity(0)))


def _nobody() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Build:
    """The build that nodes are solved for.

    keeper: keeps what is made and used; results: the cache; scratch: descriptor of a directory for intermediate files
    caller: who waits; teller: is told of the nodes; giver: gives secrets and agents, None for a client that cannot
    allowed: entitlements of the build; most: nodes that are made at the same time
    lend: returns what gives what others have made that the client trusts, None while there is nobody
    hold: as of `Work`
    """

    engine: ContainerParts
    keeper: Keeper
    results: Results
    scratch: int
    caller: Caller
    teller: Teller
    giver: Giver | None = None
    allowed: frozenset[str] | None = frozenset()
    most: int = 1
    lend: Callable[[], Lend | None] = _nobody
    hold: Callable[[Callable[[], None]], None] | None = None


class Solver:
    """Solves nodes of one build. What it has solved it knows until it is dropped."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._solved: dict[str, Solved] = {}
        self._helpers = threading.Semaphore(_MOST_HELPERS)

    def snapshot(self, wanted: Input) -> Snapshot:
        """The tree of an output, solved now if it was not before. Raises EngineErrors, and what the caller raises."""
        self._solve([wanted])
        return _output(self._solved, wanted)

    def steps(self, wanted: Input) -> list[Step]:
        """What the nodes that lead to an output have made, once `solve` was called for it."""
        return traced.steps([wanted], lambda node: (self._solved[node.key].identity, self._solved[node.key].outputs))

    def solved(self, node: Node) -> Solved:
        """What a node has made that `solve` was called for."""
        return self._solved[node.key]

    def solve(self, wanted: Sequence[Node]) -> None:
        """Solve these nodes and all that they need. Raises EngineErrors, and what the caller raises."""
        self._solve([each.output() for each in wanted])

    def _solve(self, wanted: Sequence[Input]) -> None:
        plan = self._planned(wanted)
        if not plan.todo:
            return
        for node in plan.todo:
            self._build.teller.planned(node)
        with _Run(self._build, self._solved, plan, self._helpers) as run:
            run.finish()

    def _planned(self, wanted: Sequence[Input]) -> "_Plan":
        """What is to be solved for these outputs: a node, too, of which others were lent than are needed now."""
        lacking: set[str] = set()
        while True:
            known = self._solved.keys() - lacking if lacking else self._solved.keys()
            todo = reachable([each.node for each in wanted], known)
            needed: dict[str, set[int]] = {}
            for each in itertools.chain(wanted, *(node.inputs for node in todo)):
                needed.setdefault(each.node.key, set()).add(each.index)
            more = {key for key in needed.keys() & known if not needed[key] <= self._solved[key].outputs.keys()}
            if not more:
                return _Plan(todo, needed, {node.key for node in todo})
            lacking |= more


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one call of `solve` does. todo: each after its inputs; missing: their keys

    needed: places of outputs, by the keys of nodes
    """

    todo: list[Node]
    needed: Mapping[str, set[int]]
    missing: set[str]


class _Run:
    """One call of `solve`. All fields below `_changed` are guarded by it."""

    def __init__(self, build: Build, solved: dict[str, Solved], plan: _Plan, helpers: threading.Semaphore) -> None:
        """helpers: has one for each thread that may yet be started"""
        self._build = build
        self._helpers = helpers
        self._needed = plan.needed
        todo = plan.todo
        self._place = {node.key: place for place, node in enumerate(todo)}
        self._todo = todo
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._changed = threading.Condition()
        self._solved = solved
        self._left = len(todo)
        self._missing: dict[str, int] = {}
        self._users: dict[str, list[int]] = {}
        self._ready: list[int] = []
        self._running = self._threads = self._called = self._idle = 0
        self._failure: BaseException | None = None
        for place, node in enumerate(todo):
            needs = {each.node.key for each in node.inputs} & plan.missing
            self._missing[node.key] = len(needs)
            for key in needs:
                self._users.setdefault(key, []).append(place)
            if not needs:
                heapq.heappush(self._ready, place)

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._bell)

    def finish(self) -> None:
        """Work until all is solved, or something has failed and every thread has ended."""
        try:
            self._work()
        except BaseException as error:  # of the caller's own check: a node's failure is kept by `_one`
            self._fail(error)
        with self._changed:
            while self._threads:
                self._changed.wait()
            failure = self._failure
        if failure is not None:
            raise failure

    def _help(self) -> None:
        """Work in a thread that was started for it."""
        try:
            with self._changed:
                self._called -= 1
                if self._over:
                    return
                self._threads += 1
            try:
                self._work()
            except BaseException as error:
                self._fail(error)
            finally:
                with self._changed:
                    self._threads -= 1
                    self._changed.notify_all()
        finally:
            self._helpers.release()

    @property
    def _over(self) -> bool:
        return self._failure is not None or not self._left

    def _work(self) -> None:
        while (place := self._next()) is not None:
            self._one(self._todo[place])

    def _next(self) -> int | None:
        """The node that is to be made next, once a processor is free for it; None when nothing is left to do."""
        with self._changed:
            self._idle += 1
            try:
                while not self._over:
                    if self._ready and self._running < self._build.most:
                        self._running += 1
                        place = heapq.heappop(self._ready)
                        self._call_help(self._idle - 1)
                        return place
                    self._changed.wait(_LOOK_SECONDS)
                    self._build.caller.check()
                return None
            finally:
                self._idle -= 1

    def _call_help(self, there: int) -> None:
        """Start a thread where there is work and a processor for one more. The caller holds `_changed`.

        there: threads that are about to look for work
        """
        there += self._called
        wanted = min(len(self._ready), self._build.most - self._running)
        if wanted > there and self._threads + self._called < _MOST_THREADS and self._helpers.acquire(blocking=False):
            self._called += 1
            worker.begin("build", self._help)

    def _one(self, node: Node) -> None:
        error: BaseException | None = None
        try:
            inputs = [_output(self._solved, each) for each in node.inputs]
            told = self._build.teller.begun(node)
            found = self._result(node, inputs, told)
        except BaseException as failure:
            error = failure
        try:
            self._build.teller.ended(node, error)
        except BaseException as failure:  # its client has gone
            error = error or failure
        if error is not None:
            self._fail(error)
        with self._changed:
            self._running -= 1
            if error is None:
                self._solved[node.key] = found
                self._left -= 1
                for place in self._users.get(node.key, ()):
                    key = self._todo[place].key
                    self._missing[key] -= 1
                    if not self._missing[key]:
                        heapq.heappush(self._ready, place)
                self._call_help(self._idle + 1)
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if self._failure is None:
                self._failure = error
                os.eventfd_write(self._bell, 1)
            self._changed.notify_all()

    # One node

    def _result(self, node: Node, inputs: list[Snapshot], told: Telling) -> Solved:
        work = self._work_of(told)
        operation = node.operation
        identity = operation.identity(work, inputs)
        if identity is None:
            return _whole(operation.make(work, inputs))
        if node.fresh:
            return self._make(node, work, inputs, identity)
        results = self._build.results
        now = False
        lent = self._lent(node, identity)
        if lent is not None:
            told.cached()
            return lent
        while True:
            found = results.find(identity, now)
            if found is not None:
                told.cached()
                return _whole(found.outputs, identity, found.created_ns)
            making, ours = inflight.claim(identity)
            if not ours:
                with self._waiting():
                    making.follow(told, work.check)
                now = True
                continue
            try:
                # Another build may have made it between the look and the claim.
                found = results.find(identity)
                if found is not None:
                    told.cached()
                    return _whole(found.outputs, identity, found.created_ns)
                return self._make(node, self._work_of(inflight.Copied(told, making)), inputs, identity)
            except CommandFailed as failure:
                making.failure = failure
                raise
            finally:
                making.end(making.failure)

    def _lent(self, node: Node, identity: str) -> Solved | None:
        """What somebody else has made, where the cache has nothing. It stays this build's, and is not kept."""
        lend = self._build.lend()
        if lend is None or self._build.results.find(identity) is not None:
            return None
        outputs: dict[int, Snapshot] = {}
        for place in sorted(self._needed[node.key]):
            with self._waiting():
                tree = lend(traced.result(identity, place), self._build.keeper)
            if tree is None:
                return None
            outputs[place] = tree
        return Solved(outputs, identity)

    def _make(self, node: Node, work: Work, inputs: list[Snapshot], identity: str) -> Solved:
        outputs = node.operation.make(work, inputs)
        below = [self._solved[each.node.key].identity for each in node.inputs]
        kept = self._build.results.keep(
            identity, outputs, inputs, node.operation.kind, node.name, [each for each in below if each]
        )
        return _whole(outputs, identity, kept.created_ns)

    def _work_of(self, told: Telling) -> Work:
        build = self._build
        return Work(
            build.engine,
            build.keeper,
            told,
            build.scratch,
            self._watch,
            self._check,
            self._waiting,
            build.giver,
            build.allowed,
            self._kept,
            build.hold,
        )

    def _kept(self, identity: str, kind: str, title: str, make: Callable[[], Snapshot]) -> Snapshot:
        found = self._build.results.find(identity)
        if found is not None:
            return found.outputs[0]
        made = make()
        self._build.results.keep(identity, (made,), (), kind, title, ())
        return made

    def _check(self) -> None:
        self._build.caller.check()
        failure = self._failure
        if failure is not None:
            raise Stopped(f"context canceled: another step of the build has failed: {failure}")

    def _watch(self, descriptor: int) -> None:
        """Sleep until a descriptor is readable. Raises what the caller raises, and Stopped."""
        both = select.epoll()
        try:
            both.register(descriptor, select.EPOLLIN)
            both.register(self._bell, select.EPOLLIN)
            self._build.caller.watch(both.fileno())
        finally:
            both.close()
        self._check()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        with self._changed:
            self._running -= 1
            self._call_help(self._idle)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                while self._running >= self._build.most and self._failure is None:
                    self._changed.wait()
                self._running += 1
