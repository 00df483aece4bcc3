"""Listening to a daemon's events in a test: a stream that is read until something was seen, and the past."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

from tests.harness.daemon import Daemon
from tests.harness.http import Connection
from tests.harness.pace import patient


def query(**parameters: object) -> str:
    """A query for /events: `filters` is a dict, the rest is text."""
    texts = {name: json.dumps(value) if name == "filters" else str(value) for name, value in parameters.items()}
    return "&".join(f"{name}={quote(text)}" for name, text in texts.items())


class Listener:
    """One open stream of events. headers: of the answer."""

    def __init__(self, connection: Connection, headers: dict[str, str]) -> None:
        self.headers = headers
        self.connection = connection
        self._chunks = connection.chunks()
        self.seen: list[dict] = []

    def next(self) -> dict:
        """The next event; fails when the connection's time is up."""
        self.seen.append(json.loads(next(self._chunks)))
        return self.seen[-1]

    def until(self, action: str, most: int = 1000) -> list[dict]:
        """All events seen so far, read on until one has this action."""
        for _ in range(most):
            if self.next()["Action"] == action:
                return self.seen
        raise AssertionError(f"no {action} among {most} events")


@contextmanager
def listening(daemon: Daemon, timeout: float = 20.0, **parameters: object) -> Iterator[Listener]:
    """Listen from now on: what is done inside is heard."""
    with daemon.connection(timeout) as connection:
        status, headers = connection.open_stream("GET", f"/events?{query(**parameters)}")
        assert status == 200, status
        yield Listener(connection, headers)


def past(daemon: Daemon, **parameters: object) -> list[dict]:
    """The events until now that pass."""
    asked = {"since": 0, "until": f"{time.time():.9f}", **parameters}
    answer = daemon.request("GET", f"/events?{query(**asked)}", checked=False)
    assert answer.status == 200, answer
    return [json.loads(line) for line in answer.body.splitlines()]


def brief(events: list[dict]) -> list[tuple[str, dict]]:
    """Action and attributes of each event, without the image and the name, which all of them have."""
    return [(event["Action"], attributes_of(event)) for event in events]


def attributes_of(event: dict) -> dict:
    """What is told beside the image and the name."""
    return {name: text for name, text in event["Actor"]["Attributes"].items() if name not in ("image", "name")}


def until(condition: Callable[[], object], seconds: float = 30.0, pause: float = 0.02) -> object:
    """Ask again until the answer is true; that answer."""
    end = time.monotonic() + patient(seconds)
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(pause)
    return found
