"""What the firewall remembers where the kernel refuses a change."""

import errno

import pytest

from engine.daemon.network.firewall.control import Firewall
from engine.daemon.network.record import Endpoint, Network, Published
from engine.dataclass import replace
from engine.errors import SystemFailure
from tests.harness.parts import settings

NETWORK = Network("ab" * 32, "web", "bridge", 0, device="br0", options={"com.docker.network.bridge.enable_icc": "0"})
ONE, TWO = (
    Endpoint(each * 64, NETWORK.id, "c", ipv4=f"10.0.0.{each}", ports=(Published(80, "tcp", "192.0.2.1", 8080),))
    for each in "12"
)


@pytest.fixture
def firewall(monkeypatch: pytest.MonkeyPatch) -> Firewall:
    """One whose table is there, with a network and two endpoints with a port and a link; from now on nothing works."""
    one = Firewall("0" * 32, settings())
    one._works = one._there = True
    one._networks[NETWORK.id] = NETWORK
    monkeypatch.setattr(one, "_commit", lambda _: None)
    one.publish(NETWORK, ONE)
    one.link(NETWORK, ONE, TWO, [(80, "tcp")])

    def full(_: object) -> None:
        raise OSError(errno.ENOBUFS, "no room")

    monkeypatch.setattr(one, "_commit", full)
    return one


def test_a_change_that_is_refused_leaves_what_was_there(firewall: Firewall) -> None:
    """So that the table that is made anew has it: other ports of the endpoint, and the link, work as they did."""
    links = dict(firewall._links)
    with pytest.raises(SystemFailure):
        firewall.publish(NETWORK, replace(ONE, ports=()))
    with pytest.raises(SystemFailure):
        firewall.link(NETWORK, ONE, TWO, [])
    assert firewall._endpoints == {ONE.id: (NETWORK, ONE)} and firewall._links == links
    with pytest.raises(SystemFailure):
        firewall.publish(NETWORK, TWO)
    assert list(firewall._endpoints) == [ONE.id] and not firewall._there
