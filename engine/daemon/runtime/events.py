"""The event bus: what happens to containers, images, volumes and networks, told to whoever listens, and kept a while.

Any thread of the daemon publishes; each subscriber reads in a thread of its own. Publishing never waits for anybody: a
subscriber that does not read loses its subscription, never the publisher's time. Nothing is kept over a restart.
"""

import threading
import time
from collections import deque
from dataclasses import dataclass, field

KEPT = 256
"""Events that are kept for those who ask for the past, as many as dockerd keeps."""
MOST_WAITING = 4096
"""Events that a subscriber may leave unread before it is dropped."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. kind: `container`, `image`, `volume`, `network` or `daemon`; time_ns: since the epoch."""

    kind: str
    action: str
    actor: str
    attributes: dict[str, str] = field(default_factory=dict)
    time_ns: int = 0


class Subscription:
    """One who listens; made by `Events.subscribe`, ended by `close` or as a context manager."""

    def __init__(self, events: "Events") -> None:
        self._events = events
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self.dropped = False

    def give(self, event: Event) -> None:
        """Called by the bus: one more to read."""
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self.dropped = True
            else:
                self._waiting.append(event)
            self._changed.notify()

    def take(self, seconds: float) -> Event | None:
        """The next event; None when none has come for so long. Once dropped, what was left unread and then None."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.dropped, seconds)
            return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        """Listen no more."""
        self._events.forget(self)

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
            self._subscriptions = [each for each in self._subscriptions if not each.dropped]

    def subscribe(self) -> tuple[list[Event], Subscription]:
        """The events that are kept, oldest first, and a subscription to all that come after them."""
        subscription = Subscription(self)
        with self._lock:
            self._subscriptions.append(subscription)
            return list(self._past), subscription

    def forget(self, subscription: Subscription) -> None:
        """End a subscription."""
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
