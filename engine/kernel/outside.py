"""Runs functions in the network from which the daemon was started, while the daemon itself lives in another one.

A daemon of a user's own has a network namespace of its own, and may not enter the host's again. So one thread stays
behind in the host's before the others are moved, and each function gets a new thread from that one. What it makes, such
as a bound or connected socket, belongs to the host's network wherever it is used. A daemon that lives in the host's
network has no such thread, and calls the functions itself.
"""

import threading
from _queue import SimpleQueue
from collections.abc import Callable

from engine.annotating import TypeVar
from engine.kernel import syscalls

Result = TypeVar("Result")

_CLONE_FS = 0x200
_calls: "SimpleQueue[Callable[[], None]]" = SimpleQueue()
_stayed = threading.Event()


def stay() -> None:
    """Leave a thread behind where the calling thread is; returns when it is there. Raises OSError."""
    failures: list[OSError] = []
    there = threading.Event()

    def serve() -> None:
        try:
            # Its root and working directory become its own: else no other thread may enter another mount namespace.
            syscalls.unshare(_CLONE_FS)
        except OSError as error:
            failures.append(error)
        there.set()
        while not failures:
            threading.Thread(target=_calls.get(), name="outside call", daemon=True).start()

    threading.Thread(target=serve, name="outside", daemon=True).start()
    there.wait()
    if failures:
        raise failures[0]
    _stayed.set()


def is_here() -> bool:
    """Whether the daemon lives in the host's network itself."""
    return not _stayed.is_set()


def call(work: Callable[[], Result]) -> Result:
    """The result of `work()`, run in the host's network; it may block. Raises what `work` raises."""
    if is_here():
        return work()
    results: list[Result] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again in the calling thread
            failures.append(error)
        done.set()

    _calls.put(run)
    done.wait()
    if failures:
        raise failures[0]
    return results[0]
