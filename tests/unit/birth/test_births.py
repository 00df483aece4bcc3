"""Whom a monitor takes for an exec's newborn, and on which way that one is made."""

import os
import socket

import pytest

from engine.birth import join
from engine.monitor import enter
from engine.monitor.launch import REHEARSED, is_child
from engine.wire.schema import Client, Exec


def test_only_a_child_is_ones_own_whatever_is_reported() -> None:
    """Who may trace a newborn could name any process of the host, which a health check's time limit would kill."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(7)
    assert is_child(pid)
    os.close(writer)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert is_child(pid), "one that has ended is waited for as ever"
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    os.close(reader)
    assert not any(is_child(other) for other in (pid, 1, os.getppid(), os.getpid(), 1 << 40))


@pytest.mark.parametrize("traced", [False, True])
def test_a_newborn_that_may_be_traced_does_not_share_the_joiners_memory(
    monkeypatch: pytest.MonkeyPatch, traced: bool
) -> None:
    """The joiner is in the host's PID namespace: who writes into its memory has a process there."""
    told = {}

    def run(sandbox: object, stdio: object, report: object, target: object, newborn: object, *_: object) -> None:
        told["newborn"] = newborn

    class Stay:
        wants = reports = -1
        newborn = "short way"

        def name(self, kind: str, of: str) -> None:
            """What `engine.monitor.nativeprocess` returns."""

        def hand_over(self, handed: object) -> None:
            for descriptor in (handed.input, *handed.outputs.values()):
                if descriptor >= 0:
                    os.close(descriptor)

    monkeypatch.setattr(join, "run", run)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        asked = Exec(REHEARSED.sandbox, 1, clients=(Client(6, True),), traced=traced)
        enter.become_joiner(asked, [ours.fileno(), -1, theirs.fileno()], Stay(), True)
    assert told == {"newborn": None if traced else "short way"}
