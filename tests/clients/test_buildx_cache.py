"""`--cache-to` and `--cache-from` by the real CLI: a build of one daemon is found by another that has none of it."""

import json
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.building import Building, building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.clients.test_buildx_output import document, manifest_of, of
from tests.harness.daemon import Daemon
from tests.harness.registry import OCI_MANIFEST, Registry

pytestmark = pytest.mark.seldom

CONFIG = "application/vnd.buildkit.cacheconfig.v0"
LINES = ("COPY a /a", "RUN echo first; cat /a > /b; head -c 20 /dev/urandom > /r", "WORKDIR /w", "RUN echo second")


@pytest.fixture
def elsewhere(own_daemon: Daemon, tmp_path: Path) -> Callable[[Building], Building]:
    """The same directory on another daemon, which has made nothing yet."""

    def same(buildx: Building) -> Building:
        other = building(own_daemon, tmp_path / "elsewhere")
        shutil.copytree(buildx.place, other.place, dirs_exist_ok=True)
        return other

    (tmp_path / "elsewhere").mkdir()
    return same


@pytest.fixture
def source(buildx: Building) -> Iterator[Building]:
    """With a file and steps that use it; what is made differs each time that it is made."""
    buildx.write(*LINES)
    (buildx.place / "a").write_text(uuid.uuid4().hex)
    yield buildx


def wrote(output: str, word: str) -> bool:
    """Whether a command of the build has written this line."""
    return re.search(rf"^#\d+ \d+\.\d+ {word}$", output, re.MULTILINE) is not None


def assert_borrowed(output: str) -> None:
    """Nothing but the image below was there, and no command has run."""
    found = re.findall(r"^#(\d+) CACHED$", output, re.MULTILINE)
    assert len(found) == 5, output
    assert not wrote(output, "first") and not wrote(output, "second"), output


