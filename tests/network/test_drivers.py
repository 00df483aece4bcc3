"""Networks of each driver as containers find them: interfaces, addresses, routes, and devices on the host."""

import json
from collections.abc import Callable

import pytest

from tests.harness.daemon import Daemon
from tests.harness.hosts import Host, ask, run, serving
from tests.network.places import BRIDGE, Place, container, network, pool

IFNAME = "com.docker.network.endpoint.ifname"
SYSCTLS = "com.docker.network.endpoint.sysctls"


def host_links(daemon: Daemon) -> dict[str, dict]:
    """The links of the daemon's machine by their names."""
    done = run(daemon.namespaces, "ip", "-details", "-json", "link")
    assert done.returncode == 0, done.stderr
    return {link["ifname"]: link for link in json.loads(done.stdout)}


def inside(daemon: Daemon, place: Place, *words: str) -> list[dict]:
    """What ip(8) says in a container's network."""
    done = run(daemon.namespaces, "nsenter", f"--target={place.pid}", "--net", "ip", "-json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def default_route(daemon: Daemon, place: Place) -> str:
    """The gateway of a container, empty for none."""
    return "".join(route["gateway"] for route in inside(daemon, place, "route", "show", "default"))


def interfaces(daemon: Daemon, place: Place) -> set[str]:
    """The names of a container's interfaces, without loopback."""
    return {link["ifname"] for link in inside(daemon, place, "link")} - {"lo"}


@pytest.mark.parametrize(
    ("driver", "status", "words"),
    [
        ("overlay", 403, "This node is not a swarm manager."),
        ("nope", 404, 'plugin "nope" not found'),
        ("host", 403, 'only one instance of "host" network is allowed'),
        ("null", 403, 'only one instance of "null" network is allowed'),
    ],
)
def test_a_driver_that_cannot_be_had_is_refused(apart: Daemon, driver: str, status: int, words: str) -> None:
    """A swarm's, a plugin's, and the two of which there is one network each."""
    answer = apart.request("POST", "/networks/create", {"Name": "other", "Driver": driver})
    assert (answer.status, answer.json()["message"][: len(words)]) == (status, words)


def test_a_bridge_is_there_from_the_first_container_to_the_end_of_its_network(apart: Daemon) -> None:
    """With the name and the MTU that were asked for, in the container too."""
    options = {f"{BRIDGE}name": "mine0", "com.docker.network.driver.mtu": "1400"}
    with network(apart, "named", Options=options) as identifier:
        assert "mine0" not in host_links(apart)
        with container(apart, "named") as place:
            bridge = host_links(apart)["mine0"]
            assert (bridge["mtu"], bridge["ifalias"]) == (1400, f"engine:{identifier}")
            (interface,) = inside(apart, place, "link", "show", "eth0")
            assert interface["mtu"] == 1400
        assert "mine0" in host_links(apart)
    assert "mine0" not in host_links(apart)


def test_a_bridge_of_the_hosts_own_is_used_and_stays(apart: Daemon) -> None:
    """With what hangs on it already: a machine on that bridge and a container reach each other."""
    assert run(apart.namespaces, "ip", "link", "add", "theirs0", "type", "bridge").returncode == 0
    with network(apart, "lent", Options={f"{BRIDGE}name": "theirs0"}, IPAM=pool("10.71.0.0/24")):
        with container(apart, "lent") as place, serving(place, 80):
            assert ask(apart.namespaces, place.address, 80) == "10.71.0.1"
    assert "ifalias" not in host_links(apart)["theirs0"]
    assert run(apart.namespaces, "ip", "link", "delete", "theirs0").returncode == 0


def test_a_deleted_bridge_is_made_again_at_the_next_use(apart: Daemon) -> None:
    """And the containers that run are on it again."""
    with network(apart, "torn") as identifier, container(apart, "torn") as one, serving(one, 80):
        assert run(apart.namespaces, "ip", "link", "delete", f"br-{identifier[:12]}").returncode == 0
        with container(apart, "torn") as two:
            assert ask(two, one.address, 80) == two.address
            assert ask(apart.namespaces, one.address, 80) == two.gateway


def test_an_endpoint_has_parameters_and_a_name_of_its_own(apart: Daemon) -> None:
    """In both networks of one container; the rest of it has the usual names."""
    asked = {
        "front": {"DriverOpts": {IFNAME: "uplink", SYSCTLS: "net.ipv4.conf.IFNAME.log_martians=1"}},
        "back": {"GwPriority": 5},
    }
    with network(apart, "front"), network(apart, "back"):
        identifier = apart.create(
            "sleep", "600", HostConfig={"NetworkMode": "front"}, NetworkingConfig={"EndpointsConfig": asked}
        )
        try:
            apart.begin(identifier)
            front, back = Place(apart, identifier, "front"), Place(apart, identifier, "back")
            assert len(interfaces(apart, front)) == 2 and "uplink" in interfaces(apart, front)
            assert default_route(apart, front) == back.gateway
            script = ["cat", "/proc/sys/net/ipv4/conf/uplink/log_martians"]
            done = run(apart.namespaces, "nsenter", f"--target={front.pid}", "--net", *script)
            assert done.stdout == "1\n"
        finally:
            apart.remove(identifier)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({SYSCTLS: "net.ipv4.conf.eth0.log_martians=1"}, "unrecognised network interface sysctl"),
        ({SYSCTLS: "net.ipv4.conf.IFNAME.../../all/forwarding=1"}, "unrecognised network interface sysctl"),
        ({IFNAME: "../eth0"}, "invalid name of a network interface"),
    ],
)
def test_an_endpoint_whose_options_cannot_be_is_refused(apart: Daemon, options: dict, words: str) -> None:
    """Before there is anything of it."""
    body = {
        "Image": "busybox",
        "HostConfig": {"NetworkMode": "bridge"},
        "NetworkingConfig": {"EndpointsConfig": {"bridge": {"DriverOpts": options}}},
    }
    answer = apart.request("POST", "/containers/create", body)
    assert answer.status == 400 and words in answer.json()["message"], answer


