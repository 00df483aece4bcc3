"""The names that a container knows others by without a resolver: /etc/hosts, links, and its own name's change."""

import json
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.api.networking import (
    addresses,
    connect,
    container,
    disconnect,
    endpoints,
    inside,
    members,
    networks,
    on,
    outcome,
    shown,
    subnet,
)
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running

pytestmark = pytest.mark.usefixtures("busybox")


@pytest.fixture(scope="module")
def green(daemon: Daemon) -> Iterator[str]:
    """The network `green`."""
    with networks(daemon, green=subnet("10.211.1.0/24")):
        yield "green"


def hosts(daemon: Daemon, one: str) -> list[str]:
    """The lines of /etc/hosts in a container."""
    return inside(daemon, one, "cat /etc/hosts").split("\n")


def test_hosts_has_loopback_what_was_asked_for_and_a_line_for_each_address(daemon: Daemon, green: str) -> None:
    """In docker's order; a restart writes it anew."""
    body = {**on("bridge", ExtraHosts=["db:10.1.2.3", "six:[fd00::5]"]), **endpoints(bridge={}, green={})}
    with container(daemon, Hostname="mine", **body) as one:
        ours = addresses(daemon, one)
        expected = [
            "127.0.0.1\tlocalhost",
            "::1\tlocalhost ip6-localhost ip6-loopback",
            "fe00::\tip6-localnet",
            "ff00::\tip6-mcastprefix",
            "ff02::1\tip6-allnodes",
            "ff02::2\tip6-allrouters",
            "10.1.2.3\tdb",
            "fd00::5\tsix",
            f"{ours['bridge']}\tmine",
            f"{ours['green']}\tmine",
        ]
        assert hosts(daemon, one) == expected
        inside(daemon, one, "echo 192.0.2.9 written >> /etc/hosts")
        assert disconnect(daemon, "green", one) == (200, "")
        assert hosts(daemon, one) == [*expected[:-1], "192.0.2.9\twritten".replace("\t", " ")]
        daemon.request("POST", f"/containers/{one}/restart?t=0")
        assert hosts(daemon, one)[:-1] == expected[:-2]


def test_a_hosts_file_that_has_become_no_hosts_file_is_left_alone(daemon: Daemon, green: str) -> None:
    """It is the container's to write; the daemon reads no more of it than a hosts file has."""
    with container(daemon) as one:
        inside(daemon, one, "head -c 2000000 /dev/zero > /etc/hosts")
        assert connect(daemon, "green", one) == disconnect(daemon, "green", one) == (200, "")
        assert inside(daemon, one, "wc -c < /etc/hosts") == "2000000"


@pytest.mark.parametrize("mode", ["green", "bridge", "none", "host"])
def test_host_gateway_is_the_default_bridges_address(daemon: Daemon, green: str, mode: str) -> None:
    """In whatever network the container is; the bridge is there then, though nobody is on it."""
    with container(daemon, **on(mode, ExtraHosts=["host.docker.internal:host-gateway"])) as one:
        # The bridge's subnet is sought at its first use, when another daemon may have the one shown before.
        gateway = daemon.request("GET", "/networks/bridge").json()["IPAM"]["Config"][0]["Gateway"]
        assert f"{gateway}\thost.docker.internal" in hosts(daemon, one)
        if mode in ("green", "host"):
            assert "0% packet loss" in inside(daemon, one, "ping -c 1 -W 9 host.docker.internal").replace("100%", "all")
        assert daemon.inspect(one)["HostConfig"]["ExtraHosts"] == ["host.docker.internal:host-gateway"]


def test_a_link_is_a_line_with_the_alias_the_hostname_and_the_name(daemon: Daemon) -> None:
    """Of the default network; without the environment variables, which docker has given up too. It follows restarts."""
    with container(daemon, Hostname="one-host") as one, container(daemon) as gap:
        with container(daemon, **on("bridge", Links=[f"{one}:db", one])) as two:
            address = addresses(daemon, one)["bridge"]
            names = {f"{address}\tdb one-host {one}", f"{address}\t{one} one-host"}
            assert names <= set(hosts(daemon, two))
            assert "DB_" not in inside(daemon, two, "env")
            assert "0% packet loss" in inside(daemon, two, "ping -c 1 -W 9 db").replace("100%", "all")
            assert daemon.inspect(two)["HostConfig"]["Links"] == [f"/{one}:/{two}/db", f"/{one}:/{two}/{one}"]
            found = {row["Names"][0]: row["Names"] for row in daemon.request("GET", "/containers/json").json()}
            assert found[f"/{one}"] == [f"/{one}", f"/{two}/db", f"/{two}/{one}"]
            daemon.request("POST", f"/containers/{one}/kill")
            daemon.wait(one)
            with container(daemon) as another:  # has its address now
                daemon.begin(one)
                address = addresses(daemon, one)["bridge"]
                assert address not in (addresses(daemon, another)["bridge"], addresses(daemon, gap)["bridge"])
                lines = hosts(daemon, two)
                assert {f"{address}\tdb one-host {one}", f"{address}\t{one} one-host"} <= set(lines)
                assert sum(line.endswith(one) for line in lines) == 1


