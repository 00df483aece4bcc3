"""Every row of `docker network --help`, and every option of its commands, by the real CLI.

A row is a function here named after its command, an option a row of a table; the first tests read the client's own
help, so that what a newer client brings has to be shown too.
"""

import json
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.clients.cli import OPTION, ROW, said

SLEEP = ("busybox", "sleep", "600")


@pytest.fixture
def name(docker) -> Iterator[str]:
    """A network's name that is gone after the test, and the containers that begin with it."""
    chosen = f"row-{uuid.uuid4().hex[:12]}"
    yield chosen
    for container in said(docker("ps", "-aq", "--filter", f"name={chosen}")).split():
        docker("rm", "-f", container)
    for network in said(docker("network", "ls", "-q", "--filter", f"name={chosen}")).split():
        docker("network", "rm", network)


@pytest.fixture
def network(docker, name: str) -> str:
    """A network without anything special."""
    said(docker("network", "create", name))
    return name


@pytest.fixture
def running(docker, name: str) -> str:
    """A container that runs on the default network."""
    said(docker("run", "-d", "--init", "--name", f"{name}-one", *SLEEP))
    return f"{name}-one"


def shown(docker, network: str) -> dict:
    """A network as `docker network inspect` has it."""
    (found,) = json.loads(said(docker("network", "inspect", network)))
    return found


