"""The first calls after a start, many at once: the daemon loads what they need then, on all their threads together."""

import threading
from collections.abc import Callable

from tests.chaos import form
from tests.harness.daemon import Daemon

STARTS = form.short_or_full(3, 40)
CLIENTS = 10
# Calls that load different rooms of the house, and the status of each in a daemon that has nothing yet.
CALLS = (
    ("GET", "/images/json", None, 200),
    ("GET", "/images/x/history", None, 404),
    ("GET", "/images/get?names=x", None, 404),
    ("GET", "/containers/json?all=1&filters=%7B%22before%22%3A%5B%22x%22%5D%7D", None, 404),
    ("GET", "/containers/x/stats", None, 404),
    ("GET", "/containers/x/top", None, 404),
    ("GET", "/containers/x/changes", None, 404),
    ("GET", "/containers/x/archive?path=/", None, 404),
    ("GET", "/exec/x/json", None, 404),
    ("GET", "/networks", None, 200),
    ("GET", "/volumes", None, 200),
    ("GET", "/system/df", None, 200),
    ("GET", "/info", None, 200),
    ("GET", "/plugins", None, 200),
    ("GET", "/services", None, 503),
    ("GET", "/events?until=1", None, 200),
    ("POST", "/build/prune", None, 200),
    ("POST", "/containers/prune?filters=%7B%22until%22%3A%5B%221h%22%5D%7D", None, 200),
    ("POST", "/images/prune", None, 200),
    ("POST", "/networks/prune", None, 200),
    ("POST", "/volumes/prune", None, 200),
    ("POST", "/volumes/create", {"Name": "first"}, 201),
    ("POST", "/networks/create", {"Name": "first"}, 201),
    ("POST", "/containers/x/restart", None, 404),
    ("POST", "/containers/x/exec", {"Cmd": ["true"]}, 404),
    ("POST", "/containers/create", {"Image": "x", "HostConfig": {"Links": ["x:y"]}}, 404),
    ("POST", "/images/load?quiet=1", b"", 200),
)


def at_once(daemon: Daemon, calls: list[tuple]) -> list[str]:
    """Make the calls together, each from a client of its own that is connected already; what went otherwise."""
    together = threading.Barrier(len(calls))
    wrong = []

    def call(method: str, path: str, body: object, status: int) -> None:
        with daemon.connection(60) as connection:
            together.wait(60)
            answer = connection.request(method, path, body)
            if answer.status != status:
                wrong.append(f"{method} {path}: {answer.status} {answer.body[:300]!r}")

    threads = [threading.Thread(target=call, args=each) for each in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_the_first_calls_after_a_start_are_answered(make_daemon: Callable[..., Daemon]) -> None:
    """Before `typing` was loaded ahead of all threads, one in twenty said that it was "partially initialized"."""
    daemon = make_daemon()
    for number in range(STARTS):
        if number:
            daemon.restart()
            daemon.request("DELETE", "/volumes/first")
            daemon.request("DELETE", "/networks/first")
        assert not at_once(daemon, form.source(number).sample(CALLS, CLIENTS)), f"start {number}"
    assert "Traceback" not in daemon.log
