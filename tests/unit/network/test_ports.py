"""Ports of the host: chosen, held, given back."""

import resource
import socket
from collections.abc import Iterator

import pytest

from engine.daemon.network import gateways, publishing
from engine.daemon.network.ports import Ports
from engine.daemon.network.record import Endpoint, Network, PortRequest, Published
from engine.dataclass import replace
from engine.errors import SystemFailure, Unavailable
from tests.harness.parts import settings

NETWORK = Network("ab" * 32, "web", "bridge", 0)
OPTION = "com.docker.network.bridge."


def made(*, four: bool = True, six: bool = True, proxy: bool = False, exec_root: str = "/nowhere") -> Ports:
    """Those of a daemon that may have rules for these families, and may have the userland proxy or not."""
    told = settings(iptables=four, ip6tables=six, userland_proxy=proxy, exec_root=exec_root)
    return Ports(told, None, None)


@pytest.fixture
def ports() -> Iterator[Ports]:
    """Nobody's yet; at the end let go of."""
    one = made()
    yield one
    for container in list(one._held):
        one.release(container)


def free(kind: int = socket.SOCK_STREAM) -> int:
    """A port that nobody has."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("0.0.0.0", 0))
        return probe.getsockname()[1]


def reserve(ports: Ports, container: str, network: Network, wanted: list[PortRequest]) -> tuple[Published, ...]:
    """Those of a container in this network alone."""
    address4, address6 = network.ipv4 * "10.0.0.2", network.ipv6 * "fd00::2"
    own = Endpoint("", network.id, container, ipv4=address4, gateway4=address4, ipv6=address6, gateway6=address6)
    through = gateways.published_through([(network, own)])
    found = ports.reserve(container, [(network, versions) for versions in through.values()], wanted)
    return found.get(network.id, ())


def wanted(number: int, protocol: str = "tcp", address: str = "", last: int = 0) -> PortRequest:
    """A request for this port of the host, for the container's port 80."""
    return PortRequest(80, protocol, address, number, last)


def test_a_port_is_held_until_it_is_released(ports: Ports) -> None:
    number = free()
    assert reserve(ports, "a", NETWORK, [wanted(number)]) == (Published(80, "tcp", "0.0.0.0", number),)
    for address in ("", "0.0.0.0", "127.0.0.1"):
        shown = address or "0.0.0.0"
        with pytest.raises(SystemFailure, match=f"^Bind for {shown}:{number} failed: port is already allocated$"):
            reserve(ports, "b", NETWORK, [wanted(number, address=address)])
    with socket.socket() as program, pytest.raises(OSError):
        program.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        program.bind(("0.0.0.0", number))
    ports.release("a")
    assert reserve(ports, "b", NETWORK, [wanted(number)])


def test_what_nobody_has_named_is_any_free_port(ports: Ports) -> None:
    """Out of the kernel's range, one after the other, the same for both families."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first, last = (int(number) for number in file.read().split())
    both = replace(NETWORK, ipv6=True)
    found = reserve(ports, "a", both, [wanted(0), wanted(0, "udp")])
    numbers = {(port.protocol, port.host_port) for port in found}
    assert len(numbers) == 2 and all(first <= number <= last for _, number in numbers)
    assert {port.host_ip for port in found if port.protocol == "tcp"} in ({"0.0.0.0", "::"}, {"0.0.0.0"})


def test_of_a_range_the_first_free_one_is_taken(ports: Ports) -> None:
    number = free()
    with socket.socket() as program:
        program.bind(("0.0.0.0", number))
        (found,) = reserve(ports, "a", NETWORK, [wanted(number, last=number + 50)])
        assert number < found.host_port <= number + 50
        with pytest.raises(
            SystemFailure, match=f"failed to bind host port 0.0.0.0:{number}/tcp: address already in use"
        ):
            reserve(ports, "a", NETWORK, [wanted(number, last=number)])


def test_many_that_want_one_of_the_same_range_do_not_look_at_all_of_it_again(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else is given a port meanwhile, and the time would grow with the square of their number."""
    looks = []
    take = Ports._take
    monkeypatch.setattr(Ports, "_take", lambda self, place, held: (looks.append(place), take(self, place, held)))
    published = reserve(ports, "one", NETWORK, [wanted(21000, last=21399)] * 100)
    assert len({port.host_port for port in published}) == 100
    assert len(looks) < 300
    with pytest.raises(SystemFailure, match="already allocated"):
        reserve(ports, "two", NETWORK, [wanted(21000, last=21001)] * 3)


