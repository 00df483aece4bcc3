"""Waiting: each condition ends when it should, and a client that has left ends the wait."""

import threading

import pytest

from engine.daemon.containers import states, wait
from engine.errors import Invalid
from tests.unit.containers.test_states import container


def end(subject, code):
    with subject.changed:
        subject.state.exit_code = code
        subject.exits += 1
        states.move(subject, "exited")


def never():
    return False


@pytest.mark.parametrize("condition", ["not-running", "next-exit"])
def test_a_wait_ends_with_the_container(condition):
    subject = container("running")
    waiter = wait.subscribe(subject, condition)
    threading.Timer(0.02, end, (subject, 7)).start()
    assert waiter.result(never) == (7, "")


def test_not_running_is_over_at_once_for_what_does_not_run():
    assert wait.subscribe(container("created"), "not-running").result(never) == (0, "")


def test_next_exit_does_not_take_the_last_one():
    subject = container("running")
    end(subject, 1)
    waiter = wait.subscribe(subject, "next-exit")
    assert waiter.result(lambda: True) is None


def test_an_end_between_subscribing_and_waiting_is_not_missed():
    subject = container("running")
    waiter = wait.subscribe(subject, "next-exit")
    end(subject, 9)
    assert waiter.result(never) == (9, "")


def test_removed_waits_for_the_removal():
    subject = container("running")
    waiter = wait.subscribe(subject, "removed")
    end(subject, 3)

    def remove():
        with subject.changed:
            subject.removed = True
            subject.changed.notify_all()

    threading.Timer(0.02, remove).start()
    assert waiter.result(never) == (3, "")


def test_a_client_that_has_left_ends_the_wait(monkeypatch):
    monkeypatch.setattr(wait, "_CLIENT_CHECK_SECONDS", 0.01)
    assert wait.subscribe(container("running"), "not-running").result(lambda: True) is None


def test_an_unknown_condition_is_refused():
    with pytest.raises(Invalid, match='invalid condition: "bogus"'):
        wait.subscribe(container(), "bogus")


def test_a_removal_takes_the_error_of_a_failed_start_with_it():
    subject = container("created")
    subject.state.exit_code, subject.state.error = 127, "no such command"
    assert wait.subscribe(subject, "not-running").result(never) == (127, "no such command")
    subject.removed = True
    assert wait.subscribe(subject, "removed").result(never) == (127, "")
