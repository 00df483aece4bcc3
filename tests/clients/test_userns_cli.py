"""The everyday of a daemon with `--userns-remap`, as people type it: buildx, run, cp, exec, restart, compose."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.building import Building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.harness import composing, redis, users
from tests.harness.composing import Compose
from tests.harness.daemon import PROJECT, Daemon
from tests.harness.fixtures import World, running

pytestmark = [pytest.mark.root, pytest.mark.seldom]

FIRST, _ = users.SUBORDINATE
OWNER = "stat -c %u:%g"


@pytest.fixture(scope="module")
def daemon(world: World) -> Iterator[Daemon]:
    """A daemon whose containers have the ids of a user of its machine, in the place of the session's."""
    if not Path("/etc/subuid").exists():
        pytest.skip("needs /etc/subuid: apt-get install passwd")
    made = Daemon(world.directory(), world.user_machine(), [f"--userns-remap={users.NAME}"])
    with running(made):
        yield made


@pytest.fixture(scope="module")
def busybox(daemon: Daemon) -> str:
    """In that daemon."""
    return daemon.import_busybox()


def test_an_image_that_buildx_builds_has_the_owners_that_its_file_says(
    buildx: Building, docker: Client, tag: str
) -> None:
    """A command runs with the container's ids; so do a second build from the cache, and a container of the image."""
    buildx.write(
        "COPY --chown=7:8 a /a",
        "COPY a /b",
        "RUN cat /proc/self/uid_map && touch /c && chown 9:9 /c",
        f"RUN --mount=type=cache,target=/cache echo x >/cache/x && {OWNER} /cache/x",
    )
    (buildx.place / "a").write_text("hello\n")
    output = told(buildx("build", "-t", tag, "."))
    assert str(FIRST) in output
    assert "CACHED" in told(buildx("build", "-t", tag, "."))
    shown = said(docker("run", "--rm", tag, "sh", "-c", f"{OWNER} /a /b /c; cat /proc/self/uid_map")).split()
    assert shown[:3] == ["7:8", "0:0", "9:9"] and str(FIRST) in shown


def test_a_container_is_copied_into_executed_in_and_restarted(docker: Client, daemon: Daemon, tmp_path: Path) -> None:
    """What goes in belongs to the container's root, and what comes out to who takes it."""
    (tmp_path / "in").write_text("words\n")
    name = said(docker("run", "-d", "-v", "kept:/v", "-p", "8080:80", "busybox", "sleep", "1000")).strip()
    docker("cp", str(tmp_path / "in"), f"{name}:/v/in")
    assert said(docker("exec", name, "sh", "-c", f"cat /v/in; {OWNER} /v/in; echo more >>/v/in")) == "words\n0:0\n"
    assert docker("restart", "-t", "0", name).returncode == 0
    assert said(docker("exec", "-u", "1", name, "sh", "-c", "id -u; cat /v/in")) == "1\nwords\nmore\n"
    assert docker("cp", f"{name}:/v/in", str(tmp_path / "out")).returncode == 0
    assert (tmp_path / "out").read_text() == "words\nmore\n" and (tmp_path / "out").stat().st_uid == 0
    assert str(FIRST) in Path(f"/proc/{daemon.inspect(name)['State']['Pid']}/uid_map").read_text()
    docker("rm", "-f", "-v", name)
    docker("volume", "rm", "kept")


@pytest.fixture
def shop(daemon: Daemon) -> Iterator[Compose]:
    """Compose v2 with the shop, whose services are up."""
    client = dataclasses.replace(composing.second(daemon), project="shop", directory=PROJECT / "tests/data/shop")
    redis.need()
    daemon.import_image(redis.image(), redis.NAME, redis.CHANGES)
    client("up", "-d", "--build")
    yield client
    client.clear()


def test_compose_brings_up_a_shop_of_services_that_are_nobody_on_the_host(shop: Compose) -> None:
    """A build, networks, a volume, a health check, a published port; a service that is recreated keeps its data."""
    ports = shop.inspect("web")["NetworkSettings"]["Ports"]["80/tcp"]
    url = f"http://127.0.0.1:{next(each['HostPort'] for each in ports if each['HostIp'] == '0.0.0.0')}/cgi-bin"
    fetch = composing.fetch
    assert fetch(shop.daemon.namespaces, f"{url}/order?one") == "taken 1"
    composing.until(lambda: fetch(shop.daemon.namespaces, f"{url}/done") == "done 1", "the order")
    assert shop("exec", "-T", "redis", "redis-cli", "PING") == "PONG\n"
    shop("up", "-d", "--force-recreate", "--scale", "worker=2")
    for service in ("redis", "web", "worker"):
        pid = shop.inspect(service)["State"]["Pid"]
        assert str(FIRST) in Path(f"/proc/{pid}/uid_map").read_text(), service
    assert fetch(shop.daemon.namespaces, f"{url}/done") == "done 1"
    shop("down", "-v", "--rmi", "local")
    assert not any(shop.own().values())
