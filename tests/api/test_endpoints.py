"""A container's networks: asked for at create, joined at start, connected and disconnected at any time."""

import re
from collections.abc import Iterator

import pytest

from tests.api.networking import (
    addresses,
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

RED, BLUE = "10.210.1", "10.210.2"
IFNAME, SYSCTLS = "com.docker.network.endpoint.ifname", "com.docker.network.endpoint.sysctls"


@pytest.fixture(scope="module")
def red(daemon: Daemon) -> Iterator[str]:
    """The network `red`."""
    with networks(daemon, red=subnet(f"{RED}.0/24")):
        yield "red"


@pytest.fixture(scope="module")
def blue(daemon: Daemon) -> Iterator[str]:
    """The network `blue`."""
    with networks(daemon, blue=subnet(f"{BLUE}.0/24")):
        yield "blue"


def test_a_container_on_the_default_network_shows_what_it_has_while_it_runs(daemon: Daemon) -> None:
    """The network's id is shown from the first start on, the rest only while it runs (transcript 112, 162, 203)."""
    network = daemon.request("GET", "/networks/bridge").json()
    with container(daemon, begin=False) as one:
        before = shown(daemon, one)["bridge"]
        assert (before["NetworkID"], before["EndpointID"], before["IPAddress"]) == ("", "", "")
        daemon.begin(one)
        settings = daemon.inspect(one)["NetworkSettings"]
        running = settings["Networks"]["bridge"]
        assert running["NetworkID"] == network["Id"]
        # Its subnet is sought at its first use, when another daemon of the session may have the one shown before.
        network = daemon.request("GET", "/networks/bridge").json()
        assert running["Gateway"] == network["IPAM"]["Config"][0]["Gateway"]
        assert re.fullmatch("[0-9a-f]{64}", running["EndpointID"]) and re.fullmatch(
            "[0-9a-f]{64}", settings["SandboxID"]
        )
        assert (running["IPPrefixLen"], running["DNSNames"]) == (16, None)
        address = inside(daemon, one, "ip -o addr show eth0")
        assert f"inet {running['IPAddress']}/16" in address
        assert running["MacAddress"] in inside(daemon, one, "ip -o link show eth0")
        assert members(daemon, "bridge") >= {one}
        daemon.request("POST", f"/containers/{one}/kill")
        daemon.wait(one)
        after = daemon.inspect(one)["NetworkSettings"]
        assert (after["SandboxID"], after["SandboxKey"], after["Ports"]) == ("", "", {})
        assert after["Networks"]["bridge"] == {**before, "NetworkID": network["Id"]}
        assert one not in members(daemon, "bridge")


def test_a_container_is_created_in_several_networks_each_with_its_own_settings(
    daemon: Daemon, red: str, blue: str
) -> None:
    """Addresses, MAC, aliases, the name of the interface, kernel parameters, and whose the default route is."""
    asked = endpoints(
        red={"IPAMConfig": {"IPv4Address": f"{RED}.77"}, "Aliases": ["web"], "MacAddress": "02-42-AC-11-00-99"},
        blue={"GwPriority": 5, "DriverOpts": {IFNAME: "wan", SYSCTLS: "net.ipv4.conf.IFNAME.log_martians=1"}},
    )
    with container(daemon, **on("red"), **asked) as one:
        ours = shown(daemon, one)
        assert list(ours) == ["blue", "red"]
        assert (ours["red"]["IPAddress"], ours["red"]["MacAddress"]) == (f"{RED}.77", "02:42:ac:11:00:99")
        assert (ours["red"]["Aliases"], ours["red"]["DNSNames"][:2]) == (["web"], [one, "web"])
        assert ours["blue"]["GwPriority"] == 5
        script = "ip -o -4 addr; ip route show default; cat /proc/sys/net/ipv4/conf/wan/log_martians"
        said = inside(daemon, one, script)
        assert f"eth0    inet {RED}.77/24" in said and f"default via {BLUE}.1 dev wan" in said and said.endswith("\n1")
        assert members(daemon, "red") == members(daemon, "blue") == {one}


@pytest.mark.parametrize("network", ["bridge", "red"])
@pytest.mark.parametrize("mac", ["", "02:42:ac:11:00:42"], ids=["generated", "asked for"])
def test_a_mac_address_that_was_asked_for_is_configuration_for_older_clients(
    daemon: Daemon, red: str, network: str, mac: str
) -> None:
    """Until 1.51 it stands in Config, however it was asked for; one that the engine has made does not."""
    own = {"MacAddress": mac} if mac else {}
    with container(daemon, **on(network), **endpoints(**{network: own})) as one:
        shown = {version: daemon.request("GET", f"/v{version}/containers/{one}/json") for version in ("1.51", "1.54")}
        assert shown["1.51"].json()["Config"].get("MacAddress", "") == mac
        assert "MacAddress" not in shown["1.54"].json()["Config"]
    asked = {"Image": "busybox", "Cmd": ["true"], **own, **on(network)}
    made = daemon.request("POST", "/v1.43/containers/create", asked, checked=False).json()["Id"]
    try:
        answer = daemon.request("GET", f"/v1.43/containers/{made}/json", checked=False)
        assert answer.json()["Config"].get("MacAddress", "") == mac
    finally:
        daemon.remove(made)


def test_the_names_of_a_container_that_does_not_run_are_shown(daemon: Daemon, red: str) -> None:
    """Of one that has ended, and of one that was connected since its creation; the creation itself gives it none."""
    own = {"Aliases": ["web"], "MacAddress": "02:42:ac:11:00:98", "IPAMConfig": {"IPv4Address": f"{RED}.78"}}
    with container(daemon, begin=False, **on("red"), **endpoints(red=own)) as one:
        short = daemon.inspect(one)["Id"][:12]
        created = shown(daemon, one)["red"]
        assert (created["DNSNames"], created["MacAddress"]) == (None, own["MacAddress"])
        daemon.begin(one)
        assert shown(daemon, one)["red"]["MacAddress"] == own["MacAddress"]
        daemon.request("POST", f"/containers/{one}/kill")
        daemon.wait(one)
        ended = shown(daemon, one)["red"]
        assert (ended["DNSNames"], ended["MacAddress"]) == ([one, "web", short], "")
        (row,) = listed(daemon, name=[one])
        unlisted = dict.fromkeys(("Links", "Aliases", "DriverOpts", "DNSNames"))
        assert row["NetworkSettings"]["Networks"]["red"] == {**ended, **unlisted}
    with container(daemon, begin=False) as two:
        assert connect(daemon, "red", two, Aliases=["db"]) == (200, "")
        assert shown(daemon, two)["red"]["DNSNames"][:2] == [two, "db"]
        assert shown(daemon, two)["bridge"]["DNSNames"] is None


def test_networks_are_named_by_name_or_id(daemon: Daemon, red: str, blue: str) -> None:
    """In NetworkMode, in EndpointsConfig, at connect and at disconnect; what is shown has their names."""
    ids = {name: daemon.request("GET", f"/networks/{name}").json()["Id"] for name in (red, blue)}
    with container(daemon, **on(ids["red"])) as one:
        assert list(shown(daemon, one)) == ["red"]
        assert connect(daemon, ids["blue"][:12], one) == (200, "")
        assert addresses(daemon, one).keys() == {"red", "blue"}
        assert disconnect(daemon, ids["blue"], one) == (200, "")
    with container(daemon, **endpoints(**{ids["blue"]: {}})) as one:
        assert list(shown(daemon, one)) == ["blue"]


def test_a_network_that_is_made_after_its_container_is_found_at_start(daemon: Daemon) -> None:
    """Create takes a name that is not there yet; once it has run, a container is bound to the very network."""
    with container(daemon, begin=False, **on("later")) as one:
        refused = (404, "failed to set up container networking: network later not found")
        assert outcome(daemon, f"/containers/{one}/start") == refused
        assert daemon.inspect(one)["State"]["ExitCode"] == 128
        with networks(daemon, later=subnet("10.210.3.0/24")) as made:
            daemon.begin(one)
            assert shown(daemon, one)["later"]["NetworkID"] == made["later"]
            daemon.request("POST", f"/containers/{one}/kill")
            daemon.wait(one)
        with networks(daemon, later=subnet("10.210.3.0/24")):
            text = f"failed to set up container networking: network {made['later']} not found"
            assert outcome(daemon, f"/containers/{one}/start") == (404, text)


def test_a_running_container_is_plugged_in_and_out(daemon: Daemon, red: str) -> None:
    """Calls 261 to 269 of the transcript; the file of its names follows."""
    with container(daemon, Domainname="example.test") as one:
        assert connect(daemon, "red", one, Aliases=["other"]) == (200, "")
        address = addresses(daemon, one)["red"]
        host = daemon.inspect(one)["Config"]["Hostname"]
        assert f"{address}/24" in inside(daemon, one, "ip -o addr show eth1")
        assert f"{address}\t{host}.example.test {host}" in inside(daemon, one, "cat /etc/hosts").split("\n")
        assert "nameserver 127.0.0.11" in inside(daemon, one, "cat /etc/resolv.conf")
        assert shown(daemon, one)["red"]["DNSNames"] == [one, "other", host]
        twice = (403, f"endpoint with name {one} already exists in network red")
        assert connect(daemon, "red", one) == twice
        in_use = daemon.request("DELETE", "/networks/red")
        assert (in_use.status, "has active endpoints" in in_use.message) == (403, True)
        assert disconnect(daemon, "red", one) == (200, "")
        identifier = daemon.inspect(one)["Id"]
        gone = (500, f"container {identifier} is not connected to network red")
        assert disconnect(daemon, "red", one) == gone
        assert inside(daemon, one, "ls /sys/class/net").split() == ["eth0", "lo"]
        assert address not in inside(daemon, one, "cat /etc/hosts")
        assert "127.0.0.11" not in inside(daemon, one, "cat /etc/resolv.conf")
        assert addresses(daemon, one).keys() == {"bridge"}


def test_what_a_running_container_is_connected_to_is_there_at_its_next_start(daemon: Daemon, red: str) -> None:
    """And what it was disconnected from is not."""
    with container(daemon) as one:
        assert connect(daemon, "red", one, IPAMConfig={"IPv4Address": f"{RED}.66"}) == (200, "")
        assert disconnect(daemon, "bridge", one) == (200, "")
        assert daemon.request("POST", f"/containers/{one}/restart?t=0").status == 204
        assert addresses(daemon, one) == {"red": f"{RED}.66"}
        assert f"{RED}.66" in inside(daemon, one, "ip -o addr show eth0")


def test_a_container_that_does_not_run_is_connected_in_its_record(daemon: Daemon, red: str, blue: str) -> None:
    """docker-compose 1.29 does it with a new one: out of its own network and in again, with aliases."""
    with container(daemon, begin=False, **on("red"), **endpoints(red={"Aliases": ["a"]})) as one:
        identifier = daemon.inspect(one)["Id"]
        assert disconnect(daemon, "red", one) == (200, "")
        gone = (500, f"container {identifier} is not connected to the network red")
        assert disconnect(daemon, "red", one) == gone
        assert connect(daemon, "red", one, Aliases=["b"]) == connect(daemon, "blue", one) == (200, "")
        assert connect(daemon, "red", one, Aliases=["c"]) == (200, "")  # it is there: docker leaves it as it is
        daemon.begin(one)
        ours = shown(daemon, one)
        assert (ours["red"]["Aliases"], list(ours)) == (["b"], ["blue", "red"])
        assert f"{RED}." in inside(daemon, one, "ip -o -4 addr show eth0")


def test_a_container_without_networks_has_loopback_alone(daemon: Daemon, red: str) -> None:
    """One that was taken out of all of them; it can be plugged in again."""
    with container(daemon, begin=False) as one:
        assert disconnect(daemon, "bridge", one) == (200, "")
        daemon.begin(one)
        assert inside(daemon, one, "ls /sys/class/net").split() == ["lo"]
        assert connect(daemon, "red", one) == (200, "")
        assert "eth0" in inside(daemon, one, "ls /sys/class/net")


@pytest.mark.parametrize(
    ("mode", "network", "status", "words"),
    [
        ("none", "red", 400, "container cannot be connected to multiple networks with one of the networks in private"),
        (
            "bridge",
            "none",
            400,
            "container cannot be connected to multiple networks with one of the networks in private",
        ),
        (
            "bridge",
            "host",
            400,
            "cannot connect container to host network - container must be created in host network mode",
        ),
        ("host", "red", 400, "container sharing network namespace with another container or host cannot be connected"),
    ],
)
def test_networks_that_do_not_go_together_are_refused(
    daemon: Daemon, red: str, mode: str, network: str, status: int, words: str
) -> None:
    """Of one that runs and of one that does not, in docker's words; and nothing has changed."""
    for begin in (True, False):
        with container(daemon, begin=begin, **on(mode)) as one:
            answered, text = connect(daemon, network, one)
            assert (answered, text[: len(words)]) == (status, words)
            assert list(shown(daemon, one)) == [mode]


def test_networks_that_do_not_go_together_fail_a_start(daemon: Daemon, red: str) -> None:
    """Where create was told of both; nothing of it stays."""
    with container(daemon, begin=False, **on("red"), **endpoints(red={}, none={})) as one:
        status, text = outcome(daemon, f"/containers/{one}/start")
        assert status == 400 and text.startswith("failed to set up container networking: container cannot be connected")
        assert members(daemon, "red") == members(daemon, "none") == set()


@pytest.mark.parametrize("of", ["bridge", "red"])
def test_nothing_is_plugged_into_the_hosts_namespace(daemon: Daemon, red: str, of: str) -> None:
    """Neither at create nor by a connect before the start: the host would get an address and another way out."""
    host = on("host")
    text = "failed to set up container networking: container sharing network namespace with another container or host"
    with container(daemon, begin=False, **host, **endpoints(**{of: {}})) as one:
        status, words = outcome(daemon, f"/containers/{one}/start")
        assert (status, words[: len(text)]) == (500, text)
        assert members(daemon, of) == set()
    with container(daemon, begin=False, **host) as two:
        assert connect(daemon, of, two)[0] == 400
        daemon.begin(two)
        assert not re.search(r"\beth\d", inside(daemon, two, "ip -o link | grep -v veth"))


def test_names_of_the_clients_own_take_the_place_of_the_hosts(daemon: Daemon) -> None:
    """In the host's network too, whose file of names is there only as a whole."""
    with container(daemon, **on("host", ExtraHosts=["there:192.0.2.8"])) as one:
        shown_there = inside(daemon, one, "cat /etc/hosts").splitlines()
    assert (shown_there[0], shown_there[-1]) == ("127.0.0.1\tlocalhost", "192.0.2.8\tthere")


def test_the_hosts_network_cannot_be_left(daemon: Daemon) -> None:
    """Nor has it an address to show."""
    with container(daemon, **on("host")) as one:
        text = "cannot disconnect container from host network - container was created in host network mode"
        assert disconnect(daemon, "host", one) == (400, text)
        settings = daemon.inspect(one)["NetworkSettings"]
        assert (settings["Ports"], addresses(daemon, one)) == ({}, {"host": ""})
        assert members(daemon, "host") == {one}


def test_the_none_network_can_be_left_for_another(daemon: Daemon, red: str) -> None:
    """A container that was kept apart is let in."""
    with container(daemon, **on("none")) as one:
        assert members(daemon, "none") == {one}
        assert disconnect(daemon, "none", one) == connect(daemon, "red", one) == (200, "")
        assert addresses(daemon, one).keys() == {"red"}


def test_who_shares_a_network_has_none_of_its_own(daemon: Daemon, red: str) -> None:
    """It finds the interfaces and the names of the one whose it is, and is connected to nothing by itself."""
    with container(daemon, **on("red")) as one, container(daemon, **on(f"container:{one}")) as guest:
        settings = daemon.inspect(guest)["NetworkSettings"]
        assert (settings["SandboxID"], settings["Ports"], settings["Networks"]) == ("", {}, {})
        script = "ip -o -4 addr show eth0; cat /etc/hosts /etc/resolv.conf"
        assert inside(daemon, guest, script) == inside(daemon, one, script)
        status, text = connect(daemon, "red", guest)
        assert (status, text.startswith("container sharing network namespace with another container")) == (400, True)
        identifier = daemon.inspect(guest)["Id"]
        assert disconnect(daemon, "red", guest) == (500, f"container {identifier} is not connected to network red")


def test_an_endpoint_goes_with_its_container_though_another_shares_the_network(daemon: Daemon, red: str) -> None:
    """The wire is taken away, as nobody else would do it, and its address is another's."""
    with container(daemon, **on("red")) as one:
        address = addresses(daemon, one)["red"]
        with container(daemon, **on(f"container:{one}")) as guest:
            daemon.request("POST", f"/containers/{one}/kill")
            daemon.wait(one)
            assert members(daemon, "red") == set()
            until = "i=0; while [ -e /sys/class/net/eth0 ] && [ $i -lt 600 ]; do sleep 0.05; i=$((i+1)); done"
            assert inside(daemon, guest, f"{until}; ls /sys/class/net") == "lo"
            with container(daemon, **on("red")) as other:
                assert addresses(daemon, other)["red"] == address


def test_a_network_disabled_has_none(daemon: Daemon) -> None:
    """NetworkDisabled: loopback, nothing to show, and none of the files that are made for networks."""
    with container(daemon, NetworkDisabled=True) as one:
        assert inside(daemon, one, "ls /sys/class/net; grep -c ' /etc/' /proc/self/mounts") == "lo\n0"
        assert addresses(daemon, one) == {}
        settings = daemon.inspect(one)
        assert {settings[key] for key in ("HostsPath", "HostnamePath", "ResolvConfPath")} == {""}
    with container(daemon, NetworkDisabled=True, **on("host")) as own:
        port = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
        assert inside(daemon, own, f"ls /sys/class/net; cat {port}") == "lo\n1024"
    with container(daemon, begin=False, **on("none")) as other:
        assert daemon.inspect(other)["HostsPath"] == "", "it is made at the first start"
        daemon.begin(other)
        assert daemon.inspect(other)["HostsPath"].endswith("/hosts")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"IPAMConfig": {"IPv4Address": "172.17.0.9"}}, "user-specified IP address is supported on user-defined"),
        ({"Aliases": ["x"]}, "network-scoped aliases are only supported for user-defined networks"),
        ({"MacAddress": "01:42:ac:11:00:02"}, "invalid MAC address 01:42:ac:11:00:02: it is a multicast address"),
        ({"DriverOpts": {SYSCTLS: "net.ipv4.conf.eth0.log_martians=1"}}, "unrecognised network interface sysctl"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_create_and_at_connect(
    daemon: Daemon, settings: dict, words: str
) -> None:
    """Both in docker's words, and both before anything is made."""
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", **endpoints(bridge=settings)})
    assert answer.status == 400
    assert answer.message.startswith("invalid config for network bridge: ") and words in answer.message
    with container(daemon, begin=False) as one:
        disconnect(daemon, "bridge", one)
        status, text = connect(daemon, "bridge", one, **settings)
        assert (status, words in text) == (400, True)


@pytest.mark.parametrize("mac", ["nonsense", "02:42:ac:11:00", "02:42-ac:11:00:02", "0242ac110002"])
def test_what_is_no_mac_address_is_no_body(daemon: Daemon, mac: str) -> None:
    """In docker's words, which name no network."""
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", **endpoints(bridge={"MacAddress": mac})})
    assert (answer.status, answer.message) == (400, f"invalid JSON: address {mac}: invalid MAC address")
    assert connect(daemon, "bridge", "nope", MacAddress=mac) == (400, answer.message)


def test_a_mac_address_is_shown_in_its_canonical_form(daemon: Daemon) -> None:
    """Also where it stands in an older client's body twice."""
    mac = "02-42-AC-11-00-02"
    for version in ("1.51", "1.54"):
        asked = {"Image": "busybox", "MacAddress": mac, **endpoints(bridge={"MacAddress": mac})}
        made = daemon.request("POST", f"/v{version}/containers/create", asked, checked=False).json()["Id"]
        try:
            assert shown(daemon, made)["bridge"]["MacAddress"] == "02:42:ac:11:00:02"
        finally:
            daemon.remove(made)


def test_several_wrongs_are_told_at_once(daemon: Daemon) -> None:
    """docker lists them so."""
    both = {"IPAMConfig": {"IPv4Address": "172.17.0.9"}, "Aliases": ["x"]}
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", **endpoints(bridge=both)})
    assert answer.message == (
        "invalid config for network bridge: invalid endpoint settings:\n"
        "* user-specified IP address is supported on user-defined networks only\n"
        "* network-scoped aliases are only supported for user-defined networks"
    )
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", **endpoints(bridge=None)})
    assert (answer.status, answer.message) == (400, "no EndpointSettings for bridge")


def test_who_is_not_there_cannot_be_connected(daemon: Daemon, red: str) -> None:
    """Neither the container nor the network, in docker's words."""
    assert connect(daemon, "red", "nosuch") == disconnect(daemon, "red", "nosuch") == (404, "No such container: nosuch")
    assert connect(daemon, "red", "") == (400, 'invalid name or ID supplied: ""')
    assert disconnect(daemon, "red", "") == (400, 'invalid name or ID supplied: ""')
    assert disconnect(daemon, "red", "nosuch", force=True) == (404, "endpoint nosuch not found")
    with container(daemon) as one:
        assert connect(daemon, "nosuch", one) == (404, "network nosuch not found")
        assert disconnect(daemon, "nosuch", one) == (404, "network nosuch not found")
        identifier = daemon.inspect(one)["Id"]
        text = f"container {identifier} is not connected to the network nosuch"
        assert disconnect(daemon, "nosuch", one, force=True) == (500, text)


def test_a_container_that_does_not_run_is_connected_to_what_is_to_come(daemon: Daemon, red: str) -> None:
    """As where create names a network that does not exist yet."""
    with container(daemon, begin=False, **on("red")) as one:
        assert connect(daemon, "to-come", one, Aliases=["x"]) == (200, "")
        assert outcome(daemon, f"/containers/{one}/start")[1].endswith("network to-come not found")
        with networks(daemon, **{"to-come": subnet("10.210.11.0/24")}):
            assert daemon.request("POST", f"/containers/{one}/start").status == 204
            assert set(addresses(daemon, one)) == {"red", "to-come"} and one in members(daemon, "to-come")
            assert disconnect(daemon, "to-come", one) == (200, "")


def test_a_configuration_has_no_members(daemon: Daemon, red: str) -> None:
    """In docker's words: at once for a container that runs, at its start for another."""
    text = "cannot create endpoint on configuration-only network"
    with networks(daemon, lent={"ConfigOnly": True}), container(daemon, **on("red")) as one:
        assert connect(daemon, "lent", one) == (403, text)
        with container(daemon, begin=False, **on("red")) as two:
            assert connect(daemon, "lent", two) == (200, "")
            assert outcome(daemon, f"/containers/{two}/start") == (
                403,
                f"failed to set up container networking: {text}",
            )


def test_the_list_finds_containers_by_their_networks(daemon: Daemon, red: str, blue: str) -> None:
    """By name and by id, running or not, and shows what they have."""
    with container(daemon, **on("red")) as one, container(daemon, begin=False, **on("blue")) as two:
        ids = {name: daemon.request("GET", f"/networks/{name}").json()["Id"] for name in (red, blue)}
        for name, found in (("red", one), ("blue", two)):
            assert [each["Names"] for each in listed(daemon, network=[name])] == [[f"/{found}"]]
            assert [each["Names"] for each in listed(daemon, network=[ids[name]])] == [[f"/{found}"]]
        (row,) = listed(daemon, network=["red"])
        assert row["NetworkSettings"]["Networks"] == {"red": {**shown(daemon, one)["red"], "DNSNames": None}}
        assert row["HostConfig"]["NetworkMode"] == "red"
