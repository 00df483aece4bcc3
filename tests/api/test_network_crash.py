"""A daemon killed with -9 at any step of what networks need: the next one leaves nothing behind and gives no address
twice.

The daemon says at which of its steps it dies (`tests.harness.mortal`); what the kernel holds afterwards is looked at
from outside (`tests.harness.holdings`).
"""

import itertools
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.harness.amounts import examples
from tests.harness.daemon import Daemon
from tests.harness.doomed import Doomed
from tests.harness.fixtures import World, running
from tests.harness.holdings import links, settled
from tests.harness.hosts import Inside, ask, reaches, run, serving
from tests.harness.leaks import tables

pytestmark = pytest.mark.seldom

PORT = 8080
# Every so many steps, from a different one for each verb: together they are all kinds of steps. 1 tries each of them.
STRIDE = examples("ENGINE_TEST_STRIDE", 5, 11)
MOST = 200
MACVLAN = {"Driver": "macvlan"}


@pytest.fixture(scope="module")
def doomed(world: World) -> Iterator[Doomed]:
    """A daemon that dies on demand, alone on its machine, with busybox and the network `mesh`."""
    daemon = Doomed(world.directory(), world.machine())
    with running(daemon):
        daemon.import_busybox()
        make(daemon, "mesh")
        yield daemon


def make(daemon: Daemon, name: str, **body: object) -> str:
    """A network; its id."""
    answer = daemon.request("POST", "/networks/create", {"Name": name, **body})
    assert answer.status == 201, answer
    return answer.json()["Id"]


def published(daemon: Daemon, network: str, name: str = "one") -> str:
    """A container in a network, not started, with a port of the host's."""
    host_config = {"NetworkMode": network, "PortBindings": {"80/tcp": [{"HostPort": str(PORT)}]}}
    return daemon.create("sleep", "600", name=name, HostConfig=host_config)


def call(daemon: Daemon, method: str, path: str, body: object = None) -> int:
    """The status of a call that may be the daemon's last."""
    return daemon.request(method, path, body, checked=False).status


def answers(daemon: Daemon, container: str) -> None:
    """Its published port leads to it."""
    with serving(Inside(daemon.inspect(container)["State"]["Pid"]), 80):
        assert ask(daemon.namespaces, "127.0.0.1", PORT)


class Case:
    """A verb: what is there before it, the call in which the daemon dies, and what must be right after it is repeated.

    verb: the call, its status; done: what that may be when it is repeated
    """

    verb: Callable[[], int]
    done: tuple[int, ...] = (204,)

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon

    def prepare(self) -> None:
        """Before it."""

    def check(self) -> None:
        """After it was repeated."""

    def clear(self) -> None:
        """Nothing of it stays."""
        for container in self.daemon.request("GET", "/containers/json?all=1").json():
            self.daemon.remove(container["Id"])
        for name in ("made",):
            assert call(self.daemon, "DELETE", f"/networks/{name}") in (204, 404)


class Start(Case):
    """A start with a published port on the default network."""

    network = "bridge"
    done = (204, 304)

    def prepare(self) -> None:
        published(self.daemon, self.network)

    def verb(self) -> int:
        return call(self.daemon, "POST", "/containers/one/start")

    def check(self) -> None:
        answers(self.daemon, "one")


class StartNamed(Start):
    """The same on a network with names."""

    network = "mesh"


class Connect(Case):
    """One more network for a container that runs."""

    done = (200, 403)

    def prepare(self) -> None:
        make(self.daemon, "made")
        self.daemon.begin(published(self.daemon, "mesh"))

    def verb(self) -> int:
        return call(self.daemon, "POST", "/networks/made/connect", {"Container": "one"})

    def check(self) -> None:
        networks = self.daemon.inspect("one")["NetworkSettings"]["Networks"]
        assert set(networks) == {"mesh", "made"} and networks["made"]["IPAddress"]
        answers(self.daemon, "one")


