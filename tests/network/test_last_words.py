"""A container whose connection could not say goodbye: the kernel keeps that for minutes, and the network with it."""

import time

import pytest

from tests.harness.daemon import Daemon

_SECONDS = 40.0  # well below the two minutes


def veths(daemon: Daemon) -> set[str]:
    """The host's ends of wires."""
    return {name for name in daemon.namespaces.links() if name.startswith("veth")}


def address(daemon: Daemon, container: str) -> str:
    """A container's on the default network."""
    return daemon.inspect(container)["NetworkSettings"]["Networks"]["bridge"]["IPAddress"]


@pytest.mark.parametrize("then", ["goes on", "is killed", "is stopped"])
def test_the_wire_goes_though_a_connection_is_still_to_be_closed(apart: Daemon, then: str) -> None:
    """The client dies first; the server's last packet finds nobody, and is repeated for two minutes."""
    default = {"HostConfig": {"NetworkMode": "bridge"}}
    server = apart.create("nc", "-l", "-p", "9000", "-e", "sh", "-c", "echo here; exec sleep 60", **default)
    apart.begin(server)
    script = f"until nc {address(apart, server)} 9000; do usleep 20000; done"
    client = apart.create("sh", "-c", script, **default)
    apart.begin(client)
    end = time.monotonic() + _SECONDS
    while b"here" not in apart.logs(client):
        assert time.monotonic() < end
        time.sleep(0.02)  # programs in containers: there is nothing to wait on
    apart.remove(client)
    apart.remove(server)
    if then == "is killed":
        apart.kill9()
        apart.start()
    elif then == "is stopped":  # before the second is over after which it looks
        apart.stop()
    end = time.monotonic() + _SECONDS
    while left := veths(apart):
        assert time.monotonic() < end, left
        time.sleep(0.05)  # the kernel takes networks away when it comes to it
