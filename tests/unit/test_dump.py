"""What SIGUSR1 brings out of a daemon whose main thread is stuck, and what a lock knows of itself."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from engine.daemon import busy, locks
from tests.floors.sources import PROJECT

STUCK = {
    "for a lock": "guard = locks.Lock('guard'); hold(guard); guard.acquire()",
    "for a thread": "one = threading.Thread(target=time.sleep, args=(600,), daemon=True); one.start(); one.join()",
    "for a socket": "a, b = socket.socketpair(); a.recv(1)",
    "for a lock of logging": "hold(logging.getLogger().handlers[0].lock); logging.warning('x')",
    "while threads run": "[threading.Thread(target=run, daemon=True).start() for _ in range(3)]; time.sleep(600)",
}
SCRIPT = """
import logging, socket, sys, threading, time
from engine.daemon import dump, locks, loglines
def run():
    while True:
        len(str(time.time()))
def hold(lock):
    held = threading.Event()
    def keep():
        with lock:
            held.set()
            time.sleep(600)
    threading.Thread(target=keep, name="holder", daemon=True).start()
    held.wait()
class Spawner:
    fileno = staticmethod(lambda: 7)
loglines.configure("INFO")
dump.Dump(Spawner())
print("up", flush=True)
"""


def asked(one: subprocess.Popen) -> str:
    """What it says at the signal."""
    one.send_signal(signal.SIGUSR1)
    lines = []
    while not (lines and lines[-1].endswith(" others are free\n")):
        lines.append(one.stderr.readline())
        assert lines[-1], lines
    return "".join(lines)


@pytest.mark.parametrize("where", STUCK)
def test_a_main_thread_that_is_stuck_tells_all_the_same(where: str) -> None:
    """Whatever it waits for; and again: it goes on waiting."""
    command = [sys.executable, "-c", SCRIPT + STUCK[where]]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=PROJECT, stdout=pipe, stderr=pipe, text=True) as one:
        try:
            assert one.stdout.readline() == "up\n"
            texts = [asked(one) for _ in range(3)]
            while where == "for a lock" and "waits for the lock guard for" not in texts[-1]:
                texts.append(asked(one))  # it had not come so far
            for text in texts:
                assert f"INFO engine.daemon.dump: SIGUSR1: the threads, links and locks of process {one.pid}\n" in text
                assert '  "MainThread" (0x' in text and "in <module>" in text
            if where == "for a lock":
                assert '  guard: held by "holder"' in text and '"MainThread"' in text.partition("guard: held")[2]
        finally:
            one.kill()


def test_a_lock_knows_its_holder_and_who_waits() -> None:
    """From outside, without being asked for itself."""
    lock = locks.Lock("one of a test")
    assert ("one of a test", lock) in locks.known() and not lock.locked() and lock.holder == 0
    with lock:
        assert lock.holder == threading.get_ident() and lock.locked() and not lock.acquire(blocking=False)
        waiter = threading.Thread(target=lambda: lock.__enter__() and lock.release())
        waiter.start()
        while waiter.ident not in locks.waiting():
            os.sched_yield()
        assert locks.waiting()[waiter.ident][0] is lock
        assert not lock.acquire(timeout=0.01)
    waiter.join()
    assert not lock.locked() and lock.holder == 0 and waiter.ident not in locks.waiting()


def test_a_reentrant_lock_is_free_when_it_was_left_as_often_as_entered() -> None:
    """And held by one thread alone until then."""
    lock = locks.Reentrant("another of a test")
    refused = []
    with lock:
        with lock:
            assert lock.holder == threading.get_ident()
        assert lock.acquire(blocking=False)
        lock.release()
        other = threading.Thread(target=lambda: refused.append(lock.acquire(blocking=False)))
        other.start()
        other.join()
        assert lock.locked()
    assert refused == [False] and not lock.locked() and lock.holder == 0


def test_many_threads_under_one_lock_never_meet() -> None:
    """The lock is a lock, whatever it tells."""
    for lock in (locks.Lock(), locks.Reentrant()):
        inside, met = [], []

        def work(lock: locks.Lock = lock, inside: list = inside, met: list = met) -> None:
            for _ in range(2000):
                with lock:
                    inside.append(1)
                    met.append(len(inside))
                    inside.pop()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(met) == {1} and len(met) == 8000


def test_a_condition_of_the_usual_kind_tells_its_owner() -> None:
    """It tells while somebody holds it."""
    condition = threading.Condition()
    assert locks.owner(condition) == 0
    with condition:
        assert locks.owner(condition) == threading.get_ident()


def test_what_a_thread_does_is_known_while_it_does_it() -> None:
    """A request, and the container that a part of it is about."""
    busy.serve("POST", "/x")
    try:
        assert str(busy.now()).startswith("request ") and str(busy.now()).endswith(" POST /x")
        with busy.about("web"):
            assert busy.now().container == "web" and busy.now().number
        assert busy.now().container == ""
        assert busy.all_tasks()[threading.get_ident()] is busy.now()
    finally:
        busy.rest()
    assert busy.now() is None
    with busy.about("web", "a probe"):
        assert (str(busy.now()), busy.now().container) == ("a probe", "web")
    assert busy.now() is None
