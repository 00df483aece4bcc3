"""The base images that BuildKit pulls: no list shows them, and they go with the build cache, as with dockerd."""

import json
import re
import time
from collections.abc import Iterator

import pytest

from tests.clients.building import Building, told
from tests.clients.test_buildx_history import builder, printed
from tests.clients.test_buildx_prune import usage
from tests.harness.registry import Registry

__all__ = ["builder"]


@pytest.fixture
def base(builder: Building, registry: Registry) -> Iterator[str]:
    """An image of the registry that is not here."""
    name = f"{registry.address}/base-{time.monotonic_ns()}"
    builder.write("RUN head -c 300000 /dev/urandom > /large")
    told(builder("build", "--provenance=false", "-o", f"type=image,name={name},push=true,store=false", "."))
    told(builder("buildx", "prune", "-af"))
    yield name


def file(builder: Building, *lines: str) -> None:
    (builder.place / "Dockerfile").write_text("\n".join(lines) + "\n")


def images(builder: Building) -> set[str]:
    return set(printed(builder("images", "-a", "--format", "{{.Repository}}:{{.Tag}}")).split())


def test_a_base_that_a_build_pulls_is_no_image(builder: Building, base: str) -> None:
    """It is a record of the build cache, and the next build uses it."""
    before, since = images(builder), str(time.time())
    file(builder, f"FROM {base} AS a", "RUN wc -c /large", f"FROM {base}", "COPY --from=a /large /again")
    told(builder("build", "-t", "of-base", "."))
    assert images(builder) == before | {"of-base:latest"}
    assert builder("image", "inspect", base).returncode == 1
    events = printed(builder("events", "--since", since, "--until", str(time.time()), "--format", "{{json .}}"))
    assert not [each for each in map(json.loads, events.splitlines()) if each["Action"] == "pull"]
    (record,) = (
        each for each in usage(builder) if each["Description"].startswith(f"pulled from {base}:latest@sha256:")
    )
    assert record["Type"] == "regular" and re.fullmatch(r"\d\.\d+MB", record["Size"]), record
    assert printed(builder("run", "--rm", "of-base", "wc", "-c", "/again")).split()[0] == "300000"
    again = told(builder("build", "."))
    assert len(re.findall(r"^#\d+ CACHED$", again, re.MULTILINE)) == 3 and "extracting" not in again, again


def test_it_goes_with_the_cache(builder: Building, base: str) -> None:
    layers = builder.daemon.data_root / "layers"
    before = {path.name for path in layers.iterdir()}
    file(builder, f"FROM {base}", "RUN echo on-it > /made")
    told(builder("build", "--output", "type=cacheonly", "."))
    assert {path.name for path in layers.iterdir()} > before
    told(builder("buildx", "prune", "-af"))
    assert {path.name for path in layers.iterdir()} == before
    assert not usage(builder)


def test_a_client_that_pulls_it_has_it(builder: Building, base: str) -> None:
    """The build's own stays what it was when the image goes again."""
    file(builder, f"FROM {base}", "RUN echo on-it > /made")
    told(builder("build", "."))
    assert "Downloaded newer image" in printed(builder("pull", base))
    assert f"{base}:latest" in images(builder)
    printed(builder("run", "--rm", base, "true"))
    printed(builder("rmi", base))
    assert f"{base}:latest" not in images(builder)
    again = told(builder("build", "."))
    assert len(re.findall(r"^#\d+ CACHED$", again, re.MULTILINE)) >= 1, again
    told(builder("buildx", "prune", "-af"))
    told(builder("build", "."))


def test_its_digest_is_enough(builder: Building, base: str, registry: Registry) -> None:
    """A build of a known digest asks no registry."""
    file(builder, f"FROM {base}", "RUN true")
    output = told(builder("build", "."))
    digest = re.search(rf"FROM {re.escape(base)}:latest@(sha256:\w+)", output)[1]
    file(builder, f"FROM {base.replace(':5000', ':1')}@{digest}", "RUN true", "RUN echo more")
    told(builder("build", "."))


def test_the_classic_builder_leaves_its_base_as_an_image(builder: Building, base: str) -> None:
    file(builder, f"FROM {base}", "RUN true")
    builder.environment["DOCKER_BUILDKIT"] = "0"
    told(builder("build", "."))
    assert f"{base}:latest" in images(builder)
