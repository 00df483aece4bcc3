"""What the firewall switches on in a host's kernel, and what it keeps shut: `Firewall` itself, on a machine."""

import os
import random
import re
import threading
from collections.abc import Iterator

import pytest

from engine.daemon.network.firewall import absence
from engine.daemon.network.firewall.control import Firewall
from engine.daemon.network.record import Endpoint, Network, Pool, Published
from engine.dataclass import replace
from engine.errors import SystemFailure, Unavailable
from tests.harness.hosts import Host, ask, reaches, run, serving
from tests.harness.namespaces import Namespaces, entered
from tests.harness.parts import settings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

NET = Network("ab" * 32, "web", "bridge", 0, device="br-web", pools=(Pool("10.9.0.0/24", gateway="10.9.0.1"),))
BOTH = Network(
    "cd" * 32,
    "both",
    "bridge",
    0,
    device="br-both",
    ipv6=True,
    pools=(Pool("10.8.0.0/24", gateway="10.8.0.1"), Pool("fd08::/64", gateway="fd08::1")),
)
INSIDE = Network("ef" * 32, "in", "bridge", 0, "br-in", internal=True, pools=(Pool("10.7.0.0/24", "", "10.7.0.1"),))
FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


class Machine(Namespaces):
    """A host that forwards nothing yet, and a firewall that works on it."""

    def __init__(self) -> None:
        super().__init__()
        for name in FORWARDING.values():
            self.set(name, "0")

    def firewall(self, identity: str = "12345678", **told: bool) -> Firewall:
        """One of a daemon's with these settings; `with entered(machine.keeper.pid)` around what is asked of it."""
        return Firewall(identity, settings(**told))

    def set(self, name: str, value: str) -> None:
        """Set what is below /proc/sys."""
        assert run(self, "sh", "-c", f"echo {value} > /proc/sys/{name}").returncode == 0

    def get(self, name: str) -> str:
        """What is set there."""
        return run(self, "cat", f"/proc/sys/{name}").stdout.strip()

    def rules(self) -> str:
        """All rules, as nft(8) shows them."""
        done = run(self, "nft", "list", "ruleset")
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine of the test's own."""
    with Machine() as made:
        yield made


@pytest.fixture
def neighbours(machine: Machine) -> Iterator[tuple[Host, Host]]:
    """Two others beside it, each with a route over it to the other."""
    with Host(machine) as one, Host(machine) as two:
        for here, there in ((one, two), (two, one)):
            here.route(there.address + "/32")
            here.route(there.address6 + "/128")
        yield one, two


def test_the_host_does_not_become_a_router_for_others(machine: Machine, neighbours: tuple[Host, Host]) -> None:
    """Forwarding is on, and two neighbours that were there before do not reach each other by it; by neither family."""
    one, two = neighbours
    with entered(machine.keeper.pid):
        machine.firewall().open_network(BOTH)
    assert [machine.get(name) for name in FORWARDING.values()] == ["1", "1"]
    with serving(two, 80), serving(two, 80, address="::"):
        assert not reaches(one, two.address, 80, timeout=0.2)
        assert not reaches(one, two.address6, 80, timeout=0.2)


def test_what_comes_later_and_is_made_to_forward_is_left_alone(machine: Machine, neighbours: tuple[Host, Host]) -> None:
    """Another engine's bridge, a tunnel: its interface was not there when the engine switched forwarding on."""
    one, _ = neighbours
    with entered(machine.keeper.pid):
        machine.firewall().open_network(NET)
    with Host(machine) as newcomer, serving(newcomer, 80):
        one.route(newcomer.address + "/32")
        newcomer.route(one.address + "/32")
        assert ask(one, newcomer.address, 80) == one.address


@pytest.mark.parametrize("told", [{"ip_forward_no_drop": True}, {"ip_forward": False}])
def test_the_settings_say_otherwise(machine: Machine, neighbours: tuple[Host, Host], told: dict) -> None:
    """--ip-forward-no-drop lets the host be a router, --ip-forward=false leaves it as it is."""
    one, two = neighbours
    with entered(machine.keeper.pid):
        machine.firewall(**told).open_network(NET)
    assert machine.get(FORWARDING[4]) == ("0" if told == {"ip_forward": False} else "1")
    with serving(two, 80):
        if "ip_forward" in told:
            assert not reaches(one, two.address, 80, timeout=0.2)
        else:
            assert ask(one, two.address, 80) == one.address


