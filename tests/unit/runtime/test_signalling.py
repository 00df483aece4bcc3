"""Signals reach exactly the process that pid and start time name, or nobody."""

import os
import signal
import subprocess

import pytest

from engine.daemon.runtime import signalling
from engine.kernel.syscalls import process_start


@pytest.fixture
def child():
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_signal_reaches_the_process(child):
    assert signalling.send_signal(child.pid, process_start(child.pid), signal.SIGTERM)
    assert child.wait(30) == -signal.SIGTERM


def test_another_process_with_the_same_pid_is_not_hit(child):
    assert not signalling.send_signal(child.pid, process_start(child.pid) + 1, signal.SIGKILL)
    assert child.poll() is None


def test_no_process_is_no_error(child):
    start = process_start(child.pid)
    child.kill()
    child.wait()
    assert not signalling.send_signal(child.pid, start, signal.SIGTERM)
    assert signalling.kill_and_wait(child.pid, start, 1)
    assert not signalling.send_signal(0, 0, signal.SIGTERM)


def test_kill_and_wait_returns_when_the_process_has_ended(child):
    assert signalling.kill_and_wait(child.pid, process_start(child.pid), 30)
    assert os.waitpid(child.pid, os.WNOHANG)[0] == child.pid
    child.returncode = -signal.SIGKILL
