"""Waiting: each condition ends when it should, whatever comes next, and a client that has left ends the wait."""

import os
import threading

import pytest

from engine.daemon.containers import states
from engine.daemon.containers.verbs import wait
from tests.harness.ready import ready
from tests.unit.containers.test_states import container

SECONDS = 30


class Gone(Exception):
    """The client has hung up."""


def end(subject, code, to="exited"):
    with subject.changed:
        subject.state.exit_code = subject.last_exit = code
        subject.exits += 1
        states.move(subject, to)


def sleep(descriptor):
    assert ready(descriptor, SECONDS), "nobody rang"


def never(descriptor):
    raise Gone


@pytest.mark.parametrize("condition", ["not-running", "next-exit"])
@pytest.mark.parametrize("to", ["exited", "restarting"])
def test_a_wait_ends_with_the_run(condition, to):
    subject = container("running")
    waiter = wait.subscribe(subject, condition)
    threading.Timer(0.02, end, (subject, 7, to)).start()
    assert waiter.result(sleep) == (7, "")


def test_not_running_is_over_at_once_for_what_does_not_run():
    assert wait.subscribe(container("created"), "not-running").result(never) == (0, "")


def test_not_running_waits_while_the_policy_waits():
    subject = container("restarting")
    waiter = wait.subscribe(subject, "not-running")
    threading.Timer(0.02, end, (subject, 3)).start()
    assert waiter.result(sleep) == (3, "")


def test_the_exit_code_is_that_of_the_run_that_was_waited_for():
    subject = container("running")
    waiter = wait.subscribe(subject, "not-running")
    end(subject, 5, "restarting")
    with subject.changed:
        states.move(subject, "running")
        subject.state.exit_code = 0
    assert waiter.result(never) == (5, "")


def test_next_exit_does_not_take_the_last_one():
    subject = container("running")
    end(subject, 1)
    waiter = wait.subscribe(subject, "next-exit")
    with pytest.raises(Gone):
        waiter.result(never)


def test_next_exit_of_what_does_not_run_yet_is_that_of_the_run_to_come():
    subject = container("created")
    waiter = wait.subscribe(subject, "next-exit")
    with subject.changed:
        states.move(subject, "running")
    end(subject, 9)
    assert waiter.result(never) == (9, "")


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
            subject.ring()

    threading.Timer(0.02, remove).start()
    assert waiter.result(sleep) == (3, "")


def test_a_client_that_has_left_ends_the_wait_and_leaves_nothing_open():
    subject = container("running")
    with pytest.raises(Gone):
        wait.subscribe(subject, "not-running").result(never)
    assert subject.bell is None


def test_all_who_wait_for_one_end_share_a_descriptor():
    subject = container("running")
    descriptors = []
    lock = threading.Barrier(4)

    def watched(descriptor):
        descriptors.append(descriptor)
        lock.wait(SECONDS)
        sleep(descriptor)

    waiters = [wait.subscribe(subject, "not-running") for _ in range(3)]
    results = []
    threads = [threading.Thread(target=lambda each=each: results.append(each.result(watched))) for each in waiters]
    for thread in threads:
        thread.start()
    lock.wait(SECONDS)
    end(subject, 4)
    for thread in threads:
        thread.join(SECONDS)
    assert results == [(4, "")] * 3 and len(set(descriptors)) == 1
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptors[0])


def test_a_removal_takes_the_error_of_a_failed_start_with_it():
    subject = container("created")
    subject.state.exit_code, subject.state.error = 127, "no such command"
    assert wait.subscribe(subject, "not-running").result(never) == (127, "no such command")
    subject.removed = True
    assert wait.subscribe(subject, "removed").result(never) == (127, "")