class Disconnect(Connect):
    """One network fewer."""

    done = (200, 500)

    def prepare(self) -> None:
        super().prepare()
        assert super().verb() == 200

    def verb(self) -> int:
        return call(self.daemon, "POST", "/networks/made/disconnect", {"Container": "one"})

    def check(self) -> None:
        assert set(self.daemon.inspect("one")["NetworkSettings"]["Networks"]) == {"mesh"}
        answers(self.daemon, "one")


class Kill(Case):
    """The end of a container with a published port."""

    done = (204, 304)

    def prepare(self) -> None:
        self.daemon.begin(published(self.daemon, "mesh"))

    def verb(self) -> int:
        return call(self.daemon, "POST", "/containers/one/stop?t=0")

    def check(self) -> None:
        assert not reaches(self.daemon.namespaces, "127.0.0.1", PORT)
        self.daemon.begin("one")
        answers(self.daemon, "one")


class Remove(Kill):
    """Its removal while it runs."""

    done = (204, 404)

    def verb(self) -> int:
        return call(self.daemon, "DELETE", "/containers/one?force=1")

    def check(self) -> None:
        self.daemon.begin(published(self.daemon, "bridge"))
        answers(self.daemon, "one")


class Create(Case):
    """A network is made."""

    done = (201, 409)

    def verb(self) -> int:
        return call(self.daemon, "POST", "/networks/create", {"Name": "made"})

    def check(self) -> None:
        self.daemon.begin(published(self.daemon, "made"))
        answers(self.daemon, "one")


class Delete(Case):
    """A network with a device is removed."""

    done = (204, 404)

    def prepare(self) -> None:
        make(self.daemon, "made")
        one = published(self.daemon, "made")
        self.daemon.begin(one)
        self.daemon.remove(one)

    def verb(self) -> int:
        return call(self.daemon, "DELETE", "/networks/made")

    def check(self) -> None:
        make(self.daemon, "made")
        self.daemon.begin(published(self.daemon, "made"))
        answers(self.daemon, "one")


CASES = (Start, StartNamed, Connect, Disconnect, Kill, Remove, Create, Delete)


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_killed_at_a_step_of_a_verb(doomed: Doomed, kind: type[Case]) -> None:
    """The next daemon holds nothing of what does not live, and the verb can be had again, whole."""
    case = kind(doomed)
    case.clear()
    for number in itertools.count(CASES.index(kind) % STRIDE, STRIDE):
        assert number < MOST
        case.prepare()
        step = doomed.dies(number, case.verb)
        where = f"step {number}: {step}"
        assert not settled(doomed), (where, settled(doomed), doomed.log[-3000:])
        again = case.verb()
        assert again in case.done, (where, again, doomed.log[-3000:])
        case.check()
        case.clear()
        assert not settled(doomed), (where, settled(doomed))
        if not step:
            return


@pytest.fixture
def mesh(apart: Daemon) -> Iterator[str]:
    """A network of the daemon that is killed at no step in particular."""
    yield make(apart, "mesh")
    for container in apart.request("GET", "/containers/json?all=1").json():
        apart.remove(container["Id"])
    assert call(apart, "DELETE", "/networks/mesh") == 204


def crash(daemon: Daemon) -> None:
    """Kill the daemon, and only it, and start it again."""
    daemon.kill9()
    daemon.start()


def address(daemon: Daemon, container: str, network: str) -> str:
    """Where it is."""
    return daemon.inspect(container)["NetworkSettings"]["Networks"][network]["IPAddress"]


