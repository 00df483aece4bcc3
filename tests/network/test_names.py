"""Containers of user-defined networks find each other by name, ask for others' names, and do so without the daemon."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness import dns, frames, iptables
from tests.harness.daemon import Daemon
from tests.harness.dns import Asker, Upstream
from tests.harness.hosts import Host, Inside
from tests.harness.namespaces import Namespaces
from tests.network.places import Place, network
from tests.network.resolving import settled

NET, INNER = "shop", "vault"
Begin = Callable[..., Place]
ANEW, OVER = "the resolver has died; another is started", "the resolver has ended, as it served no container"


@pytest.fixture(scope="module")
def site(apart: Daemon) -> Iterator[Daemon]:
    """A daemon with an ordinary network and an internal one, on a machine that asks a server of its own."""
    own = apart.root / "resolv.conf"
    own.write_text("nameserver 127.0.0.1\nsearch corp.test\n")
    machine = apart.namespaces
    subprocess.run(machine.command(["mount", "--bind", str(own), "/etc/resolv.conf"]), check=True)
    try:
        with network(apart, NET, EnableIPv6=True), network(apart, INNER, Internal=True):
            yield apart
    finally:
        subprocess.run(machine.command(["umount", "/etc/resolv.conf"]), check=True)


@pytest.fixture
def begin(site: Daemon) -> Iterator[Begin]:
    """Start containers that sleep: `begin("web", INNER, Aliases=["www"])`; they are removed after the test."""
    made: list[str] = []

    def started(name: str, where: str = NET, asked: dict | None = None, **how: object) -> Place:
        networking = {"EndpointsConfig": {where: how}}
        body = {"HostConfig": {"NetworkMode": where, **(asked or {})}, "NetworkingConfig": networking}
        made.append(site.create("sleep", "600", name=name, **body))
        site.begin(made[-1])
        return Place(site, made[-1], where)

    yield started
    for identifier in made:
        site.remove(identifier)


@pytest.fixture
def server(site: Daemon) -> Iterator[Upstream]:
    """Whom the daemon's machine asks."""
    with Upstream(site.namespaces, lambda asked, _: dns.answer(asked, "192.0.2.1")) as answering:
        yield answering


def resolv_conf(daemon: Daemon, container: Place) -> list[str]:
    """The lines of a running container's resolv.conf that are no comments."""
    body = {"AttachStdout": True, "Cmd": ["cat", "/etc/resolv.conf"]}
    made = daemon.request("POST", f"/containers/{container.id}/exec", body)
    answer = daemon.request("POST", f"/exec/{made.json()['Id']}/start", {"Detach": False, "Tty": False}, checked=False)
    text = frames.stdout(answer.body).decode()
    return [line for line in text.splitlines() if line and line[0] != "#"]


def connect(daemon: Daemon, where: str, container: Place, **how: object) -> None:
    """Put a running container into a network."""
    body = {"Container": container.id, "EndpointConfig": how}
    answer = daemon.request("POST", f"/networks/{where}/connect", body)
    assert answer.status == 200, answer


def disconnect(daemon: Daemon, where: str, container: Place) -> None:
    """Take a running container out of a network."""
    answer = daemon.request("POST", f"/networks/{where}/disconnect", {"Container": container.id})
    assert answer.status == 200, answer


def finds(place: Place, name: str) -> list[str] | None:
    """The IPv4 addresses of a name as a container is told them; None where it has no answer."""
    with Asker(place) as asker:
        reply = asker.ask(name)
        return reply.records if reply.code == dns.NOERROR else None


