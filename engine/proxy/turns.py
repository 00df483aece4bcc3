"""The proxy's loop: waits with epoll, calls what each event is for, and lets long work take turns.

One thread. The Python version of `_muxer/proxy/turns.c`. A handler may close descriptors, also those of later events of
the same batch: an event whose handler is gone is passed over.
"""

import select
import time
from collections.abc import Callable

IN, OUT, ERROR, HANG_UP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR, select.EPOLLHUP
ONCE = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
"""Tell of each change once: the handler remembers what is ready."""
READABLE = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP
_EVENTS = 64

Handler = Callable[[int], None]


class Loop:
    """What is waited for. `ended` ends `run`; `now_ms`: the time of this turn, in ms of the monotonic clock."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._waiting: list[Callable[[], None]] = []
        self._due: dict[Callable[[], None], int] = {}
        self.now_ms = time.monotonic_ns() // 1_000_000
        self.ended = False

    def add(self, descriptor: int, handler: Handler, events: int = IN) -> None:
        """Call the handler with each of these events. Raises OSError."""
        self._poll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def change(self, descriptor: int, events: int) -> None:
        """Wait for other events; 0 for none."""
        self._poll.modify(descriptor, events)

    def drop(self, descriptor: int) -> None:
        """Stop waiting for a descriptor, which the caller closes next."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def queue(self, work: Callable[[], None]) -> None:
        """Call `work` once, after the events of this turn."""
        self._waiting.append(work)

    def after(self, milliseconds: int, work: Callable[[], None]) -> None:
        """Call `work` once, so much later; it stays due as it was if it is due already."""
        self._due.setdefault(work, self.now_ms + milliseconds)

    def never(self, work: Callable[[], None]) -> None:
        """Take back what `after` was told."""
        self._due.pop(work, None)

    def turn(self) -> None:
        """Wait, and handle what has come."""
        told = self._poll.poll(self._patience(), _EVENTS)
        self.now_ms = time.monotonic_ns() // 1_000_000
        handlers = [(self._handlers.get(descriptor), descriptor, events) for descriptor, events in told]
        for handler, descriptor, events in handlers:
            if handler is not None and self._handlers.get(descriptor) is handler:
                handler(events)
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work()
        for work in [work for work, due in self._due.items() if due <= self.now_ms]:
            self._due.pop(work, None)
            work()

    def _patience(self) -> float | None:
        if self._waiting:
            return 0.0
        return max(0.0, (min(self._due.values()) - self.now_ms + 1) / 1000) if self._due else None

    def close(self) -> None:
        """Close the loop's own descriptor."""
        self._poll.close()