def test_all_or_none(ports: Ports) -> None:
    """One that is taken: those before it are free again."""
    number, taken = free(), free(socket.SOCK_DGRAM)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as program:
        program.bind(("127.0.0.1", taken))
        with pytest.raises(SystemFailure, match=f"0.0.0.0:{taken}/udp: address already in use"):
            reserve(ports, "a", NETWORK, [wanted(number), wanted(taken, "udp")])
    assert reserve(ports, "b", NETWORK, [wanted(number), wanted(taken, "udp")])


def test_ports_take_no_more_of_the_open_files_than_leaves_room_for_all_else(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
    reserve(ports, "one", NETWORK, [wanted(0)] * 4)
    with pytest.raises(SystemFailure, match="too many published ports"):
        reserve(ports, "two", NETWORK, [wanted(0)] * 3)
    assert len(reserve(ports, "two", NETWORK, [wanted(0)] * 2)) == 2


def test_addresses_and_protocols_have_ports_of_their_own(ports: Ports) -> None:
    number = free()
    requests = [wanted(number, address="127.0.0.1"), wanted(number, address="127.0.0.2"), wanted(number, "sctp")]
    assert len(reserve(ports, "a", NETWORK, requests)) == 3
    with pytest.raises(SystemFailure, match=f"Bind for 0.0.0.0:{number} failed"):
        reserve(ports, "b", NETWORK, [wanted(number, "sctp")])


def test_a_port_whose_last_connections_are_still_waiting_can_be_had(ports: Ports) -> None:
    """TIME_WAIT is nobody's; but who binds after that is kept out as ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", number))
        accepted, _ = server.accept()
        accepted.close()  # who closes first is the one to wait
        client.close()
    assert reserve(ports, "a", NETWORK, [wanted(number)])
    with socket.socket() as program, pytest.raises(OSError):
        program.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        program.bind(("0.0.0.0", number))


def test_an_address_that_the_host_does_not_have_is_refused(ports: Ports) -> None:
    with pytest.raises(SystemFailure, match=r"192\.0\.2\.77:4711/tcp: cannot assign requested address"):
        reserve(ports, "a", NETWORK, [wanted(4711, address="192.0.2.77")])


def test_ipv6_without_ipv6_is_refused_in_words(ports: Ports) -> None:
    words = r"^port 80/tcp cannot be published on ::1: network web has no IPv6, and .* --userland-proxy=false$"
    with pytest.raises(Unavailable, match=words):
        reserve(ports, "a", NETWORK, [wanted(4711, address="::1")])


def test_a_family_without_rules_publishes_nothing() -> None:
    """--iptables=false, --ip6tables=false: what is asked for by name is refused, what is not asked for is left out."""
    both = replace(NETWORK, ipv6=True)
    four, six = made(six=False), made(four=False, six=False)
    (found,) = reserve(four, "a", both, [wanted(0)])
    assert found.host_ip == "0.0.0.0"
    four.release("a")
    for ports, address in ((four, "::1"), (six, ""), (six, "127.0.0.1")):
        with pytest.raises(Unavailable, match=r"cannot be published on \S+: the daemon runs with --ip6?tables=false"):
            reserve(ports, "a", both, [wanted(0, address=address)])


@pytest.mark.parametrize(
    ("default", "ipv6", "addresses"),
    [
        ("", True, ["0.0.0.0", "::"]),
        ("0.0.0.0", False, ["0.0.0.0"]),
        ("127.0.0.1", True, ["127.0.0.1"]),
        ("::", True, ["0.0.0.0", "::"]),
        ("2001:db8::7", False, None),
    ],
)
def test_the_network_says_what_no_address_means(
    ports: Ports, default: str, ipv6: bool, addresses: list[str] | None
) -> None:
    """Docker's host_binding_ipv4: any of IPv4's stands for any of IPv6's too, one address for itself alone."""
    network = replace(NETWORK, ipv6=ipv6, options={OPTION + "host_binding_ipv4": default})
    if addresses is None:
        with pytest.raises(Unavailable):
            reserve(ports, "a", network, [wanted(0)])
        return
    found = reserve(ports, "a", network, [wanted(0)])
    assert [port.host_ip for port in found] == addresses


def test_a_network_that_publishes_nothing_holds_nothing(ports: Ports) -> None:
    """Internal ones, other drivers; a routed network's ports are the container's own."""
    number = free()
    assert reserve(ports, "a", replace(NETWORK, internal=True), [wanted(number)]) == ()
    assert reserve(ports, "a", replace(NETWORK, driver="macvlan"), [wanted(number)]) == ()
    assert reserve(ports, "a", replace(NETWORK, options={OPTION + "gateway_mode_ipv4": "isolated"}), [wanted(1)]) == ()
    routed = replace(NETWORK, options={OPTION + "gateway_mode_ipv4": "routed"})
    assert reserve(ports, "a", routed, [wanted(number)]) == (Published(80, "tcp", "0.0.0.0", 0),)
    assert reserve(ports, "a", NETWORK, [wanted(number)])


@pytest.mark.parametrize("routed", [4, 6])
def test_a_network_may_route_one_version_of_ip_and_translate_the_other(ports: Ports, routed: int) -> None:
    """Each port is published for both, the host's own first; an address in the request chooses one."""
    number = free()
    network = replace(NETWORK, ipv6=True, options={OPTION + f"gateway_mode_ipv{routed}": "routed"})
    of4, of6 = ("0.0.0.0", 0 if routed == 4 else number), ("::", 0 if routed == 6 else number)
    both = [of6, of4] if routed == 4 else [of4, of6]
    for address, expected in (("", both), ("0.0.0.0", [of4]), ("::", [of6])):
        found = reserve(ports, "a", network, [wanted(number, address=address)])
        assert [(each.host_ip, each.host_port) for each in found] == expected
        ports.release("a")


def test_several_networks_share_the_addresses_of_the_host(ports: Ports) -> None:
    """Of one container: IPv4 leads to one, IPv6 to another, with one port; what routes has its own."""
    number = free()
    four, six = NETWORK, replace(NETWORK, id="cd" * 32, ipv4=False, ipv6=True)
    modes = {OPTION + f"gateway_mode_ipv{version}": "routed" for version in (4, 6)}
    routed = replace(NETWORK, id="ef" * 32, ipv6=True, options=modes)
    found = ports.reserve("a", [(four, {4}), (six, {6}), (routed, {4, 6})], [wanted(number), wanted(0, "udp")])
    tcp = [("0.0.0.0", number)], [("::", number)], [("0.0.0.0", 0), ("::", 0)]
    assert (
        tuple(
            [(port.host_ip, port.host_port) for port in found[network.id] if port.protocol == "tcp"]
            for network in (four, six, routed)
        )
        == tcp
    )
    (udp4,) = [port.host_port for port in found[four.id] if port.protocol == "udp"]
    (udp6,) = [port.host_port for port in found[six.id] if port.protocol == "udp"]
    assert udp4 == udp6 and len(ports._held["a"]) == 4
    ports.release("a", found[six.id])
    assert len(ports._held["a"]) == 2
    assert ports.reserve("b", [(six, {6})], [wanted(number)])[six.id] == found[six.id][:1]
    ports.release("b")


def test_what_one_network_cannot_carry_is_refused_only_if_no_other_can(ports: Ports) -> None:
    four, six = NETWORK, replace(NETWORK, id="cd" * 32, ipv4=False, ipv6=True)
    requests = [wanted(0, address="::"), wanted(0, address="127.0.0.1")]
    found = ports.reserve("a", [(four, {4}), (six, {6})], requests)
    assert [port.host_ip for port in (*found[four.id], *found[six.id])] == ["127.0.0.1", "::"]
    ports.release("a")
    with pytest.raises(Unavailable, match="on ::: network web has no IPv6"):
        ports.reserve("a", [(four, {4, 6})], requests)
    assert ports.reserve("a", [(four, {4})], requests[:1]) == {four.id: ()}  # another driver has the way out


@pytest.mark.parametrize(
    ("asked", "shared"),
    [
        (["127.0.0.1", "127.0.0.2"], True),
        (["0.0.0.0", "::"], True),
        (["127.0.0.2", "::1", "127.0.0.1"], False),  # nothing leads from ::1
        (["127.0.0.1", "127.0.0.1"], False),
        (["0.0.0.0", "127.0.0.1"], False),
        (["", "127.0.0.1"], False),
    ],
)
def test_addresses_of_one_port_get_one_port_of_the_host(ports: Ports, asked: list[str], shared: bool) -> None:
    """Where they can: a client that has a name's addresses needs no other port for each."""
    both = replace(NETWORK, ipv6=True)
    if "::1" in asked:
        with pytest.raises(Unavailable):
            reserve(ports, "a", both, [wanted(0, address=address) for address in asked])
        return
    found = reserve(ports, "a", both, [wanted(0, address=address) for address in asked])
    assert (len({port.host_port for port in found}) == 1) is shared
    assert ports.release("a") is None


def test_a_daemon_that_begins_anew_holds_what_runs(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """What a program of the host has taken meanwhile is logged, and is the container's as far as others are told."""
    mine, lost = free(), free(socket.SOCK_DGRAM)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as program:
        program.bind(("0.0.0.0", lost))
        places = [Published(80, "tcp", "0.0.0.0", mine), Published(80, "udp", "0.0.0.0", lost)]
        ports.adopt({"a": [*places, Published(80, "tcp", "", 0)]})
        ports.adopt({"a": places})
    assert f"0.0.0.0:{lost}/udp: address already in use" in caplog.text
    for number, protocol in ((mine, "tcp"), (lost, "udp")):
        with pytest.raises(SystemFailure, match="already allocated"):
            reserve(ports, "b", NETWORK, [wanted(number, protocol)])
    ports.release("a")
    assert len(reserve(ports, "b", NETWORK, [wanted(mine), wanted(lost, "udp")])) == 2


def test_the_hosts_ipv6_loopback_is_refused_however_it_is_named(ports: Ports) -> None:
    """Here by the network's own option; a binding of that address is in tests/network."""
    named = replace(NETWORK, ipv6=True, options={OPTION + "host_binding_ipv4": "::1"})
    with pytest.raises(Unavailable, match="cannot be published on ::1: the kernel does not forward"):
        reserve(ports, "a", named, [wanted(4711)])


@pytest.mark.parametrize(
    ("has", "asked", "addresses"),
    [
        ((True, False), "", ["0.0.0.0", "::"]),
        ((True, False), "::1", ["::1"]),
        ((True, False), "::", ["::"]),
        ((True, True), "", ["0.0.0.0", "::"]),
        ((False, True), "", ["::"]),
        ((False, True), "127.0.0.1", ["127.0.0.1"]),
    ],
)
@pytest.mark.parametrize("ruled", [(True, True), (True, False), (False, False)])
def test_with_the_userland_proxy_every_address_may_lead_to_every_container(
    has: tuple[bool, bool], asked: str, addresses: list[str], ruled: tuple[bool, bool]
) -> None:
    """With rules or without; as docker, which adds any address of IPv6 to any of IPv4, but not the other way round."""
    ports = made(four=ruled[0], six=ruled[1], proxy=True)
    network = replace(NETWORK, ipv4=has[0], ipv6=has[1])
    found = reserve(ports, "a", network, [wanted(0, address=asked)])
    assert [port.host_ip for port in found] == addresses
    ports.release("a")


def test_sctp_is_nothing_for_the_userland_proxy() -> None:
    """What rules cannot lead to the container is left out, or refused where it was asked for."""
    ports = made(proxy=True)
    (found,) = reserve(ports, "a", NETWORK, [wanted(0, "sctp")])
    assert found.host_ip == "0.0.0.0"
    ports.release("a")
    with pytest.raises(
        Unavailable, match=r"on ::: network web has no IPv6, and the userland proxy does not carry SCTP"
    ):
        reserve(ports, "a", NETWORK, [wanted(0, "sctp", "::")])
    with pytest.raises(Unavailable, match=r"--iptables=false, and the userland proxy does not carry SCTP"):
        reserve(made(four=False, proxy=True), "a", NETWORK, [wanted(0, "sctp")])


def test_a_routed_network_leaves_nothing_to_the_userland_proxy() -> None:
    """Its containers are reached at their own addresses: no port of the host is theirs, over either family."""
    routed = replace(NETWORK, options={OPTION + "gateway_mode_ipv4": "routed"})
    ports = made(proxy=True)
    assert reserve(ports, "a", routed, [wanted(0)]) == (Published(80, "tcp", "0.0.0.0", 0),)
    with pytest.raises(Unavailable, match=r"on ::: network web has no IPv6, and its gateway mode leaves nothing"):
        reserve(ports, "a", routed, [wanted(0, address="::")])


@pytest.mark.parametrize("proxy", [False, True])
@pytest.mark.parametrize("protocol", ["tcp", "sctp"])
@pytest.mark.parametrize("has", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "options", [{}, {"gateway_mode_ipv4": "routed", "gateway_mode_ipv6": "routed"}, {"host_binding_ipv4": "127.0.0.1"}]
)
def test_a_version_of_ip_that_a_start_leaves_out_is_left_out_whenever_it_is_asked_for_alone(
    proxy: bool, protocol: str, has: tuple[bool, bool], options: dict[str, str]
) -> None:
    """As when a connect looks for what is missing: nothing is, so nothing is refused and no further port opened."""
    ports = made(proxy=proxy)
    network = replace(
        NETWORK, ipv4=has[0], ipv6=has[1], options={OPTION + key: value for key, value in options.items()}
    )
    try:
        first = reserve(ports, "a", network, [wanted(0, protocol)])
    except Unavailable:
        assert not has[0] and "host_binding_ipv4" in options  # nobody can start such a container
        return
    missing = {4, 6} - {publishing.version_of(port.host_ip) for port in first}
    try:
        for versions in ({version} for version in missing):
            assert ports.reserve("a", [(network, versions)], [wanted(0, protocol)]) == {network.id: ()}
    finally:
        ports.release("a")


def endpoint(ipv4: str, ipv6: str, *ports: Published) -> Endpoint:
    """A container's endpoint with these addresses and ports."""
    return Endpoint("1" * 64, NETWORK.id, "2" * 64, ipv4=ipv4, ipv6=ipv6, ports=ports)


@pytest.mark.parametrize(
    ("host_ip", "ipv4", "ipv6", "ruled", "leads_to"),
    [
        ("0.0.0.0", "10.0.0.2", "", (4, 6), None),
        ("127.0.0.1", "10.0.0.2", "fd00::2", (4, 6), None),
        ("2001:db8::1", "10.0.0.2", "fd00::2", (4, 6), None),
        ("::", "10.0.0.2", "", (4, 6), "10.0.0.2"),
        ("::", "10.0.0.2", "fd00::2", (4, 6), "fd00::2"),
        ("::1", "10.0.0.2", "fd00::2", (4, 6), "fd00::2"),
        ("2001:db8::1", "10.0.0.2", "", (4, 6), "10.0.0.2"),
        ("0.0.0.0", "", "fd00::2", (4, 6), "fd00::2"),
        ("0.0.0.0", "10.0.0.2", "", (6,), "10.0.0.2"),
        ("0.0.0.0", "10.0.0.2", "", (), "10.0.0.2"),
        ("0.0.0.0", "", "", (), None),
    ],
)
def test_the_proxy_carries_what_no_rule_does(
    host_ip: str, ipv4: str, ipv6: str, ruled: tuple[int, ...], leads_to: str | None
) -> None:
    """At ::1 and at any address of IPv6 too, where the rules leave out ::1; never SCTP, and no port of a routed one."""
    port = Published(80, "tcp", host_ip, 8080)
    others = (Published(80, "sctp", host_ip, 8080), Published(80, "tcp", "", 0))
    found = publishing.proxied(endpoint(ipv4, ipv6, port, *others), ruled)
    assert found == ([(port, leads_to)] if leads_to else [])
