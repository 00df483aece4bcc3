"""What the resolver is told: of whom, in which networks, whom it may ask; and all of it again when it is another."""

import os
import threading
from collections.abc import Iterator

import pytest

from engine.daemon.network.names import Names
from engine.daemon.network.record import Endpoint, Network
from engine.dataclass import replace
from engine.errors import SystemFailure, Unavailable
from engine.kernel import syscalls
from engine.wire.channel import Channel
from engine.wire.schema import BeResolver, Forget, Place, Resolves, Serve, Served
from tests.harness.parts import settings

NET = Network(id="a" * 64, name="net", driver="bridge", created_ns=0)
BRIDGE = Network(id="b" * 64, name="bridge", driver="bridge", created_ns=0)
ENDPOINT = Endpoint("e1", NET.id, "web", ipv4="10.0.0.2", gateway4="10.0.0.1", ipv6="fd00::2", names=("web", "www"))
PLAIN = Endpoint("e2", BRIDGE.id, "web", ipv4="172.17.0.2", gateway4="172.17.0.1")
ASKED = {"Dns": None, "DnsSearch": None, "DnsOptions": ["rotate"]}
PID, START = os.getpid(), syscalls.process_start(os.getpid())


class Resolver:
    """Stands for the spawner and for the resolvers that it makes: keeps what they are told, and answers."""

    def __init__(self) -> None:
        self.started = 0
        self.told: list[object] = []
        self.answer = ""
        self.link: Channel | None = None
        self.dies_at = -1
        self.absent = False
        self.ends: dict[int, object] = {}

    def send(self, message: object, descriptors: list[int], *, ordinary: bool) -> None:
        """What the spawner has under this name."""
        if self.absent:
            raise Unavailable("no spawner")
        assert isinstance(message, BeResolver) and not ordinary
        self.started += 1
        self.link = Channel.adopt(os.dup(descriptors[0]))
        self.link.send(Resolves(1 << 30, 1))  # no such process, should anybody want to kill it
        threading.Thread(target=self._serve, args=(self.link,), daemon=True).start()

    def _serve(self, link: Channel) -> None:
        while True:
            received = link.receive()
            if received is None:
                break
            message, descriptors = received
            for each in descriptors:
                os.close(each)
            self.dies_at -= 1
            if self.dies_at == 0:
                break
            self.told.append(message)
            assert len(descriptors) == (2 if isinstance(message, Serve) else 0)
            link.send(Served(self.answer))
        link.close()

    def on_end(self, descriptor: int, ended: object) -> None:
        """What the links have under this name."""
        self.ends[descriptor] = ended

    def off_end(self, descriptor: int) -> None:
        """What the links have under this name."""
        self.ends.pop(descriptor, None)

    def said(self) -> list[object]:
        """What was told since the last look."""
        told, self.told = self.told, []
        return told


@pytest.fixture
def resolver() -> Resolver:
    """A resolver that is not there yet."""
    return Resolver()


@pytest.fixture
def names(resolver: Resolver, tmp_path) -> Iterator[Names]:
    """A daemon's names."""
    yield Names(str(tmp_path), settings(dns=("192.0.2.53",)), resolver, resolver)


def join(names: Names, *pairs: tuple[Network, Endpoint], asked: dict = ASKED, links: dict | None = None) -> None:
    """A container, which is this process, has these endpoints."""
    names.join(pairs, -1, PID, START, asked, links or {})


def test_a_container_is_told_of_with_its_places_and_whom_it_may_ask(names, resolver):
    join(names, (BRIDGE, PLAIN), (NET, ENDPOINT), links={NET.id: {"store": "db"}, BRIDGE.id: {"x": "y"}})
    place = Place(NET.id, "net", ("web", "www"), ("10.0.0.2", "fd00::2"), (("store", "db"),))
    assert resolver.said() == [Serve("web", START, (place,), True, ("192.0.2.53",), False)]
    join(names, (NET, replace(ENDPOINT, ipv6="")), asked={**ASKED, "Dns": ["192.0.2.1"], "DnsOptions": ["ndots:3"]})
    place = Place(NET.id, "net", ("web", "www"), ("10.0.0.2",))
    assert resolver.said() == [Serve("web", START, (place,), True, ("192.0.2.1",), True)]
    assert resolver.started == 1


PARENT = {"parent": "eth0"}


