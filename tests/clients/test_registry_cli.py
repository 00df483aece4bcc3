"""push, pull, login, logout, search and `manifest inspect` by the real CLI, and push and login by the SDK.

The registries are docker-registry: plain, with a password, and with TLS by an authority that nobody knows; this one on
an address outside 127.0.0.0/8, where no certificate is looked at. They share namespaces of their own with one daemon.
"""

import http.server
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.cli import OPTION
from tests.harness.daemon import Daemon
from tests.harness.fixtures import running
from tests.harness.namespaces import Namespaces
from tests.harness.registry import Registry
from tests.images.conftest import HTPASSWD

OUTSIDE = "10.99.0.1"
DIGEST = re.compile(r"^(\w+): digest: (sha256:[0-9a-f]{64}) size: (\d+)$", re.MULTILINE)
CREDENTIALS = {"username": "user", "password": "secret"}
FOUND = [
    {"name": "tiny", "description": "the smallest", "star_count": 30, "is_official": True},
    {"name": "me/tiny", "description": "d" * 80, "star_count": 2},
]


class Shop(NamedTuple):
    """A daemon and the registries of its network, as host:port."""

    daemon: Daemon
    plain: str
    locked: str
    tls: str
    index: str
    authority: Path


class Index(http.server.BaseHTTPRequestHandler):
    """An index that finds the same images for every word."""

    def do_GET(self) -> None:
        """Answer a search."""
        body = json.dumps({"results": FOUND}).encode()
        self.send_response(200 if self.path.startswith("/v1/search?q=tiny&n=") else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class IndexServer(http.server.ThreadingHTTPServer):
    """Listens inside the namespaces."""

    def __init__(self, namespaces: Namespaces):
        super().__init__(("127.0.0.1", 0), Index, bind_and_activate=False)
        self.socket.close()
        self.socket = namespaces.socket()
        self.server_bind()
        self.server_activate()

    def handle_error(self, *_: object) -> None:
        """Somebody tried TLS first."""


@pytest.fixture(scope="module")
def shop(world) -> Iterator[Shop]:
    """All of it, once for this file."""
    for program in ("docker-registry", "docker", "openssl", "ip"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    root = world.directory()
    (root / "htpasswd").write_text(HTPASSWD)
    for name in ("upper", "work"):
        (root / name).mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry.test"]
        + ["-addext", f"subjectAltName=IP:{OUTSIDE}", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    password = f"auth:\n  htpasswd:\n    realm: here\n    path: {root}/htpasswd\n"
    tls = f"  tls:\n    certificate: {root}/cert.pem\n    key: {root}/key.pem\n"
    with Namespaces() as apart:
        # What stands in /etc/docker/certs.d is this daemon's alone.
        overlay = f"lowerdir=/etc,upperdir={root}/upper,workdir={root}/work"
        for command in (
            ["ip", "addr", "add", f"{OUTSIDE}/32", "dev", "lo"],
            ["mount", "-t", "overlay", "overlay", "-o", overlay, "/etc"],
        ):
            subprocess.run(apart.command(command), check=True)
        index = IndexServer(apart)
        thread = threading.Thread(target=index.serve_forever, args=(0.02,))
        thread.start()
        with (
            Registry(world.directory(), apart, 5000),
            Registry(world.directory(), apart, 5001, password),
            Registry(world.directory(), apart, 5002, tls + password, listen="0.0.0.0"),
            running(Daemon(world.directory(), apart)) as daemon,
        ):
            addresses = ("127.0.0.1:5000", "127.0.0.1:5001", f"{OUTSIDE}:5002", f"127.0.0.1:{index.server_port}")
            yield Shop(daemon, *addresses, root / "cert.pem")
        index.shutdown()
        index.server_close()
        thread.join()


class Shell:
    """The docker CLI with a configuration of its own, inside the daemon's namespaces."""

    def __init__(self, daemon: Daemon, config: Path):
        self.config = config
        self._daemon = daemon
        self._environment = {**daemon.environment, "DOCKER_CONFIG": str(config)}

    def __call__(self, *words: str, fails: bool = False, **options: object) -> str:
        """Standard output of one command; with `fails`, the standard error of one that failed."""
        argv = self._daemon.namespaces.command(["docker", *words])
        if "input" not in options:
            options["stdin"] = subprocess.DEVNULL
        result = subprocess.run(argv, env=self._environment, capture_output=True, timeout=60, **options)
        assert bool(result.returncode) == fails, result
        return (result.stderr if fails else result.stdout).decode()

    def stored(self) -> dict:
        """The credentials that the CLI keeps."""
        path = self.config / "config.json"
        return json.loads(path.read_text()).get("auths", {}) if path.exists() else {}


@pytest.fixture
def docker(shop: Shop, tmp_path: Path) -> Shell:
    """The CLI, which nobody has logged in with."""
    return Shell(shop.daemon, tmp_path / "config")


@pytest.fixture
def make_image(shop: Shop) -> Iterator:
    """make_image(name, tag): an image of one random layer; its id. Gone after the test, as all others are."""

    def make(name: str, tag: str = "1") -> str:
        target = f"/images/create?fromSrc=-&repo={name}&tag={tag}"
        answer = shop.daemon.request(
            "POST", target, archive(os.urandom(100_000)), {"Content-Type": "application/x-tar"}
        )
        assert answer.status == 200, answer
        return answer.lines[-1]["status"]

    yield make
    for image in shop.daemon.request("GET", "/images/json?all=1").json():
        shop.daemon.request("DELETE", f"/images/{image['Id']}?force=1")


def archive(data: bytes) -> bytes:
    """The tar of one file."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        info = tarfile.TarInfo("file")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def test_push_remove_and_pull_again(shop: Shop, docker: Shell, make_image) -> None:
    """The digest that push tells is the image's here, in the registry, and after it was pulled again."""
    name = f"{shop.plain}/cli/tiny:1"
    identity = make_image(f"{shop.plain}/cli/tiny")
    said = docker("push", name)
    assert f"The push refers to repository [{shop.plain}/cli/tiny]" in said and ": Pushed" in said
    ((tag, digest, _),) = DIGEST.findall(said)
    assert (tag, digest) == ("1", identity)
    docker("rmi", name)
    assert f"Digest: {digest}" in docker("pull", name)
    assert docker("image", "inspect", "--format", "{{.Id}}", name).strip() == identity
    assert ": Layer already exists" in docker("push", name)
    assert docker("push", "--quiet", name).strip() == name


def test_push_every_tag_and_mount_what_a_neighbour_has(shop: Shop, docker: Shell, make_image) -> None:
    """`docker push -a`, and a second repository that is sent nothing."""
    first = make_image(f"{shop.plain}/all/tiny", "a")
    second = make_image(f"{shop.plain}/all/tiny", "b")
    said = docker("push", "--all-tags", f"{shop.plain}/all/tiny")
    assert [(tag, digest) for tag, digest, _ in DIGEST.findall(said)] == [("a", first), ("b", second)]
    docker("tag", first, f"{shop.plain}/other/tiny:c")
    assert ": Mounted from all/tiny" in docker("push", f"{shop.plain}/other/tiny:c")
    docker("rmi", "-f", first)
    docker("pull", f"{shop.plain}/other/tiny:c")


def test_a_platform_by_name(shop: Shop, docker: Shell, make_image) -> None:
    """--platform takes the one that is here, and no other."""
    make_image(f"{shop.plain}/platform/tiny")
    host = docker("version", "--format", "{{.Server.Os}}/{{.Server.Arch}}").strip()
    name = f"{shop.plain}/platform/tiny:1"
    assert DIGEST.search(docker("push", "--platform", host, name))
    words = "does not provide the specified platform (linux/s390x)"
    assert words in docker("push", "--platform", "linux/s390x", name, fails=True)


def test_names_that_are_not_here(shop: Shop, docker: Shell) -> None:
    """Docker's words."""
    assert "tag does not exist: localhost:1/x:latest" in docker("push", "localhost:1/x", fails=True)
    words = "An image does not exist locally with the tag: localhost:1/x"
    assert words in docker("push", "-a", "localhost:1/x", fails=True)


@pytest.mark.parametrize("kind", ["locked", "tls"])
def test_login_push_pull_logout(shop: Shop, docker: Shell, make_image, kind: str) -> None:
    """With a password, by plain HTTP and by TLS; what the CLI keeps is what opens the registry, until it is gone."""
    address = getattr(shop, kind)
    name = f"{address}/{kind}/tiny:1"
    identity = make_image(f"{address}/{kind}/tiny")
    trusted = Path("/etc/docker/certs.d") / address
    inside = shop.daemon.namespaces.command
    if kind == "tls":
        assert "failed to verify certificate" in docker("push", name, fails=True)
        copy = f"mkdir -p {trusted} && cp {shop.authority} {trusted}/ca.crt"
        subprocess.run(inside(["sh", "-c", copy]), check=True)
    try:
        assert "no basic auth credentials" in docker("push", name, fails=True)
        wrong = ("login", "--username", "user", "--password-stdin", address)
        assert "401 Unauthorized" in docker(*wrong, input=b"wrong", fails=True)
        assert docker.stored() == {}
        assert "Login Succeeded" in docker("login", "-u", "user", "--password", "secret", address)
        assert docker.stored().keys() == {address}
        ((_, digest, _),) = DIGEST.findall(docker("push", name))
        assert digest == identity
        docker("rmi", name)
        docker("pull", name)
        # Without being asked for it: the stored password is sent again.
        assert "Login Succeeded" in docker("login", address)
        assert "Removing login credentials" in docker("logout", address)
        assert docker.stored() == {}
        assert "no basic auth credentials" in docker("push", name, fails=True)
        assert "no basic auth credentials" in docker("pull", name, fails=True)
    finally:
        subprocess.run(inside(["rm", "-rf", str(trusted)]), check=True)


def test_search(shop: Shop, docker: Shell) -> None:
    """Every option; the CLI sorts by stars."""
    form = ("--format", "{{.Name}} {{.StarCount}} {{.IsOfficial}}")
    term = f"{shop.index}/tiny"
    assert docker("search", *form, term).splitlines() == ["tiny 30 [OK]", "me/tiny 2 "]
    assert docker("search", *form, "--filter", "stars=3", "--limit", "5", term).splitlines() == ["tiny 30 [OK]"]
    assert docker("search", *form, "-f", "is-official=false", term).splitlines() == ["me/tiny 2 "]
    assert "d" * 80 in docker("search", "--no-trunc", term)
    assert "d" * 80 not in docker("search", term)
    assert "limit 101 is outside the range" in docker("search", "--limit", "101", term, fails=True)
    assert "invalid filter" in docker("search", "--filter", "colour=red", term, fails=True)
    assert "Unexpected status code 404" in docker("search", f"{shop.plain}/tiny", fails=True)


def test_manifest_inspect(shop: Shop, docker: Shell, make_image) -> None:
    """The CLI asks the registry itself, and finds what was pushed."""
    name = f"{shop.plain}/manifest/tiny:1"
    make_image(f"{shop.plain}/manifest/tiny")
    docker("push", name)
    shown = json.loads(docker("manifest", "inspect", "--insecure", name))
    assert shown["mediaType"] == "application/vnd.oci.image.manifest.v1+json" and len(shown["layers"]) == 1
    verbose = json.loads(docker("manifest", "inspect", "--insecure", "--verbose", name))
    seen = shop.daemon.request("GET", f"/distribution/{name}/json").json()
    assert verbose["Descriptor"]["digest"] == seen["Descriptor"]["digest"]
    assert verbose["Descriptor"]["platform"]["architecture"] == seen["Platforms"][0]["architecture"]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("push", {"all-tags", "disable-content-trust", "platform", "quiet"}),
        ("search", {"filter", "format", "limit", "no-trunc"}),
        ("login", {"password", "password-stdin", "username"}),
        ("logout", set()),
    ],
)
def test_every_option_of_the_client_is_shown(docker: Shell, command: str, shown: set[str]) -> None:
    """A newer client's option is to be shown above too; content trust is the client's own affair."""
    assert set(OPTION.findall(docker(command, "--help"))) == shown


def test_the_sdk_pushes_and_logs_in(shop: Shop, make_image, tmp_path: Path) -> None:
    """By its streams, and with credentials of its own."""
    package = pytest.importorskip("docker", reason="needs the docker SDK: pip install docker")
    identity = make_image(f"{shop.locked}/sdk/tiny")
    client = package.DockerClient(base_url=shop.daemon.url)
    try:
        name = f"{shop.locked}/sdk/tiny"
        refused = list(client.images.push(name, "1", stream=True, decode=True))
        assert "no basic auth credentials" in refused[-1]["error"]
        lines = list(client.images.push(name, "1", auth_config=CREDENTIALS, stream=True, decode=True))
        assert lines[-1]["aux"]["Digest"] == identity
        seen = client.images.get_registry_data(f"{name}:1", auth_config=CREDENTIALS)
        assert seen.id == identity and seen.has_platform(seen.attrs["Platforms"][0])
        login = client.login(registry=shop.locked, dockercfg_path=str(tmp_path / "none"), **CREDENTIALS)
        assert login["Status"] == "Login Succeeded"
        with pytest.raises(package.errors.APIError, match="401"):
            client.login("user", "wrong", registry=shop.locked, reauth=True, dockercfg_path=str(tmp_path / "none"))
    finally:
        client.close()
