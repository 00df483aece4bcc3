"""The docker CLI's options and commands about a container's networks and ports, as a user types them."""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator

import pytest

pytestmark = pytest.mark.usefixtures("busybox")

SLEEP = ("busybox", "sleep", "600")
NETWORK = "cli-ports"


@pytest.fixture(scope="module")
def docker(daemon, busybox) -> Iterator[Callable[..., str]]:
    """Run the CLI with these words, which must succeed; what it says. There are two networks for it."""

    def run(*words: str) -> str:
        done = daemon.command("docker", *words)
        assert done.returncode == 0, done
        return done.stdout.decode().strip()

    run("network", "create", "--subnet", "10.213.1.0/24", NETWORK)
    run("network", "create", "--subnet", "10.213.2.0/24", f"{NETWORK}-2")
    yield run
    run("network", "rm", NETWORK, f"{NETWORK}-2")


@pytest.fixture
def run(docker) -> Iterator[Callable[..., str]]:
    """Run a container in the background, with these options; its name. It is removed after the test."""
    made: list[str] = []

    def begin(*options: str) -> str:
        made.append(f"cli-{uuid.uuid4().hex[:8]}")
        docker("run", "-d", "--name", made[-1], *options, *SLEEP)
        return made[-1]

    yield begin
    if made:
        docker("rm", "-f", *made)


def refused(daemon, *words: str) -> str:
    """What the CLI says to words that must fail."""
    done: subprocess.CompletedProcess = daemon.command("docker", *words)
    assert done.returncode != 0, done
    return done.stderr.decode()


def test_port_and_ps_show_what_leads_where(docker, run) -> None:
    """A port, a range, one of an address, one of UDP, and one that is exposed only."""
    options = ("-p", "28080:80", "-p", "28090-28091:28090-28091", "-p", "127.0.0.1:28053:53/udp", "--expose", "99")
    one = run(*options)
    assert docker("port", one).split("\n") == [
        "53/udp -> 127.0.0.1:28053",
        *("80/tcp -> 0.0.0.0:28080", "80/tcp -> [::]:28080"),
        *("28090/tcp -> 0.0.0.0:28090", "28090/tcp -> [::]:28090"),
        *("28091/tcp -> 0.0.0.0:28091", "28091/tcp -> [::]:28091"),
    ]
    assert docker("port", one, "80") == docker("port", one, "80/tcp") == "0.0.0.0:28080\n[::]:28080"
    shown = docker("ps", "--filter", f"name={one}", "--format", "{{.Ports}}")
    assert set(shown.split(", ")) == {
        *("0.0.0.0:28080->80/tcp", "[::]:28080->80/tcp"),
        *("0.0.0.0:28090-28091->28090-28091/tcp", "[::]:28090-28091->28090-28091/tcp"),
        "127.0.0.1:28053->53/udp",
        "99/tcp",
    }


def test_port_of_one_that_is_not_published_fails(daemon, run) -> None:
    """In the CLI's own words, from an empty list."""
    assert "No public port '80' published" in refused(daemon, "port", run("--expose", "80"), "80")


def test_all_exposed_ports_are_published(docker, run) -> None:
    """-P, and -p with a port of the container alone: the host chooses, and inspect says which."""
    one = run("-P", "--expose", "7000-7001", "-p", "7002")
    ports = json.loads(docker("inspect", "-f", "{{json .NetworkSettings.Ports}}", one))
    chosen = [int(ports[f"{number}/tcp"][0]["HostPort"]) for number in (7000, 7001, 7002)]
    assert len(set(chosen)) == 3 and min(chosen) > 1023
    template = '{{(index (index .NetworkSettings.Ports "7002/tcp") 0).HostPort}}'
    assert docker("inspect", "-f", template, one) == str(chosen[2])


def test_a_port_that_is_taken_is_an_error_of_run(daemon, docker, run) -> None:
    """With the words that everybody looks for; the container is there, and was not started."""
    run("-p", "28100:80")
    name = f"cli-{uuid.uuid4().hex[:8]}"
    text = refused(daemon, "run", "-d", "--name", name, "-p", "28100:81", *SLEEP)
    assert "Bind for 0.0.0.0:28100 failed: port is already allocated" in text
    assert docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", name) == "created 128"
    docker("rm", name)
    assert "port is already allocated" in refused(daemon, "run", "--rm", "-p", "28100:80", *SLEEP)


def test_a_container_starts_in_several_networks(docker, run) -> None:
    """--network twice, by its long form too, with an address, an alias, a MAC and a priority."""
    one = run(
        "--network",
        f"name={NETWORK},ip=10.213.1.50,alias=db,mac-address=02:42:ac:11:00:77",
        "--network",
        f"name={NETWORK}-2,gw-priority=1,driver-opt=com.docker.network.endpoint.ifname=up0",
    )
    assert "inet 10.213.1.50/24" in docker("exec", one, "ip", "addr", "show", "eth0")
    assert "02:42:ac:11:00:77" in docker("exec", one, "ip", "link", "show", "eth0")
    assert "via 10.213.2.1 dev up0" in docker("exec", one, "ip", "route", "show", "default")
    names = docker("ps", "--filter", f"name={one}", "--format", "{{.Networks}}").split(",")  # in any order: a Go map's
    assert sorted(names) == [NETWORK, f"{NETWORK}-2"]
    two = run(
        "--network", NETWORK, "--network-alias", "web", "--ip", "10.213.1.51", "--mac-address", "02:42:ac:11:00:78"
    )
    assert "10.213.1.50" in docker("exec", two, "ping", "-c", "1", "-W", "2", "db")
    assert "10.213.1.51" in docker("exec", one, "ping", "-c", "1", "-W", "2", "web")
    assert "02:42:ac:11:00:78" in docker("exec", two, "ip", "link", "show", "eth0")


def test_what_is_asked_of_names_is_in_the_container(docker, run) -> None:
    """--hostname, --add-host, --link."""
    one = run("--hostname", "first")
    two = run(
        "--hostname", "second", "--add-host", "there=192.0.2.1", "--add-host", "up:host-gateway", "--link", f"{one}:db"
    )
    lines = docker("exec", two, "cat", "/etc/hosts").split("\n")
    gateway = docker("network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", "bridge")
    address = docker("inspect", "-f", "{{.NetworkSettings.Networks.bridge.IPAddress}}", one)
    own = docker("inspect", "-f", "{{.NetworkSettings.Networks.bridge.IPAddress}}", two)
    assert {"192.0.2.1\tthere", f"{gateway}\tup", f"{own}\tsecond", f"{address}\tdb first {one}"} <= set(lines)
    names = "ps", "--no-trunc", "--filter", f"name={one}", "--format", "{{.Names}}"
    assert docker(*names) == f"{one},{two}/db"
    docker("rm", "--link", f"{two}/db")
    assert docker(*names) == one


def test_networks_of_other_containers_are_joined(docker, run) -> None:
    """--network container:NAME."""
    one = run("--network", NETWORK)
    two = run("--network", f"container:{one}")
    assert docker("exec", two, "ip", "addr") == docker("exec", one, "ip", "addr")


def test_ps_filters_by_network_and_port(docker, run) -> None:
    """--filter network, publish, expose."""
    one, two = run("--network", NETWORK, "-p", "28200:80"), run("--expose", "28201")
    for words, found in ((f"network={NETWORK}", one), ("publish=28200", one), ("expose=28201", two)):
        assert docker("ps", "--filter", words, "--format", "{{.Names}}") == found