def test_containers_find_each_other_by_name_alias_id_and_address(begin: Begin) -> None:
    """In any case, alone and with the network's name; both families; and from an address back to the name."""
    web, db = begin("web"), begin("db", Aliases=["store"])
    for name in ("db", "DB", "db.shop", "store", "STORE.Shop", db.id[:12]):
        assert finds(web, name) == [db.address], name
    backwards = ".".join(reversed(db.address.split(".")))
    with Asker(web) as asker:
        assert asker.addresses("db", dns.AAAA) == [db.address6] != [""]
        assert asker.addresses(f"{backwards}.in-addr.arpa", dns.PTR) == ["db.shop"]
        assert asker.addresses("web") == [web.address]


def test_programs_of_a_container_find_the_others(site: Daemon, begin: Begin) -> None:
    """By the C library's own resolver, and by busybox's."""
    db = begin("db")
    on_network = {"HostConfig": {"NetworkMode": NET}}
    assert f"({db.address})" in site.shell("ping -4 -c 1 -W 9 db", **on_network)
    assert f"Address: {db.address}" in site.shell("nslookup -type=a db.", **on_network)


def test_several_containers_of_one_alias_are_all_told_each_first_in_turn(site: Daemon, begin: Begin) -> None:
    """What compose's `--scale` makes; one that has ended is not among them."""
    workers = [begin(f"worker-{number}", Aliases=["worker"]) for number in range(3)]
    told = [finds(workers[0], "worker") for _ in range(6)]
    addresses = {worker.address for worker in workers}
    assert all(set(each) == addresses for each in told)
    assert {each[0] for each in told} == addresses
    site.request("POST", f"/containers/{workers[2].id}/kill")
    site.wait(workers[2].id)
    assert set(finds(workers[0], "worker")) == addresses - {workers[2].address}


def test_resolv_conf_names_the_resolver_where_there_is_one(site: Daemon, begin: Begin) -> None:
    """With the host's search list, or what was asked for; on the default network it names servers."""
    assert resolv_conf(site, begin("web")) == ["nameserver 127.0.0.11", "search corp.test", "options ndots:0"]
    asked = {"Dns": ["192.0.2.7"], "DnsSearch": ["a.test", "b.test"], "DnsOptions": ["ndots:2"]}
    expected = ["nameserver 127.0.0.11", "search a.test b.test", "options ndots:2"]
    assert resolv_conf(site, begin("db", asked=asked)) == expected
    plain = begin("plain", "bridge", asked=asked)
    assert resolv_conf(site, plain) == ["nameserver 192.0.2.7", *expected[1:]]


def test_other_names_are_asked_of_the_host_s_server(begin: Begin, server: Upstream) -> None:
    """Though it listens at the host's loopback, where no container reaches it."""
    web = begin("web")
    assert finds(web, "example.test") == ["192.0.2.1"]
    assert finds(web, "web") == [web.address]
    assert server.names() == ["example.test"]


def test_a_short_name_is_completed_by_the_search_list(site: Daemon, server: Upstream) -> None:
    """By the container's C library: first as it is, then in each domain."""

    def answers(asked: bytes, _tcp: bool) -> bytes:
        return dns.answer(asked, "127.0.0.1") if b"\4corp" in asked else dns.answer(asked, code=dns.NXDOMAIN)

    server.answers = answers
    assert "(127.0.0.1)" in site.shell("ping -4 -c 1 intra", HostConfig={"NetworkMode": NET})
    assert server.names() == ["intra", "intra.corp.test"]


def test_servers_that_were_asked_for_are_asked_by_way_of_the_container_s_network(site: Daemon, begin: Begin) -> None:
    """`--dns` outside: its server sees the host's address, as it does of all that containers send."""
    with Host(site.namespaces) as outside:
        said = Upstream(outside, lambda asked, _: dns.answer(asked, "192.0.2.9"), outside.address)
        with said, dns.stream(web := begin("web", asked={"Dns": [outside.address]})) as connection:
            assert finds(web, "far.test") == ["192.0.2.9"]
            dns.send(connection, dns.query("far.test"))
            assert dns.receive(connection).records == ["192.0.2.9"]
            assert [peer for _, _, peer in said.seen] == [outside.gateway] * 2