def test_a_daemon_that_is_asked_keeps_the_variables_of_links(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the container and for its execs, also those after a restart of the daemon; its own variables come first."""
    monkeypatch.setenv("DOCKER_KEEP_DEPRECATED_LEGACY_LINKS_ENV_VARS", "1")
    with running(world.daemon()) as alone:
        alone.import_busybox()
        exposed = {"ExposedPorts": {"80/tcp": {}}, "Env": ["USER=me"]}
        with (
            container(alone, **exposed) as one,
            container(alone, Env=["DB_ENV_USER=mine"], **on("bridge", Links=[f"{one}:db"])) as two,
        ):
            address = addresses(alone, one)["bridge"]
            wanted = {f"DB_PORT_80_TCP=tcp://{address}:80", f"DB_NAME=/{two}/db", "DB_ENV_USER=mine"}
            assert wanted <= set(inside(alone, two, "tr '\\0' '\\n' < /proc/1/environ").split("\n"))
            assert wanted <= set(inside(alone, two, "env").split("\n"))
            alone.stop()
            alone.start()
            assert wanted <= set(inside(alone, two, "env").split("\n"))


def test_a_link_is_taken_away_by_its_name(daemon: Daemon) -> None:
    """`docker rm --link`: the container stays, and its own name is none that can go."""
    with container(daemon) as one, container(daemon, **on("bridge", Links=[f"{one}:db"])) as two:
        default = daemon.request("DELETE", f"/containers/{one}?link=1")
        text = "Conflict, cannot remove the default link name of the container"
        assert (default.status, default.message) == (500, text)
        missing = daemon.request("DELETE", f"/containers/{two}/cache?link=1")
        assert (missing.status, missing.message) == (404, f"No such container: {two}/cache")
        assert daemon.request("DELETE", f"/containers/{two}/db?link=1").status == 204
        assert daemon.inspect(two)["HostConfig"]["Links"] is None
        assert not any("\tdb" in line for line in hosts(daemon, two))
        assert daemon.inspect(one)["State"]["Running"]


def test_a_link_names_the_container_that_it_leads_to(daemon: Daemon) -> None:
    """In all that is asked of a container, as in dockerd."""
    with container(daemon) as one, container(daemon, **on("bridge", Links=[f"{one}:db", f"{one}:/mine"])) as two:
        assert daemon.inspect(f"{two}/mine")["Id"] == daemon.inspect(one)["Id"]
        assert daemon.inspect(f"{two}/db")["Id"] == daemon.inspect(one)["Id"]
        assert daemon.request("POST", f"/containers/{two}/db/stop?t=0").status == 204
        assert not daemon.inspect(one)["State"]["Running"]
        assert daemon.request("GET", f"/containers/{two}/db/logs?stdout=1").status == 200
        missing = daemon.request("GET", f"/containers/{two}/cache/json")
        assert (missing.status, missing.message) == (404, f"No such container: {two}/cache")
        assert daemon.request("GET", f"/containers/{two}/db/nonsense").message == "page not found"


def test_what_cannot_be_linked_to_is_refused(daemon: Daemon, green: str) -> None:
    """At create or at start, as dockerd does."""

    def create(link: str) -> tuple[int, str]:
        body = {"Image": "busybox", "HostConfig": {"Links": [link]}}
        return outcome(daemon, "/containers/create", body)

    assert create("nosuch:db") == (400, "could not get container for nosuch: No such container: nosuch")
    assert create("a:b:c") == (400, "bad format for links: a:b:c")
    assert create("") == (400, "empty string specified for links")
    with container(daemon, **on("host")) as one:
        assert create(one)[1].startswith("conflicting options: host type networking can't be used with links")
    with (
        container(daemon, begin=False) as one,
        container(daemon, begin=False, **on("bridge", Links=[f"{one}:db"])) as two,
    ):
        text = f"Cannot link to a non running container: /{one} AS /{two}/db"
        assert outcome(daemon, f"/containers/{two}/start") == (500, text)
        assert members(daemon, "bridge").isdisjoint({one, two})
    with container(daemon, **on("green")) as one:
        with container(daemon, begin=False, **on("bridge", Links=[f"{one}:db"])) as two:
            text = f"container {daemon.inspect(one)['Id']} not attached to default bridge network"
            assert outcome(daemon, f"/containers/{two}/start") == (500, text)


def test_a_link_in_the_default_network_is_warned_of(daemon: Daemon, green: str) -> None:
    """In dockerd's words, at create."""
    with container(daemon) as one, container(daemon, **on("green")) as two:
        for mode, to, warned in (("default", one, True), ("bridge", one, True), ("green", two, False)):
            body = {"Image": "busybox", **on(mode, Links=[f"{to}:db"])}
            made = daemon.request("POST", "/containers/create", body).json()
            daemon.remove(made["Id"])
            assert (
                any(each.startswith("Links on the default bridge network are") for each in made["Warnings"]) is warned
            )


def test_a_link_in_a_user_defined_network_is_a_name_for_one_container(daemon: Daemon, green: str) -> None:
    """Of the endpoint's Links; those of HostConfig, even malformed ones, mean nothing there, as in dockerd."""
    with container(daemon, **on("green")) as one:
        with (
            container(daemon, **on("green"), **endpoints(green={"Links": [f"{one}:db"]})) as two,
            container(daemon, **on("green", Links=[f"{one}:cache", "a:b:c"])) as three,
        ):
            assert "0% packet loss" in inside(daemon, two, "ping -c 1 -W 9 db").replace("100%", "all")
            assert "bad address" in inside(daemon, three, "ping -c 1 -W 9 cache")
            assert "bad address" in inside(daemon, three, "ping -c 1 -W 9 db")
            assert shown(daemon, two)["green"]["Links"] == [f"{one}:db"]
            assert shown(daemon, three)["green"]["Links"] is None
            assert daemon.inspect(three)["HostConfig"]["Links"] is None


def test_a_new_name_is_answered_and_the_old_one_is_not(daemon: Daemon, green: str) -> None:
    """A rename of a container that runs."""
    with container(daemon, **on("green")) as one, container(daemon, **on("green")) as two:
        new = f"{one}-new"
        assert daemon.request("POST", f"/containers/{one}/rename?name={new}").status == 204
        assert "0% packet loss" in inside(daemon, two, f"ping -c 1 -W 9 {new}").replace("100%", "all")
        assert "bad address" in inside(daemon, two, f"ping -c 1 -W 9 {one}")
        assert shown(daemon, new)["green"]["DNSNames"][0] == new
        assert members(daemon, "green") == {new, two}
        daemon.request("POST", f"/containers/{new}/rename?name={one}")


def test_connecting_and_disconnecting_are_events(daemon: Daemon, green: str) -> None:
    """Of the network, with the container's id; at a start before `start`, at an end before `die`, as the transcript."""
    with container(daemon, begin=False) as one:
        identifier = daemon.inspect(one)["Id"]
        since = f"{time.time():.6f}"
        daemon.begin(one)
        connect(daemon, "green", one)
        disconnect(daemon, "green", one)
        daemon.request("POST", f"/containers/{one}/kill")
        daemon.wait(one)
        kinds = quote(json.dumps({"type": ["network", "container"]}))
        answer = daemon.request("GET", f"/events?since={since}&until={time.time():.6f}&filters={kinds}")
        told = [json.loads(line) for line in answer.body.splitlines()]
        ours = [
            each for each in told if identifier in (each["Actor"]["ID"], each["Actor"]["Attributes"].get("container"))
        ]
        assert [f"{each['Type']} {each['Action']}" for each in ours] == [
            "network connect",
            "container start",
            "network connect",
            "network disconnect",
            "container kill",
            "network disconnect",
            "container die",
        ]
        bridge = daemon.request("GET", "/networks/bridge").json()["Id"]
        assert ours[0]["Actor"] == {
            "ID": bridge,
            "Attributes": {"container": identifier, "name": "bridge", "type": "bridge"},
        }
        assert ours[2]["Actor"]["Attributes"]["name"] == "green"
