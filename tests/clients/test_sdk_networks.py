"""The docker SDK for Python: networks, and what containers have of them."""

import contextlib
import uuid
from collections.abc import Callable, Iterator

import pytest

docker = pytest.importorskip("docker", reason="needs the docker SDK: pip install docker")
SUBNET = "10.201.{}.0/24"


@pytest.fixture
def network(sdk) -> Iterator[Callable]:
    """Make networks that are removed after the test, each with a name of its own: `network(internal=True)`."""
    made = []

    def create(**named):
        made.append(sdk.networks.create(f"sdk-{uuid.uuid4().hex[:12]}", **named))
        return made[-1]

    yield create
    for one in made:
        with contextlib.suppress(docker.errors.NotFound):  # the test removed it
            one.remove()


@pytest.fixture
def run(sdk) -> Iterator[Callable]:
    """Run containers of busybox in the background that are removed after the test."""
    made = []

    def start(*command, **named):
        made.append(sdk.containers.run("busybox", list(command) or ["sleep", "60"], detach=True, init=True, **named))
        made[-1].reload()
        return made[-1]

    yield start
    for container in made:
        container.remove(force=True)


def pool(number: int, **named: object) -> object:
    """The settings of a network with these addresses."""
    subnet = SUBNET.format(number)
    return docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=subnet, **named)])


def said(container: object, *command: str) -> str:
    """What a command in a running container says; it must succeed."""
    status, output = container.exec_run(list(command))
    assert status == 0, output
    return output.decode()


def test_a_network_is_as_it_was_asked_for(sdk, network):
    options = {"com.docker.network.driver.mtu": "1400"}
    asked = pool(1, gateway="10.201.1.254", iprange="10.201.1.128/25", aux_addresses={"router": "10.201.1.200"})
    made = network(driver="bridge", ipam=asked, options=options, labels={"a": "b"}, internal=True, attachable=True)
    made.reload()
    shown = {
        key: made.attrs[key] for key in ("Driver", "Scope", "Internal", "Attachable", "EnableIPv6", "Options", "Labels")
    }
    assert shown == {
        "Driver": "bridge",
        "Scope": "local",
        "Internal": True,
        "Attachable": True,
        "EnableIPv6": False,
        "Options": options,
        "Labels": {"a": "b"},
    }
    assert made.attrs["IPAM"]["Config"] == [
        {
            "Subnet": "10.201.1.0/24",
            "IPRange": "10.201.1.128/25",
            "Gateway": "10.201.1.254",
            "AuxiliaryAddresses": {"router": "10.201.1.200"},
        }
    ]
    assert sdk.networks.get(made.name).id == sdk.networks.get(made.id).id == sdk.networks.get(made.short_id).id


def test_networks_are_found_by_name_id_and_filter(sdk, network):
    value = uuid.uuid4().hex
    first, second = network(labels={"sdk": "other"}), network(labels={"sdk": value})
    assert {one.name for one in sdk.networks.list()} >= {"bridge", "host", "none", first.name, second.name}
    assert [one.id for one in sdk.networks.list(names=[first.name])] == [first.id]
    assert [one.id for one in sdk.networks.list(ids=[second.id])] == [second.id]
    assert [one.id for one in sdk.networks.list(filters={"label": f"sdk={value}"})] == [second.id]
    assert {one.name for one in sdk.networks.list(filters={"type": "builtin"})} == {"bridge", "host", "none"}


def test_errors_are_the_sdk_s_own(sdk, network):
    made = network()
    with pytest.raises(docker.errors.NotFound, match="network sdk-none not found"):
        sdk.networks.get("sdk-none")
    with pytest.raises(docker.errors.APIError, match="already exists") as caught:
        sdk.networks.create(made.name)
    assert caught.value.status_code == 409
    with pytest.raises(docker.errors.APIError, match="Pool overlaps") as caught:
        network(ipam=pool(2))
        network(ipam=pool(2))
    assert caught.value.status_code == 403
    with pytest.raises(docker.errors.NotFound, match="plugin"):
        sdk.networks.create("sdk-driver", driver="sdk-none")