def test_the_resolver_does_not_ask_itself(site: Daemon, begin: Begin) -> None:
    """`--dns 127.0.0.11`: alone it answers nothing, and beside a server outside that one is asked, once."""
    with Host(site.namespaces) as outside:
        said = Upstream(outside, lambda asked, _: dns.answer(asked, "192.0.2.9"), outside.address)
        with said, Asker(begin("one", asked={"Dns": ["127.0.0.11"]})) as asker:
            begun = time.monotonic()
            assert asker.ask("far.test").code == dns.SERVFAIL
            assert time.monotonic() - begun < 3
            two = begin("two", asked={"Dns": ["127.0.0.11", outside.address]})
            assert finds(two, "far.test") == ["192.0.2.9"]
            assert said.names() == ["far.test"]


def test_a_network_without_ipv4_asks_the_host_s_server_too(site: Daemon, begin: Begin, server: Upstream) -> None:
    """By a container's own program; the server listens at the host's loopback."""
    with network(site, "six", EnableIPv4=False, EnableIPv6=True):
        said = site.shell("nslookup -type=a example.test.", HostConfig={"NetworkMode": "six"})
    assert "192.0.2.1" in said and server.names() == ["example.test"]


def test_an_internal_network_s_queries_stay_there(site: Daemon, begin: Begin, server: Upstream) -> None:
    """CVE-2024-29018; a container that is also in another network may ask, as long as it is."""
    one, two = begin("one", INNER), begin("two", INNER, asked={"Dns": ["192.0.2.7"]})
    assert finds(one, "two") == [two.address]
    assert finds(one, "secret.test") is None
    assert finds(two, "secret.test") is None
    connect(site, NET, one)
    assert finds(one, "open.test") == ["192.0.2.1"]
    assert finds(one, "two") == [two.address]
    disconnect(site, NET, one)
    assert finds(one, "secret.test") is None
    assert server.names() == ["open.test"]


def test_a_running_container_s_networks_and_name_may_change(site: Daemon, begin: Begin) -> None:
    """Connected it is found and finds; its resolv.conf follows; disconnected it is not found any more."""
    web, late = begin("web"), begin("late", "bridge")
    before = resolv_conf(site, late)
    assert before[0] != "nameserver 127.0.0.11"
    connect(site, NET, late, Aliases=["guest"])
    address = site.inspect(late.id)["NetworkSettings"]["Networks"][NET]["IPAddress"]
    assert finds(web, "guest") == finds(web, "late") == [address]
    assert finds(late, "web") == [web.address]
    assert resolv_conf(site, late)[0] == "nameserver 127.0.0.11"
    assert site.request("POST", f"/containers/{late.id}/rename?name=later").status == 204
    assert finds(web, "later") == [address]
    assert finds(web, "late") is None
    disconnect(site, NET, late)
    assert finds(web, "later") is finds(web, "guest") is None
    assert resolv_conf(site, late) == before


def test_a_resolv_conf_that_the_container_wrote_is_left_alone(site: Daemon, begin: Begin) -> None:
    """docker leaves it alone too."""
    late = begin("late", "bridge")
    with open(f"/proc/{late.pid}/root/etc/resolv.conf", "w") as file:
        file.write("nameserver 192.0.2.99\n")
    connect(site, NET, late)
    assert resolv_conf(site, late) == ["nameserver 192.0.2.99"]


def test_a_container_in_another_s_network_asks_by_the_other_s_resolver(site: Daemon, begin: Begin) -> None:
    """Mode container:ID: one network, one resolver, one resolv.conf."""
    web, db = begin("web"), begin("db")
    script = "cat /etc/resolv.conf; nslookup -type=a db."
    text = site.shell(script, HostConfig={"NetworkMode": f"container:{web.id}"})
    assert "nameserver 127.0.0.11" in text
    assert f"Address: {db.address}" in text