def endpoints(docker, container: str) -> dict:
    """A container's networks."""
    return json.loads(said(docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", container)))


def test_every_row_of_the_help_is_shown_here(docker) -> None:
    rows = ROW.findall(said(docker("network", "--help")))
    assert len(rows) >= 7
    assert [row for row in rows if f"test_{row}" not in globals()] == []


def test_connect(docker, network: str, running: str) -> None:
    said(docker("network", "connect", network, running))
    own = shown(docker, network)["Containers"]
    ((container, endpoint),) = own.items()
    assert endpoint["Name"] == running and container.startswith(
        said(docker("ps", "-q", "-f", f"name={running}")).strip()
    )
    address = endpoint["IPv4Address"]
    assert address in said(docker("exec", running, "ip", "addr", "show", "eth1"))
    assert endpoints(docker, running)[network]["IPAddress"] == address.partition("/")[0]
    refused = docker("network", "connect", network, running)
    assert f"endpoint with name {running} already exists in network {network}" in refused.stderr.decode()
    assert docker("network", "connect", "nope", running).returncode == 1


def test_create(docker, name: str) -> None:
    assert re.fullmatch("[0-9a-f]{64}\n", said(docker("network", "create", name)))
    assert shown(docker, name)["Driver"] == "bridge"
    refused = docker("network", "create", name)
    assert (refused.returncode, b"already exists" in refused.stderr) == (1, True)


def test_disconnect(docker, network: str, running: str) -> None:
    said(docker("network", "connect", network, running))
    said(docker("network", "disconnect", network, running))
    assert shown(docker, network)["Containers"] == {} and list(endpoints(docker, running)) == ["bridge"]
    assert said(docker("exec", running, "ls", "/sys/class/net")).split() == ["eth0", "lo"]
    refused = docker("network", "disconnect", network, running)
    assert (refused.returncode, b"is not connected to" in refused.stderr) == (1, True)
    said(docker("network", "disconnect", "--force", "bridge", running))
    assert endpoints(docker, running) == {}


def test_inspect(docker, network: str) -> None:
    found = shown(docker, network)
    assert (
        said(docker("network", "inspect", "--format", "{{.Name}} {{.Scope}}", found["Id"][:12])) == f"{network} local\n"
    )
    assert [each["Name"] for each in json.loads(said(docker("network", "inspect", "-v", network, "host")))] == [
        network,
        "host",
    ]
    refused = docker("network", "inspect", network, "nope")
    assert (refused.returncode, b"network nope not found" in refused.stderr) == (1, True)
    assert json.loads(said(docker("inspect", "--type", "network", network)))[0]["Id"] == found["Id"]


def test_ls(docker, network: str) -> None:
    header, *rows = said(docker("network", "ls")).splitlines()
    assert header.split() == ["NETWORK", "ID", "NAME", "DRIVER", "SCOPE"]
    assert {"bridge", "host", "none", network} <= {row.split()[1] for row in rows}
    identifier = shown(docker, network)["Id"]
    assert said(docker("network", "ls", "-q", "--no-trunc", "--filter", f"name={network}")) == f"{identifier}\n"
    words = ["--filter", "driver=bridge", "--filter", "type=custom", "--filter", f"name=^{network}$"]
    assert said(docker("network", "list", *words, "--format", "{{.ID}} {{.Internal}}")) == f"{identifier[:12]} false\n"
    assert said(docker("network", "ls", "--filter", "dangling=true", "-q", "--filter", "type=builtin")) == ""


def test_prune(own_daemon) -> None:
    def docker(*words: str) -> str:
        return said(own_daemon.command("docker", *words))

    for each in ("unused", "kept", "used", "stopped"):
        docker("network", "create", "--label", f"is={each}", each)
    docker("run", "-d", "--init", "--network", "used", "--name", "one", *SLEEP)
    docker("create", "--network", "stopped", "--name", "two", *SLEEP)
    docker("network", "create", "--config-only", "config")
    assert docker("network", "prune", "-f", "--filter", "until=10m") == ""
    told = docker("network", "prune", "-f", "--filter", "label!=is=kept")
    assert sorted(told.split()[2:]) == ["stopped", "unused"]
    assert docker("network", "prune", "--force").split()[2:] == ["kept"]
    left = docker("network", "ls", "--format", "{{.Name}}").split()
    assert sorted(left) == ["bridge", "config", "host", "none", "used"]
    words = ["--since", "1h", "--until", f"{time.time():.6f}", "--filter", "type=network"]
    events = docker("events", *words, "--format", "{{.Action}}").split()
    assert (events.count("prune"), events.count("destroy")) == (3, 3)


def test_rm(docker, network: str, running: str) -> None:
    said(docker("network", "connect", network, running))
    refused = docker("network", "rm", network)
    assert (refused.returncode, b"has active endpoints" in refused.stderr) == (1, True)
    said(docker("network", "disconnect", network, running))
    assert said(docker("network", "rm", network)) == f"{network}\n"
    assert docker("network", "rm", network).returncode == 1
    assert docker("network", "rm", "--force", network).returncode == 0
    assert b"pre-defined" in docker("network", "remove", "bridge").stderr


# The options of create: the words that use each, and what an inspect then says.

Look = Callable[[dict], object]
CREATE_OPTIONS: dict[str, tuple[list[str], Look, object]] = {
    "attachable": (["--attachable"], lambda found: found["Attachable"], True),
    "aux-address": (
        ["--subnet", "10.201.0.0/24", "--aux-address", "router=10.201.0.9"],
        lambda found: found["IPAM"]["Config"][0]["AuxiliaryAddresses"],
        {"router": "10.201.0.9"},
    ),
    "config-only": (["--config-only"], lambda found: found["ConfigOnly"], True),
    "driver": (["-d", "bridge"], lambda found: found["Driver"], "bridge"),
    "gateway": (
        ["--subnet", "10.202.0.0/24", "--gateway", "10.202.0.254"],
        lambda found: found["IPAM"]["Config"][0]["Gateway"],
        "10.202.0.254",
    ),
    "internal": (["--internal"], lambda found: found["Internal"], True),
    "ip-range": (
        ["--subnet", "10.203.0.0/16", "--ip-range", "10.203.4.0/24"],
        lambda found: found["IPAM"]["Config"],
        [{"Subnet": "10.203.0.0/16", "IPRange": "10.203.4.0/24", "Gateway": "10.203.4.0"}],
    ),
    "ipam-driver": (["--ipam-driver", "default"], lambda found: found["IPAM"]["Driver"], "default"),
    "ipam-opt": (["--ipam-opt", "a=b"], lambda found: found["IPAM"]["Options"], {"a": "b"}),
    "ipv4": (["--ipv4=false", "--ipv6"], lambda found: (found["EnableIPv4"], len(found["IPAM"]["Config"])), (False, 1)),
    "ipv6": (["--ipv6"], lambda found: (found["EnableIPv6"], len(found["IPAM"]["Config"])), (True, 2)),
    "label": (["--label", "a=b", "--label", "c"], lambda found: found["Labels"], {"a": "b", "c": ""}),
    "opt": (
        ["-o", "com.docker.network.driver.mtu=1400"],
        lambda found: found["Options"],
        {"com.docker.network.driver.mtu": "1400"},
    ),
    "scope": (["--scope", "local"], lambda found: found["Scope"], "local"),
    "subnet": (
        ["--subnet", "10.204.0.0/24", "--subnet", "fd04::/64", "--ipv6"],
        lambda found: [each["Subnet"] for each in found["IPAM"]["Config"]],
        ["10.204.0.0/24", "fd04::/64"],
    ),
}
CREATE_ELSEWHERE = {"config-from", "ingress"}


def test_every_option_of_create_is_shown_here(docker) -> None:
    assert set(OPTION.findall(said(docker("network", "create", "--help")))) <= CREATE_OPTIONS.keys() | CREATE_ELSEWHERE


@pytest.mark.parametrize("option", CREATE_OPTIONS)
def test_an_option_of_create(docker, name: str, option: str) -> None:
    words, look, expected = CREATE_OPTIONS[option]
    said(docker("network", "create", *words, name))
    assert look(shown(docker, name)) == expected


def test_create_with_a_configuration_and_without_a_swarm(docker, name: str) -> None:
    said(docker("network", "create", "--config-only", "--subnet", "10.205.0.0/24", f"{name}-config"))
    said(docker("network", "create", "--config-from", f"{name}-config", name))
    assert shown(docker, name)["IPAM"]["Config"] == [{"Subnet": "10.205.0.0/24", "Gateway": "10.205.0.1"}]
    assert b"is in use" in docker("network", "rm", f"{name}-config").stderr
    said(docker("network", "rm", name))
    refused = docker("network", "create", "--ingress", "-d", "overlay", name)
    assert (refused.returncode, b"This node is not a swarm manager" in refused.stderr) == (1, True)
    assert b"can only be global scope" in docker("network", "create", "--ingress", name).stderr


# The options of connect: the words, and what the container's endpoint or the container itself then says.

CONNECT_OPTIONS: dict[str, tuple[list[str], Look, object]] = {
    "alias": (["--alias", "db"], lambda end: end["Aliases"], ["db"]),
    "driver-opt": (
        ["--driver-opt", "com.docker.network.endpoint.ifname=lan7"],
        lambda end: end["DriverOpts"],
        {"com.docker.network.endpoint.ifname": "lan7"},
    ),
    "gw-priority": (["--gw-priority", "7"], lambda end: end["GwPriority"], 7),
    "ip": (["--ip", "10.206.0.77"], lambda end: end["IPAddress"], "10.206.0.77"),
    "ip6": (["--ip6", "fd06::77"], lambda end: end["GlobalIPv6Address"], "fd06::77"),
    "link": (["--link", "options-two:friend"], lambda end: end["Links"], ["options-two:friend"]),
    "link-local-ip": (
        ["--link-local-ip", "169.254.7.7"],
        lambda end: end["IPAMConfig"]["LinkLocalIPs"],
        ["169.254.7.7"],
    ),
}
INSIDE = {
    "driver-opt": ("ip link show lan7", "lan7"),
    "gw-priority": ("ip route show default", "via 10.206.0.1 dev eth1"),
    "ip": ("ip addr show eth1", "inet 10.206.0.77/24"),
    "ip6": ("ip addr show eth1", "inet6 fd06::77/64"),
    "link-local-ip": ("ip addr show eth1", "169.254.7.7"),
}


def test_every_option_of_connect_is_shown_here(docker) -> None:
    assert set(OPTION.findall(said(docker("network", "connect", "--help")))) <= CONNECT_OPTIONS.keys()


@pytest.fixture(scope="module")
def connected(daemon, busybox) -> Iterator[Callable[..., subprocess.CompletedProcess]]:
    """The CLI, with a network `options-net` and two containers elsewhere, `options-one` and `options-two`."""

    def docker(*words: str) -> subprocess.CompletedProcess:
        return daemon.command("docker", *words)

    docker("network", "create", "--ipv6", "--subnet", "10.206.0.0/24", "--subnet", "fd06::/64", "options-net")
    for each in ("one", "two"):
        said(docker("run", "-d", "--init", "--name", f"options-{each}", *SLEEP))
    yield docker
    docker("rm", "-f", "options-one", "options-two")
    docker("network", "rm", "options-net")


@pytest.mark.parametrize("option", CONNECT_OPTIONS)
def test_an_option_of_connect(connected, option: str) -> None:
    words, look, expected = CONNECT_OPTIONS[option]
    said(connected("network", "connect", *words, "options-net", "options-one"))
    try:
        assert look(endpoints(connected, "options-one")["options-net"]) == expected
        script, found = INSIDE.get(option, ("true", ""))
        assert found in said(connected("exec", "options-one", "sh", "-c", script))
    finally:
        said(connected("network", "disconnect", "options-net", "options-one"))
