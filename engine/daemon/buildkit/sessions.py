"""The sessions of clients: connections on which the daemon asks for what a build needs of them.

A session lives in the thread of its request, which runs its link until the client goes. The table is the daemon's own;
its lock is held for a look or a change, and never while a client is waited for.
"""

import socket
import threading
import time
from collections.abc import Callable

from engine.daemon.buildkit import liveness, methods
from engine.daemon.buildkit.link import Link
from engine.daemon.runtime import worker
from engine.errors import Conflict, Invalid, NotFound, Unavailable

ID, SHARED_KEY = "x-docker-expose-session-uuid", "x-docker-expose-session-sharedkey"
OFFERS = "x-docker-expose-session-grpc-method"
"""The fields in which a client tells of its session; the last one comes once for each method."""
_MOST = 1000
_PATIENCE_SECONDS = 5.0  # a build may name a session whose connection is still on its way


class Session:
    """What one client offers. id: chosen by the client; shared_key: names its directories over several builds

    offers: the paths of the methods that it serves, in lower case
    """

    def __init__(self, id: str, shared_key: str, offers: frozenset[str], link: Link) -> None:
        self.id = id
        self.shared_key = shared_key
        self.offers = offers
        self.link = link
        self._watchers: list[Callable[[], None]] = []
        self._ended = self._asked = False  # asked: a thread asks whether the client is well

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called once, when the session ends; at once where it has ended already."""
        with _changed:
            ended, begins = self._ended, not (self._ended or self._asked)
            if not ended:
                self._watchers.append(watcher)
            self._asked = self._asked or begins
        if ended:
            watcher()
        elif begins and methods.HEALTH.lower() in self.offers:
            worker.begin("session health", lambda: liveness.follow(self.link, self._unwatched))

    def _unwatched(self) -> bool:
        """Whether no build waits for the session any more; the thread that asks for its health ends then."""
        with _changed:
            self._asked = bool(self._watchers)
            return not self._asked

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Call it no more."""
        with _changed:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

    def end(self) -> None:
        """The client is gone."""
        with _changed:
            self._ended = True
            watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()


def offered(values: str) -> frozenset[str]:
    """The methods of a session, from its fields joined by commas."""
    return frozenset(each.strip().lower() for each in values.split(",") if each.strip())


_changed = threading.Condition()
_sessions: dict[str, Session] = {}  # guarded by `_changed`


def serve(session: Session) -> None:
    """Run the session until its client goes. Raises Invalid without an id, Conflict for one that another client has,
    and Unavailable where there are too many.
    """
    if not session.id:
        raise Invalid("no session id: the header X-Docker-Expose-Session-Uuid is missing")
    with _changed:
        if session.id in _sessions:
            raise Conflict(f"session {session.id} already exists")
        if len(_sessions) >= _MOST:
            raise Unavailable(f"there are {_MOST} sessions already")
        _sessions[session.id] = session
        _changed.notify_all()
    try:
        session.link.run()
    finally:
        with _changed:
            del _sessions[session.id]
        session.end()


def _nobodys() -> Session:
    """A session without a client: it offers nothing, and each call on it fails."""
    near, far = socket.socketpair()
    far.close()
    link = Link(near, True)
    link.close()
    near.close()
    return Session("", "", frozenset(), link)


def find(id: str) -> Session:
    """The session of that id, which may come a little later; of no id, one that offers nothing. Raises NotFound."""
    if not id:
        return _nobodys()
    end = time.monotonic() + _PATIENCE_SECONDS
    with _changed:
        while id not in _sessions:
            left = end - time.monotonic()
            if left <= 0:
                raise NotFound(f"no active session for {id}: context deadline exceeded")
            _changed.wait(left)
        return _sessions[id]


def known(id: str) -> Session | None:
    """The session of that id, None while there is none."""
    with _changed:
        return _sessions.get(id)


def count() -> int:
    """How many there are."""
    with _changed:
        return len(_sessions)
