"""The life of containers against a model of it: one client after the other, exactly; a hundred at once, lawfully."""

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.harness.amounts import amount, examples
from tests.harness.daemon import Daemon
from tests.harness.http import Answer
from tests.harness.leaks import cgroups_of
from tests.harness.listening import until

pytestmark = pytest.mark.seldom

SECONDS = 40
NAMES = ("machine-a", "machine-b", "machine-c")
POLICIES = ("no", "always", "unless-stopped", "on-failure")
UP = ("running", "paused")
# Ignored by a process that has no handler for it, process 1 or not.
HARMLESS = "WINCH"

EXAMPLES = examples("ENGINE_TEST_EXAMPLES", 5, 2)

STORM_THREADS = 100
STORM_CONTAINERS = 6
STORM_SECONDS = amount(4.0, 2.0)


@pytest.fixture(scope="module")
def stressed(world) -> Iterator[Daemon]:
    """A daemon of this file alone, with busybox."""
    alone = world.daemon()
    alone.log_level = "info"
    alone.start()
    alone.import_busybox()
    yield alone
    alone.close()


@dataclass
class Modelled:
    """A container as the model knows it. by_hand: a signal was sent since its start; held: no policy runs it again."""

    id: str
    name: str
    policy: str
    autoremove: bool
    status: str = "created"
    by_hand: bool = False
    held: bool = False
    code: int = 0
    pid: int = 0
    count: int = 0

    def policy_wants(self, code: int) -> bool:
        """dockerd's rules, once more and in other words."""
        return {
            "no": False,
            "always": True,
            "unless-stopped": not self.by_hand,
            "on-failure": code != 0,
        }[self.policy]