def test_a_host_that_forwards_already_stays_a_router(machine: Machine, neighbours: tuple[Host, Host]) -> None:
    """What the administrator has switched on is not guarded, and not switched off at the end."""
    one, two = neighbours
    machine.set(FORWARDING[4], "1")
    firewall = machine.firewall()
    with entered(machine.keeper.pid):
        firewall.open_network(NET)
    with serving(two, 80):
        assert ask(one, two.address, 80) == one.address
    with entered(machine.keeper.pid):
        firewall.close_network(NET)
    assert machine.get(FORWARDING[4]) == "1"


def test_it_goes_with_the_last_network(machine: Machine) -> None:
    """Table and forwarding; but for the latter where somebody else has come who may count on it."""
    firewall = machine.firewall()
    with entered(machine.keeper.pid):
        for newcomer in (False, True):
            firewall.open_network(NET)
            firewall.open_network(BOTH)
            firewall.close_network(NET)
            assert machine.get(FORWARDING[4]) == machine.get(FORWARDING[6]) == "1"
            assert "br-web" not in machine.rules()
            if newcomer:
                run(machine, "ip", "link", "add", "docker0", "type", "bridge")
            firewall.close_network(BOTH)
            assert machine.rules() == ""
            assert machine.get(FORWARDING[4]) == machine.get(FORWARDING[6]) == ("1" if newcomer else "0")


def test_an_internal_network_needs_no_forwarding(machine: Machine) -> None:
    """Nor any kernel setting at all."""
    with entered(machine.keeper.pid):
        machine.firewall().open_network(INSIDE)
    assert [machine.get(name) for name in FORWARDING.values()] == ["0", "0"]


def test_the_next_daemon_knows_what_was_guarded(machine: Machine, neighbours: tuple[Host, Host]) -> None:
    """After kill -9 the guard stays in place, and with the last network forwarding goes off."""
    one, two = neighbours
    with entered(machine.keeper.pid):
        machine.firewall().open_network(NET)
        second = machine.firewall()
        second.sync([NET], [])
        with serving(two, 80):
            assert not reaches(one, two.address, 80, timeout=0.2)
        second.close_network(NET)
    assert machine.get(FORWARDING[4]) == "0"


def test_what_routers_tell_the_host_is_still_heard(machine: Machine) -> None:
    """A host that forwards ignores router advertisements, unless told not to: else it would lose its own way out."""
    run(machine, "ip", "link", "add", "lan", "type", "bridge")
    run(machine, "ip", "link", "add", "quiet", "type", "bridge")
    machine.set("net/ipv6/conf/quiet/accept_ra", "0")
    with entered(machine.keeper.pid):
        machine.firewall().open_network(BOTH)
    assert machine.get("net/ipv6/conf/lan/accept_ra") == "2"
    assert machine.get("net/ipv6/conf/quiet/accept_ra") == "0"


def test_several_daemons_of_one_host_have_a_table_each(machine: Machine) -> None:
    """One that goes takes nothing of the other's, and forwarding stays while the other needs it."""
    first, second = machine.firewall("11111111"), machine.firewall("22222222")
    with entered(machine.keeper.pid):
        first.open_network(NET)
        run(machine, "ip", "link", "add", BOTH.device, "type", "bridge")
        second.open_network(BOTH)
        before = run(machine, "nft", "list", "table", "inet", "engine-22222222").stdout
        first.close_network(NET)
        assert machine.rules() == before != ""
        assert machine.get(FORWARDING[4]) == "1"
        second.close_network(BOTH)
        assert machine.rules() == ""