def test_a_parameter_that_is_not_there_fails_the_start_and_nothing_stays(apart: Daemon) -> None:
    """No interface, no address."""
    with network(apart, "bare", IPAM=pool("10.72.0.0/29")):
        before = set(host_links(apart))
        asked = {"bare": {"DriverOpts": {SYSCTLS: "net.ipv4.conf.IFNAME.no_such_thing=1"}}}
        identifier = apart.create(
            "sleep", "600", HostConfig={"NetworkMode": "bare"}, NetworkingConfig={"EndpointsConfig": asked}
        )
        try:
            answer = apart.request("POST", f"/containers/{identifier}/start")
            assert answer.status == 500 and "of network bare cannot be made: no such file" in answer.json()["message"]
        finally:
            apart.remove(identifier)
        assert {name for name in set(host_links(apart)) - before if name.startswith("veth")} == set()
        with container(apart, "bare") as place:
            assert place.address == "10.72.0.2"


def test_a_hot_plug_moves_the_default_route_and_an_unplug_moves_it_back(apart: Daemon) -> None:
    """By the networks' names, as docker has it, where no priority says otherwise; an internal one never has it."""
    with network(apart, "mmm"), network(apart, "aaa"), network(apart, "a-inner", Internal=True):
        with container(apart, "mmm") as place:
            before = default_route(apart, place)
            for name in ("a-inner", "aaa"):
                answer = apart.request("POST", f"/networks/{name}/connect", {"Container": place.id})
                assert answer.status == 200, answer
            assert interfaces(apart, place) == {"eth0", "eth1", "eth2"}
            assert default_route(apart, place) == Place(apart, place.id, "aaa").gateway != before
            answer = apart.request("POST", "/networks/aaa/disconnect", {"Container": place.id})
            assert answer.status == 200, answer
            assert default_route(apart, place) == before
            assert interfaces(apart, place) == {"eth0", "eth1"}


