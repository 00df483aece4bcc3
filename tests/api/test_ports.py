"""A container's ports as the API shows them: exposed, published, listed, filtered; and what cannot be published."""

from collections.abc import Iterator

import pytest

from tests.api.networking import (
    connect,
    container,
    disconnect,
    endpoints,
    inside,
    listed,
    members,
    networks,
    on,
    outcome,
    shown,
    subnet,
)
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")


@pytest.fixture(scope="module")
def amber(daemon: Daemon) -> Iterator[str]:
    """The network `amber`."""
    with networks(daemon, amber=subnet("10.212.1.0/24")):
        yield "amber"


def ports(daemon: Daemon, one: str) -> dict[str, list[dict] | None]:
    """The ports of a container."""
    return daemon.inspect(one)["NetworkSettings"]["Ports"]


def bind(*host_ports: str, **more: object) -> list[dict]:
    """The bindings of one port of a container."""
    return [{"HostPort": port, **more} for port in host_ports]


def everywhere(host_port: str) -> list[dict]:
    """What is shown of a port at any address of the host."""
    return [{"HostIp": address, "HostPort": host_port} for address in ("0.0.0.0", "::")]


def test_ports_are_shown_while_the_container_runs(daemon: Daemon) -> None:
    """In inspect, and in the list; a port that is exposed only has no port of the host."""
    bindings = {"80/tcp": bind("18080"), "53/udp": bind("18053", HostIp="127.0.0.1")}
    body = {"ExposedPorts": {"80/tcp": {}, "53/udp": {}, "9000/tcp": {}}, **on("bridge", PortBindings=bindings)}
    with container(daemon, begin=False, **body) as one:
        assert ports(daemon, one) == {}
        daemon.begin(one)
        assert ports(daemon, one) == {
            "53/udp": [{"HostIp": "127.0.0.1", "HostPort": "18053"}],
            "80/tcp": everywhere("18080"),
            "9000/tcp": None,
        }
        (row,) = listed(daemon, name=[one])
        assert row["Ports"] == [
            {"IP": "127.0.0.1", "PrivatePort": 53, "PublicPort": 18053, "Type": "udp"},
            {"IP": "0.0.0.0", "PrivatePort": 80, "PublicPort": 18080, "Type": "tcp"},
            {"IP": "::", "PrivatePort": 80, "PublicPort": 18080, "Type": "tcp"},
            {"PrivatePort": 9000, "Type": "tcp"},
        ]
        bound = daemon.inspect(one)["HostConfig"]["PortBindings"]
        assert bound["80/tcp"] == [{"HostIp": "", "HostPort": "18080"}]
        daemon.request("POST", f"/containers/{one}/kill")
        daemon.wait(one)
        assert ports(daemon, one) == {} and listed(daemon, name=[one])[0]["Ports"] == []


@pytest.mark.parametrize("routed", [4, 6])
def test_ports_of_a_network_that_routes_one_version_of_ip(daemon: Daemon, routed: int) -> None:
    """There no port of the host leads to them; they are shown with the version's own address for any."""
    way = {"EnableIPv6": True, "Options": {f"com.docker.network.bridge.gateway_mode_ipv{routed}": "routed"}}
    with networks(daemon, mixed=way):
        with container(daemon, **on("mixed", PortBindings={"80/tcp": bind("18081")})) as one:
            of4, of6 = ("", "18081") if routed == 4 else ("18081", "")
            found = [{"HostIp": "0.0.0.0", "HostPort": of4}, {"HostIp": "::", "HostPort": of6}]
            assert ports(daemon, one)["80/tcp"] == (found[::-1] if routed == 4 else found)  # those of the host first
            (row,) = listed(daemon, name=[one])
            assert {(each["IP"], each.get("PublicPort")) for each in row["Ports"]} == {
                ("0.0.0.0", int(of4 or 0) or None),
                ("::", int(of6 or 0) or None),
            }