def test_a_link_is_a_name_for_one_container_alone(begin: Begin) -> None:
    """`--link db:store` on a user-defined network."""
    db = begin("db")
    web, other = begin("web", Links=["db:store"]), begin("other")
    assert finds(web, "store") == finds(web, "db") == [db.address]
    assert finds(other, "store") is None


def test_names_are_answered_while_the_daemon_is_away_and_right_after(
    site: Daemon, begin: Begin, server: Upstream
) -> None:
    """kill -9: not one query is lost, who ends meanwhile is forgotten, who comes afterwards is found."""
    web, db, short = begin("web"), begin("db", Aliases=["store"]), begin("short")
    with Asker(web, timeout=20.0) as asker:
        site.kill9()
        assert asker.addresses("store") == [db.address]
        assert asker.addresses("example.test") == ["192.0.2.1"]
        os.kill(short.pid, signal.SIGKILL)
        assert settled(lambda: asker.ask("short").records == ["192.0.2.1"]), "it is forgotten, so others are asked"
        site.start()
        assert asker.addresses("store") == [db.address]
        new = begin("new")
        assert asker.addresses("new") == [new.address]
        assert finds(new, "db") == [db.address]
        site.restart()
        assert asker.addresses("new") == [new.address]


def rewritten(rules: str, address: str) -> str:
    """What the entrypoints of kind's and k3d's nodes make of dockerd's rules: sed's commands there."""
    rules = rules.replace(f"-d {dns.RESOLVER}", f"-d {address}")
    rules = re.sub(r"-A OUTPUT (.*) -j DOCKER_OUTPUT", r"\g<0>\n-A PREROUTING \1 -j DOCKER_OUTPUT", rules)
    return rules.replace("--to-source :53", f"--to-source {address}:53")


@contextlib.contextmanager
def pod(node: Place) -> Iterator[Namespaces]:
    """A network whose only way out is a container, as that of a pod in a node of Kubernetes."""
    with Namespaces() as made:
        lines = f"""link add pod0 type veth peer name eth0 netns {made.keeper.pid}
            addr add 10.244.0.1/24 dev pod0
            link set pod0 up"""
        inside = ["nsenter", f"--target={node.pid}", "--net"]
        subprocess.run([*inside, "ip", "-batch", "-"], input=lines, text=True, check=True)
        local = "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet"  # as kube-proxy does
        subprocess.run([*inside, "sh", "-c", local], check=True)
        lines = """addr add 10.244.0.2/24 dev eth0
            link set eth0 up
            route add default via 10.244.0.1"""
        subprocess.run(made.command(["ip", "-batch", "-"]), input=lines, text=True, check=True)
        yield made


def test_names_are_found_by_who_puts_another_address_in_the_place_of_the_resolver_s(site: Daemon, begin: Begin) -> None:
    """kind and k3d save dockerd's rules, put the gateway there, and restore them; their pods ask the gateway too."""
    web, db = begin("web"), begin("db")
    found = iptables.run(web.pid, "iptables-nft-save")
    rules = [line for line in found.splitlines() if line.startswith("-A")]
    patterns = [
        r"-A OUTPUT -d 127\.0\.0\.11/32 -j DOCKER_OUTPUT",
        r"-A POSTROUTING -d 127\.0\.0\.11/32 -j DOCKER_POSTROUTING",
        *(
            rf"-A DOCKER_OUTPUT -d 127\.0\.0\.11/32 -p {kind} -m {kind} --dport 53"
            r" -j DNAT --to-destination 127\.0\.0\.11:[0-9]+"
            for kind in ("tcp", "udp")
        ),
        *(
            rf"-A DOCKER_POSTROUTING -s 127\.0\.0\.11/32 -p {kind} -m {kind} --sport [0-9]+ -j SNAT --to-source :53"
            for kind in ("tcp", "udp")
        ),
    ]
    assert len(rules) == len(patterns), found
    assert all(map(re.fullmatch, patterns, rules)), found
    assert "DOCKER_OUTPUT" not in iptables.run(begin("plain", "bridge").pid, "iptables-nft-save")
    iptables.run(web.pid, "iptables-nft-restore", rewritten(found, web.gateway))

    def known(place: Namespaces | Inside) -> bool:
        with contextlib.suppress(OSError), Asker(place, web.gateway, timeout=1.0) as asker:
            return asker.ask("db").records == [db.address]  # a new resolver may not know it yet
        return False

    with pod(web) as inside:
        assert known(web) and known(inside)
        with inside.socket(socket.SOCK_STREAM) as connection:
            connection.settimeout(15.0)
            connection.connect((web.gateway, 53))
            dns.send(connection, dns.query("db"))
            assert dns.receive(connection).records == [db.address]
        os.kill(resolver(site), signal.SIGKILL)
        assert settled(lambda: known(web) and known(inside))