class Life(RuleBasedStateMachine):
    """Clients that take turns; every answer and every state is foreseen."""

    daemon: Daemon  # set by the test

    def __init__(self) -> None:
        super().__init__()
        self.known: list[Modelled] = []

    @initialize()
    def begin_empty(self) -> None:
        """Nothing of the run before is left."""
        for each in self.daemon.request("GET", "/containers/json?all=1").json():
            self.daemon.remove(each["Id"])

    def _post(self, one: Modelled, verb: str) -> Answer:
        return self.daemon.request("POST", f"/containers/{one.id}/{verb}", checked=False)

    def _one(self, number: int) -> Modelled:
        return self.known[number % len(self.known)]

    def _ended(self, one: Modelled, code: int) -> None:
        one.status, one.code, one.pid = "exited", code, 0
        if one.autoremove:
            self._await_gone(one)

    def _await_gone(self, one: Modelled) -> None:
        end = time.monotonic() + SECONDS
        while self.daemon.request("GET", f"/containers/{one.id}/json").status != 404:
            assert time.monotonic() < end, f"{one} removes itself, and is still there"
            time.sleep(0.01)
        self.known.remove(one)

    def _await_run(self, one: Modelled, before: int) -> None:
        end = time.monotonic() + SECONDS
        while (shown := self.daemon.inspect(one.id))["State"]["Status"] != "running" or shown["State"]["Pid"] == before:
            assert time.monotonic() < end, (one, shown["State"])
            time.sleep(0.01)
        one.status, one.code = "running", 0

    def _started(self, one: Modelled) -> None:
        one.status, one.by_hand, one.held, one.code, one.count = "running", False, False, 0, 0

    @precondition(lambda self: len(self.known) < len(NAMES))
    @rule(name=st.sampled_from(NAMES), policy=st.sampled_from(POLICIES), autoremove=st.booleans())
    def create(self, name: str, policy: str, autoremove: bool) -> None:
        """A name is given once; AutoRemove goes with no policy."""
        body = {
            "Image": "busybox",
            "Cmd": ["sleep", "600"],
            "HostConfig": {"NetworkMode": "none", "RestartPolicy": {"Name": policy}, "AutoRemove": autoremove},
        }
        answer = self.daemon.request("POST", f"/containers/create?name={name}", body)
        if autoremove and policy != "no":
            assert answer.status == 400
        elif any(one.name == name for one in self.known):
            assert answer.status == 409
        else:
            assert answer.status == 201
            self.known.append(Modelled(answer.json()["Id"], name, policy, autoremove))

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9))
    def start(self, number: int) -> None:
        """What does not run, runs."""
        one = self._one(number)
        assert self._post(one, "start").status == {"running": 304, "paused": 409}.get(one.status, 204)
        if one.status not in UP:
            self._started(one)

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9))
    def stop(self, number: int) -> None:
        """What runs, paused or not, ends."""
        one = self._one(number)
        assert self._post(one, "stop?t=0").status == (204 if one.status in UP else 304)
        if one.status in UP:
            one.by_hand = one.held = True
            self._ended(one, 137)

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9))
    def kill(self, number: int) -> None:
        """And so here; it has ended when the answer comes."""
        one = self._one(number)
        assert self._post(one, "kill").status == (204 if one.status in UP else 409)
        if one.status in UP:
            one.by_hand = one.held = True
            self._ended(one, 137)

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9))
    def send_a_harmless_signal(self, number: int) -> None:
        """It lets go what is paused, and no policy runs the container again."""
        one = self._one(number)
        assert self._post(one, f"kill?signal={HARMLESS}").status == (204 if one.status in UP else 409)
        if one.status in UP:
            one.by_hand = one.held = True
            one.status = "running"

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9))
    def pause(self, number: int) -> None:
        """Only what runs."""
        one = self._one(number)
        assert self._post(one, "pause").status == (204 if one.status == "running" else 409)
        if one.status == "running":
            one.status = "paused"

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9))
    def unpause(self, number: int) -> None:
        """Only what is paused; anything else is a 500 of docker's."""
        one = self._one(number)
        assert self._post(one, "unpause").status == (204 if one.status == "paused" else 500)
        if one.status == "paused":
            one.status = "running"

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9))
    def restart(self, number: int) -> None:
        """Whatever it was, it runs, and nothing is counted or remembered; it does not remove itself."""
        one = self._one(number)
        assert self._post(one, "restart?t=0").status == 204
        self._started(one)

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9), name=st.sampled_from(NAMES))
    def rename(self, number: int, name: str) -> None:
        """To a name that is free."""
        one = self._one(number)
        status = self._post(one, f"rename?name={name}").status
        if name == one.name:
            assert status == 400
        elif any(other.name == name for other in self.known):
            assert status == 409
        else:
            assert status == 204
            one.name = name

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9), force=st.booleans())
    def remove(self, number: int, force: bool) -> None:
        """What runs, only by force."""
        one = self._one(number)
        allowed = force or one.status not in UP
        assert self.daemon.request("DELETE", f"/containers/{one.id}?force={int(force)}").status == (
            204 if allowed else 409
        )
        if allowed:
            self.known.remove(one)

    @rule()
    def prune(self) -> None:
        """All that does not run."""
        gone = {one.id for one in self.known if one.status not in UP}
        assert set(self.daemon.request("POST", "/containers/prune").json()["ContainersDeleted"] or ()) == gone
        self.known = [one for one in self.known if one.id not in gone]

    @precondition(lambda self: any(one.status == "running" for one in self.known))
    @rule(number=st.integers(0, 9))
    def die(self, number: int) -> None:
        """Of a signal that docker has not sent: its policy decides."""
        running = [one for one in self.known if one.status == "running"]
        one = running[number % len(running)]
        pid = self.daemon.inspect(one.id)["State"]["Pid"]
        os.kill(pid, signal.SIGKILL)
        if not one.held and one.policy_wants(137):
            one.count += 1
            self._await_run(one, pid)
            return
        end = time.monotonic() + SECONDS
        while (answer := self.daemon.request("GET", f"/containers/{one.id}/json")).status == 200:
            if answer.json()["State"]["Status"] == "exited":
                break
            assert time.monotonic() < end, answer
            time.sleep(0.01)
        self._ended(one, 137)

    @rule()
    def crash(self) -> None:
        """The daemon is killed, and the next one knows it all; what does not run and is to run at its start, runs."""
        self.daemon.kill9()
        self.daemon.start()
        for one in self.known:
            one.held = False  # only by_hand is remembered
            if one.status == "exited" and one.policy_wants(one.code):
                self._await_run(one, 0)
                one.count, one.by_hand = 0, False

    @invariant()
    def everybody_agrees(self) -> None:
        """Listing, inspect and the kernel say what the model says."""
        listed = {each["Id"]: each for each in self.daemon.request("GET", "/containers/json?all=1").json()}
        assert set(listed) == {one.id for one in self.known}
        for one in self.known:
            assert (listed[one.id]["State"], listed[one.id]["Names"]) == (one.status, [f"/{one.name}"])
            shown = self.daemon.inspect(one.name)
            state = shown["State"]
            assert (shown["Id"], state["Status"], state["ExitCode"]) == (one.id, one.status, one.code), one
            assert (state["Running"], state["Paused"]) == (one.status in UP, one.status == "paused")
            assert shown["RestartCount"] == one.count, one
            assert os.path.exists(f"/proc/{state['Pid']}") if one.status in UP else not state["Pid"]


@pytest.mark.timeout(300)  # two dozen starts of a daemon, each of which takes a second on a busy machine
def test_clients_that_take_turns_meet_the_model(stressed: Daemon) -> None:
    """Random walks through all verbs, crashes of the daemon among them."""
    Life.daemon = stressed
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


# What a verb may answer when others do what they like with the same container meanwhile.
LAWFUL = {
    ("POST", "start"): {204, 304, 404, 409},
    ("POST", "stop?t=0"): {204, 304, 404},
    ("POST", "restart?t=0"): {204, 404, 409},
    ("POST", "kill"): {204, 404, 409},
    ("POST", f"kill?signal={HARMLESS}"): {204, 404, 409},
    ("POST", "pause"): {204, 404, 409},
    ("POST", "unpause"): {204, 404, 500},
    ("POST", "rename?name=storm-{}"): {204, 400, 404, 409},
    ("DELETE", "?force=1"): {204, 404, 409},
    ("DELETE", ""): {204, 404, 409},
    ("GET", "json"): {200, 404},
    ("GET", "logs?stdout=1"): {200, 404},
}
PAIRS = {
    "start and remove": ("start", "?force=1"),
    "stop and restart": ("stop?t=0", "restart?t=0"),
    "rename and inspect": ("rename?name=storm-{}", "json"),
    "pause and kill": ("pause", "kill", "start", "unpause"),
    "everything": tuple(verb for _, verb in LAWFUL),
}


