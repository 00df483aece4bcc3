"""Network modes none, host and bridge, as this issue has them."""

import os
from collections.abc import Callable

import pytest

from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")


def mode(name: str) -> dict:
    """A HostConfig with this network."""
    return {"NetworkMode": name}


@pytest.mark.parametrize("name", ["none", "bridge", "default"])
def test_a_network_of_its_own_has_loopback(daemon: Daemon, name: str) -> None:
    """Up, with both addresses."""
    links = daemon.shell("ls /sys/class/net", HostConfig=mode(name)).split()
    assert "lo" in links
    assert "127.0.0.1" in daemon.shell("ip addr show lo", HostConfig=mode(name))
    assert daemon.run("ping", "-c", "1", "-W", "9", "127.0.0.1", HostConfig=mode(name)).status == 0


def test_none_is_nothing_but_loopback(daemon: Daemon) -> None:
    """And no route leads out."""
    assert daemon.shell("ls /sys/class/net; ip route", HostConfig=mode("none")) == "lo"


def test_a_user_may_listen_on_any_port_of_its_own_network(daemon: Daemon) -> None:
    """What a port below 1024 protects is the host's, so docker allows it.

    The server sends and the client receives: a busybox nc whose standard input has ended says so to the other side,
    which then ends before it has read its own.
    """
    body = {"User": "1000:1000", "HostConfig": mode("bridge")}
    listens = "grep -q ':0050 .* 0A ' /proc/net/tcp /proc/net/tcp6"
    until = f"i=0; until {listens} || [ $i = 500 ]; do i=$((i + 1)); sleep 0.02; done"
    assert daemon.shell(f"nc -l -p 80 -e echo sent & {until}; nc -w 9 127.0.0.1 80; wait", **body) == "sent"
    ours = daemon.shell("cat /proc/sys/net/ipv4/ip_unprivileged_port_start", HostConfig=mode("host"))
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as file:
        assert ours == file.read().strip()


def test_two_containers_do_not_share_a_network(daemon: Daemon, container: Callable[..., str]) -> None:
    """Each its own namespace."""
    spaces = set()
    for name in ("none", "none", "bridge"):
        one = container("sleep", "60", HostConfig=mode(name))
        daemon.begin(one)
        spaces.add(os.readlink(f"/proc/{daemon.inspect(one)['State']['Pid']}/ns/net"))
    assert len(spaces) == 3
    assert os.readlink(f"/proc/{daemon.pid}/ns/net") not in spaces


def test_host_is_the_daemons_own_network(daemon: Daemon, container: Callable[..., str]) -> None:
    """The same namespace and the host's name."""
    one = container("sleep", "60", HostConfig=mode("host"))
    daemon.begin(one)
    pid = daemon.inspect(one)["State"]["Pid"]
    assert os.readlink(f"/proc/{pid}/ns/net") == os.readlink(f"/proc/{daemon.pid}/ns/net")
    assert daemon.shell("hostname", HostConfig=mode("host")) == os.uname().nodename


def test_inspect_names_the_network(daemon: Daemon, container: Callable[..., str]) -> None:
    """Under its own name, bridge where nothing was asked for."""
    for name, shown in (
        ("none", "none"),
        ("host", "host"),
        ("bridge", "bridge"),
        ("default", "bridge"),
        ("", "bridge"),
    ):
        body = daemon.inspect(container("true", HostConfig=mode(name)))
        assert list(body["NetworkSettings"]["Networks"]) == [shown]


def test_a_network_that_is_not_there(daemon: Daemon, container: Callable[..., str]) -> None:
    """Create takes it, start does not: the transcript, calls 37 and 38."""
    one = container("true", HostConfig=mode("nonet"))
    answer = daemon.request("POST", f"/containers/{one}/start")
    assert (answer.status, answer.message) == (
        404,
        "failed to set up container networking: network nonet not found",
    )


def test_extra_hosts_are_in_etc_hosts(daemon: Daemon) -> None:
    """name:address."""
    hosts = daemon.shell("cat /etc/hosts", HostConfig={"NetworkMode": "bridge", "ExtraHosts": ["db:10.1.2.3"]})
    assert "10.1.2.3\tdb" in hosts


def test_dns_options_are_in_resolv_conf(daemon: Daemon) -> None:
    """Servers, search domains, options."""
    fields = {"Dns": ["9.9.9.9"], "DnsSearch": ["example.org"], "DnsOptions": ["ndots:2"]}
    text = daemon.shell("cat /etc/resolv.conf", HostConfig={"NetworkMode": "bridge", **fields})
    assert {"nameserver 9.9.9.9", "search example.org", "options ndots:2"} <= set(text.split("\n"))