def test_all_exposed_ports_are_published_somewhere(daemon: Daemon) -> None:
    """PublishAllPorts: those that have a port of their own keep it, the others get one each; at each start again."""
    body = {"ExposedPorts": {"80/tcp": {}, "81/tcp": {}, "53/udp": {}}}
    with container(daemon, **body, **on("bridge", PublishAllPorts=True, PortBindings={"81/tcp": bind("18081")})) as one:
        found = ports(daemon, one)
        assert found.keys() == {"80/tcp", "81/tcp", "53/udp"}
        assert found["81/tcp"] == everywhere("18081")
        chosen = [int(found[port][0]["HostPort"]) for port in ("80/tcp", "53/udp")]
        assert all(number >= 32768 for number in chosen)


def test_a_range_of_the_host_gives_one_port_to_each(daemon: Daemon) -> None:
    """Compose scales a service so; the one that comes too late is refused, and an end makes room."""
    body = {"ExposedPorts": {"80/tcp": {}}, **on("bridge", PortBindings={"80/tcp": bind("18090-18091")})}
    with container(daemon, **body) as one, container(daemon, **body) as two:
        assert [ports(daemon, each)["80/tcp"][0]["HostPort"] for each in (one, two)] == ["18090", "18091"]
        with container(daemon, begin=False, **body) as three:
            status, text = outcome(daemon, f"/containers/{three}/start")
            assert (status, "already allocated" in text) == (500, True)
            daemon.remove(one)
            daemon.begin(three)
            assert ports(daemon, three)["80/tcp"][0]["HostPort"] == "18090"


def test_a_port_that_is_taken_fails_the_start_and_leaves_nothing(daemon: Daemon, amber: str) -> None:
    """docker's words, exit code 128, no endpoint, no port held; and it starts when the port is free."""
    bindings = {"80/tcp": bind("18100"), "81/tcp": bind("18101")}
    with container(daemon, **on("bridge", PortBindings={"7/tcp": bind("18101")})) as one:
        with container(daemon, begin=False, **on("amber", PortBindings=bindings)) as two:
            status, text = outcome(daemon, f"/containers/{two}/start")
            assert status == 500
            assert text == (
                "failed to set up container networking: driver failed programming external connectivity on endpoint"
                f" {two}: Bind for 0.0.0.0:18101 failed: port is already allocated"
            )
            state = daemon.inspect(two)["State"]
            assert (state["Status"], state["ExitCode"], state["Error"]) == ("created", 128, text)
            assert not shown(daemon, two)["amber"]["IPAddress"]
            with container(daemon, **on("bridge", PortBindings={"80/tcp": bind("18100")})):
                pass  # nobody holds it
            daemon.remove(one)
            daemon.begin(two)
            assert ports(daemon, two).keys() == {"80/tcp", "81/tcp"}


@pytest.mark.parametrize(("ended", "code"), [(3, 3), (0, 128)])
def test_a_start_that_fails_keeps_what_the_run_before_has_said(daemon: Daemon, ended: int, code: int) -> None:
    """dockerd shows 128 only where there is nothing worse to tell."""
    bindings = {"80/tcp": bind("18140")}
    with container(daemon, "sh", "-c", f"exit {ended}", **on("bridge", PortBindings=bindings)) as one:
        assert daemon.wait(one) == ended
        with container(daemon, **on("bridge", PortBindings=bindings)):
            assert outcome(daemon, f"/containers/{one}/start")[0] == 500
            assert daemon.inspect(one)["State"]["ExitCode"] == code


def test_ports_that_are_none_are_refused(daemon: Daemon) -> None:
    """At create, but for a protocol that has no ports, which dockerd finds at the start."""
    for bindings, words in (
        ({"80/tcp": bind("70000")}, 'invalid port specification: "70000"'),
        ({"80/tcp": bind("9-8")}, 'invalid port specification: "9-8"'),
        ({"80/tcp": [{"HostIp": "nowhere", "HostPort": "1"}]}, "unable to parse IP"),
    ):
        body = {"Image": "busybox", "HostConfig": {"PortBindings": bindings}}
        status, text = outcome(daemon, "/containers/create", body)
        assert (status, words in text) == (400, True), text
    with container(daemon, begin=False, **on("bridge", PortBindings={"80/foo": bind("1")})) as one:
        assert "invalid transport protocol: foo" in outcome(daemon, f"/containers/{one}/start")[1]


