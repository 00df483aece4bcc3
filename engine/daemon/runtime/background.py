"""Running work that no caller waits for, in a thread of its own (`later`) or one piece after another (`Turn`)."""

import logging
import queue
from collections.abc import Callable

from engine.annotating import TypeVarTuple
from engine.daemon import busy
from engine.daemon.runtime import worker
from engine.errors import EngineError

log = logging.getLogger(__name__)

Given = TypeVarTuple("Given")


def later(work: Callable[[*Given], object], *arguments: *Given, about: str = "") -> None:
    """Run `work` in a thread of its own, as soon as the host has one. An EngineError is logged: no caller can get it.

    about: the id of the container that the work concerns, for the log
    """
    busy.owe()
    worker.begin(work.__name__, lambda: _run(work, *arguments, about=about))


def _run(work: Callable[[*Given], object], *arguments: *Given, about: str = "") -> None:
    """Do a piece of work that is owed (see `busy`)."""
    try:
        with busy.about(about, work.__name__):
            try:
                work(*arguments)
            except EngineError as error:
                log.warning("background work %s failed: %s", work.__name__, error)
    finally:
        busy.pay()


class Turn:
    """One thread that runs small and frequent pieces of work in order; it starts with the first piece."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: queue.SimpleQueue[tuple[Callable[..., object], tuple[object, ...]]] = queue.SimpleQueue()
        self._worker = worker.Worker(name, self._work)

    def add(self, work: Callable[[*Given], object], *arguments: *Given) -> None:
        """Have the thread run `work` when all that was added before is done; returns at once."""
        busy.owe()
        self._waiting.put((work, arguments))
        self._worker.wake()

    def _work(self) -> None:
        while True:
            work, arguments = self._waiting.get()
            try:
                _run(work, *arguments)
            except Exception:  # one piece of work must not end all the others
                log.exception("%s", self._name)
