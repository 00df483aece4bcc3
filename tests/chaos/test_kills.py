"""Eight clients at work while the engine's processes are killed at random: no promise is broken, nothing is left."""

import os
import threading
import time
import traceback

import pytest

from tests.chaos import clients, form
from tests.chaos.clients import Client, Witness
from tests.chaos.killing import Killer, children
from tests.harness import holdings, leaks
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.seldom

KILLS = form.short_or_full(10, 300)
LEAST_TURNS = form.short_or_full(1, 20)
PAUSE = (0.05, 0.6)  # seconds between two kills
JOIN_SECONDS = 120.0


class Work:
    """The clients' threads; each does its turns until it is told that it was enough."""

    def __init__(self, workers: list[Client]) -> None:
        self.workers = workers
        self.enough = threading.Event()
        self.broken: list[str] = []
        self._threads = [threading.Thread(target=self._repeat, args=(each,), daemon=True) for each in workers]

    def _repeat(self, client: Client) -> None:
        try:
            while not (self.enough.is_set() and client.turns >= LEAST_TURNS):
                client.turn()
                client.turns += 1
        except Exception:
            self.broken.append(f"{client.kind}, turn {client.turns}:\n{traceback.format_exc()}")

    def begin(self) -> None:
        """All at once."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Each ends its turn."""
        self.enough.set()
        until = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.1))
        assert not any(thread.is_alive() for thread in self._threads), "a client waits for ever"


@pytest.mark.timeout(form.short_or_full(120, 3600))
def test_no_promise_is_broken_by_kills(alone: Daemon) -> None:
    """Daemon, spawner, monitors, execs' monitors and the resolver die; each client checks what it was promised."""
    daemon = alone
    killer = Killer(daemon, form.source("killer"))
    workers = [kind(daemon, killer.record, form.source(kind.kind)) for kind in clients.KINDS]
    witness = Witness(daemon, killer.record, form.source("witness"))
    witness.begin()
    work, pauses = Work(workers), form.source("pauses")
    work.begin()
    try:
        while killer.kills.total() < KILLS and not work.broken:
            time.sleep(pauses.uniform(*PAUSE))
            killer.strike()
    finally:
        work.end()
    lines = witness.end()
    print(
        f"kills: {dict(killer.kills)}; turns: { {each.kind: each.turns for each in workers} }; "
        f"calls: {sum(each.caller.calls for each in workers)}, "
        f"{sum(each.caller.doubts for each in workers)} of them in doubt; the witness has all of {lines} lines"
    )
    assert not work.broken, "\n".join(work.broken) + daemon.log[-3000:]
    nothing_is_left(daemon, killer)


def nothing_is_left(daemon: Daemon, killer: Killer) -> None:
    """The engine holds nothing of what was removed, and its processes are the daemon, the spawner and the spare's."""
    assert daemon.request("GET", "/containers/json?all=1").json() == []
    assert [each["Name"] for each in daemon.request("GET", "/volumes").json()["Volumes"] or ()] == []
    names = {each["Name"] for each in daemon.request("GET", "/networks").json()}
    assert names == {"bridge", "host", "none"}
    images = {tag for each in daemon.request("GET", "/images/json").json() for tag in each["RepoTags"] or ()}
    assert images == {"busybox:latest"}
    assert not holdings.settled(daemon)
    for root in (daemon.exec_root, daemon.data_root):  # files go in the background, after the answer
        assert not leaks.settled(lambda root=root: os.listdir(root / "containers"))
    assert len(children(daemon.pid)) == 1, "the daemon has another child than its spawner"
    assert "Traceback" not in daemon.log, daemon.log[daemon.log.index("Traceback") - 500 :][:3000]
