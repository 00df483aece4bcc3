"""Compose 1.29 (Debian's) and v2 (built by the set-up), unmodified, with the file of three services in tests/data/shop.

Each brings its project up once; the tests of one client use it one after the other, and the last takes it down. The
daemon has a machine of its own, so the ports are free and the networks are all there are.
"""

import dataclasses
import json
import re
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.harness import composing, hosts, redis
from tests.harness.composing import Compose, fetch, until
from tests.harness.daemon import PROJECT, Daemon

PORTS = range(8080, 8084)  # as in the file


@pytest.fixture(scope="module")
def begun() -> list[dict]:
    """What the daemon had told of starts and of health when the project was up; filled by `compose`."""
    return []


@pytest.fixture(scope="module", params=composing.CLIENTS)
def compose(request: pytest.FixtureRequest, apart: Daemon, begun: list[dict]) -> Iterator[Compose]:
    """The client with its project up."""
    name, directory = request.param.__name__, PROJECT / "tests/data/shop"
    client = dataclasses.replace(request.param(apart), project=name, directory=directory)
    redis.need()
    apart.import_image(redis.image(), redis.NAME, redis.CHANGES)
    client("up", "-d", "--build")
    filters = quote(json.dumps({"event": ["start", "health_status"]}))
    begun[:] = apart.request("GET", f"/events?since=0&until={time.time():.9f}&filters={filters}").lines
    yield client
    client.clear()


def port(compose: Compose, number: int = 1) -> int:
    """Where one of the `web` is published."""
    ports = compose.inspect("web", number)["NetworkSettings"]["Ports"]["80/tcp"]
    return int(next(one["HostPort"] for one in ports if one["HostIp"] == "0.0.0.0"))


def get(compose: Compose, path: str, number: int = 1) -> str:
    """A page of the shop, as the host's own curl gets it."""
    return fetch(compose.daemon.namespaces, f"http://127.0.0.1:{port(compose, number)}{path}")


def test_the_shop_takes_orders_on_its_published_port_and_they_are_done(compose):
    assert get(compose, "/") == "the shop is open"
    assert [get(compose, f"/cgi-bin/order?number{number}") for number in (1, 2)] == ["taken 1", "taken 2"]
    until(lambda: get(compose, "/cgi-bin/done") == "done 2", "the second order")


def test_a_client_outside_reaches_the_published_port(compose, make_host):
    outside = make_host(compose.daemon)
    assert fetch(outside, f"http://{outside.gateway}:{port(compose)}/") == "the shop is open"


def test_nobody_starts_before_redis_is_healthy(compose, begun):
    assert compose.inspect("redis")["State"]["Health"]["Status"] == "healthy"
    ids = {compose.inspect(service)["Id"]: service for service in ("redis", "web", "worker")}
    order = [(ids[each["Actor"]["ID"]], each["Action"]) for each in begun if each["Actor"]["ID"] in ids]
    first, second, *others = [each for each in order if each[0] == "redis" or each[1] == "start"]
    assert (first, second) == (("redis", "start"), ("redis", "health_status: healthy"))
    assert sorted(others) == [("web", "start"), ("worker", "start")]


def test_only_the_front_leads_out(compose, make_host):
    outside = make_host(compose.daemon)
    with hosts.serving(outside) as server:
        asked = f"echo | nc -w 1 {outside.address} {server.port} 2>/dev/null || true"
        seen = {service: compose.within(service, asked) for service in ("web", "worker")}
    assert seen == {"web": outside.gateway, "worker": ""}


def test_every_service_has_its_names(compose):
    networks = compose.inspect("redis")["NetworkSettings"]["Networks"]
    assert list(networks) == [f"{compose.project}_back"]
    names = ["redis", "store", compose.name("redis"), compose.inspect("redis")["Id"][:12]]
    said = compose.within("web", f"for name in {' '.join(names)}; do nslookup $name; done")
    addresses = re.findall(r"^Name:\s+(\S+)\nAddress: (\S+)$", said, re.MULTILINE)
    assert addresses == [(name, networks[f"{compose.project}_back"]["IPAddress"]) for name in names]


