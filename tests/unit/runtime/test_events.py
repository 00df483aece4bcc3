"""The event bus: order, the kept past, and subscribers that do not read."""

import itertools
import os
import threading
import time

import pytest

from engine.daemon.runtime import events as bus
from engine.daemon.runtime.events import KEPT, MOST_WAITING, Events
from tests.harness.ready import ready


def publish(events, count, first=0):
    """Events whose actors are numbers."""
    for number in range(first, first + count):
        events.publish("container", "start", str(number), {"name": "n"})


def test_events_come_in_order_and_their_times_grow():
    """Strictly: a client that asks for what came after the last one it saw misses none."""
    events = Events()
    with events.subscribe()[1] as subscription:
        assert not ready(subscription)
        publish(events, 100)
        assert ready(subscription)
        taken = subscription.take()
        assert [event.actor for event in taken] == [str(number) for number in range(100)]
        assert all(before.time_ns < after.time_ns for before, after in itertools.pairwise(taken))
        assert not ready(subscription)


def test_what_is_left_keeps_the_reader_awake():
    """A reader takes a part at a time."""
    events = Events()
    with events.subscribe()[1] as subscription:
        publish(events, 5)
        assert len(subscription.take(3)) == 3
        assert ready(subscription)
        assert len(subscription.take(3)) == 2
        assert not ready(subscription)
        assert subscription.take() == []


def test_the_past_is_bounded_and_what_follows_it_is_not_missed():
    """256 events, as dockerd keeps; the subscription begins where the past ends."""
    events = Events()
    publish(events, KEPT + 10)
    past, subscription = events.subscribe()
    with subscription:
        publish(events, 1, first=1000)
        assert [event.actor for event in past] == [str(number) for number in range(10, KEPT + 10)]
        assert [event.actor for event in subscription.take()] == ["1000"]


def test_one_that_never_reads_is_dropped_and_nobody_else_is(monkeypatch):
    """It is told, and keeps no event any more; one that reads slowly stays."""
    monkeypatch.setattr(bus, "PATIENCE_SECONDS", 0.0)
    events = Events()
    with events.subscribe()[1] as stuck, events.subscribe()[1] as reader:
        for _ in range(MOST_WAITING + 1):
            publish(events, 1)
            assert len(reader.take()) == 1
        assert stuck.dropped and not reader.dropped
        assert ready(stuck) and stuck.take() == [] and ready(stuck)
        assert events.listeners == 1


def test_one_that_is_behind_and_reads_is_not_dropped(monkeypatch):
    """A burst is no reason: it comes nearer."""
    monkeypatch.setattr(bus, "PATIENCE_SECONDS", 600.0)  # a burst on a slow machine is one too
    events = Events()
    with events.subscribe()[1] as subscription:
        publish(events, MOST_WAITING + 100)
        assert not subscription.dropped
        seen = 0
        while taken := subscription.take():
            seen += len(taken)
        assert seen == MOST_WAITING + 100


def test_whatever_it_does_it_cannot_keep_more_than_so_much():
    """The bound of an idle daemon's memory."""
    events = Events()
    with events.subscribe()[1] as subscription:
        publish(events, 4 * MOST_WAITING + 1)
        assert subscription.dropped


def test_a_closed_subscription_gives_its_descriptor_back():
    """And nothing is written to whatever has the number then."""
    events = Events()
    _, subscription = events.subscribe()
    number = subscription.fileno()
    subscription.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(number)
    publish(events, 1)
    subscription.close()
    assert events.listeners == 0


def test_many_publish_at_once():
    """Nothing is lost, and the order is the same for everybody."""
    events = Events()
    with events.subscribe()[1] as one, events.subscribe()[1] as other:
        threads = [threading.Thread(target=publish, args=(events, 200, 1000 * number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        seen = [one.take(1000), other.take(1000)]
        assert len(seen[0]) == 800 and seen[0] == seen[1]


def test_what_was_missed_is_put_where_it_happened():
    """And is told to those who listen now, in the order in which it was published."""
    events = Events()
    events.publish("container", "start", "a", {})
    first = events.kept()[0].time_ns
    with events.subscribe()[1] as subscription:
        with events.at(first - 10):
            events.publish("container", "die", "b", {})
            events.publish("network", "disconnect", "b", {})
        events.publish("container", "start", "c", {})
        assert [event.actor for event in subscription.take()] == ["b", "b", "c"]
    times = [(event.action, event.actor, event.time_ns) for event in events.kept()]
    assert times[:3] == [("die", "b", first - 10), ("disconnect", "b", first - 9), ("start", "a", first)]
    assert times[3][2] > first


def test_a_past_that_is_restored_comes_before_what_follows():
    """Of a full past the oldest go, whenever an event has happened."""
    earlier = Events()
    for each in range(KEPT):
        earlier.publish("container", "start", str(each), {})
    events = Events()
    events.restore(earlier.kept())
    with events.at(earlier.kept()[5].time_ns):
        events.publish("container", "die", "x", {})
    kept = events.kept()
    assert len(kept) == KEPT
    assert [event.actor for event in kept[:7]] == ["1", "2", "3", "4", "5", "x", "6"]


def test_a_clock_that_was_ahead_does_not_hold_the_times_of_events(monkeypatch):
    events, clock = Events(), [10**18, 10**18 + 3 * 10**9, 10**18 + 1, 10**18 + 1]
    monkeypatch.setattr(time, "time_ns", lambda: clock.pop(0))
    for _ in range(4):
        events.publish("container", "start", "x", {})
    assert [event.time_ns for event in events.kept()] == [10**18, 10**18 + 3 * 10**9, 10**18 + 1, 10**18 + 2]


def test_what_was_missed_is_put_behind_what_came_before_the_clock_was_set_back(monkeypatch):
    """The kept events are in the order in which they were told, and not of their times then."""
    events, clock = Events(), [*range(10**18, 10**18 + 5), 1000, 2000]
    monkeypatch.setattr(time, "time_ns", lambda: clock.pop(0))
    for number in range(7):
        events.publish("container", "start", str(number), {})
    with events.at(1500):
        events.publish("container", "die", "between", {})
    with events.at(2500):
        events.publish("container", "die", "last", {})
    assert [event.actor for event in events.kept()[4:]] == ["4", "5", "between", "6", "last"]
