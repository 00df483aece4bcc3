"""The way from the containers of a user's daemon to the outside: pasta and slirp4netns, real and watched."""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness import rootfs, users
from tests.harness.fixtures import World, running
from tests.harness.hosts import Host, ask, serving
from tests.harness.users import ADDRESS, UserDaemon, UserMachine
from tests.network.places import container

pytestmark = [
    pytest.mark.seldom,
    pytest.mark.skipif(rootfs.program() is None, reason="needs busybox: apt-get install busybox-static"),
    pytest.mark.skipif(not users.available(), reason="needs newuidmap: apt-get install uidmap"),
    pytest.mark.skipif(not os.path.exists("/dev/net/tun"), reason="needs /dev/net/tun"),
]
BRIDGED = {"NetworkMode": "bridge"}
CARRIERS = ("pasta", "slirp4netns")


@pytest.fixture(scope="module")
def connected(world: World) -> UserMachine:
    """A machine with an address and a default route."""
    return world.user_machine(connected=True)


@pytest.fixture(params=CARRIERS)
def mine(request: pytest.FixtureRequest, world: World, connected: UserMachine) -> Iterator[UserDaemon]:
    """A user's daemon that finds one of the programs, with busybox."""
    if shutil.which(request.param) is None:
        pytest.skip(f"needs {request.param}")
    daemon = world.user_daemon(connected)
    daemon.have(request.param)
    with running(daemon):
        daemon.import_busybox()
        until(lambda: f"{request.param} connects containers" in daemon.log)
        yield daemon


def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until this is so."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def heard(daemon: UserDaemon, address: str, target: str = "") -> bytes:
    """What a container hears at a server on this address of the machine, which it calls `target`; its errors too."""
    with daemon.namespaces.socket() as server:
        server.bind((address, 0))
        server.listen()
        server.settimeout(15)

        def answer() -> None:
            try:
                connection, _ = server.accept()
            except (TimeoutError, OSError):
                return
            with connection:
                connection.settimeout(5)
                if connection.recv(100):
                    connection.sendall(b"outside\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = str(server.getsockname()[1])
        try:
            # It asks first: the pasta of Debian 12 loses what comes while it still makes the connection.
            script = f"(echo hello; sleep 1) | timeout 5 nc -w 2 {target or address} {port}"
            return daemon.run("sh", "-c", script, HostConfig=BRIDGED).stdout
        finally:
            with daemon.namespaces.socket() as own:  # so that nobody waits for a client that did not come
                own.connect_ex((address, int(port)))
            thread.join()


def carrier(daemon: UserDaemon) -> int:
    """The process that the daemon's record names; 0 for none."""
    try:
        return json.loads((daemon.exec_root / "outward").read_text())["pid"]
    except (FileNotFoundError, ValueError):
        return 0


def test_containers_reach_the_outside_and_not_the_hosts_loopback(mine: UserDaemon) -> None:
    until(lambda: heard(mine, ADDRESS) == b"outside\n")
    assert heard(mine, "127.0.0.1", "10.0.2.2") == b""
    assert b"nameserver 10.0.2.3" in mine.run("cat", "/etc/resolv.conf", HostConfig=BRIDGED).stdout
    assert not [text for text in mine.request("GET", "/info").json()["Warnings"] if "outside" in text]


def test_the_program_is_started_anew_when_it_has_ended(mine: UserDaemon) -> None:
    first = carrier(mine)
    os.kill(first, signal.SIGKILL)
    until(lambda: carrier(mine) not in (0, first))
    until(lambda: heard(mine, ADDRESS) == b"outside\n")
    assert "has ended" in mine.log


def test_the_program_outlives_the_daemon_with_the_containers(mine: UserDaemon) -> None:
    container = mine.create("sleep", "600", HostConfig=BRIDGED)
    mine.begin(container)
    first = carrier(mine)
    mine.kill9()
    os.kill(first, 0)
    mine.start()
    assert carrier(mine) == first
    mine.restart()
    assert carrier(mine) == first
    mine.remove(container)
    mine.stop()
    until(lambda: not os.path.exists(f"/proc/{first}"))
    mine.start()


def test_without_such_a_program_the_daemon_says_so(world: World, connected: UserMachine) -> None:
    daemon = world.user_daemon(connected)
    daemon.have()
    with running(daemon):
        daemon.import_busybox()
        assert any("install passt or slirp4netns" in text for text in daemon.request("GET", "/info").json()["Warnings"])
        assert heard(daemon, ADDRESS) == b""


def test_published_ports_show_their_clients_own_addresses(mine: UserDaemon) -> None:
    """Also where the network of containers has a default route, and an address of its own that leads out."""
    with Host(mine.namespaces) as client, container(mine, ports=["8080:80", "8080:80/udp"]) as place:
        for kind in ("tcp", "udp"):
            with serving(place, 80, kind):
                assert ask(client, client.gateway, 8080, kind) == client.address
                assert ask(mine.namespaces, "127.0.0.1", 8080, kind) == place.gateway