def test_a_daemon_without_iptables_makes_no_rules(machine: Machine) -> None:
    """Neither networks nor ports; without the userland proxy, what cannot be had is said in words.

    One family alone can be switched off.
    """
    port = Endpoint("1" * 64, BOTH.id, "2" * 64, ipv4="10.8.0.2", ports=(Published(80, "tcp", "0.0.0.0", 80),))
    with entered(machine.keeper.pid):
        machine.firewall(iptables=False, ip6tables=False).publish(BOTH, port)
        assert machine.rules() == ""
        off = machine.firewall(iptables=False, ip6tables=False, userland_proxy=False)
        off.open_network(BOTH)
        with pytest.raises(
            Unavailable, match=r"no port can be published on 0\.0\.0\.0: the daemon runs with iptables off"
        ):
            off.publish(BOTH, port)
        off.withdraw(BOTH, port)
        off.sync([BOTH], [port])
        assert machine.rules() == ""
        half = machine.firewall(iptables=False, userland_proxy=False)
        half.open_network(BOTH)
        assert machine.rules().count("meta nfproto ipv4 accept") == 6
        with pytest.raises(Unavailable):
            half.publish(BOTH, port)


def test_icc_off_needs_bridged_packets_to_be_filtered(machine: Machine) -> None:
    """It is switched on where the kernel has it switched off."""
    closed = replace(NET, options={"com.docker.network.bridge.enable_icc": "false"})
    machine.set("net/bridge/bridge-nf-call-iptables", "0")
    with entered(machine.keeper.pid):
        machine.firewall().open_network(closed)
    assert machine.get("net/bridge/bridge-nf-call-iptables") == "1"


def test_many_ports_are_one_transaction_each_way(machine: Machine) -> None:
    """Two thousand ports of a container, by both families: they come, and they go."""
    run(machine, "ip", "link", "add", BOTH.device, "type", "bridge")
    ports = tuple(
        Published(number, "udp", address, number) for number in range(20000, 22000) for address in ("0.0.0.0", "::")
    )
    wide = Endpoint("1" * 64, BOTH.id, "2" * 64, ipv4="10.8.0.2", ipv6="fd08::2", ports=ports)
    firewall = machine.firewall()
    with entered(machine.keeper.pid):
        firewall.publish(BOTH, wide)
        assert machine.rules().count(" : 10.8.0.2 . ") == 2000
        again = machine.firewall()
        again.sync([BOTH], [wide])
        assert machine.rules().count(" : fd08::2 . ") == 2000
        again.withdraw(BOTH, wide)
        assert " : " + "10.8.0.2" not in machine.rules()


def test_the_table_is_text_that_nft_takes_back(machine: Machine) -> None:
    """Who saves all rules of a host and loads them again finds the engine's as they were."""
    with entered(machine.keeper.pid):
        firewall = machine.firewall()
        for network in (NET, BOTH, INSIDE):
            firewall.open_network(network)
        port = Endpoint("1" * 64, NET.id, "2" * 64, ipv4="10.9.0.2", ports=(Published(80, "tcp", "192.0.2.1", 80),))
        firewall.publish(NET, port)
        before = machine.rules()
        loaded = "nft list ruleset > $0 && nft flush ruleset && nft -f $0; rm $0"
        done = run(machine, "sh", "-c", loaded, f"/tmp/engine-rules-{os.getpid()}")
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert machine.rules() == before
        firewall.withdraw(NET, port)
        assert "192.0.2.1" not in machine.rules()


def test_many_threads_leave_what_one_would_have_made(machine: Machine) -> None:
    """Networks and ports come and go at once; in the end the table is the same as one made of what is left."""
    firewall, left = machine.firewall(), {}
    networks = [replace(NET, id=f"{n:064}", device=f"br-{n}", pools=(Pool(f"10.{n}.0.0/16"),)) for n in range(1, 5)]
    for network in networks:
        run(machine, "ip", "link", "add", network.device, "type", "bridge")

    def work(number: int) -> None:
        chance, network = random.Random(number), networks[number % len(networks)]
        with entered(machine.keeper.pid):
            for turn in range(25):
                ports = tuple(Published(80, "udp", "0.0.0.0", 1000 + number * 100 + each) for each in range(3))
                endpoint = Endpoint(f"{number:032}{turn:032}", network.id, "2" * 64, ipv4="10.9.0.2", ports=ports)
                firewall.publish(network, endpoint)
                if turn < 24:
                    firewall.withdraw(network, endpoint)
                    if chance.random() < 0.2:
                        firewall.open_network(network)
            left[endpoint.id] = endpoint

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(re.split(r"[{},\s]+", machine.rules()))
    assert len(left) == 8
    with entered(machine.keeper.pid):
        machine.firewall().sync(networks, left.values())
    assert sorted(re.split(r"[{},\s]+", machine.rules())) == found


