"""The daemon's event bus, which sends events of containers, images, volumes and networks to subscribers.

Any thread of the daemon publishes. Each subscriber reads in a thread of its own, which sleeps on a file descriptor
until there is an event. Publishing never waits for a subscriber: one that does not read is dropped, and does not delay
the publisher. The bus keeps the last events for later subscribers. A daemon that ends because it has nothing to do
leaves them to the next one (`slumber`), and no other daemon does. What happened while there was no daemon is published
by the next one, with the time at which it happened (`Events.at`).
"""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator

from engine.dataclass import dataclass, field

KEPT = 256
"""How many past events are kept for subscribers that ask for them, as many as dockerd keeps."""
MOST_WAITING = 4096
"""How many events a subscriber may leave unread. It is dropped if it has more and took none for `PATIENCE_SECONDS`."""
PATIENCE_SECONDS = 5.0
_SAME_MOMENT_NS = 10**7  # a clock that is further behind was set back
_LAST_STRAW = 4 * MOST_WAITING  # unread events at which a subscriber is dropped even if it is reading


@dataclass(frozen=True, slots=True)
class Event:
    """One event. kind: `container`, `image`, `volume`, `network` or `daemon`; time_ns: since the epoch.

    lines: form → the event's line as it is sent; the thread that sends it first fills it in, so that the event is
        encoded once for all subscribers
    """

    kind: str
    action: str
    actor: str
    attributes: dict[str, str] = field(default_factory=dict)
    time_ns: int = 0
    lines: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)


class Subscription:
    """The queue of events for one subscriber; made by `Events.subscribe`, ended by `close` or as a context manager."""

    def __init__(self, events: "Events") -> None:
        self._events = events
        self._waiting: deque[Event] = deque()
        self._lock = threading.Lock()
        self._told = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._taken = time.monotonic()
        self.dropped = False

    def fileno(self) -> int:
        """An eventfd that is readable while events wait to be taken, and once the subscription was dropped."""
        return self._told

    def give(self, event: Event) -> None:
        """Add one more event to read, or drop the subscription if it is too far behind; only the bus calls this."""
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
        """Take up to `most` of the waiting events, oldest first; an empty list when there are none. Never blocks."""
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
            return  # it was not readable

    def close(self) -> None:
        """End the subscription and close its descriptor; may be called again."""
        self._events.forget(self)
        if self._told >= 0:
            os.close(self._told)
            self._told = -1

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()


class Events:
    """The bus of one daemon. published: how many events there were"""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._past: deque[Event] = deque(maxlen=KEPT)
        self._subscriptions: list[Subscription] = []
        self._missed = threading.local()
        self.published = 0

    def publish(self, kind: str, action: str, actor: str, attributes: dict[str, str]) -> None:
        """Give an event to all subscribers. Each gets a later time than the one before it, unless the clock was set."""
        with self._lock:
            missed: int = getattr(self._missed, "time_ns", 0)
            if missed:
                event = Event(kind, action, actor, attributes, missed)
                self._missed.time_ns = missed + 1
                self._insert(event)
            else:
                moment, last = time.time_ns(), self._past[-1].time_ns if self._past else 0
                if 0 <= last - moment < _SAME_MOMENT_NS:
                    moment = last + 1
                event = Event(kind, action, actor, attributes, moment)
                self._past.append(event)
            self.published += 1
            for subscription in self._subscriptions:
                subscription.give(event)
            if any(each.dropped for each in self._subscriptions):
                self._subscriptions = [each for each in self._subscriptions if not each.dropped]

    def _insert(self, event: Event) -> None:
        """Keep an event of an earlier time behind the last one not later, and the last `KEPT` of all; under the lock.

        Where the clock was set back, the past is not in the order of its times.
        """
        past = list(self._past)
        place = len(past)
        while place and past[place - 1].time_ns > event.time_ns:
            place -= 1
        past.insert(place, event)
        self._past = deque(past, KEPT)

    @contextlib.contextmanager
    def at(self, time_ns: int) -> Iterator[None]:
        """Have what this thread publishes within the `with` block happen at that time, each event a moment later."""
        self._missed.time_ns = time_ns
        try:
            yield
        finally:
            self._missed.time_ns = 0

    def kept(self) -> list[Event]:
        """The kept events, oldest first."""
        with self._lock:
            return list(self._past)

    def restore(self, events: Iterable[Event]) -> None:
        """Keep events that an earlier daemon has published, oldest first; before this one publishes any."""
        with self._lock:
            self._past.extend(events)

    @property
    def listeners(self) -> int:
        """The number of subscriptions now."""
        return len(self._subscriptions)

    def subscribe(self) -> tuple[list[Event], Subscription]:
        """The kept events, oldest first, and a subscription to all that come after them."""
        subscription = Subscription(self)
        with self._lock:
            self._subscriptions.append(subscription)
            return list(self._past), subscription

    def forget(self, subscription: Subscription) -> None:
        """Take a subscription off the bus; it is given no more events once this returns."""
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
