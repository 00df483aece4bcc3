"""Work that a call or an event begins and nobody waits for: at once, or in its turn behind other such work."""

import logging
import queue
import threading
from collections.abc import Callable

from engine.errors import EngineError

log = logging.getLogger(__name__)


def later(work: Callable[..., object], *arguments: object) -> None:
    """Run `work` in a thread of its own; a failure on purpose is logged, there is nobody to tell."""
    threading.Thread(target=_run, args=(work, *arguments), name=work.__name__, daemon=True).start()


def _run(work: Callable[..., object], *arguments: object) -> None:
    try:
        work(*arguments)
    except EngineError as error:
        log.warning("in the background: %s", error)


class Turn:
    """One thread for a kind of work that is small and frequent; it starts with the first piece."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: queue.SimpleQueue[tuple] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, work: Callable[..., object], *arguments: object) -> None:
        """Run `work` when all that was added before is done."""
        self._waiting.put((work, *arguments))
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            try:
                _run(*self._waiting.get())
            except Exception:  # one piece of work must not end all the others
                log.exception("%s", self._name)