def test_logs_tell_who_did_what(compose):
    get(compose, "/cgi-bin/order?blue")
    until(lambda: b"did blue" in compose.daemon.logs(compose.name("worker")), "the blue order")
    said = compose("logs", "--no-color", "--tail", "20", "worker", "redis").splitlines()
    (line,) = (line for line in said if "did blue" in line)
    assert re.match(rf"\S*worker{compose.between}1 +\| {compose.inspect('worker')['Id'][:12]} did blue$", line)
    assert [line for line in said if "redis" in line and "Ready to accept connections" in line]


def test_exec_runs_beside_the_service_and_gives_its_exit_status(compose):
    assert compose("exec", "-T", "-e", "X=1", "redis", "sh", "-c", "redis-cli PING $X; exit 3", status=3) == "1\n"


def test_scaled_services_are_all_there_and_go_again(compose):
    compose("up", "-d", "--scale", "worker=3", "--scale", "web=2")
    own = compose.own()["containers"]
    assert own == sorted(
        compose.name(*one)
        for one in (("redis", 1), ("web", 1), ("web", 2), ("worker", 1), ("worker", 2), ("worker", 3))
    )
    ports = [compose("port", f"--index={number}", "web", "80").strip() for number in (1, 2)]
    assert ports == [f"0.0.0.0:{port(compose, number)}" for number in (1, 2)]
    assert {port(compose, number) for number in (1, 2)} < set(PORTS)
    until(lambda: get(compose, "/", 2) == "the shop is open", "the opening of the second web")
    said = compose.within("redis", "nslookup worker")
    assert len(set(re.findall(r"^Address: (\S+)$", said, re.MULTILINE))) == 3
    compose("up", "-d", "--scale", "worker=1", "--scale", "web=1")
    assert len(compose.own()["containers"]) == 3
    assert get(compose, "/") == "the shop is open"


def test_a_service_that_is_restarted_is_found_again(compose):
    before = compose.inspect("redis")["State"]["StartedAt"]
    compose("restart", "-t", "2", "redis")
    assert compose.inspect("redis")["State"]["StartedAt"] > before
    until(lambda: get(compose, "/cgi-bin/order?again").startswith("taken"), "an order after the restart")


def test_a_project_goes_on_while_the_daemon_is_killed_and_started(compose):
    address = f"http://127.0.0.1:{port(compose)}/cgi-bin/order?late"
    compose.daemon.kill9()
    try:
        assert fetch(compose.daemon.namespaces, address).startswith("taken"), (
            "its port leads in, and names are answered"
        )
    finally:
        compose.daemon.start()
    until(lambda: b"did late" in compose.daemon.logs(compose.name("worker")), "the late order")
    assert fetch(compose.daemon.namespaces, address).startswith("taken")
    compose("up", "-d")
    assert compose.inspect("redis")["RestartCount"] == 0
    assert len(compose.own()["containers"]) == 3


def test_a_project_that_goes_down_leaves_its_volume_and_with_v_nothing(compose):
    compose.within("redis", "redis-cli SET kept yes")
    links = compose.daemon.namespaces.links()
    spared = {name for name in links if not name.startswith(("br-", "veth"))}
    compose("down")
    assert compose.own() == {"containers": [], "networks": [], "volumes": [f"{compose.project}_orders"]}
    until(lambda: compose.daemon.namespaces.links() < links, "the end of the links")
    compose("up", "-d")
    assert compose.within("redis", "redis-cli GET kept") == "yes\n"
    compose("down", "-v")
    assert compose.own() == {"containers": [], "networks": [], "volumes": []}
    until(lambda: compose.daemon.namespaces.links() == spared, "the end of the last links")
