"""The network endpoints over HTTP: made, found, listed, inspected and removed, in docker's words."""

import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from tests.harness.daemon import Daemon

PREDEFINED = {"bridge", "host", "none"}


@pytest.fixture
def network(daemon: Daemon) -> Iterator[Callable[..., str]]:
    """Create networks that are removed after the test: `network("name", Internal=True)` is an id."""
    made: list[str] = []

    def create(name: str, **body: object) -> str:
        answer = daemon.request("POST", "/networks/create", {"Name": name, **body})
        assert answer.status == 201, answer
        made.append(answer.json()["Id"])
        return made[-1]

    yield create
    for identifier in made:
        assert daemon.request("DELETE", f"/networks/{identifier}").status in (204, 404)


def subnet(text: str, **more: object) -> dict:
    """An IPAM of one subnet."""
    return {"IPAM": {"Config": [{"Subnet": text, **more}]}}


def filtered(daemon: Daemon, **filters: list[str]) -> set[str]:
    """The names of the networks that pass the filters."""
    answer = daemon.request("GET", f"/networks?filters={quote(json.dumps(filters))}")
    assert answer.status == 200, answer
    return {each["Name"] for each in answer.json()}


def refusal(daemon: Daemon, body: dict) -> tuple[int, str]:
    """What creating a network is answered with when it is refused."""
    answer = daemon.request("POST", "/networks/create", body)
    return answer.status, answer.message


def test_the_predefined_networks_are_always_there(daemon: Daemon) -> None:
    """With dockerd's keys and options, and the same ids at every look."""
    shown = {each["Name"]: each for each in daemon.request("GET", "/networks").json()}
    assert shown.keys() >= PREDEFINED
    assert [shown[name]["Driver"] for name in ("bridge", "host", "none")] == ["bridge", "host", "null"]
    bridge = daemon.request("GET", "/networks/bridge").json()
    # Another daemon of the session may have had the first name when this one's bridge was made.
    assert re.fullmatch(r"engine\d", bridge["Options"].pop("com.docker.network.bridge.name"))
    assert bridge["Id"] == shown["bridge"]["Id"] and bridge["Options"] == {
        "com.docker.network.bridge.default_bridge": "true",
        "com.docker.network.bridge.enable_icc": "true",
        "com.docker.network.bridge.enable_ip_masquerade": "true",
        "com.docker.network.bridge.host_binding_ipv4": "0.0.0.0",
        "com.docker.network.driver.mtu": "1500",
    }
    (pool,) = bridge["IPAM"]["Config"]
    assert pool["Gateway"] == pool["Subnet"].replace("0.0/16", "0.1")
    assert bridge["Status"]["IPAM"]["Subnets"][pool["Subnet"]]["IPsInUse"] >= 3


def test_a_network_reads_back_as_it_was_asked_for(daemon: Daemon, network: Callable[..., str]) -> None:
    """All that is said in a create is shown in an inspect."""
    body = {
        "Driver": "bridge",
        "Internal": True,
        "Attachable": True,
        "EnableIPv6": True,
        "Labels": {"a": "b"},
        "Options": {"com.docker.network.driver.mtu": "1400", "made.up": "kept"},
        "IPAM": {
            "Driver": "default",
            "Options": {"x": "y"},
            "Config": [
                {"Subnet": "fd77::/64", "Gateway": "fd77::fe"},
                {
                    "Subnet": "10.77.0.0/16",
                    "IPRange": "10.77.5.0/24",
                    "Gateway": "10.77.0.9",
                    "AuxiliaryAddresses": {"router": "10.77.5.1"},
                },
            ],
        },
    }
    identifier = network("asked", **body)
    shown = daemon.request("GET", f"/networks/{identifier[:12]}").json()
    for key in ("Driver", "Internal", "Attachable", "EnableIPv6", "Labels", "Options"):
        assert shown[key] == body[key], key
    assert (shown["Name"], shown["Id"], shown["Scope"], shown["EnableIPv4"]) == ("asked", identifier, "local", True)
    assert shown["IPAM"] == {**body["IPAM"], "Config": list(reversed(body["IPAM"]["Config"]))}
    assert shown["Containers"] == {}
    assert shown["Status"]["IPAM"]["Subnets"] == {
        "10.77.0.0/16": {"IPsInUse": 4, "DynamicIPsAvailable": 255},
        "fd77::/64": {"IPsInUse": 2, "DynamicIPsAvailable": 2**64 - 2},
    }


