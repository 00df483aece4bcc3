"""Waiting for the signals of the daemon, in a process whose main thread does nothing else."""

import signal
import subprocess
import sys

import pytest

from tests.__main__ import PROJECT

# It prints each thing that it was told; another signal's handler takes longer than the time that it waits.
SCRIPT = """
import os, signal, sys, threading, time
from engine.daemon.awaiting import Awaited
signal.signal(signal.SIGUSR1, lambda *_: (print("handled", flush=True), time.sleep(0.9)))
awaited = Awaited()
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
print(awaited.next(0.6), flush=True)
if "elsewhere" in sys.argv:
    threading.Timer(0.1, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)).start()
while True:
    print(awaited.next(), flush=True)
"""


@pytest.fixture
def waiting(request):
    words = [sys.executable, "-c", SCRIPT, *getattr(request, "param", ())]
    with subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_handler_that_takes_long_is_no_signal_that_nobody_has_sent(waiting) -> None:
    assert [waiting.stdout.readline() for _ in range(2)] == ["handled\n", "0\n"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPWR])
def test_each_signal_is_told_and_does_nothing_else(waiting, number) -> None:
    said = [waiting.stdout.readline() for _ in range(2)]
    waiting.send_signal(number)
    assert [*said, waiting.stdout.readline()] == ["handled\n", "0\n", f"{int(number)}\n"]
    waiting.send_signal(signal.SIGUSR1)
    assert waiting.stdout.readline() == "handled\n"


def test_a_process_that_was_stopped_and_goes_on_has_been_told_nothing(waiting) -> None:
    assert [waiting.stdout.readline() for _ in range(2)] == ["handled\n", "0\n"]
    for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGTERM):
        waiting.send_signal(number)
    assert waiting.stdout.readline() == f"{int(signal.SIGTERM)}\n"


@pytest.mark.parametrize("waiting", [("elsewhere",)], indirect=True)
def test_a_handler_runs_also_when_the_signal_did_not_interrupt_the_wait(waiting) -> None:
    """Another thread was interrupted, or this one a moment before it began to wait."""
    assert [waiting.stdout.readline() for _ in range(3)] == ["handled\n", "0\n", "handled\n"]
