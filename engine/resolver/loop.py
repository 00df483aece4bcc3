"""The resolver's event loop: waits on descriptors and timers with epoll, and calls the handler of each.

One thread. A handler is called when its descriptor may be ready; the handler finds out itself, without waiting. A
handler that was called before it may have changed that, or may have closed the descriptor and opened another one of the
same number.
"""

import select
import time
from collections.abc import Callable

READABLE, WRITABLE = select.EPOLLIN, select.EPOLLOUT
_MOST = 64  # events that are handled before the timers are checked again

Handler = Callable[[int], None]
"""Called with the events that occurred; the end of a stream or an error comes too, whichever events are waited for."""


class Loop:
    """The descriptors and timers that are waited for. Setting `ended` ends `run`.

    failed: called while an exception of a handler is being handled; returns whether the exception is to end the loop
    """

    def __init__(self, failed: Callable[[], bool]) -> None:
        self._failed = failed
        self._poll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._due: dict[Callable[[], None], float] = {}
        self.ended = False

    def add(self, descriptor: int, handler: Handler, events: int = READABLE) -> None:
        """Call the handler whenever one of these events occurs. Raises OSError."""
        self._poll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def change(self, descriptor: int, events: int) -> None:
        """Wait for other events of the descriptor; 0: only for its end or an error."""
        self._poll.modify(descriptor, events)

    def drop(self, descriptor: int) -> None:
        """Stop waiting for the descriptor; to be called before it is closed."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call` once, so many seconds from now.

        A later request for the same function replaces the earlier one.
        """
        self._due[call] = time.monotonic() + seconds

    def waits_for(self, call: Callable[[], None]) -> bool:
        """Whether this function is to be called later."""
        return call in self._due

    def run(self) -> None:
        """Wait and call handlers until `ended` is set."""
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
