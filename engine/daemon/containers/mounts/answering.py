"""Ask the host's file system a question with a time limit, as a network file system may never answer.

Runs in the daemon's threads at a start, which holds its container's lock: a bind's source may lie on such a file
system. A thread of its own asks the question. Where no answer comes within 20 seconds, that thread stays until the
kernel returns from the system call, and the start fails with an error.
"""

import threading
from collections.abc import Callable

from engine.annotating import TypeVar
from engine.daemon.runtime import worker
from engine.errors import SystemFailure

SECONDS = 20.0
"""A disk that has to spin up, or a server that was rebooted, answers in less."""

T = TypeVar("T")


def asked(path: str, question: Callable[[], T]) -> T:
    """Return or raise what `question`, which is about `path`, does; SystemFailure when it takes longer than SECONDS."""
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
