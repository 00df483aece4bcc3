"""What a client may ask of a container's networks, and what it is refused with."""

import pytest

from engine.daemon.containers import config
from engine.daemon.containers.endpoints import requested, wires
from engine.daemon.containers.verbs.create import create
from engine.errors import Invalid, NotFound
from tests.unit.containers.fakes import make_engine


@pytest.fixture
def engine(tmp_path):
    """An engine with a network `net`, and one `far` of another subnet."""
    engine = make_engine(tmp_path)
    for name, subnet in (("net", "10.1.0.0/24"), ("far", "10.2.0.0/24")):
        engine.networks.create({"Name": name, "IPAM": {"Config": [{"Subnet": subnet}]}})
    return engine


def made(engine, mode="default", name=None, **endpoints):
    """A container in this mode with these EndpointsConfig."""
    body = {"Image": "busybox", "HostConfig": {"NetworkMode": mode}}
    return create(engine, name, {**body, "NetworkingConfig": {"EndpointsConfig": endpoints}}, None)[0]


def test_networks_are_kept_by_their_names_with_their_ids(engine):
    net = engine.networks.find("net")
    container = made(engine, net.id, far={}, **{net.id: {"Aliases": ["x"]}})
    assert list(container.networking) == ["far", "net"]
    assert container.networking["net"]["NetworkID"] == net.id
    assert container.networking["net"]["Aliases"] == ["x"]


def test_the_network_of_networkmode_is_the_one_where_none_is_named(engine):
    assert list(made(engine).networking) == ["bridge"]
    assert list(made(engine, "net").networking) == ["net"]
    assert list(made(engine, "default", net={}).networking) == ["net"]  # as dockerd
    assert list(made(engine, "later").networking) == ["later"]
    assert made(engine, "later").networking["later"]["NetworkID"] == ""


def test_the_first_interface_is_that_of_networkmode(engine):
    container = made(engine, "net", net={}, far={}, bridge={})
    assert list(wires.networks_of(engine, container)) == ["net", "bridge", "far"]
    by_id = made(engine, engine.networks.find("net").id, net={}, far={})
    assert list(wires.networks_of(engine, by_id)) == ["net", "far"]


def test_one_that_has_run_is_bound_to_the_very_network(engine):
    container = made(engine, "net")
    with engine.networks.removing(engine.networks.find("net")):
        pass
    engine.networks.create({"Name": "net", "IPAM": {"Config": [{"Subnet": "10.1.0.0/24"}]}})
    assert wires.networks_of(engine, container)["net"].id != container.networking["net"]["NetworkID"]
    container.state.started_ns = 1
    with pytest.raises(NotFound, match=r"network [0-9a-f]{64} not found"):
        wires.networks_of(engine, container)


@pytest.mark.parametrize(
    ("network", "settings", "text"),
    [
        ("bridge", {"IPAMConfig": {"IPv4Address": "172.17.0.3"}}, requested.IP_NEEDS_USER_DEFINED),
        ("bridge", {"Aliases": ["x"]}, requested.ALIAS_NEEDS_USER_DEFINED),
        ("net", {"IPAMConfig": {"IPv4Address": "fd00::3"}}, "invalid IPv4 address: fd00::3"),
        ("net", {"IPAMConfig": {"IPv4Address": "0.0.0.0"}}, "invalid IPv4 address: 0.0.0.0"),
        ("net", {"IPAMConfig": {"IPv6Address": "10.1.0.3"}}, "invalid IPv6 address: 10.1.0.3"),
        ("net", {"IPAMConfig": {"IPv6Address": "::"}}, "invalid IPv6 address: ::"),
        ("net", {"IPAMConfig": {"IPv4Address": "10.9.0.3"}}, "no configured subnet contains IP address 10.9.0.3"),
        ("net", {"MacAddress": "02:42:ac:11:00"}, "invalid MAC address 02:42:ac:11:00"),
        ("net", {"MacAddress": "01:42:ac:11:00:02"}, "invalid MAC address 01:42:ac:11:00:02"),
    ],
)
def test_settings_that_cannot_be_are_refused(engine, network, settings, text):
    with pytest.raises(Invalid) as refused:
        made(engine, network, **{network: settings})
    assert str(refused.value).startswith(f"invalid config for network {network}: ")
    assert text in str(refused.value)


@pytest.mark.parametrize("mac", ["02:42:AC:11:00:02", "02-42-ac-11-00-02", "0242.ac11.0002"])
def test_a_mac_may_be_written_in_three_ways(engine, mac):
    container = made(engine, "net", net={"MacAddress": mac})
    network = engine.networks.find("net")
    wanted = requested.for_join(container, network, container.networking["net"])
    (endpoint,) = engine.networks.join(container.id, {"net": wanted})
    assert endpoint.mac == "02:42:ac:11:00:02"
    assert container.networking["net"]["MacAddress"] == mac


def test_a_container_is_called_by_its_name_its_aliases_its_id_and_its_hostname(engine):
    container = made(engine, "net", "web", net={"Aliases": ["www", "web"]})
    settings = container.networking["net"]
    assert requested.dns_names(container, settings) == ["web", "www", container.id[:12]]
    container.config["Hostname"] = "host"
    assert requested.dns_names(container, settings) == ["web", "www", container.id[:12], "host"]
    assert requested.for_join(container, engine.networks.find("net"), settings)["DNSNames"][0] == "web"
    assert requested.for_join(container, engine.networks.find("bridge"), settings)["DNSNames"] is None


@pytest.mark.parametrize(
    ("mode", "network", "text"),
    [
        ("container:x", "net", requested.SHARES_A_NETWORK),
        ("bridge", "host", requested._NOT_ON_HOST),
        ("host", "net", requested.SHARES_A_NETWORK),
        ("none", "net", "private (none) mode"),
        ("net", "none", "private (none) mode"),
    ],
)
def test_networks_that_do_not_go_together(engine, mode, network, text):
    container = made(engine, mode)
    with pytest.raises(Invalid) as refused:
        requested.check_beside(engine, container, engine.networks.find(network))
    assert text in str(refused.value)


def test_networks_that_go_together(engine):
    container = made(engine, "net", net={}, far={})
    for name in ("net", "far", "bridge"):
        requested.check_beside(engine, container, engine.networks.find(name))


def test_an_endpoint_without_settings_is_refused_and_what_is_the_networks_to_say_is_dropped():
    with pytest.raises(Invalid, match="no EndpointSettings for net"):
        config.networking({"EndpointsConfig": {"net": None}}, "net")
    found = config.networking({"EndpointsConfig": {"net": {"IPAddress": "1.2.3.4", "EndpointID": "x"}}}, "net")
    assert found == {"net": config.ENDPOINT}
