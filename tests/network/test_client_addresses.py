"""Published ports of a user's daemon: a container sees who asks, and cannot use the way by which it does."""

import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import rootfs, users
from tests.harness.daemon import MUXER
from tests.harness.fixtures import World, running
from tests.harness.hosts import Host, ask, reaches, serving
from tests.harness.users import UserDaemon
from tests.network.places import Place, container, network, pool
from tests.network.test_proxy import proxies

pytestmark = [
    pytest.mark.skipif(rootfs.program() is None, reason="needs busybox: apt-get install busybox-static"),
    pytest.mark.skipif(not users.available(), reason="needs newuidmap: apt-get install uidmap"),
]
KINDS = pytest.mark.parametrize("kind", ["tcp", "udp"])
NET_RAW = 1 << 13
BOTH = {"EnableIPv6": True, "IPAM": {"Config": [{"Subnet": "10.77.0.0/24"}, {"Subnet": "fd77::/64"}]}}


@pytest.fixture(scope="module", params=["c", "python"])
def mine(request: pytest.FixtureRequest, world: World) -> Iterator[UserDaemon]:
    """A user's daemon with busybox, and a network of both families; with each version of the proxy."""
    if MUXER:
        pytest.skip("the version is chosen already")
    with running(world.user_daemon(world.user_machine(), ("--muxer", request.param))) as daemon:
        daemon.import_busybox()
        with network(daemon, "both", **BOTH):
            yield daemon


@pytest.fixture(scope="module")
def outside(mine: UserDaemon) -> Iterator[Host]:
    """A machine beside that of the user."""
    with Host(mine.namespaces) as host:
        yield host


@pytest.fixture(scope="module")
def web(mine: UserDaemon, outside: Host) -> Iterator[Place]:
    """A container with both families that answers at 8080 and 8081 of the host, by TCP and by UDP."""
    with container(mine, "both", [f"{port}:80{kind}" for port in (8080, 8081) for kind in ("", "/udp")]) as place:
        with serving(place, 80), serving(place, 80, "udp"):
            with serving(place, 80, "tcp", "::"), serving(place, 80, "udp", "::"):
                yield place


@KINDS
def test_a_client_outside_is_seen_as_itself(mine: UserDaemon, outside: Host, web: Place, kind: str) -> None:
    assert ask(outside, outside.gateway, 8080, kind) == outside.address
    assert ask(outside, outside.gateway6, 8080, kind) == outside.address6


@KINDS
def test_the_hosts_loopback_is_seen_as_the_bridge(mine: UserDaemon, web: Place, kind: str) -> None:
    """No container could answer those addresses; the host's others are seen as they are."""
    assert ask(mine.namespaces, "127.0.0.1", 8080, kind) == web.gateway
    assert ask(mine.namespaces, "::1", 8080, kind) == "fd77::1"


@KINDS
def test_the_hosts_other_addresses_are_seen_as_they_are(mine: UserDaemon, outside: Host, web: Place, kind: str) -> None:
    assert ask(mine.namespaces, outside.gateway, 8080, kind) == outside.gateway
    assert ask(mine.namespaces, outside.gateway6, 8080, kind) == outside.gateway6


@KINDS
def test_a_client_whose_address_is_one_of_the_containers_subnet_is_seen_as_the_bridge(
    mine: UserDaemon, outside: Host, kind: str
) -> None:
    """The container would look for that client on its own bridge, and may find another container there."""
    subnet = outside.gateway.rpartition(".")[0] + ".0/24"
    with network(mine, "same", IPAM=pool(subnet, Gateway=outside.gateway.rpartition(".")[0] + ".254")):
        with container(mine, "same", [f"8090:80/{kind}"]) as place, serving(place, 80, kind):
            assert ask(outside, outside.gateway, 8090, kind) == place.gateway


@KINDS
def test_one_port_of_a_client_for_two_published_ports(outside: Host, web: Place, kind: str) -> None:
    """Both lead to the same port of the container. The second connection has another port, and the same address."""
    sort = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    with outside.socket(sort) as first, outside.socket(sort) as second:
        for client, port in ((first, 8080), (second, 8081)):
            client.settimeout(20)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.bind((outside.address, 5555))
            client.connect((outside.gateway, port))
        for client in (first, second):
            client.send(b"?")
            assert client.recv(100).decode() == outside.address


