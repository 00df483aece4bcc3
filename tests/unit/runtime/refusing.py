"""A host that has no threads to give for a while."""

import contextlib
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def without_threads(monkeypatch) -> Iterator[list[str]]:
    """While this lasts no thread starts; the names of those that were asked for."""
    asked: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        asked.append(thread.name)
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        yield asked