def test_a_running_container_is_connected_and_disconnected(network, run):
    made = network(ipam=pool(3))
    container = run(network_mode="bridge")
    made.connect(container, aliases=["other"], ipv4_address="10.201.3.77")
    container.reload()
    networks = container.attrs["NetworkSettings"]["Networks"]
    assert set(networks) == {"bridge", made.name}
    assert (networks[made.name]["IPAddress"], networks[made.name]["IPPrefixLen"]) == ("10.201.3.77", 24)
    assert "other" in networks[made.name]["Aliases"]
    assert "inet 10.201.3.77/24" in said(container, "ip", "addr", "show", "eth1")
    made.reload()
    assert [one.id for one in made.containers] == [container.id]
    made.disconnect(container)
    container.reload()
    assert set(container.attrs["NetworkSettings"]["Networks"]) == {"bridge"}
    assert "eth1" not in said(container, "ip", "link")


def test_a_container_starts_in_a_network_with_its_own_settings(sdk, network, run):
    made = network(ipam=pool(4))
    server = run(network=made.name, hostname="server")
    settings = sdk.api.create_endpoint_config(
        aliases=["me"], ipv4_address="10.201.4.9", mac_address="02:00:00:00:00:09"
    )
    container = run(network=made.name, networking_config={made.name: settings})
    shown = container.attrs["NetworkSettings"]["Networks"][made.name]
    assert (shown["IPAddress"], shown["MacAddress"]) == ("10.201.4.9", "02:00:00:00:00:09")
    assert f"Address: {server.attrs['NetworkSettings']['Networks'][made.name]['IPAddress']}" in said(
        container, "nslookup", server.name
    )
    assert "Address: 10.201.4.9" in said(server, "nslookup", "me")


def test_published_ports_are_shown(run):
    container = run(ports={"80/tcp": None, "90/udp": ("127.0.0.1", 18090), "91/tcp": [18091, 18092]})
    ports = container.ports
    assert "0.0.0.0" in {one["HostIp"] for one in ports["80/tcp"]}
    assert all(int(one["HostPort"]) > 1023 for one in ports["80/tcp"])
    assert ports["90/udp"] == [{"HostIp": "127.0.0.1", "HostPort": "18090"}]
    assert {one["HostPort"] for one in ports["91/tcp"]} == {"18091", "18092"}


def test_a_port_that_is_taken_is_an_error_of_the_start(sdk, run):
    run(ports={"80/tcp": 18080})
    with pytest.raises(docker.errors.APIError, match="port is already allocated") as caught:
        run(ports={"80/tcp": 18080}, name="sdk-taken")
    sdk.containers.get("sdk-taken").remove()
    assert caught.value.status_code == 500


def test_extra_hosts_and_dns_are_in_the_container(network, run):
    made = network(ipam=pool(5, gateway="10.201.5.1"))
    container = run(network=made.name, extra_hosts={"db": "10.9.8.7", "host.docker.internal": "host-gateway"})
    hosts = said(container, "cat", "/etc/hosts").split("\n")
    assert "10.9.8.7\tdb" in hosts
    assert [line for line in hosts if line.endswith("\thost.docker.internal")]
    plain = run(dns=["10.1.1.1"], dns_search=["example.org"], dns_opt=["ndots:2"])
    lines = said(plain, "cat", "/etc/resolv.conf").splitlines()
    assert {"nameserver 10.1.1.1", "search example.org", "options ndots:2"} <= set(lines)


def test_a_container_s_network_is_joined_by_another(run):
    first = run()
    second = run(network_mode=f"container:{first.id}")
    assert said(first, "ip", "-o", "addr") == said(second, "ip", "-o", "addr")


def test_networks_that_nobody_uses_are_pruned(sdk, network, run):
    label = {"sdk-prune": uuid.uuid4().hex}
    used, unused = network(labels=label), network(labels=label)
    run(network=used.name)
    assert sdk.networks.prune({"label": [f"sdk-prune={label['sdk-prune']}"]})["NetworksDeleted"] == [unused.name]