def test_networks_that_name_no_subnet_get_different_ones(daemon: Daemon, network: Callable[..., str]) -> None:
    """From the pools, IPv6 from the daemon's own unique local addresses."""
    found = set()
    for name in ("one", "two", "three"):
        config = daemon.request("GET", f"/networks/{network(name, EnableIPv6=True)}").json()["IPAM"]["Config"]
        assert [each["Gateway"] for each in config] == [
            config[0]["Subnet"].replace(".0/16", ".1"),
            config[1]["Subnet"].replace("/64", "1"),
        ]
        assert config[1]["Subnet"].startswith("fd")
        found |= {each["Subnet"] for each in config}
    assert len(found) == 6
    assert not found & {each["Subnet"] for each in daemon.request("GET", "/networks/bridge").json()["IPAM"]["Config"]}


@pytest.mark.parametrize("empty", [{}, None, {"Subnet": "", "AuxiliaryAddresses": {}}])
def test_an_entry_that_asks_for_nothing_is_none(daemon: Daemon, network: Callable[..., str], empty: object) -> None:
    """Alone it leaves the choice to the daemon, beside another it is not there."""
    shown = daemon.request("GET", f"/networks/{network('any', IPAM={'Config': [empty]})}").json()
    assert len(shown["IPAM"]["Config"]) == 1
    asked = {"Config": [empty, {"Subnet": "10.9.0.0/24"}]}
    shown = daemon.request("GET", f"/networks/{network('one', IPAM=asked)}").json()
    assert shown["IPAM"]["Config"] == [{"Subnet": "10.9.0.0/24", "Gateway": "10.9.0.1"}]


def test_only_the_length_of_a_subnet_may_be_asked_for(daemon: Daemon, network: Callable[..., str]) -> None:
    """By a subnet of zeros."""
    (config,) = daemon.request("GET", f"/networks/{network('sized', **subnet('0.0.0.0/26'))}").json()["IPAM"]["Config"]
    assert config["Subnet"].endswith("/26") and not config["Subnet"].startswith("0.")