def test_the_list_finds_containers_by_their_ports(daemon: Daemon) -> None:
    """It goes by what the list shows: of those that run, by the container's port and by the host's."""
    exposed = {"7001/tcp": {}, "7002/udp": {}}
    published = on("bridge", PortBindings={"7003/tcp": bind("18130")})
    with (
        container(daemon, ExposedPorts=exposed) as one,
        container(daemon, ExposedPorts={"7003/tcp": {}}, **published) as two,
        container(daemon, begin=False, ExposedPorts=exposed, **published),
    ):
        for filters, found in (
            ({"expose": ["7001"]}, {one}),
            ({"expose": ["7002/udp"]}, {one}),
            ({"expose": ["7000-7003/tcp"]}, {one, two}),
            ({"publish": ["18130"]}, {two}),
            ({"publish": ["18120-18140/tcp"]}, {two}),
            ({"publish": ["7003"]}, set()),
            ({"publish": ["18130/udp"]}, set()),
            ({"publish": ["18130"], "expose": ["7001"]}, {one, two}),
        ):
            assert {each["Names"][0][1:] for each in listed(daemon, **filters)} == found, filters


def test_where_there_is_no_way_out_nothing_is_published(daemon: Daemon) -> None:
    """These are none, another's network, the host's (which is told at create), and an internal one, with docker too."""
    bindings = {"80/tcp": bind("18110")}
    with container(daemon, **on("none", PortBindings=bindings)) as one:
        assert ports(daemon, one) == {}
    with container(daemon, **on("host", PortBindings=bindings)) as one:
        assert ports(daemon, one) == {}
    with networks(daemon, inner={"Internal": True, **subnet("10.212.2.0/24")}):
        with container(daemon, ExposedPorts={"80/tcp": {}}, **on("inner", PortBindings=bindings)) as one:
            assert ports(daemon, one) == {"80/tcp": None}


def test_ports_lead_through_the_network_that_leads_out(daemon: Daemon, amber: str) -> None:
    """They move when a connect or a disconnect makes it another one."""
    bindings = {"80/tcp": bind("18120")}
    expected = {"80/tcp": everywhere("18120")}
    with networks(daemon, inner={"Internal": True, **subnet("10.212.2.0/24")}):
        with container(daemon, **on("inner", PortBindings=bindings), **endpoints(inner={"GwPriority": 9})) as one:
            assert ports(daemon, one) == {}
            assert connect(daemon, "amber", one) == (200, "")
            assert ports(daemon, one) == expected
            assert connect(daemon, "bridge", one, GwPriority=5) == (200, "")
            assert ports(daemon, one) == expected
            assert disconnect(daemon, "amber", one) == disconnect(daemon, "inner", one) == (200, "")
            assert ports(daemon, one) == expected
            assert disconnect(daemon, "bridge", one) == (200, "")
            assert ports(daemon, one) == {}
            with container(daemon, **on("amber", PortBindings=bindings)):
                pass  # nobody holds it


def test_a_port_is_published_through_every_network_that_can_carry_it(daemon: Daemon) -> None:
    """IPv4 through one and IPv6 through another, beside one that routes; what stays keeps its port."""
    modes = {f"com.docker.network.bridge.gateway_mode_ipv{version}": "routed" for version in (4, 6)}
    six = {"EnableIPv4": False, "EnableIPv6": True}
    bindings = {"80/tcp": bind("18140"), "81/tcp": bind("")}
    with networks(daemon, four=subnet("10.212.4.0/24"), six=six, wide={"EnableIPv6": True, "Options": modes}):
        settings = endpoints(four={"GwPriority": 1}, wide={})
        with container(daemon, **on("four", PortBindings=bindings), **settings) as one:
            own = [{"HostIp": address, "HostPort": ""} for address in ("0.0.0.0", "::")]
            chosen = ports(daemon, one)["81/tcp"][0]["HostPort"]
            assert ports(daemon, one) == {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "18140"}, *own]} | {
                "81/tcp": [{"HostIp": "0.0.0.0", "HostPort": chosen}, *own]
            }
            assert disconnect(daemon, "wide", one) == (200, "")  # it had the default route of IPv6
            assert ports(daemon, one)["80/tcp"] == everywhere("18140")
            assert ports(daemon, one)["81/tcp"][0]["HostPort"] == chosen
            assert connect(daemon, "six", one) == (200, "")
            assert ports(daemon, one)["80/tcp"] == everywhere("18140")
            assert ports(daemon, one)["81/tcp"][0]["HostPort"] == chosen
            six_only = daemon.inspect(one)["NetworkSettings"]["Networks"]["six"]
            assert six_only["IPAddress"] == "" and six_only["GlobalIPv6Address"]
            with container(daemon, begin=False, **on("four", PortBindings={"7/tcp": bind("18140")})) as two:
                assert outcome(daemon, f"/containers/{two}/start")[0] == 500
                assert disconnect(daemon, "four", one) == disconnect(daemon, "six", one) == (200, "")
                assert ports(daemon, one) == {}
                daemon.begin(two)


