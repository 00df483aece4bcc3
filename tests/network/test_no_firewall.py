"""A kernel without nf_tables: bridges without a firewall, ports through the proxy, words for what cannot be kept."""

from collections.abc import Iterator

import pytest

from tests.harness import leaks
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.harness.hosts import Host, ask, run, serving
from tests.harness.lacking import Lacking
from tests.network.places import BRIDGE, container, network, pool
from tests.network.resolving import settled

WORDS = "this kernel has no nf_tables"


@pytest.fixture(scope="module")
def bare(world: World) -> Iterator[Daemon]:
    """Such a daemon, on a machine of its own."""
    with running(Lacking(world.directory(), world.machine())) as daemon:
        daemon.import_busybox()
        yield daemon
    assert leaks.tables(daemon.namespaces) == {}


@pytest.fixture(scope="module")
def neighbour(bare: Daemon) -> Iterator[Host]:
    """A machine beside it."""
    with Host(bare.namespaces) as host:
        yield host


def test_networks_come_up_and_ports_are_published(bare: Daemon, neighbour: Host) -> None:
    """By TCP and UDP, over both families, from the host and from outside; containers of a network reach each other."""
    with network(bare, "plain", IPAM=pool("10.86.0.0/24")), container(bare, "plain", ["8080:80", "8080:80/udp"]) as web:
        for kind in ("tcp", "udp"):
            with serving(web, 80, kind):
                ways = [(bare.namespaces, "127.0.0.1"), (bare.namespaces, "::1")]
                ways += [(neighbour, neighbour.gateway), (neighbour, neighbour.gateway6)]
                assert [ask(who, address, 8080, kind) for who, address in ways] == ["10.86.0.1"] * 4
        with container(bare, "plain") as beside, serving(web, 80):
            assert ask(beside, web.address, 80) == beside.address


def test_names_are_answered(bare: Daemon) -> None:
    """The resolver has port 53 of 127.0.0.11 itself."""
    with network(bare, "named", IPAM=pool("10.87.0.0/24")):
        assert "10.87.0.2" in bare.shell("nslookup $(hostname)", HostConfig={"NetworkMode": "named"})


def test_what_is_missing_is_said_once_with_the_way_out(bare: Daemon) -> None:
    """In the log, and as a warning of `docker info`; the host does not become a router."""
    with container(bare):
        pass
    assert bare.log.count(WORDS) == 1
    shown = bare.request("GET", "/info").json()
    (warning,) = [each for each in shown["Warnings"] if WORDS in each]
    assert "modprobe" in warning and "userland proxy" in warning and "do" in warning
    assert shown["FirewallBackend"] is None
    assert run(bare.namespaces, "cat", "/proc/sys/net/ipv4/ip_forward").stdout == "0\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"Internal": True}, "cannot be kept internal"),
        ({"Options": {BRIDGE + "enable_icc": "false"}}, "cannot be kept from each other"),
    ],
)
def test_what_would_be_unsafe_is_refused_in_words(bare: Daemon, body: dict, words: str) -> None:
    """A network that is nothing without its walls: no container is started there."""
    with network(bare, "walls", IPAM=pool("10.88.0.0/24"), **body):
        one = bare.create("true", HostConfig={"NetworkMode": "walls"})
        answer = bare.request("POST", f"/containers/{one}/start")
        assert answer.status != 204
        assert words in answer.message and WORDS in answer.message and "modprobe" in answer.message
        bare.remove(one)


def test_a_daemon_that_has_nf_tables_again_makes_the_rules(world: World) -> None:
    """The next one, for containers that run: their ports are led by rules from then on."""
    machine = world.machine()
    lacking = Lacking(world.directory(), machine)
    lacking.start()
    lacking.import_busybox()
    with container(lacking, ports=["8080:80"]) as web, serving(web, 80), Host(machine) as neighbour:
        assert ask(neighbour, neighbour.gateway, 8080) == web.gateway
        lacking.stop()
        whole = Daemon(lacking.root, machine)
        with running(whole):
            assert settled(lambda: ask(neighbour, neighbour.gateway, 8080) == neighbour.address)
            assert ask(neighbour, neighbour.gateway6, 8080) == web.gateway
            whole.remove(web.id)
        lacking.start()
    lacking.close()