def test_in_a_directory(source: Building, elsewhere: Callable[[Building], Building], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = told(source("build", "--cache-to", f"type=local,dest={cache}", "."))
    assert "exporting cache to client directory" in first
    index = json.loads((cache / "index.json").read_bytes())
    manifest = document(cache, index["manifests"][0]["digest"])
    assert manifest["mediaType"] == OCI_MANIFEST and manifest["config"]["mediaType"] == CONFIG
    config = document(cache, manifest["config"]["digest"])
    assert {each["blob"] for each in config["layers"]} <= {each["digest"] for each in manifest["layers"]}
    output = told(elsewhere(source)("build", "--cache-from", f"type=local,src={cache}", "."))
    assert "importing cache manifest from local:" in output
    assert_borrowed(output)


@pytest.mark.parametrize(
    "form", ["image-manifest=true", "image-manifest=false", "compression=zstd,force-compression=true"]
)
def test_in_a_registry(
    source: Building, elsewhere: Callable[[Building], Building], registry: Registry, tag: str, form: str
) -> None:
    ref = f"{registry.address}/{tag}:cache"
    told(source("build", "--cache-to", f"type=registry,ref={ref},{form}", "."))
    found = of(registry, tag, "cache")
    if form == "image-manifest=false":
        assert found["manifests"][-1]["mediaType"] == CONFIG
    else:
        assert found["config"]["mediaType"] == CONFIG
    if "zstd" in form:
        assert {each["mediaType"].rpartition("+")[2] for each in found["layers"]} == {"zstd"}
    other = elsewhere(source)
    assert_borrowed(told(other("build", "--cache-from", f"type=registry,ref={ref}", ".")))


def test_what_was_lent_is_an_image(
    source: Building, elsewhere: Callable[[Building], Building], registry: Registry, docker: Client, tag: str
) -> None:
    """It is the same as where it was made, runs, and steps go on from it."""
    ref = f"{registry.address}/{tag}:cache"
    told(source("build", "-t", tag, "--cache-to", f"type=registry,ref={ref},mode=max", "."))
    other = elsewhere(source)
    with (other.place / "Dockerfile").open("a") as file:
        file.write("RUN echo more > /more\n")
    output = told(other("build", "-t", tag, "--cache-from", f"type=registry,ref={ref}", "."))
    assert_borrowed(output)
    shown = said(other.daemon.command("docker", "run", "--rm", tag, "sha256sum", "/r"))
    assert shown == said(docker("run", "--rm", tag, "sha256sum", "/r"))
    other.daemon.command("docker", "rmi", "-f", tag)


def test_what_was_lent_is_nobody_elses(
    source: Building, elsewhere: Callable[[Building], Building], registry: Registry, tag: str
) -> None:
    """A build that does not name the cache makes its steps itself (CVE-2024-24557)."""
    ref = f"{registry.address}/{tag}:cache"
    told(source("build", "--cache-to", f"type=registry,ref={ref}", "."))
    other = elsewhere(source)
    assert_borrowed(told(other("build", "--cache-from", f"type=registry,ref={ref}", ".")))
    output = told(other("build", "."))
    assert wrote(output, "first") and wrote(output, "second")


def test_inside_the_image(
    source: Building, elsewhere: Callable[[Building], Building], registry: Registry, tag: str
) -> None:
    name = f"{registry.address}/{tag}"
    told(source("build", "-t", name, "--push", "--cache-to", "type=inline", "."))
    config = manifest_of(registry, tag, "latest")["config"]
    reply = registry.request("GET", f"/v2/{tag}/blobs/{config['digest']}")
    assert "moby.buildkit.cache.v0" in json.loads(reply.body)
    assert_borrowed(told(elsewhere(source)("build", "--cache-from", name, ".")))
    source.daemon.command("docker", "rmi", "-f", name)


@pytest.mark.parametrize(("mode", "cached"), [("min", False), ("max", True)])
def test_a_stage_before(
    buildx: Building, elsewhere: Callable[[Building], Building], tmp_path: Path, mode: str, cached: bool
) -> None:
    """The layers of stages that the result only copies from are in a cache of the most alone."""
    buildx.write("RUN echo before; echo x > /x; echo y > /y", "FROM busybox", "COPY --from=0 /x /x", "RUN echo after")
    told(buildx("build", "--cache-to", f"type=local,dest={tmp_path}/c,mode={mode}", "."))
    output = told(elsewhere(buildx)("build", "--cache-from", f"type=local,src={tmp_path}/c", "."))
    assert wrote(output, "before") != cached
    assert not wrote(output, "after")


def test_a_cache_that_is_not_there(source: Building, registry: Registry, tag: str, tmp_path: Path) -> None:
    """Is as an empty one; one that cannot be written fails the build, unless that is to be ignored."""
    output = told(source("build", "--cache-from", f"type=registry,ref={registry.address}/{tag}:none", "."))
    assert wrote(output, "first")
    assert "not found" in output or "manifest unknown" in output, output
    told(source("build", "--cache-to", "type=registry,ref=localhost:1/x", "."), 1)
    told(source("build", "--cache-to", "type=registry,ref=localhost:1/x,ignore-error=true", "."))


def test_a_cache_that_cannot_be_read_is_told_of_where_nothing_needs_it(
    source: Building, registry: Registry, tag: str
) -> None:
    told(source("build", "."))
    output = told(source("build", "--cache-from", f"type=registry,ref={registry.address}/{tag}:none", "."))
    step = rf"importing cache manifest from {registry.address}/{tag}:none"
    assert re.search(rf"^#(\d+) {step}\n(.*\n)*?#\1 ERROR: .*(not found|unknown)", output, re.MULTILINE), output
    assert not wrote(output, "first")


def test_a_damaged_cache_is_not_used(
    source: Building, elsewhere: Callable[[Building], Building], tmp_path: Path
) -> None:
    """Layers that are others than the cache says: the steps are made."""
    cache = tmp_path / "cache"
    told(source("build", "--cache-to", f"type=local,dest={cache}", "."))
    index = json.loads((cache / "index.json").read_bytes())
    for layer in document(cache, index["manifests"][0]["digest"])["layers"]:
        path = cache / "blobs" / layer["digest"].replace(":", "/")
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[::-1])
    output = told(elsewhere(source)("build", "--cache-from", f"type=local,src={cache}", "."))
    assert wrote(output, "first") and wrote(output, "second")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("type=registry,ref=UPPER", "lowercase"),
        ("type=azblob,account_url=u,name=n", "the cache azblob (--cache-to) is not built in this engine"),
        ("type=gha,url=https://u.example,token=t", "the cache gha (--cache-to) is not built in this engine"),
        (
            "type=s3,region=r,bucket=b,access_key_id=i,secret_access_key=k",
            "the cache s3 (--cache-to) is not built in this engine",
        ),
        ("type=local,dest=c,mode=most", "invalid cache export mode"),
        ("type=local,dest=c,oci-mediatypes=false,image-manifest=true", "OCI mediatypes are required"),
        ("type=local,dest=c,unheard-of=1", "unheard-of"),
        ("type=inline,mode=max", "mode=min"),
    ],
)
def test_what_cannot_be_is_refused_before_the_build(buildx: Building, options: str, words: str) -> None:
    buildx.write("RUN echo never")
    output = told(buildx("build", "--cache-to", options, "."), 1)
    assert words in output, output
    assert "RUN echo never" not in output
