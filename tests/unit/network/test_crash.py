"""An address is never handed out twice, whatever comes in whatever order, and wherever the daemon is killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.daemon.network import surroundings
from engine.errors import EngineError
from tests.unit.network import made

PROJECT = Path(__file__).resolve().parents[3]
CONTAINERS = [f"{number:064x}" for number in range(6)]
NAMES = ("small", "dual")
ROUNDS = 6

# Joins and leaves for as long as it lives, and tells each step when it is done; killed somewhere in between.
VICTIM = """
import itertools, random, sys
from engine.daemon.network import surroundings
surroundings.look = lambda own: surroundings.Surroundings()
from engine.errors import EngineError
from tests.unit.network import made
networks = made.opened(sys.argv[1])
networks.create({"Name": "small", **made.subnet("10.1.0.0/28")})
print("ready", flush=True)
choice = random.Random(int(sys.argv[2]))
held = {}
for number in itertools.count():
    container = f"{number:064x}"
    try:
        held[container] = networks.join(container, {"small": made.endpoint(), "bridge": made.endpoint()})
        print("joined", container, *(each.ipv4 for each in held[container]), flush=True)
    except EngineError:
        pass
    if len(held) > 8 or choice.random() < 0.3:
        gone = choice.choice(sorted(held))
        print("leaving", gone, flush=True)
        networks.leave(held.pop(gone))
"""


class Endpoints(RuleBasedStateMachine):
    """Containers join and leave networks, and the daemon dies and starts between any two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(surroundings, "look", lambda own: surroundings.Surroundings())
        self.directory = tempfile.TemporaryDirectory()
        self.path = f"{self.directory.name}/db"
        self.networks = made.opened(self.path)
        self.networks.create({"Name": "small", **made.subnet("10.1.0.0/29")})
        self.networks.create({"Name": "dual", "EnableIPv6": True, **made.subnet("10.2.0.0/28", IPRange="10.2.0.8/29")})
        self.held: dict[str, tuple] = {}

    def teardown(self) -> None:
        self.patch.undo()
        self.directory.cleanup()

    @rule(
        container=st.sampled_from(CONTAINERS),
        names=st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
        asked=st.sampled_from(["", "10.1.0.3", "10.1.0.6"]),
    )
    def join(self, container: str, names: list[str], asked: str) -> None:
        wanted = {name: made.endpoint(asked if name == "small" else "") for name in names}
        before = self.networks.endpoints()
        try:
            joined = self.networks.join(container, wanted)
        except EngineError:
            assert self.networks.endpoints() == before
            return
        self.held[container] = self.held.get(container, ()) + joined

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        container = data.draw(st.sampled_from(sorted(self.held)))
        self.networks.leave(self.held.pop(container))

    @rule()
    def die_and_start(self) -> None:
        self.networks = made.opened(self.path)

    @rule(running=st.sets(st.sampled_from(CONTAINERS)))
    def die_with_some_containers(self, running: set[str]) -> None:
        self.networks = made.opened(self.path)
        self.networks.leave(self.networks.adopt(running))
        self.held = {container: held for container, held in self.held.items() if container in running}

    @invariant()
    def every_address_has_one_holder(self) -> None:
        held = sorted(each.id for all_ in self.held.values() for each in all_)
        endpoints = self.networks.endpoints()
        assert sorted(each.id for each in endpoints) == held
        for address in ("ipv4", "ipv6"):
            given = [getattr(each, address) for each in endpoints if getattr(each, address)]
            assert len(set(given)) == len(given)
        names = [(each.container, each.interface) for each in endpoints]
        assert len(set(names)) == len(names)
        assert not {each.ipv4 for each in endpoints} & {"10.1.0.0", "10.1.0.1", "10.1.0.7", "10.2.0.8"}

    @invariant()
    def the_count_is_right(self) -> None:
        network = self.networks.find("small")
        used = self.networks.status(network)["10.1.0.0/29"]["IPsInUse"]
        assert used == 3 + len(self.networks.endpoints(network.id))


TestEndpoints = Endpoints.TestCase
TestEndpoints.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_killed_daemon_has_given_no_address_twice(tmp_path, around, turn):
    """What was told before the kill is there after it, and what is given then is none of that."""
    path = f"{tmp_path}/db"
    words = [sys.executable, "-c", VICTIM, path, str(turn)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as victim:
        assert victim.stdout.readline() == "ready\n"
        lines = [victim.stdout.readline() for _ in range(3 + 40 * turn)]
        os.kill(victim.pid, signal.SIGKILL)
        lines += victim.stdout.readlines()
    held: dict[str, list[str]] = {}
    leaving = ""
    told = [line for line in lines if line.endswith("\n")]  # the kill may have come within the last one
    for word, container, *addresses in map(str.split, told):
        leaving = container if word == "leaving" else ""
        if word == "joined":
            held[container] = addresses
        else:
            del held[container]  # unless it was killed before it could
    networks = made.opened(path)
    found = {
        each.container: [other.ipv4 for other in networks.endpoints(container_id=each.container)]
        for each in networks.endpoints()
    }
    for container, addresses in held.items():
        assert found.pop(container) == addresses
    assert len(found) <= 1 and (not leaving or found.keys() <= {leaving, *found})  # the one step that was not told
    given = [each.ipv4 for each in networks.endpoints()]
    assert len(set(given)) == len(given)
    while True:
        try:
            joined = networks.join(os.urandom(32).hex(), {"small": made.endpoint()})
        except EngineError:
            break
        given += [each.ipv4 for each in joined]
    assert len(set(given)) == len(given)
