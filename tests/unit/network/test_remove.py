"""What a daemon that ends takes away of its networks."""

from types import SimpleNamespace

import pytest

from engine.daemon.network import remove
from tests.unit.network.made import endpoint

ONE = "1" * 64


@pytest.mark.parametrize(
    ("asleep", "mode", "removed"),
    [
        (False, "", ["bridge", "idle", "used"]),
        (True, "", ["bridge", "idle", "used"]),
        (False, "used", ["bridge", "idle"]),
        (True, "used", ["idle"]),  # its container may call the host by the default bridge's address
        (True, "host", ["bridge", "idle", "used"]),
        (False, "bridge", ["idle", "used"]),
    ],
)
def test_bridges_without_containers_go_with_the_daemon(opened, asleep: bool, mode: str, removed: list[str]) -> None:
    networks, gone, kept = opened(), [], []
    for name in ("idle", "used", "never-there"):
        networks.create({"Name": name})
    if mode:
        given = networks.join(ONE, {mode: endpoint()})
        assert len(given) == 1
    wiring = SimpleNamespace(
        made=lambda networks: [network for network in networks if network.name != "never-there" and network.wired],
        remove=lambda network, others: gone.append(network.name) or kept.append({other.name for other in others}),
    )
    firewall = SimpleNamespace(close_network=lambda _network: None)
    remove.put_away(SimpleNamespace(networks=networks, wiring=wiring, firewall=firewall), asleep=asleep)
    assert sorted(gone) == removed
    assert not set(removed).intersection(*kept), "a device that two of them share would go to the other"