@pytest.mark.parametrize("version", ["1.24", "1.51", "1.52", "1.54"])
def test_an_empty_list_of_bindings_is_any_port(daemon: Daemon, version: str) -> None:
    """Or null; of every version of the API, and from 1.52 the client is told that this will end."""
    body = {"Image": "busybox", "Cmd": ["sleep", "600"], "HostConfig": {"PortBindings": {"80/tcp": [], "81/udp": None}}}
    answer = daemon.request("POST", f"/v{version}/containers/create", body)
    assert answer.status == 201
    one = answer.json()["Id"]
    try:
        told = "Following container port(s) have an empty list of port-bindings: 80/tcp, 81/udp."
        told += " Such bindings will be discarded in a future version."
        assert answer.json()["Warnings"] == ([told] if version >= "1.52" else [])
        empty = [{"HostIp": "", "HostPort": ""}]
        assert daemon.inspect(one)["HostConfig"]["PortBindings"] == {"80/tcp": empty, "81/udp": empty}
        daemon.begin(one)
        found = ports(daemon, one)
        assert found.keys() == {"80/tcp", "81/udp"} and all(int(each[0]["HostPort"]) for each in found.values())
    finally:
        daemon.remove(one)


@pytest.mark.parametrize(
    ("body", "port"),
    [
        ({}, "80/sctp"),
        ({"Options": {"com.docker.network.bridge.gateway_mode_ipv4": "routed"}}, "80/tcp"),
        ({"EnableIPv4": False, "EnableIPv6": True}, "80/tcp"),
    ],
)
def test_a_connect_opens_and_refuses_nothing_that_the_start_has_not(daemon: Daemon, body: dict, port: str) -> None:
    """Neither does a disconnect: what a start leaves out of a version of IP is not missing afterwards."""
    host = {"PortBindings": {port: [{"HostIp": "", "HostPort": ""}]}}
    with networks(daemon, way=body, zinner={"Internal": True}), container(daemon, **on("way", **host)) as one:
        before = ports(daemon, one)
        assert len(before[port]) == 1
        assert connect(daemon, "zinner", one) == (200, "") and ports(daemon, one) == before
        assert disconnect(daemon, "zinner", one) == (200, "") and ports(daemon, one) == before


def test_a_connect_to_a_way_out_is_refused_where_a_port_is_taken(daemon: Daemon, amber: str) -> None:
    """With docker's words, and nothing is there of it; it goes when the port is free."""
    bindings = {"80/tcp": bind("18130")}
    with networks(daemon, inner={"Internal": True, **subnet("10.212.3.0/24")}):
        with container(daemon, **on("inner", PortBindings=bindings)) as one:
            with container(daemon, **on("bridge", PortBindings=bindings)):
                taken = "Bind for 0.0.0.0:18130 failed: port is already allocated"
                words = f"driver failed programming external connectivity on endpoint {one}: {taken}"
                assert connect(daemon, "amber", one) == (500, words)
                assert shown(daemon, one).keys() == {"inner"} and one not in members(daemon, "amber")
                assert "eth1" not in inside(daemon, one, "ls /sys/class/net")
            assert connect(daemon, "amber", one) == (200, "")
            assert ports(daemon, one) == {"80/tcp": everywhere("18130")}
