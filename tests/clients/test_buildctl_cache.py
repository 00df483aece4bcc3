"""Caches of graphs by buildctl: what a command has left in its mounts is found by a daemon that has made nothing."""

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.daemon.buildkit.messages import ops
from engine.protocols import protobuf
from tests.clients.conftest import Client
from tests.clients.test_buildctl import IMAGE, Buildctl, buildctl
from tests.harness.daemon import Daemon
from tests.harness.graphs import Made, Writer
from tests.harness.registry import Registry

pytestmark = pytest.mark.seldom
__all__ = ["buildctl"]


@dataclass(frozen=True)
class Sides:
    """A daemon that makes things, and one that finds them."""

    one: Buildctl
    other: Buildctl


@pytest.fixture
def sides(buildctl: Buildctl, own_daemon: Daemon, docker: Client, tmp_path: Path) -> Sides:
    return Sides(buildctl, Buildctl(f"unix://{own_daemon.socket}", tmp_path, docker))


def first(writer: Writer, mark: str) -> Made:
    """A command that leaves something in one mount, nothing in another one, and something in its root."""
    mounts: tuple[ops.Mount, ...] = (
        {"input": -1, "dest": "/made", "output": 1},
        {"input": -1, "dest": "/empty", "output": 2},
    )
    script = f"cat /proc/sys/kernel/random/uuid | tee /made/f > /own; echo {mark} >> /made/f"
    return writer.run(writer.image(IMAGE), "/bin/sh", "-ec", script, mounts=mounts)


def in_mounts(writer: Writer, mark: str) -> Made:
    """What a second command makes of them."""
    made = first(writer, mark)
    mounts: tuple[ops.Mount, ...] = (
        {"input": 1, "dest": "/one", "output": -1, "readonly": True},
        {"input": 2, "dest": "/two", "output": -1, "readonly": True},
        {"input": -1, "dest": "/out", "output": 1},
    )
    inputs = (Made(made.digest, 1), Made(made.digest, 2))
    script = "cat /one/f > /out/f; ls /two > /out/names"
    second = writer.run(writer.image(IMAGE), "/bin/sh", "-ec", script, mounts=mounts, inputs=inputs)
    return Made(second.digest, 1)


def one_mount(writer: Writer, mark: str) -> Made:
    """What stands in the first mount."""
    return Made(first(writer, mark).digest, 1)


def assert_found(sides: Sides, write: Callable[[Writer, str], Made], there: str, back: str, *output: str) -> None:
    """There: the option of the cache that is written; back: of the one that is read; output: of the first build"""
    writer = Writer()
    graph = protobuf.encode(ops.Definition, writer.definition(write(writer, uuid.uuid4().hex)))
    sides.one("build", "--export-cache", there, *output, input=graph)
    texts = []
    for side, options in ((sides.one, ()), (sides.other, ("--import-cache", back))):
        place = side.place / uuid.uuid4().hex
        told = side("build", "--progress=plain", *options, "--output", f"type=local,dest={place}", input=graph)
        texts.append({path.name: path.read_text() for path in place.iterdir()})
    commands = set(re.findall(r"^#(\d+) /bin/sh", told, re.MULTILINE))
    assert commands and commands <= set(re.findall(r"^#(\d+) CACHED", told, re.MULTILINE)), told
    assert texts[0] == texts[1] and "f" in texts[0]


@pytest.mark.parametrize("form", ["", ",compression=zstd,force-compression=true"])
def test_in_a_directory(sides: Sides, form: str) -> None:
    place = sides.one.place / "cache"
    assert_found(sides, in_mounts, f"type=local,mode=max,dest={place}{form}", f"type=local,src={place}")


@pytest.mark.parametrize("form", ["mode=max", "mode=max,compression=zstd,force-compression=true", "mode=min"])
def test_in_a_registry(sides: Sides, registry: Registry, form: str) -> None:
    write = one_mount if form == "mode=min" else in_mounts
    ref = f"ref={registry.address}/caches:{uuid.uuid4().hex}"
    assert_found(sides, write, f"type=registry,{form},{ref}", f"type=registry,{ref}")


def test_inside_the_image(sides: Sides, registry: Registry) -> None:
    name = f"{registry.address}/inside:{uuid.uuid4().hex}"
    output = ("--output", f"type=image,name={name},push=true")
    assert_found(sides, one_mount, "type=inline", f"type=registry,ref={name}", *output)
