"""Options of one endpoint: its interface's name and kernel parameters."""

import pytest

from engine.daemon.network.drivers import endpointoptions

IFNAME, SYSCTLS = endpointoptions.IFNAME, endpointoptions.SYSCTLS


def test_parameters_are_those_of_the_interface() -> None:
    given = {SYSCTLS: "net.ipv4.conf.IFNAME.log_martians=1,net.ipv6.neigh.ifname.gc_stale_time=9"}
    assert endpointoptions.problems(given) == []
    assert endpointoptions.sysctls(given, "eth0.5") == [
        ("net/ipv4/conf/eth0.5/log_martians", "1"),
        ("net/ipv6/neigh/eth0.5/gc_stale_time", "9"),
    ]
    assert endpointoptions.sysctls({}, "eth0") == []


@pytest.mark.parametrize(
    "wanted",
    [
        "net.ipv4.conf.eth0.log_martians=1",
        "net.ipv4.ip_forward=1",
        "net.core.conf.IFNAME.x=1",
        "kernel.ipv4.conf.IFNAME.x=1",
        "net.ipv4.conf.IFNAME.x",
        "net.ipv4.conf.IFNAME.../../all/forwarding=1",
        "net.ipv4.../../../kernel.IFNAME.x=1",
        "net.ipv4.conf.IFNAME.x=1\0",
        "",
    ],
)
def test_what_is_no_parameter_of_an_interface_is_refused(wanted: str) -> None:
    assert endpointoptions.problems({SYSCTLS: wanted}) == [
        f"unrecognised network interface sysctl '{wanted}'; represent 'net.X.Y.ethN.Z=V' as 'net.X.Y.IFNAME.Z=V',"
        " 'X' must be 'ipv4', 'ipv6' or 'mpls'"
    ]
    assert endpointoptions.sysctls({SYSCTLS: wanted}, "eth0") == []


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "eth%d", "n" * 16, "a\0b", "a:1"])
def test_an_interface_has_a_name_that_the_kernel_takes(name: str) -> None:
    assert len(endpointoptions.problems({IFNAME: name})) == 1
    assert endpointoptions.problems({IFNAME: "up.link-0"}) == []