@pytest.mark.parametrize(
    ("network", "endpoint", "forwards"),
    [
        (NET, ENDPOINT, True),
        (replace(NET, internal=True), ENDPOINT, False),
        (NET, replace(ENDPOINT, gateway4=""), False),
        (NET, replace(ENDPOINT, gateway4="", gateway6="fd00::1"), True),
        (replace(NET, driver="ipvlan", options=PARENT), replace(ENDPOINT, gateway4=""), True),
        (replace(NET, driver="ipvlan", options=PARENT, internal=True), replace(ENDPOINT, gateway4=""), False),
        (replace(NET, driver="ipvlan"), replace(ENDPOINT, gateway4=""), False),
        (replace(NET, driver="macvlan", options=PARENT), ENDPOINT, True),
        (replace(NET, driver="macvlan"), ENDPOINT, False),
    ],
)
def test_queries_leave_only_where_there_is_a_way_out(names, resolver, network, endpoint, forwards):
    join(names, (network, endpoint))
    assert resolver.said()[0].forwards is forwards
    join(names, (network, endpoint), (BRIDGE, PLAIN))
    assert resolver.said()[0].forwards, "the other network is one"


def test_predefined_networks_alone_need_no_resolver(names, resolver):
    join(names, (BRIDGE, PLAIN))
    names.leave([PLAIN])
    names.adopt([])
    assert resolver.started == 0


def test_one_that_leaves_its_last_named_network_is_served_on_until_it_has_none(names, resolver):
    join(names, (BRIDGE, PLAIN), (NET, ENDPOINT))
    names.leave([ENDPOINT])
    assert resolver.said()[1] == Serve("web", START, (), True, ("192.0.2.53",), False)
    join(names, (BRIDGE, PLAIN))
    assert len(resolver.said()) == 1, "it is known, and its resolv.conf may still say so"
    names.leave([PLAIN])
    names.leave([PLAIN, ENDPOINT])
    assert resolver.said() == [Forget("web")]


def test_a_refusal_is_the_start_s_failure_and_what_was_before_stays(names, resolver):
    resolver.answer = "no room"
    with pytest.raises(SystemFailure, match="no room"):
        join(names, (NET, ENDPOINT))
    resolver.answer = ""
    names.leave([ENDPOINT])
    assert not any(isinstance(each, Forget) for each in resolver.said())
    join(names, (NET, ENDPOINT))
    resolver.answer = "no more room"
    with pytest.raises(SystemFailure, match="no more room"):
        join(names, (NET, replace(ENDPOINT, names=("other",))))
    names.leave([ENDPOINT])  # a failure of this one is logged
    assert isinstance(resolver.said()[-1], Forget)


def test_a_resolver_that_dies_at_a_question_is_replaced_and_told_everything(names, resolver):
    other = replace(ENDPOINT, id="e3", container="db", names=("db",))
    join(names, (NET, ENDPOINT))
    resolver.dies_at = 1
    join(names, (NET, other))
    assert resolver.started == 2
    assert [each.container for each in resolver.said()] == ["web", "web", "db"]
    resolver.dies_at = 1
    names.leave([other])
    assert resolver.started == 3
    assert [each.container for each in resolver.said()] == ["web"]


def test_one_that_dies_by_itself_is_replaced_only_where_somebody_needs_it(names, resolver):
    join(names, (NET, ENDPOINT))
    ((descriptor, ended),) = resolver.ends.items()
    done = threading.Event()
    resolver.on_end = lambda *_: done.set()
    ended()
    assert done.wait(5.0)
    assert descriptor not in resolver.ends
    assert resolver.started == 2
    names.leave([ENDPOINT])
    assert [type(each) for each in resolver.said()] == [Serve, Serve, Forget]


def test_where_there_is_no_spawner_a_start_fails_and_a_leave_does_not(names, resolver):
    resolver.absent = True
    with pytest.raises(Unavailable):
        join(names, (NET, ENDPOINT))
    names.leave([ENDPOINT])
    names.adopt([(((NET, ENDPOINT),), PID, START, ASKED, {})])
    assert resolver.started == 0


def test_a_process_that_is_another_by_now_is_never_told_of(names, resolver):
    with pytest.raises(SystemFailure, match="has ended"):
        names.join(((NET, ENDPOINT),), -1, PID, START + 1, ASKED, {})
    assert resolver.said() == []
    names.adopt([(((NET, ENDPOINT),), PID, START + 1, ASKED, {})])
    assert resolver.said() == []
