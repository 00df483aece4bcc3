"""The event bus: what happens to containers, images, volumes and networks, told to whoever listens, and kept a while.

Any thread of the daemon publishes; each subscriber reads in a thread of its own, which sleeps on a descriptor until
there is something. Publishing never waits for anybody: a subscriber that does not read loses its subscription, never
the publisher's time. Nothing is kept over a restart.
"""

import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field

KEPT = 256
"""Events that are kept for those who ask for the past, as many as dockerd keeps."""
MOST_WAITING = 4096
"""Events that a subscriber may leave unread; one that is far behind and does not come nearer is dropped."""
PATIENCE_SECONDS = 5.0
_LAST_STRAW = 4 * MOST_WAITING  # whatever it does


@dataclass(frozen=True, slots=True)
class Event:
    """One event. kind: `container`, `image`, `volume`, `network` or `daemon`; time_ns: since the epoch.

    lines: the event as it is sent, by form; filled by who sends it first, so that it is written once for everybody
    """

    kind: str
    action: str
    actor: str
    attributes: dict[str, str] = field(default_factory=dict)
    time_ns: int = 0
    lines: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)


class Subscription:
    """One who listens; made by `Events.subscribe`, ended by `close` or as a context manager."""

    def __init__(self, events: "Events") -> None:
        self._events = events
        self._waiting: deque[Event] = deque()
        self._lock = threading.Lock()
        self._told = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._taken = time.monotonic()
        self.dropped = False

    def fileno(self) -> int:
        """Readable while something waits to be taken, and once the subscription was dropped."""
        return self._told

    def give(self, event: Event) -> None:
        """Called by the bus: one more to read."""
        with self._lock:
            count = len(self._waiting)
            if count >= MOST_WAITING and (count >= _LAST_STRAW or time.monotonic() - self._taken > PATIENCE_SECONDS):
                self.dropped = True
                self._waiting.clear()
                os.eventfd_write(self._told, 1)
                return
            if not count:
                os.eventfd_write(self._told, 1)
            self._waiting.append(event)

    def take(self, most: int = KEPT) -> list[Event]:
        """What waits, oldest first, at most so many; nothing when nothing waits. Never waits itself."""
        with self._lock:
            self._taken = time.monotonic()
            taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            if not self._waiting and not self.dropped:
                self._quiet()
            return taken

    def _quiet(self) -> None:
        try:
            os.eventfd_read(self._told)
        except BlockingIOError:
            return  # it was quiet

    def close(self) -> None:
        """Listen no more."""
        self._events.forget(self)
        if self._told >= 0:
            os.close(self._told)
            self._told = -1

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()


class Events:
    """The bus of one daemon."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._past: deque[Event] = deque(maxlen=KEPT)
        self._subscriptions: list[Subscription] = []

    def publish(self, kind: str, action: str, actor: str, attributes: dict[str, str]) -> None:
        """Tell everybody who listens; times of events never go backwards."""
        with self._lock:
            moment = time.time_ns()
            if self._past and moment <= self._past[-1].time_ns:
                moment = self._past[-1].time_ns + 1
            event = Event(kind, action, actor, attributes, moment)
            self._past.append(event)
            for subscription in self._subscriptions:
                subscription.give(event)
            if any(each.dropped for each in self._subscriptions):
                self._subscriptions = [each for each in self._subscriptions if not each.dropped]

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._subscriptions)

    def subscribe(self) -> tuple[list[Event], Subscription]:
        """The events that are kept, oldest first, and a subscription to all that come after them."""
        subscription = Subscription(self)
        with self._lock:
            self._subscriptions.append(subscription)
            return list(self._past), subscription

    def forget(self, subscription: Subscription) -> None:
        """End a subscription; nothing is given to it any more when this returns."""
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