def test_ipv4_may_be_left_out(daemon: Daemon, network: Callable[..., str]) -> None:
    """A network of IPv6 alone; a subnet of a version that is not enabled is not used, and nothing is said."""
    shown = daemon.request("GET", f"/networks/{network('six', EnableIPv4=False, EnableIPv6=True)}").json()
    assert (shown["EnableIPv4"], len(shown["IPAM"]["Config"])) == (False, 1)
    assert ":" in shown["IPAM"]["Config"][0]["Subnet"]
    answer = daemon.request("POST", "/networks/create", {"Name": "unused", **subnet("fd78::/64")})
    assert (answer.status, answer.json()["Warning"]) == (201, "")
    assert [":" in each["Subnet"] for each in daemon.request("GET", "/networks/unused").json()["IPAM"]["Config"]] == [
        False
    ]
    daemon.request("DELETE", "/networks/unused")


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "invalid name: name is empty"),
        ({"Name": " "}, 400, "invalid name: name is empty"),
        ({"Name": "bridge"}, 403, "operation is not permitted on predefined bridge network "),
        ({"Name": "default"}, 403, "operation is not permitted on predefined default network "),
        ({"Name": "x", "Driver": "nope"}, 404, 'plugin "nope" not found'),
        ({"Name": "x", "IPAM": {"Driver": "nope"}}, 404, 'plugin "nope" not found'),
        ({"Name": "x", "Driver": "host"}, 403, 'only one instance of "host" network is allowed'),
        ({"Name": "x", "Driver": "null"}, 403, 'only one instance of "null" network is allowed'),
        (
            {"Name": "x", "Driver": "overlay"},
            403,
            'This node is not a swarm manager. Use "docker swarm init" or "docker swarm join" to connect this node to'
            " swarm and try again.",
        ),
        ({"Name": "x", "Scope": "swarm"}, 403, "cannot create a swarm scoped network when swarm is not active"),
        ({"Name": "x", "Ingress": True}, 403, "Ingress network can only be global scope network"),
        ({"Name": "x", "EnableIPv4": False}, 400, "IPv4 or IPv6 must be enabled"),
        ({"Name": "x", **subnet("bad")}, 400, "invalid JSON: netip.ParsePrefix(\"bad\"): no '/'"),
        (
            {"Name": "x", **subnet("10.0.0.0/33")},
            400,
            'invalid JSON: netip.ParsePrefix("10.0.0.0/33"): prefix length out of range',
        ),
        (
            {"Name": "x", **subnet("10.300.0.0/8")},
            400,
            'invalid JSON: netip.ParsePrefix("10.300.0.0/8"): ParseAddr("10.300.0.0"): unable to parse IP',
        ),
        (
            {"Name": "x", **subnet("10.9.0.1/24")},
            400,
            "invalid network config:\ninvalid subnet 10.9.0.1/24: it should be 10.9.0.0/24",
        ),
        (
            {"Name": "x", **subnet("10.9.0.0/24", IPRange="10.9.0.0/16", Gateway="10.8.0.1")},
            400,
            "invalid network config:\n"
            "* invalid ip-range 10.9.0.0/16: CIDR block is bigger than its parent subnet 10.9.0.0/24\n"
            "* invalid gateway 10.8.0.1: parent subnet 10.9.0.0/24 doesn't contain this address",
        ),
        (
            {"Name": "x", **subnet("10.9.0.0/24", IPRange="fd00::/64")},
            400,
            "invalid network config:\ninvalid ip-range fd00::/64: parent subnet is an IPv4 block",
        ),
        (
            {"Name": "x", **subnet("10.9.0.0/24", AuxiliaryAddresses={"a": "10.8.0.1"})},
            400,
            "invalid network config:\n"
            "invalid auxiliary address a: parent subnet 10.9.0.0/24 doesn't contain this address",
        ),
        (
            {"Name": "x", **subnet("10.9.0.0/24", Gateway="10.9.0.0")},
            500,
            "failed to allocate gateway (10.9.0.0): Address already in use",
        ),
        (
            {"Name": "x", **subnet("10.9.0.0/24", Gateway="10.9.0.1", AuxiliaryAddresses={"a": "10.9.0.1"})},
            500,
            "failed to allocate secondary ip address (a:10.9.0.1): Address already in use",
        ),
        (
            {"Name": "x", "IPAM": {"Config": [{"Gateway": "10.9.0.1", "IPRange": "10.9.0.0/24"}]}},
            400,
            "invalid network config:\n"
            "* invalid ip-range 10.9.0.0/24: parent subnet invalid Prefix doesn't contain ip-range\n"
            "* invalid gateway 10.9.0.1: parent subnet invalid Prefix doesn't contain this address",
        ),
        (
            {"Name": "x", "IPAM": {"Config": [{"AuxiliaryAddresses": {"a": "10.9.0.1"}}]}},
            400,
            "invalid network config:\n"
            "invalid auxiliary address a: parent subnet invalid Prefix doesn't contain this address",
        ),
        (
            {"Name": "x", "IPAM": {"Config": [{"Gateway": "fd00::1"}]}},
            400,
            "invalid network config:\ninvalid gateway fd00::1: parent subnet is an IPv4 block",
        ),
        ({"Name": "x", "IPAM": {"Driver": "null", "Config": [{}]}}, 400, "ipv4 pool is empty"),
        (
            {"Name": "x", "IPAM": {"Config": [{"Subnet": "10.9.0.0/24"}, {"Subnet": "10.10.0.0/24"}]}},
            403,
            "bridge driver doesn't support multiple subnets",
        ),
        (
            {"Name": "x", "IPAM": {"Config": [{"Subnet": "10.9.0.0/24"}, {"Subnet": "10.9.0.0/16"}]}},
            403,
            "invalid pool request: Pool overlaps with other one on this address space",
        ),
        ({"Name": "x", "ConfigFrom": {"Network": "nope"}}, 404, 'configuration network "nope" does not exist'),
        (
            {"Name": "x", "ConfigOnly": True, "Internal": True},
            403,
            "configuration network can only contain network specific fields. Network operator fields like"
            " [ ingress | internal | attachable | scope ] are not supported.",
        ),
        (
            {"Name": "x", "IPAM": {"Driver": "null", "Config": [{"Subnet": "10.9.0.0/24"}]}},
            400,
            "null ipam driver does not handle specific address pool requests",
        ),
        ({"Name": "x", "IPAM": {"Driver": "null"}}, 400, "ipv4 pool is empty"),
        ({"Name": "x", "Driver": "macvlan", "IPAM": {"Driver": "null"}}, 400, "ipv4 pool is empty"),
        ({"Name": "x", "IPAM": {"Driver": "null"}, "EnableIPv4": False, "EnableIPv6": True}, 400, "ipv6 pool is empty"),
        ({"Name": "x", "IPAM": {"Driver": "null"}, "EnableIPv4": False}, 400, "IPv4 or IPv6 must be enabled"),
        ({"Name": "container"}, 403, 'network name "container" is reserved and cannot be created'),
        ({"Name": "container:x"}, 403, 'network name "container:x" is reserved and cannot be created'),
        (
            {"Name": "x", "Options": {"com.docker.network.enable_ipv6": "maybe"}},
            400,
            'driver-opt "com.docker.network.enable_ipv6" is not a valid bool',
        ),
    ],
)
def test_a_network_that_cannot_be_is_refused(daemon: Daemon, body: dict, status: int, text: str) -> None:
    """With dockerd's status and text, and nothing is there afterwards."""
    assert refusal(daemon, body) == (status, text)
    assert daemon.request("GET", "/networks/x").status == 404


