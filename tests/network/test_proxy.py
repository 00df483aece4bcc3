"""Published ports that the userland proxy carries, by traffic: what no rule of the firewall can lead to a container."""

import contextlib
import hashlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.daemon import Daemon
from tests.harness.descriptors import open_links
from tests.harness.fixtures import World, running
from tests.harness.hosts import Host, ask, reaches, run, serving
from tests.harness.namespaces import Namespaces
from tests.network.places import Place, container, network, pool
from tests.network.resolving import settled

SIX = {"EnableIPv4": False, "EnableIPv6": True}
LARGE = 100 << 20


@pytest.fixture(scope="module")
def web(apart: Daemon) -> Iterator[Place]:
    """A container with an IPv4 address alone that answers at 8080 of the host, by TCP and by UDP."""
    with container(apart, ports=["8080:80", "8080:80/udp"]) as place:
        with serving(place, 80), serving(place, 80, "udp"):
            yield place


def proxies(daemon: Daemon) -> list[int]:
    """The processes that are the daemon's proxy: they hold its exec root open, and say what they are."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is nobody's business
            with open(f"/proc/{name}/cmdline", "rb") as line:
                if line.read().rstrip(b"\0") == b"engine proxy" and str(daemon.exec_root) in open_links(int(name)):
                    found.append(int(name))
    return found


@contextlib.contextmanager
def connected(place: Host, address: str, port: int, to: Place, inside: int = 80) -> Iterator[tuple]:
    """A client's connection to a port of the host, and the container's end of it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with to.socket(socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", inside))
        listener.listen(64)
        listener.settimeout(20.0)
        with place.socket(socket.SOCK_STREAM, family) as client:
            client.settimeout(20.0)
            client.connect((address, port))
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(20.0)
                yield client, accepted


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_container_with_ipv4_alone_is_reached_over_ipv6(apart: Daemon, outside: Host, web: Place, kind: str) -> None:
    """By the host itself at ::1 and at its other addresses, and from outside; the container sees the bridge."""
    assert {each["HostIp"] for each in web.ports[f"80/{kind}"]} == {"0.0.0.0", "::"}
    assert ask(apart.namespaces, "::1", 8080, kind) == web.gateway
    assert ask(apart.namespaces, outside.gateway6, 8080, kind) == web.gateway
    assert ask(outside, outside.gateway6, 8080, kind) == web.gateway


def test_ipv4_goes_by_the_rules_as_ever(apart: Daemon, outside: Host, web: Place) -> None:
    """The proxy has no socket there: the container sees who asks."""
    assert ask(outside, outside.gateway, 8080) == outside.address
    listening = run(apart.namespaces, "ss", "-ltn").stdout
    assert "[::]:8080" in listening and "0.0.0.0:8080" not in listening


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_the_loopback_of_ipv6_may_be_chosen(apart: Daemon, outside: Host, kind: str) -> None:
    """For a container with IPv6 too; and it is the host's alone."""
    with network(apart, "loop", EnableIPv6=True, IPAM={"Config": [{"Subnet": "fd81::/64"}]}):
        with container(apart, "loop", [f"[::1]:8092:80/{kind}"]) as place, serving(place, 80, kind, "::"):
            assert ask(apart.namespaces, "::1", 8092, kind) == "fd81::1"
            assert not reaches(outside, outside.gateway6, 8092, kind)
        with container(apart, "loop", [f"8093:80/{kind}"]) as place, serving(place, 80, kind, "::"):
            assert ask(apart.namespaces, "::1", 8093, kind) == "fd81::1"
            assert ask(outside, outside.gateway6, 8093, kind) == outside.address6, "by the rules"


def link_local(place: Namespaces, name: str) -> tuple[str, int]:
    """The address of this kind at a link, once the kernel has seen that it is nobody else's, and the link's index."""

    def shown() -> list[str]:
        lines = run(place, "ip", "-6", "-oneline", "addr", "show", "dev", name, "scope", "link").stdout.splitlines()
        return lines[0].split() if lines and "tentative" not in lines[0] else []

    assert settled(lambda: bool(shown()))
    number, _, _, address, *_ = shown()
    return address.partition("/")[0], int(number.rstrip(":"))


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_link_local_address_of_the_host_is_one_too(apart: Daemon, outside: Host, kind: str) -> None:
    """For a container with IPv6 too: nothing from such an address is forwarded. From outside, and by the host."""
    address, here = link_local(apart.namespaces, outside.link)
    _, there = link_local(outside, "eth0")
    with network(apart, "linked", EnableIPv6=True, IPAM={"Config": [{"Subnet": "fd83::/64"}]}):
        with container(apart, "linked", [f"8098:80/{kind}"]) as place, serving(place, 80, kind, "::"):
            assert ask(outside, f"{address}%{there}", 8098, kind) == "fd83::1"
            assert ask(apart.namespaces, f"{address}%{here}", 8098, kind) == "fd83::1"
            assert ask(outside, outside.gateway6, 8098, kind) == outside.address6, "by the rules"


def test_a_container_with_ipv6_alone_is_reached_over_ipv4_where_that_is_asked_for(apart: Daemon, outside: Host) -> None:
    """Nobody else's IPv4 port is taken for it, with docker too."""
    with network(apart, "six", IPAM={"Config": [{"Subnet": "fd82::/64"}]}, **SIX):
        ports = ["0.0.0.0:8094:80", "8095:80"]
        with container(apart, "six", ports) as place, serving(place, 80, address="::"):
            assert ask(outside, outside.gateway, 8094) == "fd82::1"
            assert ask(apart.namespaces, "127.0.0.1", 8094) == "fd82::1"
            assert ask(outside, outside.gateway6, 8095) == outside.address6
            assert not reaches(outside, outside.gateway, 8095)


def test_much_arrives_whole(apart: Daemon, outside: Host) -> None:
    """A hundred megabytes to the container, by their digest; then the answer, after the end of sending."""
    piece = os.urandom(1 << 20)
    with container(apart, ports=["8096:80"]) as place:
        with connected(outside, outside.gateway6, 8096, place) as (client, accepted):
            digest = hashlib.sha256()
            for _ in range(LARGE >> 20):
                digest.update(piece)

            def send() -> None:
                for _ in range(LARGE >> 20):
                    client.sendall(piece)
                client.shutdown(socket.SHUT_WR)

            sender = threading.Thread(target=send)
            sender.start()
            got = hashlib.sha256()
            while data := accepted.recv(1 << 18):
                got.update(data)
            sender.join()
            accepted.sendall(got.digest())
            accepted.close()
            assert client.recv(100) == digest.digest() and client.recv(100) == b""


def test_answers_to_datagrams_come_from_the_address_that_was_asked(apart: Daemon, outside: Host, web: Place) -> None:
    """The host has several on one cable: a connected client takes no answer from another one."""
    more = "2001:db8:77::1"
    for place, address in ((apart.namespaces, more), (outside, "2001:db8:77::2")):
        link = outside.link if address == more else "eth0"
        done = run(place, "ip", "addr", "add", f"{address}/64", "dev", link, "nodad")
        assert done.returncode == 0, done.stderr
    for address in (more, outside.gateway6):
        assert ask(outside, address, 8080, "udp") == web.gateway


def test_many_at_once(apart: Daemon, outside: Host, web: Place) -> None:
    """Two hundred clients, of TCP and of UDP."""
    with ThreadPoolExecutor(20) as threads:
        kinds = ["tcp", "udp"] * 100
        seen = list(threads.map(lambda kind: ask(outside, outside.gateway6, 8080, kind), kinds))
    assert seen == [web.gateway] * 200


def test_one_process_carries_all_and_goes_with_the_last(world: World) -> None:
    """Nobody pays before the first such port; the one process has no rights, and opens nothing."""
    with running(world.daemon(machine=world.machine())) as daemon:
        daemon.import_busybox()
        with container(daemon, ports=["127.0.0.1:8097:80"]):
            assert proxies(daemon) == [], "rules lead there"
        with container(daemon, ports=[f"{number}:80" for number in range(9000, 9100)]):
            with container(daemon, ports=["8098:80"]):
                (pid,) = proxies(daemon)
                with open(f"/proc/{pid}/status") as status:
                    text = status.read()
                assert "Threads:\t1\n" in text and "NoNewPrivs:\t1\n" in text
                assert all(f"Cap{kind}:\t{0:016x}\n" in text for kind in ("Eff", "Prm", "Inh", "Amb"))
                if daemon.request("GET", "/info").json()["DriverStatus"][1] == ["Muxer", "c"]:
                    assert "Seccomp:\t2\n" in text
        daemon.stop()
        assert settled(lambda: not proxies(daemon)), "without a daemon it ends at once"
        assert not (daemon.exec_root / "proxy.sock").exists()


def test_a_port_is_free_and_leads_nowhere_when_its_container_has_ended(apart: Daemon, outside: Host) -> None:
    """Open connections are reset; the next container has the port, and its own clients."""
    for _ in range(2):
        with container(apart, ports=["8099:80", "8099:80/udp"]) as place:
            with connected(outside, outside.gateway6, 8099, place) as (client, accepted):
                client.sendall(b"here")
                assert accepted.recv(10) == b"here"
                apart.remove(place.id)
                with pytest.raises(ConnectionResetError):
                    client.recv(10)
        with pytest.raises(ConnectionRefusedError):
            ask(outside, outside.gateway6, 8099)
        assert not reaches(outside, outside.gateway6, 8099, "udp")


def test_an_internal_network_reaches_no_port_of_the_proxy(apart: Daemon, web: Place) -> None:
    """The bridge's own address is the host's, but what the proxy carries there would lead out of the network."""
    pools = {"Config": [{"Subnet": "10.83.0.0/24"}, {"Subnet": "fd83::/64", "Gateway": "fd83::1"}]}
    with network(apart, "inside", Internal=True, EnableIPv6=True, IPAM=pools), container(apart, "inside") as one:
        with serving(apart.namespaces, 7009, address="::"):
            assert ask(one, "fd83::1", 7009) == one.address6
        for kind in ("tcp", "udp"):
            assert not reaches(one, "fd83::1", 8080, kind)
    with network(apart, "beside", EnableIPv6=True, IPAM={"Config": [{"Subnet": "fd84::/64", "Gateway": "fd84::1"}]}):
        with container(apart, "beside") as one:
            assert ask(one, "fd84::1", 8080) == web.gateway, "a published port is anybody else's"


# The proxy outlives the daemon


@pytest.fixture
def mortal(world: World) -> Iterator[Daemon]:
    """A daemon of one test's own, on a machine of its own."""
    with running(world.daemon(machine=world.machine())) as daemon:
        daemon.import_busybox()
        yield daemon


@pytest.fixture
def neighbour(mortal: Daemon, make_host: Callable[[Daemon], Host]) -> Host:
    """A machine beside it."""
    return make_host(mortal)


def test_it_goes_on_without_the_daemon_and_the_next_one_takes_it_over(mortal: Daemon, neighbour: Host) -> None:
    """Connections go on through a kill and a new daemon; new ones are served all the time."""
    with container(mortal, ports=["8080:80", "8080:81/udp"]) as place, serving(place, 81, "udp"):
        with connected(neighbour, neighbour.gateway6, 8080, place) as (client, accepted):
            before = proxies(mortal)
            mortal.kill9()
            client.sendall(b"without")
            assert accepted.recv(10) == b"without"
            assert ask(neighbour, neighbour.gateway6, 8080, "udp") == place.gateway
            mortal.start()
            accepted.sendall(b"with")
            assert client.recv(10) == b"with"
            assert proxies(mortal) == before
        with serving(place, 80):
            assert ask(neighbour, neighbour.gateway6, 8080) == place.gateway
        refused = mortal.create("true", HostConfig={"PortBindings": {"80/tcp": [{"HostPort": "8080"}]}})
        answer = mortal.request("POST", f"/containers/{refused}/start")
        assert answer.status == 500 and "port is already allocated" in answer.message
    with pytest.raises(ConnectionRefusedError):
        ask(neighbour, neighbour.gateway6, 8080)
    with container(mortal, ports=["8080:80"]) as again, serving(again, 80):
        assert ask(neighbour, neighbour.gateway6, 8080) == again.gateway


def test_what_ends_while_there_is_no_daemon_is_withdrawn(mortal: Daemon, neighbour: Host) -> None:
    """The proxy sees the container's end by itself; another container's ports stay."""
    with container(mortal, ports=["8080:80"]) as gone, container(mortal, ports=["8081:80"]) as stays:
        with serving(stays, 80), serving(gone, 80):
            mortal.kill9()
            os.kill(gone.pid, signal.SIGKILL)
            assert settled(lambda: not reaches(neighbour, neighbour.gateway6, 8080))
            assert ask(neighbour, neighbour.gateway6, 8081) == stays.gateway
            mortal.start()
            assert ask(neighbour, neighbour.gateway6, 8081) == stays.gateway


def test_one_that_is_killed_is_started_anew(mortal: Daemon, neighbour: Host) -> None:
    """By the daemon, as soon as it hears the end; and by the next daemon, if both were killed."""
    with container(mortal, ports=["8080:80", "[::1]:8082:80"]) as place, serving(place, 80):
        for with_daemon in (True, False):
            (pid,) = proxies(mortal)
            if not with_daemon:
                mortal.kill9()
            os.kill(pid, signal.SIGKILL)
            if not with_daemon:
                mortal.start()
            assert settled(lambda dead=pid: proxies(mortal) not in ([], [dead]))
            assert settled(lambda: reaches(neighbour, neighbour.gateway6, 8080))
            assert ask(mortal.namespaces, "::1", 8082) == place.gateway


def test_ports_move_with_the_way_out(mortal: Daemon, neighbour: Host) -> None:
    """A connect that changes the network which leads out changes the address that the proxy leads to."""
    with network(mortal, "other", IPAM=pool("10.85.0.0/24")), container(mortal, ports=["8080:80"]) as place:
        with serving(place, 80):
            assert ask(neighbour, neighbour.gateway6, 8080) == place.gateway
            body = {"Container": place.id, "EndpointConfig": {"GwPriority": 9}}
            assert mortal.request("POST", "/networks/other/connect", body).status == 200
            assert ask(neighbour, neighbour.gateway6, 8080) == "10.85.0.1"
            assert mortal.request("POST", "/networks/other/disconnect", {"Container": place.id}).status == 200
            assert ask(neighbour, neighbour.gateway6, 8080) == place.gateway


# Other settings


@contextlib.contextmanager
def told(world: World, *options: str) -> Iterator[Daemon]:
    """A daemon with these options, on a machine of its own."""
    daemon = world.daemon(options, world.machine())
    with running(daemon):
        daemon.import_busybox()
        yield daemon


@pytest.mark.parametrize("muxer", ["auto", "python"])
@pytest.mark.parametrize("off", [("--iptables=false",), ("--iptables=false", "--ip6tables=false")])
def test_without_rules_it_carries_everything(world: World, muxer: str, off: tuple[str, ...]) -> None:
    """At 127.0.0.1 and from outside, over both families, by TCP and UDP; the container sees the bridge."""
    with told(world, *off, "--muxer", muxer) as daemon, Host(daemon.namespaces) as neighbour:
        with container(daemon, ports=["8080:80", "8080:80/udp"]) as place:
            for kind in ("tcp", "udp"):
                with serving(place, 80, kind):
                    ways = [(daemon.namespaces, "127.0.0.1"), (daemon.namespaces, "::1")]
                    ways += [(neighbour, neighbour.gateway), (neighbour, neighbour.gateway6)]
                    assert [ask(who, address, 8080, kind) for who, address in ways] == [place.gateway] * 4
            refused = daemon.create("true", HostConfig={"PortBindings": {"80/sctp": [{"HostPort": "8080"}]}})
            answer = daemon.request("POST", f"/containers/{refused}/start")
            assert answer.status != 204 and "the userland proxy does not carry SCTP" in answer.message


def test_it_may_be_switched_off(world: World) -> None:
    """--userland-proxy=false: only what rules can lead is published, the rest is refused in words; no process."""
    with told(world, "--userland-proxy=false") as daemon:
        with container(daemon, ports=["8080:80"]) as place, serving(place, 80):
            assert place.ports["80/tcp"] == [{"HostIp": "0.0.0.0", "HostPort": "8080"}]
            assert ask(daemon.namespaces, "127.0.0.1", 8080) == place.gateway
            with pytest.raises(ConnectionRefusedError):
                ask(daemon.namespaces, "::1", 8080)
            assert proxies(daemon) == []
        refused = daemon.create(
            "true", HostConfig={"PortBindings": {"80/tcp": [{"HostIp": "::1", "HostPort": "8081"}]}}
        )
        answer = daemon.request("POST", f"/containers/{refused}/start")
        assert "80/tcp cannot be published on ::1" in answer.message and "--userland-proxy=false" in answer.message
