"""Asking the host's files something, and not for ever: a file system whose server is away answers nothing.

Runs in the daemon's threads at a start, which holds its container's lock: a bind's source may lie on such a file
system. The question is asked by a thread of its own; where no answer comes that thread stays until the host lets it go,
and the start fails in words.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from engine.daemon.runtime import worker
from engine.errors import SystemFailure

SECONDS = 20.0
"""A disk that has to spin up, or a server that was rebooted, answers in less."""

T = TypeVar("T")


def asked(path: str, question: Callable[[], T]) -> T:
    """What `question`, which is about `path`, returns or raises; SystemFailure when it does not in time."""
    answers: list[T] = []
    failures: list[BaseException] = []
    answered = threading.Event()

    def ask() -> None:
        try:
            answers.append(question())
        except BaseException as error:  # raised again in the thread that asked
            failures.append(error)
        answered.set()

    worker.begin("mount", ask)
    if not answered.wait(SECONDS):
        raise SystemFailure(f"error while mounting '{path}': the host gives no answer within {SECONDS:.0f} seconds")
    if failures:
        raise failures[0]
    return answers[0]