def test_a_name_and_a_subnet_are_given_once(daemon: Daemon, network: Callable[..., str]) -> None:
    """The transcript, calls 255 and 256; and a subnet that contains another one is the same."""
    network("once", **subnet("10.123.0.0/24"))
    assert refusal(daemon, {"Name": "once"}) == (409, "network with name once already exists")
    overlap = (403, "invalid pool request: Pool overlaps with other one on this address space")
    for text in ("10.123.0.0/24", "10.123.0.0/16", "10.123.0.128/25"):
        assert refusal(daemon, {"Name": "twice", **subnet(text)}) == overlap
    assert refusal(daemon, {"Name": "twice", **subnet("10.123.0.0/24", IPRange="10.123.0.64/26")}) == overlap


def test_two_networks_cannot_have_one_bridge(daemon: Daemon, network: Callable[..., str]) -> None:
    """In dockerd's words."""
    options = {"Options": {"com.docker.network.bridge.name": "shared0"}}
    network("first", **options)
    status, text = refusal(daemon, {"Name": "second", **options})
    assert (status, text.endswith("networks have same bridge name")) == (403, True)


def test_a_network_is_found_by_name_id_and_prefix(daemon: Daemon, network: Callable[..., str]) -> None:
    """The whole id first, then the name, then the beginning of an id."""
    identifier = network("found")
    second = network(identifier[:10])
    for reference, wanted in (("found", identifier), (identifier, identifier), (identifier[:20], identifier)):
        assert daemon.request("GET", f"/networks/{reference}").json()["Id"] == wanted
    assert daemon.request("GET", f"/networks/{identifier[:10]}").json()["Id"] == second
    answer = daemon.request("GET", "/networks/nope")
    assert (answer.status, answer.message) == (404, "network nope not found")


def test_scope_and_verbose_of_an_inspect(daemon: Daemon, network: Callable[..., str]) -> None:
    """Nothing here has the scope swarm."""
    network("scoped")
    assert daemon.request("GET", "/networks/scoped?scope=local&verbose=true").status == 200
    assert daemon.request("GET", "/networks/scoped?scope=swarm").status == 404
    answer = daemon.request("GET", "/networks/scoped?verbose=maybe")
    wanted = 'invalid value for verbose: maybe: strconv.ParseBool: parsing "maybe": invalid syntax'
    assert (answer.status, answer.message) == (400, wanted)


def test_a_scope_is_a_word_of_the_clients(daemon: Daemon, network: Callable[..., str]) -> None:
    """As in dockerd all but that of a swarm; and what has no addresses has a status without subnets."""
    network("wordy", Scope="mine")
    assert daemon.request("GET", "/networks/wordy").json()["Scope"] == "mine"
    assert filtered(daemon, scope=["mine"]) == {"wordy"}
    assert refusal(daemon, {"Name": "x", "Scope": "swarm"})[0] == 403
    assert daemon.request("GET", "/networks/host").json()["Status"] == {"IPAM": {}}
    assert "Status" not in daemon.request("GET", "/v1.51/networks/host").json()