def test_other_hosts_do_not_ask_a_container_s_resolver(begin: Begin) -> None:
    """Not even where the container lets packets for its loopback in, as a node of Kubernetes does."""
    web = begin("web")
    (port,) = set(re.findall(r"--to-destination 127\.0\.0\.11:([0-9]+)", iptables.run(web.pid, "iptables-nft-save")))

    def answered(other: Namespaces) -> bool:
        with contextlib.suppress(TimeoutError), other.socket(socket.SOCK_DGRAM) as client:
            client.settimeout(0.5)
            client.bind(("10.244.0.2", 0))
            client.connect((dns.RESOLVER, int(port)))
            client.send(dns.query("web"))
            return bool(client.recv(1000))
        return False

    with pod(web) as other:
        local = "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet; ip route add 127.0.0.11 via 10.244.0.1"
        subprocess.run(other.command(["sh", "-ec", local]), check=True)
        assert not answered(other)
        rules = ["nft", "delete", "table", "ip", "engine-dns"]
        subprocess.run(["nsenter", f"--target={web.pid}", "--net", *rules], check=True)
        assert settled(lambda: answered(other)), "it was nothing else that kept the packets out"


def test_a_resolver_that_is_killed_comes_back_by_itself(site: Daemon, begin: Begin) -> None:
    """With every name that it had; with the daemon there at once, else with the next daemon."""
    web, db = begin("web"), begin("db")

    def answered() -> bool:
        with contextlib.suppress(OSError), Asker(web, timeout=0.3) as asker:
            return asker.ask("db").records == [db.address]  # a new resolver may not know it yet
        return False

    os.kill(resolver(site), signal.SIGKILL)
    assert settled(answered)
    site.kill9()
    os.kill(resolver(site), signal.SIGKILL)
    site.start()
    assert settled(answered)
    assert "the resolver has failed" not in site.log


@pytest.mark.parametrize("left", [(NET,), (NET, "bridge"), ("bridge", NET)], ids=", then ".join)
def test_a_resolver_that_serves_nobody_any_more_does_not_come_back(
    site: Daemon, begin: Begin, left: tuple[str, ...]
) -> None:
    """Not even for a container that had left, at its end, the network for whose sake it was served."""
    web = begin("web", "bridge")
    connect(site, NET, web)
    for each in left:
        disconnect(site, each, web)
    site.remove(web.id)
    anew, over = (site.log.count(text) for text in (ANEW, OVER))
    os.kill(resolver(site), signal.SIGKILL)
    assert settled(lambda: site.log.count(OVER) > over)
    assert site.log.count(ANEW) == anew


def resolver(daemon: Daemon) -> int:
    """The process that answers: whose listening socket is in the exec root."""
    listening = subprocess.run(daemon.namespaces.command(["ss", "-xlpH"]), capture_output=True, text=True, check=True)
    (line,) = [line for line in listening.stdout.splitlines() if "resolver.sock" in line]
    return int(line.split("pid=")[1].split(",")[0])
