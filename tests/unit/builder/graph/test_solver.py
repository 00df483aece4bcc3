"""Solving the graph: order, parallel work, one making of what several need, failures, and those who go away."""

import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.builder.graph import inflight, solver
from engine.daemon.builder.graph.node import Node
from engine.daemon.builder.graph.solver import Solver, Stopped
from engine.daemon.builder.graph.work import Caller, Work
from engine.dataclass import replace
from engine.errors import CommandFailed, EngineError, Invalid
from tests.unit.builder.graph.made import Known, Log, build, node

PATIENCE = 10.0


class Gone(EngineError):
    """The caller has gone."""


def solved(target: Node, known: Known | None = None, most: int = 2) -> str:
    """The chain of the target's tree."""
    return Solver(build(known or Known(), most)).snapshot(target.output()).chain


def within(count: int) -> Callable[[Work], None]:
    """An operation that ends only once so many are at work."""
    meet = threading.Barrier(count)

    def wait(_work: Work) -> None:
        meet.wait(PATIENCE)

    return wait


def test_inputs_are_made_first_and_each_node_once() -> None:
    """A diamond: its foot is made once, although two nodes need it."""
    log = Log()
    foot = node("foot", log)
    top = node("top", log, node("left", log, foot), node("right", log, node("foot", log)))
    solved(top)
    assert log.made[0] == "foot" and log.made[-1] == "top" and sorted(log.made[1:3]) == ["left", "right"]


def test_nodes_that_need_each_other_not_are_made_side_by_side() -> None:
    """Three at once where three may be, or the barrier would never open."""
    log, together = Log(), within(3)
    top = node("top", log, *(node(f"n{number}", log, does=together) for number in range(3)))
    solved(top, most=3)
    assert log.most == 3


def test_no_more_nodes_are_made_at_once_than_there_are_processors() -> None:
    log = Log()

    def slow(_work: Work) -> None:
        time.sleep(0.01)

    solved(node("top", log, *(node(f"n{number}", log, does=slow) for number in range(9))), most=2)
    assert log.most <= 2


def test_who_waits_for_others_needs_no_processor() -> None:
    """With one processor, a node that waits for a client lets the other be made, which it waits for here."""
    log, made = Log(), threading.Event()

    def wait(work: Work) -> None:
        with work.waiting():
            assert made.wait(PATIENCE)

    first = node("a", log, does=wait)
    solved(node("top", log, first, node("b", log, does=lambda _work: made.set())), most=1)
    assert sorted(log.made) == ["a", "b", "top"]


def test_no_thread_stays() -> None:
    before = set(threading.enumerate())
    log, together = Log(), within(4)
    solved(node("top", log, *(node(f"n{number}", log, does=together) for number in range(4))), most=4)
    deadline = time.monotonic() + PATIENCE
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