def test_the_clients_port_is_kept_and_its_end_is_passed_on(mine: UserDaemon, outside: Host) -> None:
    with outside.socket() as client:
        with container(mine, ports=["8082:81"]) as place, place.socket() as inside:
            inside.bind(("0.0.0.0", 81))
            inside.listen()
            inside.settimeout(20)
            client.settimeout(20)
            client.connect((outside.gateway, 8082))
            accepted, peer = inside.accept()
            with accepted:
                accepted.settimeout(20)
                assert peer == client.getsockname()
                client.sendall(b"question")
                client.shutdown(socket.SHUT_WR)
                assert accepted.recv(100) == b"question" and accepted.recv(100) == b""
                accepted.sendall(b"answer")
                assert client.recv(100) == b"answer"


def test_a_port_at_which_nobody_listens_is_refused_at_once(mine: UserDaemon, outside: Host) -> None:
    """The container's refusal comes back to the proxy as its answers do."""
    with container(mine, ports=["8083:80"]):
        begun = time.monotonic()
        with pytest.raises(ConnectionResetError):
            ask(outside, outside.gateway, 8083)
        assert time.monotonic() - begun < 3


@KINDS
def test_a_container_gains_nothing_by_anothers_address(mine: UserDaemon, outside: Host, web: Place, kind: str) -> None:
    """It may send from any address as root of its own network; no answer comes back, and none goes to the proxy."""
    sort = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    with container(mine, "both") as hostile, container(mine) as elsewhere, serving(elsewhere, 80, kind):
        for place, target in ((hostile, web.address), (hostile, elsewhere.address)):
            with place.socket(sort) as client:
                client.setsockopt(socket.IPPROTO_IP, 19, 1)  # IP_TRANSPARENT
                client.bind((outside.address, 0))
                client.settimeout(0.3)
                with pytest.raises(OSError):  # silence, or no way
                    client.connect((target, 80))
                    client.send(b"?")
                    client.recv(100)
        assert ask(outside, outside.gateway, 8080, kind) == outside.address


def test_no_container_answers_for_another(mine: UserDaemon, outside: Host, web: Place) -> None:
    """A container that sends from the port of another to a client of that one's reaches no socket of the proxy."""
    with outside.socket(socket.SOCK_DGRAM) as client, container(mine, "both") as hostile:
        client.settimeout(20)
        client.connect((outside.gateway, 8080))
        client.send(b"?")
        assert client.recv(100).decode() == outside.address
        for port in (80, 8080):
            with hostile.socket(socket.SOCK_DGRAM) as liar:
                liar.bind(("0.0.0.0", port))
                liar.sendto(b"lie", client.getsockname())
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(100)


def test_an_internal_network_publishes_nothing(mine: UserDaemon, outside: Host) -> None:
    with network(mine, "closed", Internal=True):
        with container(mine, "closed", ["8084:80"]) as place, serving(place, 80):
            assert not reaches(outside, outside.gateway, 8084)
            assert not reaches(place, outside.gateway, 8080)


def test_the_proxy_keeps_one_right_and_the_daemon_can_go(mine: UserDaemon, outside: Host, web: Place) -> None:
    (proxy,) = proxies(mine)
    status = Path(f"/proc/{proxy}/status").read_text()
    rights = {name: int(value, 16) for name, value in re.findall(r"^Cap(\w+):\s*(\w+)$", status, re.MULTILINE)}
    assert rights["Eff"] == rights["Prm"] == NET_RAW and not rights["Amb"] and not rights["Inh"]
    assert os.readlink(f"/proc/{proxy}/ns/user") != os.readlink(f"/proc/{mine.namespaces.pid}/ns/user")
    mine.kill9()
    assert ask(outside, outside.gateway, 8080) == outside.address
    mine.start()
    assert ask(outside, outside.gateway, 8080) == outside.address
    os.kill(proxy, 9)
    for _ in range(200):
        if proxies(mine) not in ([], [proxy]):
            break
        time.sleep(0.02)
    time.sleep(0.2)
    assert ask(outside, outside.gateway, 8080) == outside.address


def test_without_rules_of_its_own_the_bridge_is_seen(world: World) -> None:
    with running(world.user_daemon(world.user_machine(), ("--iptables=false",))) as daemon:
        daemon.import_busybox()
        with Host(daemon.namespaces) as host, container(daemon, ports=["8080:80"]) as place, serving(place, 80):
            assert ask(host, host.gateway, 8080) == place.gateway
            (proxy,) = proxies(daemon)
            assert re.search(r"^CapPrm:\s*0+$", Path(f"/proc/{proxy}/status").read_text(), re.MULTILINE)