def test_the_filters_of_the_list(daemon: Daemon, network: Callable[..., str]) -> None:
    """Each of them, alone and together."""
    one = network("filter-one", Labels={"a": "1", "b": "2"})
    network("filter-two", Labels={"a": "1"}, Internal=True)
    ours = {"filter-one", "filter-two"}
    assert filtered(daemon, name=["filter-"]) == ours
    assert filtered(daemon, name=["^filter-o"]) == {"filter-one"}
    assert filtered(daemon, name=["^filter-(o|n|e)+$"]) == {"filter-one"}
    assert filtered(daemon, id=[one[:16]]) == {"filter-one"}
    assert filtered(daemon, id=[f"^({one[:8]}|x){one[8:]}$"]) == {"filter-one"}
    assert filtered(daemon, label=["a=1", "b"]) == {"filter-one"}
    assert filtered(daemon, label=["a=2"]) == set()
    assert filtered(daemon, driver=["host", "null"]) == {"host", "none"}
    assert filtered(daemon, type=["builtin"]) == PREDEFINED
    assert filtered(daemon, type=["custom"]) >= ours and not filtered(daemon, type=["custom"]) & PREDEFINED
    assert filtered(daemon, scope=["local"]) >= ours and filtered(daemon, scope=["swarm"]) == set()
    assert filtered(daemon, dangling=["true"]) >= ours and filtered(daemon, dangling=["false"]) >= PREDEFINED
    assert not filtered(daemon, dangling=["true"]) & PREDEFINED
    assert filtered(daemon, driver=["bridge"], name=["filter"], label=["b=2"]) == {"filter-one"}


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ({"nope": ["x"]}, "invalid filter 'nope'"),
        (
            {"dangling": ["perhaps"]},
            """invalid value for filter 'dangling': must be "true" (or "1"), or "false" (or "0")""",
        ),
        ({"dangling": ["true", "false"]}, 'got more than one value for filter key "dangling"'),
        ({"type": ["perhaps"]}, "invalid value for filter 'type': must be 'builtin' or 'custom'"),
    ],
)
def test_a_filter_that_is_none_is_refused(daemon: Daemon, filters: dict, text: str) -> None:
    """In words."""
    answer = daemon.request("GET", f"/networks?filters={quote(json.dumps(filters))}")
    assert (answer.status, answer.message) == (400, text)


def test_a_predefined_network_cannot_be_removed(daemon: Daemon) -> None:
    """The transcript, calls 271 and 272."""
    for name in PREDEFINED:
        answer = daemon.request("DELETE", f"/networks/{name}")
        assert (answer.status, answer.message) == (403, f"{name} is a pre-defined network and cannot be removed")
    answer = daemon.request("DELETE", "/networks/nope")
    assert (answer.status, answer.message) == (404, "network nope not found")


def test_a_configuration_is_lent_to_a_network(daemon: Daemon, network: Callable[..., str]) -> None:
    """And stays as long as one has it."""
    options = {"com.docker.network.driver.mtu": "1300"}
    network("config", ConfigOnly=True, Labels={"a": "b"}, Options=options, **subnet("10.99.0.0/24"))
    shown = daemon.request("GET", "/networks/config").json()
    assert (shown["ConfigOnly"], shown["Driver"], shown["IPAM"]["Config"]) == (True, "null", None)
    identifier = network("borrower", ConfigFrom={"Network": "config"}, Internal=True)
    shown = daemon.request("GET", "/networks/borrower").json()
    assert (shown["ConfigFrom"], shown["ConfigOnly"], shown["Internal"]) == ({"Network": "config"}, False, True)
    assert (shown["Labels"], shown["Options"]) == ({"a": "b"}, options)
    assert shown["IPAM"]["Config"] == [{"Subnet": "10.99.0.0/24", "Gateway": "10.99.0.1"}]
    answer = daemon.request("DELETE", "/networks/config")
    assert (answer.status, answer.message) == (
        403,
        'error while removing network: configuration network "config" is in use',
    )
    assert refusal(daemon, {"Name": "x", "ConfigFrom": {"Network": "config"}, "Labels": {"c": "d"}})[0] == 403
    assert daemon.request("DELETE", f"/networks/{identifier}").status == 204
    assert daemon.request("DELETE", "/networks/config").status == 204


def test_a_removed_network_leaves_its_name_and_its_subnet_to_others(
    daemon: Daemon, network: Callable[..., str]
) -> None:
    """At once."""
    for _ in range(3):
        identifier = network("again", **subnet("10.55.0.0/16"))
        assert daemon.request("DELETE", "/networks/again").status == 204
        assert daemon.request("GET", f"/networks/{identifier}").status == 404


def test_older_clients_are_told_what_they_were_told_then(daemon: Daemon, network: Callable[..., str]) -> None:
    """No status of addresses before 1.52, an empty place for containers in lists, no word about IPv4 before 1.48."""
    network("older")
    assert "Status" not in daemon.request("GET", "/v1.51/networks/older").json()
    for version in ("1.51", "1.27"):
        assert {str(each["Containers"]) for each in daemon.request("GET", f"/v{version}/networks").json()} == {"{}"}
    body = {"Name": "oldest", "EnableIPv4": False}
    answer = daemon.request("POST", "/v1.47/networks/create", body)
    assert answer.status == 201
    assert daemon.request("GET", "/networks/oldest").json()["EnableIPv4"] is True
    daemon.request("DELETE", "/networks/oldest")
