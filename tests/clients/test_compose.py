"""Compose 1.29 (Debian's) and v2 (built by the set-up), unmodified, with the file of three services in tests/data/shop.

Each brings its project up once; the tests of one client use it one after the other, and the last takes it down. The
daemon has a machine of its own, so the ports are free and the networks are all there are.
"""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

import pytest

from tests.__main__ import CACHE
from tests.harness import hosts, redis
from tests.harness.daemon import PROJECT, Daemon
from tests.harness.namespaces import Namespaces
from tests.setup import compose as built

SHOP = PROJECT / "tests/data/shop"
PORTS = range(8080, 8084)  # as in the file
PROJECT_LABEL = "com.docker.compose.project"
SECONDS = 20.0


@dataclass(frozen=True)
class Compose:
    """One of the clients, in the shop's directory: `compose("up", "-d")` is what it said; it must succeed."""

    daemon: Daemon
    program: tuple[str, ...]
    project: str
    between: str  # what stands between the words of a container's name
    settings: dict[str, str] = field(default_factory=dict)

    def __call__(self, *words: str, status: int = 0) -> str:
        environment = {**self.daemon.environment, **self.settings, "COMPOSE_PROJECT_NAME": self.project}
        done = subprocess.run(
            [*self.program, *words],
            cwd=SHOP,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout

    def name(self, service: str, number: int = 1) -> str:
        """A container's."""
        return self.between.join((self.project, service, str(number)))

    def inspect(self, service: str, number: int = 1) -> dict:
        """A container, as the API shows it."""
        return self.daemon.inspect(self.name(service, number))

    def port(self, number: int = 1) -> int:
        """Where one of the `web` is published."""
        ports = self.inspect("web", number)["NetworkSettings"]["Ports"]["80/tcp"]
        return int(next(one["HostPort"] for one in ports if one["HostIp"] == "0.0.0.0"))

    def get(self, path: str, number: int = 1) -> str:
        """A page of the shop, as the host's own curl gets it."""
        return fetch(self.daemon.namespaces, f"http://127.0.0.1:{self.port(number)}{path}")

    def own(self) -> dict[str, list[str]]:
        """What the engine has of the project: the names of containers, networks, volumes."""
        query = "filters=" + quote(json.dumps({"label": [f"{PROJECT_LABEL}={self.project}"]}))
        containers = self.daemon.request("GET", f"/containers/json?all=1&{query}").json()
        networks = self.daemon.request("GET", f"/networks?{query}").json()
        volumes = self.daemon.request("GET", f"/volumes?{query}").json()["Volumes"] or ()
        return {
            "containers": sorted(one["Names"][0].lstrip("/") for one in containers),
            "networks": sorted(one["Name"] for one in networks),
            "volumes": sorted(one["Name"] for one in volumes),
        }


def fetch(place: Namespaces, url: str) -> str:
    """What the host's own curl gets there; nothing when there is nobody."""
    return hosts.run(place, "curl", "--silent", "--fail", url).stdout.strip()


def first(daemon: Daemon) -> Compose:
    """Compose 1.29."""
    program = shutil.which("docker-compose")
    said = subprocess.run([program, "version", "--short"], capture_output=True, text=True).stdout if program else ""
    if not said.startswith("1."):
        pytest.skip("needs compose 1.29: Debian 12 has it as docker-compose")
    return Compose(daemon, (program,), "first", "_", {"DOCKER_BUILDKIT": "0", "COMPOSE_DOCKER_CLI_BUILD": "0"})


def second(daemon: Daemon) -> Compose:
    """Compose v2, as the plugin of the docker CLI that it is."""
    if shutil.which("docker") is None:
        pytest.skip("needs the docker CLI")
    if not built.complete(CACHE):
        pytest.skip(f"needs compose {built.VERSION}: {built.unable() or '`python3 -m tests` could not build it'}")
    settings = {"DOCKER_BUILDKIT": "0", "DOCKER_CONFIG": str(built.place(CACHE).parent.parent)}
    return Compose(daemon, ("docker", "compose"), "second", "-", settings)


@pytest.fixture(scope="module", params=(first, second), ids=("1.29", "v2"))
def compose(request: pytest.FixtureRequest, apart: Daemon) -> Iterator[Compose]:
    """The client with its project up."""
    client = request.param(apart)
    redis.need()
    apart.import_image(redis.image(), redis.NAME, redis.CHANGES)
    client("up", "-d", "--build")
    yield client
    client("down", "-v", "--remove-orphans")


def until(happens: Callable[[], bool], what: str) -> None:
    """Wait for what a service does by itself."""
    end = time.monotonic() + SECONDS
    while not happens():
        assert time.monotonic() < end, f"{what} has not happened in {SECONDS} s"
        time.sleep(0.05)  # a service in a container tells nobody what it has done


def test_the_shop_takes_orders_on_its_published_port_and_they_are_done(compose):
    assert compose.get("/") == "the shop is open"
    assert [compose.get(f"/cgi-bin/order?number{number}") for number in (1, 2)] == ["taken 1", "taken 2"]
    until(lambda: compose.get("/cgi-bin/done") == "done 2", "the second order")


def test_a_client_outside_reaches_the_published_port(compose, make_host):
    outside = make_host(compose.daemon)
    assert fetch(outside, f"http://{outside.gateway}:{compose.port()}/") == "the shop is open"


def test_nobody_starts_before_redis_is_healthy(compose):
    state = compose.inspect("redis")["State"]
    assert state["Health"]["Status"] == "healthy"
    starts = [compose.inspect(service)["State"]["StartedAt"] for service in ("web", "worker")]
    healthy = min(check["End"] for check in state["Health"]["Log"] if check["ExitCode"] == 0)
    assert state["StartedAt"] < healthy < min(starts)


def test_only_the_front_leads_out(compose, make_host):
    outside = make_host(compose.daemon)
    with hosts.serving(outside) as server:
        asked = f"echo | nc -w 1 {outside.address} {server.port} 2>/dev/null || true"
        seen = {service: compose("exec", "-T", service, "sh", "-c", asked) for service in ("web", "worker")}
    assert seen == {"web": outside.gateway, "worker": ""}


def test_every_service_has_its_names(compose):
    networks = compose.inspect("redis")["NetworkSettings"]["Networks"]
    assert list(networks) == [f"{compose.project}_back"]
    names = ["redis", "store", compose.name("redis"), compose.inspect("redis")["Id"][:12]]
    said = compose("exec", "-T", "web", "sh", "-c", f"for name in {' '.join(names)}; do nslookup $name; done")
    addresses = re.findall(r"^Name:\s+(\S+)\nAddress: (\S+)$", said, re.MULTILINE)
    assert addresses == [(name, networks[f"{compose.project}_back"]["IPAddress"]) for name in names]


def test_logs_tell_who_did_what(compose):
    compose.get("/cgi-bin/order?blue")
    until(lambda: b"did blue" in compose.daemon.logs(compose.name("worker")), "the blue order")
    said = compose("logs", "--no-color", "--tail", "20", "worker", "redis").splitlines()
    (line,) = (line for line in said if "did blue" in line)
    assert re.match(rf"\S*worker{compose.between}1 +\| {compose.inspect('worker')['Id'][:12]} did blue$", line)
    assert [line for line in said if "redis" in line and "Ready to accept connections" in line]


def test_exec_runs_beside_the_service_and_gives_its_exit_status(compose):
    assert compose("exec", "-T", "redis", "redis-cli", "PING") == "PONG\n"
    assert compose("exec", "-T", "-e", "X=1", "web", "sh", "-c", "echo $X; exit 3", status=3) == "1\n"


def test_scaled_services_are_all_there_and_go_again(compose):
    compose("up", "-d", "--scale", "worker=3", "--scale", "web=2")
    own = compose.own()["containers"]
    assert own == sorted(
        compose.name(*one)
        for one in (("redis", 1), ("web", 1), ("web", 2), ("worker", 1), ("worker", 2), ("worker", 3))
    )
    ports = [compose("port", f"--index={number}", "web", "80").strip() for number in (1, 2)]
    assert ports == [f"0.0.0.0:{compose.port(number)}" for number in (1, 2)]
    assert {compose.port(number) for number in (1, 2)} < set(PORTS)
    until(lambda: compose.get("/", 2) == "the shop is open", "the opening of the second web")
    said = compose("exec", "-T", "redis", "nslookup", "worker")
    assert len(set(re.findall(r"^Address: (\S+)$", said, re.MULTILINE))) == 3
    compose("up", "-d", "--scale", "worker=1", "--scale", "web=1")
    assert len(compose.own()["containers"]) == 3
    assert compose.get("/") == "the shop is open"


def test_a_service_that_is_restarted_is_found_again(compose):
    before = compose.inspect("redis")["State"]["StartedAt"]
    compose("restart", "-t", "2", "redis")
    assert compose.inspect("redis")["State"]["StartedAt"] > before
    until(lambda: compose.get("/cgi-bin/order?again").startswith("taken"), "an order after the restart")


def test_a_project_that_goes_down_leaves_its_volume_and_with_v_nothing(compose):
    compose("exec", "-T", "redis", "redis-cli", "SET", "kept", "yes")
    links = compose.daemon.namespaces.links()
    compose("down")
    assert compose.own() == {"containers": [], "networks": [], "volumes": [f"{compose.project}_orders"]}
    assert compose.daemon.namespaces.links() < links
    compose("up", "-d")
    assert compose("exec", "-T", "redis", "redis-cli", "GET", "kept") == "yes\n"
    compose("down", "-v")
    assert compose.own() == {"containers": [], "networks": [], "volumes": []}
    assert not [name for name in compose.daemon.namespaces.links() if name.startswith(("br-", "veth"))]
