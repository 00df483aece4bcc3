"""Asking a daemon that may be killed at any moment: what was answered, and what is not known.

Used by the clients' threads. While no daemon is there a call waits for the next one. A connection that ends before the
answer is whole is in doubt (None) when a kill explains it, and a failure when none does.
"""

import time

from tests.chaos.killing import Record
from tests.harness.daemon import Daemon
from tests.harness.http import Answer, Connection

PATIENCE = 60.0
"""Seconds after which a call that has no answer is taken for a hang."""


class Caller:
    """One client's side; counts what it has asked."""

    def __init__(self, daemon: Daemon, record: Record) -> None:
        self.daemon = daemon
        self.record = record
        self.calls = self.doubts = 0

    def connection(self) -> Connection:
        """A connection to whichever daemon is there, or comes."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.daemon.connection(PATIENCE)
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < end, "no daemon has come back"
                time.sleep(0.01)  # there is no event for "it listens"

    def ask(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Answer | None:
        """One call; None when the daemon was killed before it had answered, so whether it was done is not known."""
        before = self.record.daemons
        self.calls += 1
        with self.connection() as connection:
            try:
                return connection.request(method, path, body, headers)
            except TimeoutError as error:
                raise AssertionError(f"{method} {path} hangs") from error
            except (OSError, EOFError, ValueError, AssertionError) as error:
                if self.record.daemon_lived(before):
                    raise AssertionError(f"{method} {path}: nobody was killed, and yet {error!r}") from error
        self.doubts += 1
        return None

    def look(self, path: str) -> Answer:
        """A GET, asked again until it is answered."""
        return self.insist("GET", path)

    def insist(self, method: str, path: str, body: object = None) -> Answer:
        """A call that may be made twice, made until it is answered."""
        while (answer := self.ask(method, path, body)) is None:
            pass
        return answer
