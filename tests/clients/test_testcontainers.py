"""The testcontainers package for Python, as somebody's tests use it: containers, networks, images, compose files.

The thread of each test is in the daemon's network, as the package looks for its containers on the host that it runs on.
Its reaper (Ryuk) is off: that is an image of its makers', which nobody can pull here; the tests remove what they make.
"""

import json
from collections.abc import Iterator
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.harness import redis
from tests.harness.composing import plugin
from tests.harness.daemon import PROJECT, Daemon
from tests.harness.namespaces import entered

WHY = "needs testcontainers: pip install testcontainers"
config = pytest.importorskip("testcontainers.core.config", reason=WHY).testcontainers_config
Mode = pytest.importorskip("testcontainers.core.config", reason=WHY).ConnectionMode
Container = pytest.importorskip("testcontainers.core.container", reason=WHY).DockerContainer
Image = pytest.importorskip("testcontainers.core.image", reason=WHY).DockerImage
Network = pytest.importorskip("testcontainers.core.network", reason=WHY).Network
Project = pytest.importorskip("testcontainers.compose", reason=WHY).DockerCompose
waiting = pytest.importorskip("testcontainers.core.wait_strategies", reason=WHY)

SHOP = PROJECT / "tests/data/shop"


@pytest.fixture
def here(apart: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """The daemon that the package finds by the environment, as the user's own."""
    monkeypatch.setenv("DOCKER_HOST", apart.url)
    monkeypatch.setattr(config, "ryuk_disabled", True)
    # Where the tests run in a container, the package would look for the ports at that container's gateway.
    monkeypatch.setattr(config, "connection_mode_override", Mode.docker_host)
    monkeypatch.setattr(config, "tc_host_override", "localhost")
    with entered(apart.namespaces.keeper.pid):
        yield apart


@pytest.fixture
def image(here: Daemon) -> str:
    """The name of a Redis image."""
    redis.need()
    here.import_image(redis.image(), redis.NAME, redis.CHANGES)
    return redis.NAME


def soon(strategy: object) -> object:
    """The strategy of waiting, with short breaths."""
    return strategy.with_poll_interval(0.05).with_startup_timeout(20)


def page(host: str, port: int) -> bytes:
    """The first page of a web server."""
    with urlopen(f"http://{host}:{port}/", timeout=10) as answer:
        return answer.read()


def first_page(container: object) -> bytes:
    """The same of a container, on the port that was chosen for it."""
    return page(container.get_container_host_ip(), container.get_exposed_port(80))


def test_a_web_server_is_reached_on_the_port_that_was_chosen_for_it(here):
    script = "echo here > /tmp/index.html && exec httpd -f -h /tmp"
    server = Container("busybox").with_command(["sh", "-c", script]).with_exposed_ports(80)
    with server.waiting_for(soon(waiting.HttpWaitStrategy(80))):
        assert first_page(server) == b"here\n"
        assert server.exec(["cat", "/tmp/index.html"]).output == b"here\n"
        identifier = server.get_container_id()
    assert here.request("GET", f"/containers/{identifier}/json").status == 404


def test_containers_of_a_network_find_each_other_by_their_aliases(here, image):
    with Network() as network:
        store = Container(image).with_command("redis-server --protected-mode no").with_network(network)
        store.with_network_aliases("store").waiting_for(soon(waiting.LogMessageWaitStrategy("Ready to accept")))
        client = Container(image).with_command("sleep 60").with_network(network)
        with store, client:
            answer = client.exec(["redis-cli", "-h", "store", "PING"])
            assert (answer.exit_code, answer.output) == (0, b"PONG\n")
    names = {one["Name"] for one in here.request("GET", "/networks").json()}
    assert network.name not in names


def test_an_image_is_built_and_serves(here):
    with Image(path=SHOP / "web", tag="testcontainers:1") as built_image:
        with (
            Container(str(built_image)).with_exposed_ports(80).waiting_for(soon(waiting.HttpWaitStrategy(80))) as server
        ):
            assert first_page(server) == b"the shop is open\n"
    assert here.request("GET", "/images/testcontainers:1/json").status == 404


def test_a_compose_file_comes_up_and_goes(here, image, monkeypatch):
    for name, value in {**plugin(), "COMPOSE_PROJECT_NAME": "containers"}.items():
        monkeypatch.setenv(name, value)
    with Project(SHOP, compose_file_name="compose.yaml", build=True) as shop:
        assert page(*shop.get_service_host_and_port("web", 80)) == b"the shop is open\n"
        assert shop.exec_in_container(["redis-cli", "PING"], "redis")[0] == "PONG\n"
    query = quote(json.dumps({"label": ["com.docker.compose.project=containers"]}))
    assert here.request("GET", f"/containers/json?all=1&filters={query}").json() == []