def test_nodes_that_solve_nodes_have_few_threads_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level of a graph within a graph would have as many again for each thread of the one around it."""
    monkeypatch.setattr(solver, "_MOST_HELPERS", 4)
    log, most = Log(), 0
    target = Solver(build(Known(), 2))

    def deeper(name: str, levels: int) -> Node:
        def solve(work: Work) -> None:
            nonlocal most
            with work.waiting():
                most = max(most, sum(thread.name == "build" for thread in threading.enumerate()))
                if levels:
                    target.solve([node(f"{name}.", log, *(deeper(f"{name}{each}", levels - 1) for each in range(4)))])
                else:
                    time.sleep(0.01)

        return node(name, log, does=solve)

    before = sum(thread.name == "build" for thread in threading.enumerate())
    target.solve([deeper("n", 3)])
    assert log.made.count("n") == 1 and len(log.made) == sum(4**level for level in range(4)) + sum(
        4**level for level in range(3)
    )
    assert 1 < most <= 4 + before


def test_a_result_is_found_again() -> None:
    log, known = Log(), Known()
    first = solved(node("a", log), known)
    assert solved(node("a", log), known) == first and log.made == ["a"]


def test_a_fresh_node_is_made_again_and_replaces_the_result() -> None:
    log, known = Log(), Known()
    solved(node("a", log), known)
    solved(node("a", log, fresh=True), known)
    assert log.made == ["a", "a"]


def test_the_record_of_a_result_names_those_below() -> None:
    log, known = Log(), Known()
    solved(node("b", log, node("a", log)), known)
    one = next(key for key, below in known.parents.items() if not below)
    assert [below for below in known.parents.values() if below] == [[one]]


def test_several_outputs_are_inputs_of_others() -> None:
    log = Log()
    a = node("a", log)
    b, c = node("b", log, a.output(0)), node("b", log, a.output(1))
    assert a.output(1) != a.output(0) and b.key != c.key
    target = Solver(build(Known()))
    assert target.snapshot(a.output(1)).parts == target.snapshot(a.output()).parts


def test_outputs_are_lent_one_by_one_and_a_node_is_made_for_those_that_are_not() -> None:
    """What was lent serves until more of the node is needed; with all of it lent the node is never made."""
    log = Log()
    a = node("a", log)
    whole = Solver(build(Known()))
    trees = [whole.snapshot(a.output(place)) for place in range(2)]
    names = [step.identity for place in range(2) for step in whole.steps(a.output(place))]
    assert len(set(names)) == 2
    log.made.clear()

    def solving(*lent: int) -> Solver:
        known = {names[place]: trees[place] for place in lent}
        return Solver(replace(build(Known()), lend=lambda: lambda name, _keeper: known.get(name)))

    both = solving(0, 1)
    assert [both.snapshot(a.output(place)) for place in range(2)] == trees and not log.made
    user = node("user", log, a.output(1))
    second = solving(1)
    assert second.snapshot(user.output()).parts[0] == trees[1].parts[0] and log.made == ["user"]
    assert second.snapshot(a.output()) == trees[0] and log.made == ["user", "a"]
    third = solving(1)
    third.solve([node("user", log, a.output(1)), node("user", log, a.output(0))])
    assert log.made.count("a") == 2


def test_two_builds_make_a_step_once_and_both_have_it() -> None:
    """The second one comes while the first one is at work, and takes no processor while it waits."""
    log, known, begun, go = Log(), Known(), threading.Event(), threading.Event()

    def slow(_work: Work) -> None:
        begun.set()
        assert go.wait(PATIENCE)

    found: list[str] = []
    first = threading.Thread(target=lambda: found.append(solved(node("a", log, does=slow), known)))
    first.start()
    assert begun.wait(PATIENCE)
    second = threading.Thread(target=lambda: found.append(solved(node("a", log, does=slow), known, most=1)))
    second.start()
    go.set()
    first.join(PATIENCE), second.join(PATIENCE)
    assert log.made == ["a"] and len(found) == 2 and found[0] == found[1]


def test_one_that_waits_takes_over_when_the_maker_goes_away() -> None:
    """The first caller goes while its step is made. The second build then makes the step itself."""
    log, known, begun, gone = Log(), Known(), threading.Event(), threading.Event()

    def check() -> None:
        if gone.is_set():
            raise Gone

    def first_time(work: Work) -> None:
        begun.set()
        while True:
            work.check()
            time.sleep(0.005)

    failures: list[BaseException] = []

    def leaving() -> None:
        try:
            Solver(build(known, caller=Caller(lambda _fd: None, check, gone.is_set))).solve(
                [node("a", log, does=first_time)]
            )
        except Gone as error:
            failures.append(error)

    first = threading.Thread(target=leaving)
    first.start()
    assert begun.wait(PATIENCE)
    found: list[str] = []
    second = threading.Thread(target=lambda: found.append(solved(node("a", log), known)))
    second.start()
    time.sleep(0.05)
    assert not found
    gone.set()
    first.join(PATIENCE), second.join(PATIENCE)
    assert failures and found and log.made == ["a", "a"]


def test_what_a_command_writes_reaches_a_build_that_waits_for_it() -> None:
    """Also what was written before it came; and the command's failure is its own too."""
    log, known, begun, go = Log(), Known(), threading.Event(), threading.Event()

    def fails(work: Work) -> None:
        work.told.command(b"early", False)
        begun.set()
        assert go.wait(PATIENCE)
        work.told.command(b"late", True)
        raise CommandFailed("it failed", 3, "false")

    class Listening(solver.Telling):
        """Keeps what it is told."""

        def __init__(self) -> None:
            self.heard: list[tuple[bytes, bool]] = []

        def command(self, data: bytes, error: bool) -> None:
            """One piece."""
            self.heard.append((data, error))

    class Teller(solver.Teller):
        """Has one listener."""

        def __init__(self) -> None:
            self.listener = Listening()

        def begun(self, node: Node) -> Listening:
            """The listener."""
            return self.listener

    failures: list[CommandFailed] = []

    def run(teller: Teller) -> None:
        try:
            Solver(build(known, teller=teller)).solve([node("a", log, does=fails)])
        except CommandFailed as error:
            failures.append(error)

    tellers = Teller(), Teller()
    threads = [threading.Thread(target=run, args=(teller,)) for teller in tellers]
    threads[0].start()
    assert begun.wait(PATIENCE)
    threads[1].start()
    time.sleep(0.05)
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert [failure.code for failure in failures] == [3, 3] and log.made == ["a"]
    assert tellers[1].listener.heard == [(b"early", False), (b"late", True)]
    assert not inflight._making


def test_a_failure_ends_the_rest_of_the_build() -> None:
    """A node that is being made is stopped by its check and its watch, and no other is begun."""
    log, begun = Log(), threading.Event()

    def waits(work: Work) -> None:
        begun.set()
        with pytest.raises(Stopped):
            while True:
                work.check()
                time.sleep(0.005)
        raise Stopped("stopped")

    def fails(_work: Work) -> None:
        assert begun.wait(PATIENCE)
        raise Invalid("no")

    top = node("top", log, node("a", log, does=waits), node("b", log, does=fails), node("c", log))
    with pytest.raises(Invalid, match="no"):
        solved(top, most=2)
    assert "top" not in log.made


def test_a_teller_that_raises_fails_the_build_and_leaves_no_thread() -> None:
    class Raising(solver.Teller):
        """Its client has gone."""

        def ended(self, node: Node, error: BaseException | None) -> None:
            """Cannot be told."""
            raise Gone

    log = Log()
    with pytest.raises(Gone):
        Solver(build(Known(), teller=Raising())).solve([node("b", log, node("a", log))])
    assert log.made == ["a"]


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """For each node the numbers of its inputs, all of them lower than its own."""
    size = draw(st.integers(1, 12))
    return [draw(st.lists(st.integers(0, number - 1), max_size=3)) if number else [] for number in range(size)]


@given(graphs(), st.integers(1, 4))
def test_any_graph_makes_the_same_as_one_node_after_the_other(graph: list[list[int]], most: int) -> None:
    """And makes each node that the last one needs once."""

    def made(log: Log) -> Node:
        nodes: list[Node] = []
        for number, inputs in enumerate(graph):
            nodes.append(node(f"n{number}", log, *(nodes[each] for each in inputs)))
        return nodes[-1]

    alone, beside = Log(), Log()
    assert solved(made(alone), most=1) == solved(made(beside), most=most)
    assert sorted(alone.made) == sorted(beside.made) == sorted(set(alone.made))
