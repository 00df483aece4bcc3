"""What the resolver waits with: descriptors and times, each with what is called when it is its turn.

One thread. A handler is called when its descriptor may be ready, which it finds out itself without waiting: another
that was called before it may have changed that, or have closed the descriptor and opened one of the same number.
"""

import select
import time
from collections.abc import Callable

READABLE, WRITABLE = select.EPOLLIN, select.EPOLLOUT
_MOST = 64  # events that are dealt with before the times are looked at again

Handler = Callable[[int], None]
"""What is called with the events; an end or an error is one too, whatever is waited for."""


class Loop:
    """The descriptors and times that are waited for; `ended` ends it.

    failed: called while what a handler has raised is handled; says whether that is to end it all
    """

    def __init__(self, failed: Callable[[], bool]) -> None:
        self._failed = failed
        self._poll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._due: dict[Callable[[], None], float] = {}
        self.ended = False

    def add(self, descriptor: int, handler: Handler, events: int = READABLE) -> None:
        """Call the handler whenever one of these events is there. Raises OSError."""
        self._poll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def change(self, descriptor: int, events: int) -> None:
        """Wait for other events; 0: only for the end."""
        self._poll.modify(descriptor, events)

    def drop(self, descriptor: int) -> None:
        """Wait for it no more; to be called before it is closed."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call it once, so many seconds from now; of the same call only the latest wish counts."""
        self._due[call] = time.monotonic() + seconds

    def waits_for(self, call: Callable[[], None]) -> bool:
        """Whether it is to be called."""
        return call in self._due

    def run(self) -> None:
        """Wait and call until `ended` is set."""
        while not self.ended:
            patience = max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None
            for descriptor, events in self._poll.poll(patience, _MOST):
                handler = self._handlers.get(descriptor)
                if handler is not None and not self.ended:
                    self._call(handler, events)
            if self._due:
                now = time.monotonic()
                for call in [call for call, due in self._due.items() if due <= now]:
                    del self._due[call]
                    self._call(call)

    def _call(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            call(*arguments)
        except Exception:
            if self._failed():
                raise