def test_addresses_of_running_containers_are_kept_over_a_crash(apart: Daemon, mesh: str) -> None:
    """Those who come after it are given others, and reach the ones from before."""

    def begun(network: str) -> str:
        one = apart.create("sleep", "600", HostConfig={"NetworkMode": network})
        apart.begin(one)
        return one

    where: Callable[[], list[tuple[str, str]]] = lambda: [  # noqa: E731
        (network, address(apart, one, network)) for network, one in made
    ]
    made = [(network, begun(network)) for network in ("bridge", "mesh") for _ in range(3)]
    before = where()
    crash(apart)
    assert where() == before
    made += [(network, begun(network)) for network in ("bridge", "mesh") for _ in range(3)]
    assert len(set(where())) == len(made)
    assert not settled(apart)
    for network in ("bridge", "mesh"):
        first, last = [one for name, one in made if name == network][:: len(made) // 2 - 1]
        with serving(Inside(apart.inspect(first)["State"]["Pid"]), 80):
            assert ask(Inside(apart.inspect(last)["State"]["Pid"]), address(apart, first, network), 80)


def test_what_an_earlier_daemon_opened_for_a_network_goes_with_it(apart: Daemon) -> None:
    """Nobody has an endpoint any more when the next daemon starts, so it adopts no network; it removes this one."""
    make(apart, "idle")
    one = apart.create("sleep", "600", HostConfig={"NetworkMode": "idle"})
    apart.begin(one)
    apart.remove(one)
    assert any("br-" in text for text in tables(apart.namespaces).values())
    crash(apart)
    assert call(apart, "DELETE", "/networks/idle") == 204
    assert not any("br-" in text for text in tables(apart.namespaces).values())
    assert not settled(apart)


def test_a_published_port_answers_while_there_is_no_daemon(apart: Daemon, mesh: str) -> None:
    """From outside, and again when there is one, who takes it away at the container's end."""
    one = published(apart, "mesh")
    apart.begin(one)
    with serving(Inside(apart.inspect(one)["State"]["Pid"]), 80):
        apart.kill9()
        assert ask(apart.namespaces, "127.0.0.1", PORT)
        apart.start()
        assert ask(apart.namespaces, "127.0.0.1", PORT)
    two = apart.create(
        "true", HostConfig={"NetworkMode": "bridge", "PortBindings": {"80/tcp": [{"HostPort": str(PORT)}]}}
    )
    answer = apart.request("POST", f"/containers/{two}/start")
    assert answer.status == 500 and "port is already allocated" in answer.message
    apart.remove(one)
    assert not reaches(apart.namespaces, "127.0.0.1", PORT)
    apart.begin(two)
    apart.wait(two)
    apart.remove(two)
    assert not settled(apart)


def test_containers_that_ended_while_nobody_looked(apart: Daemon, mesh: str) -> None:
    """Their addresses, ports, rules and links are free again."""
    one = published(apart, "mesh")
    apart.begin(one)
    was, pid = address(apart, one, "mesh"), apart.inspect(one)["State"]["Pid"]
    apart.kill9()
    os.kill(pid, signal.SIGKILL)
    apart.start()
    assert not settled(apart)
    apart.begin(published(apart, "mesh", "two"))
    assert address(apart, "two", "mesh") == was
    answers(apart, "two")


def test_a_bridge_that_was_deleted_while_nobody_looked_is_made_again(apart: Daemon, mesh: str) -> None:
    """And the rules that a firewall tool has flushed."""
    one = published(apart, "mesh")
    apart.begin(one)
    apart.kill9()
    for name in tables(apart.namespaces):
        run(apart.namespaces, "nft", "delete", "table", "inet", name)
    run(apart.namespaces, "ip", "link", "delete", f"br-{mesh[:12]}")
    apart.start()
    two = apart.create("sleep", "600", name="two", HostConfig={"NetworkMode": "mesh"})
    apart.begin(two)
    assert f"br-{mesh[:12]}" in {link["ifname"] for link in links(apart.namespaces)}
    apart.remove(one)
    apart.begin(published(apart, "mesh"))
    answers(apart, "one")


def test_nothing_stays_when_everything_was_removed(apart: Daemon) -> None:
    """Not even over a crash: no link but a predefined network's, no rule of anybody's."""
    crash(apart)
    assert {link["ifname"] for link in links(apart.namespaces)} <= {"engine0"}
    assert not settled(apart)