@pytest.mark.parametrize("driver", ["bridge", "macvlan"])
def test_a_container_that_meddles_with_its_interfaces_harms_nobody_else(
    apart: Daemon, outside: Host, driver: str
) -> None:
    """It renames and removes what it is given while it is given it: a call may fail, and nothing stays on the host."""
    before = set(host_links(apart))
    options = {"parent": outside.link} if driver == "macvlan" else {}
    script = "while :; do ip link set eth1 name evil; ip link set evil up; ip link del evil; ip link del eth1; done"
    with network(apart, "rough", Driver=driver, Options=options, IPAM=pool("10.75.0.0/24")):
        given = {"NetworkMode": "bridge", "CapAdd": ["NET_ADMIN"]}
        identifier = apart.create("sh", "-c", f"({script}) 2>/dev/null", HostConfig=given)
        try:
            apart.begin(identifier)
            for _ in range(12):
                answer = apart.request("POST", "/networks/rough/connect", {"Container": identifier})
                assert answer.status in (200, 500), answer
                if answer.status == 200:
                    answer = apart.request("POST", "/networks/rough/disconnect", {"Container": identifier})
                    assert answer.status == 200, answer
            place = Place(apart, identifier, "bridge")
            shown = [each for each in inside(apart, place, "-details", "link") if each["ifname"] != "lo"]
            assert len(shown) == 1  # the default network's, the one that it left alone
            assert len({name for name in set(host_links(apart)) - before if name.startswith("veth")}) == 1
        finally:
            apart.remove(identifier)


def test_containers_of_a_macvlan_are_machines_of_the_hosts_neighbourhood(apart: Daemon, outside: Host) -> None:
    """They have addresses of the outside network, and each other; their MAC is their own."""
    net = outside.gateway.rpartition(".")[0]
    config = pool(f"{net}.0/24", Gateway=f"{net}.2", IPRange=f"{net}.128/25")
    with network(apart, "lan", Driver="macvlan", Options={"parent": outside.link}, IPAM=config):
        with container(apart, "lan") as one, container(apart, "lan") as two:
            with serving(outside, 80), serving(two, 80):
                assert ask(one, outside.address, 80) == one.address
                assert ask(one, two.address, 80) == one.address
                assert ask(outside, two.address, 80) == outside.address
            assert default_route(apart, one) == f"{net}.2"
            (link,) = inside(apart, one, "link", "show", "eth0")
            assert link["address"] != host_links(apart)[outside.link]["address"]
    assert outside.link in host_links(apart)


def _may_lack(daemon: Daemon, name: str, words: str, check: Callable[[Place], None]) -> None:
    """Start a container in this network; a kernel that cannot have that is to be the one that says so."""
    identifier = daemon.create("sleep", "600", HostConfig={"NetworkMode": name})
    try:
        answer = daemon.request("POST", f"/containers/{identifier}/start")
        if answer.status == 500:
            assert answer.json()["message"] == f"failed to set up container networking: {words}"
        else:
            check(Place(daemon, identifier, name))
    finally:
        daemon.remove(identifier)


@pytest.mark.parametrize("mode", ["l2", "l3"])
def test_containers_of_an_ipvlan_stand_behind_the_hosts_mac(apart: Daemon, outside: Host, mode: str) -> None:
    """Or the kernel's lack of such links is said in words."""
    options = {"parent": outside.link, "ipvlan_mode": mode}

    def check(place: Place) -> None:
        (link,) = inside(apart, place, "link", "show", "eth0")
        assert link["address"] == host_links(apart)[outside.link]["address"]

    with network(apart, "ip", Driver="ipvlan", Options=options, IPAM=pool("10.73.0.0/24")):
        _may_lack(apart, "ip", "the kernel of this host does not support ipvlan links", check)


def test_a_vlan_of_a_parent_is_made_with_the_first_container(apart: Daemon, outside: Host) -> None:
    """And goes with the network; or the kernel's lack of such links is said in words."""
    vlan = f"{outside.link}.50"

    def check(_: Place) -> None:
        assert host_links(apart)[vlan]["ifalias"].startswith("engine:")

    with network(apart, "vlan", Driver="macvlan", Options={"parent": vlan}, IPAM=pool("10.74.0.0/24")):
        words = f"failed to create {vlan} vlan link: operation not supported: unknown device type"
        _may_lack(apart, "vlan", words, check)
    assert vlan not in host_links(apart)
