"""The host's settings that networks need, against a made-up /proc/sys/net."""

from pathlib import Path

import pytest

from engine.daemon.network.firewall import forwarding
from engine.errors import Unavailable
from engine.kernel.netlink import nftexpressions as nft


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in place of /proc/sys/net."""
    monkeypatch.setattr(forwarding, "_ROOT", str(tmp_path))
    return tmp_path


def write(host: Path, name: str, value: str) -> Path:
    """Have this setting, with this value."""
    path = host / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value + "\n")
    return path


def test_a_kernel_without_ipv6_does_not_forward_it(host: Path) -> None:
    write(host, "ipv4/ip_forward", "1")
    assert forwarding.is_on(nft.IPV4) and not forwarding.is_on(nft.IPV6)


def test_interfaces_that_hear_routers_go_on_to_hear_them(host: Path) -> None:
    """Only those that heard them before; an interface that goes away meanwhile is passed over."""
    write(host, "ipv6/conf/all/forwarding", "0")
    heard = [write(host, f"ipv6/conf/{name}/accept_ra", value) for name, value in (("a", "1"), ("b", "0"), ("c", "1"))]
    write(host, "ipv6/conf/a/forwarding", "0")
    write(host, "ipv6/conf/c/forwarding", "1")
    (host / "ipv6/conf/gone").mkdir()
    forwarding.switch_on(nft.IPV6)
    assert [path.read_text().strip() for path in heard] == ["2", "0", "1"]
    assert forwarding.is_on(nft.IPV6)


def test_without_br_netfilter_containers_cannot_be_kept_apart(host: Path) -> None:
    """It is said which module is missing; where it is there and idle it is put to work."""
    with pytest.raises(Unavailable, match=r"cannot restrict inter-container communication: .* module br_netfilter"):
        forwarding.filter_bridged([nft.IPV4])
    path = write(host, "bridge/bridge-nf-call-iptables", "0")
    forwarding.filter_bridged([nft.IPV4])
    assert path.read_text() == "1"