class Storm:
    """Many clients that do what they like with a few containers, for a while."""

    def __init__(self, daemon: Daemon, verbs: tuple[str, ...], seconds: float) -> None:
        self.daemon = daemon
        self.calls = [call for call in LAWFUL if call[1] in verbs]
        self.until = time.monotonic() + seconds
        self.unlawful: list[str] = []
        self.done = 0
        self.slowest: dict[tuple[str, str], float] = {}
        self.numbers = itertools.count()
        self.containers: list[str] = [self.create() for _ in range(STORM_CONTAINERS)]

    def create(self) -> str:
        """One more, of a random kind."""
        policy = random.choice(POLICIES)
        host_config = {
            "NetworkMode": "none",
            "RestartPolicy": {"Name": policy},
            "AutoRemove": policy == "no" and random.random() < 0.5,
        }
        command = random.choice((("sleep", "600"), ("sleep", "0.05"), ("false",)))
        return self.daemon.create(*command, HostConfig=host_config)

    def client(self) -> None:
        """One of them."""
        try:
            with self.daemon.connection(timeout=60) as connection:
                while time.monotonic() < self.until or self.done <= STORM_THREADS:  # slow as the machine may be
                    self.call(connection)
        except Exception as error:
            self.unlawful.append(f"{type(error).__name__}: {error}")

    def call(self, connection: object) -> None:
        """One verb on one container, which may be replaced when it is gone."""
        place = random.randrange(STORM_CONTAINERS)
        container = self.containers[place]
        method, verb = call = random.choice(self.calls)
        path = f"/containers/{container}/{verb.format(next(self.numbers) % 4)}"
        begun = time.monotonic()
        answer = connection.request(method, path.replace("/?", "?").removesuffix("/"))
        self.slowest[call] = max(self.slowest.get(call, 0.0), time.monotonic() - begun)
        lawful = answer.status in LAWFUL[call] and (answer.status != 500 or b"is not paused" in answer.body)
        if not lawful:
            self.unlawful.append(f"{method} {path}: {answer.status} {answer.body!r}")
        self.done += 1
        if answer.status == 404 and self.containers[place] == container:
            self.containers[place] = self.create()

    def run(self) -> None:
        """All of them at once; returns when all have ended."""
        threads = [threading.Thread(target=self.client, daemon=True) for _ in range(STORM_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(self.until + 60 - time.monotonic(), 0.1))
        assert not any(thread.is_alive() for thread in threads), "some of them wait for ever"


def settle(daemon: Daemon) -> list[dict]:
    """All containers, once none of them is on its way to another state by itself."""
    end = time.monotonic() + SECONDS
    while True:
        listed = daemon.request("GET", "/containers/json?all=1").json()
        by_itself = [
            each
            for each in listed
            if each["State"] == "removing" or (each["State"] == "running" and each["Command"] != "sleep 600")
        ]
        if not by_itself or time.monotonic() > end:
            return listed
        time.sleep(0.05)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_hundred_clients_that_do_opposite_things_leave_lawful_states(stressed: Daemon, pair: str) -> None:
    """No 500, nobody waits for ever, and afterwards the daemon and the kernel agree about every container."""
    daemon = stressed
    storm = Storm(daemon, PAIRS[pair], STORM_SECONDS if pair == "everything" else STORM_SECONDS / 2)
    storm.run()
    assert not storm.unlawful, storm.unlawful[:10]
    assert storm.done > STORM_THREADS
    assert max(storm.slowest.values()) < SECONDS, storm.slowest
    for each in settle(daemon):
        # A pause for breath between two tries ends by itself: it is looked at as it is now.
        answer = daemon.request("GET", f"/containers/{each['Id']}/json")
        if answer.status == 404 or each["Command"] != "sleep 600":
            continue
        state = answer.json()["State"]
        assert state["Status"] in ("created", "running", "paused", "exited"), state
        assert state["Running"] == (state["Status"] in UP)
        if state["Running"]:
            assert os.path.exists(f"/proc/{state['Pid']}") and cgroups_of(each["Id"])
        else:
            assert not state["Pid"]
            until(lambda each=each: not cgroups_of(each["Id"]))  # who hears of an end does not wait for that
    for each in daemon.request("GET", "/containers/json?all=1").json():
        assert daemon.request("DELETE", f"/containers/{each['Id']}?force=1").status in (204, 404)
        assert not cgroups_of(each["Id"])
    assert daemon.request("GET", "/containers/json?all=1").json() == []
    assert "Traceback" not in daemon.log