def test_the_ports_of_an_endpoint_can_be_others(machine: Machine) -> None:
    """What was published before for the same endpoint, and is not now, leads nowhere."""
    run(machine, "ip", "link", "add", NET.device, "type", "bridge")
    one, two, three = (Published(80, "tcp", "0.0.0.0", number) for number in (1001, 1002, 1003))
    endpoint = Endpoint("1" * 64, NET.id, "2" * 64, ipv4="10.9.0.2", ports=(one, two))
    firewall = machine.firewall()
    with entered(machine.keeper.pid):
        firewall.publish(NET, endpoint)
        firewall.publish(NET, replace(endpoint, ports=(two, three)))
        assert re.findall(r"tcp \. (\d+) :", machine.rules()) in (["1002", "1003"], ["1003", "1002"])


def test_who_drops_what_he_does_not_know_is_named(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    """dockerd's FORWARD does so: it is not touched, and the log says why containers may reach nothing."""
    words = "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }"
    assert run(machine, "nft", words).returncode == 0
    firewall = machine.firewall()
    with entered(machine.keeper.pid):
        firewall.open_network(NET)
        firewall.open_network(BOTH)
    (message,) = (record.message for record in caplog.records)
    assert message.startswith("chain FORWARD of table ip filter drops by default")
    assert "policy drop" in machine.rules()


def test_a_kernel_that_refuses_is_told_of_in_words(machine: Machine) -> None:
    """Here for a device that is not there; the rules are as before, and the port can be published later."""
    port = Endpoint("1" * 64, NET.id, "2" * 64, ipv4="10.9.0.2", ports=(Published(80, "tcp", "0.0.0.0", 80),))
    firewall = machine.firewall()
    with entered(machine.keeper.pid):
        with pytest.raises(SystemFailure, match=r"the firewall cannot be changed: .*br-web/route_localnet"):
            firewall.publish(NET, port)
        assert " : 10.9.0.2" not in machine.rules()
        run(machine, "ip", "link", "add", NET.device, "type", "bridge")
        firewall.publish(NET, port)
        assert "tcp . 80 : 10.9.0.2 . 80" in machine.rules()


def test_a_kernel_that_gets_nf_tables_later_gets_the_rules(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All that was asked for meanwhile, with the next thing that is asked for."""
    caplog.set_level("INFO")
    first, second = (
        Endpoint(
            f"{number}" * 64,
            BOTH.id,
            "2" * 64,
            ipv4=f"10.8.0.{number}",
            ports=(Published(80, "tcp", "192.0.2.1", 80 + number),),
        )
        for number in (2, 3)
    )
    with entered(machine.keeper.pid):
        firewall = machine.firewall()
        monkeypatch.setattr(absence, "works", lambda _: False)
        firewall.open_network(BOTH)
        firewall.publish(BOTH, first)
        with pytest.raises(Unavailable, match="cannot be kept internal: this kernel has no nf_tables"):
            firewall.open_network(INSIDE)
        assert firewall.families() == () and firewall.missing() == absence.WORDS
        assert machine.rules() == "" and machine.get(FORWARDING[4]) == "0"
        monkeypatch.undo()
        firewall.publish(BOTH, second)
        assert firewall.families() == (4, 6) and firewall.missing() == ""
        assert all(f"tcp . 192.0.2.1 . {80 + number} : 10.8.0.{number} . 80" in machine.rules() for number in (2, 3))
        assert machine.get(FORWARDING[4]) == "1"
        firewall.close_network(BOTH)
        assert machine.rules() == "" and machine.get(FORWARDING[4]) == "0"
    assert caplog.text.count("this kernel has no nf_tables") == 1
    assert "the kernel has nf_tables now" in caplog.text
