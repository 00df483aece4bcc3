"""Network drivers that are plugins and do not answer."""

import socket
import time

from engine.daemon.network import remotedrivers
from engine.daemon.network.record import Endpoint, Network
from engine.daemon.plugins.activation import Plugins


def test_a_driver_that_hangs_is_told_of_one_end_and_not_of_all(tmp_path, monkeypatch) -> None:
    """A daemon's start tells of the ends of all that is gone: it waits once, and goes on to tell another driver."""
    monkeypatch.setattr(remotedrivers, "_PATIENCE", 0.3)
    accepted = []
    with socket.socket(socket.AF_UNIX) as hanging, socket.socket(socket.AF_UNIX) as other:
        for plugin, name in ((hanging, "hangs"), (other, "others")):
            plugin.bind(str(tmp_path / f"{name}.sock"))
            plugin.listen()  # accepts by itself, and nobody ever answers
            plugin.settimeout(0)
        drivers = remotedrivers.Drivers(Plugins((str(tmp_path),)), None)
        began = time.monotonic()
        for name in ("hangs",) * 20 + ("others",):
            network = Network("n" * 64, name, name, 1)
            drivers.left(network, Endpoint(name, network.id, "c" * 64))
        assert time.monotonic() - began < 5
        for plugin in (hanging, other):
            accepted.append(plugin.accept()[0])
        assert [each.recv(1000).startswith(b"POST /Plugin.Activate") for each in accepted] == [True, True]
        for each in accepted:
            each.close()
