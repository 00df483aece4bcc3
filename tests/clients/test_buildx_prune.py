"""The build cache by the real CLI: `docker buildx du` and `prune`, `docker builder prune` and `docker system df`."""

import json
import os
import re
import uuid
from pathlib import Path

import pytest

from tests.clients.building import Building, told
from tests.clients.test_buildx_history import builder, printed

pytestmark = pytest.mark.seldom

__all__ = ["builder"]


def usage(builder: Building, *words: str) -> list[dict]:
    """What `du` shows."""
    shown = printed(builder("buildx", "du", "--format", "json", *words))
    return [json.loads(line) for line in shown.splitlines()]


def kinds(builder: Building, *words: str) -> set[str]:
    """The kinds of the records that `du` shows."""
    return {each["Type"] for each in usage(builder, *words)}


@pytest.fixture
def cached(builder: Building) -> Building:
    """After a build that leaves something of each kind."""
    (builder.place / "large").write_bytes(bytes(300_000))
    builder.write("COPY large /", "RUN --mount=type=cache,target=/c head -c 200000 /dev/zero > /c/x", "RUN true")
    told(builder("build", "."))
    return builder


def test_what_the_cache_holds(cached: Building) -> None:
    found = usage(cached)
    assert {each["Type"] for each in found} == {"regular", "source.local", "exec.cachemount"}
    assert len({each["ID"] for each in found}) == len(found)
    contexts = [each for each in found if each["Description"] == "local source for context"]
    (context,) = (each for each in contexts if re.fullmatch(r"30\d\.?\d*kB", each["Size"]))
    assert context["Type"] == "source.local"
    assert context["Mutable"] and not context.get("InUse") and context["UsageCount"] >= 1
    ids = {each["ID"] for each in found}
    below = [each for each in found if each.get("Parents")]
    assert below and all(set(each["Parents"]) <= ids for each in below)
    (parent, *_) = below[0]["Parents"]
    assert below[0]["ID"] in [each["ID"] for each in usage(cached, "--filter", f"parents~={parent}")]
    verbose = printed(cached("buildx", "du", "--verbose"))
    assert re.search(r"^Description:\s+local source for context$", verbose, re.MULTILINE), verbose
    assert re.search(r"^Total:\s+\d", verbose, re.MULTILINE), verbose
    assert kinds(cached, "--filter", "type=regular") == {"regular"}
    assert [each["ID"] for each in usage(cached, "--filter", f"id={context['ID']}")] == [context["ID"]]
    assert kinds(cached, "--filter", "description~=cached") == {"exec.cachemount"}
    assert usage(cached, "--filter", "inuse=true") == []
    shown = printed(cached("system", "df", "-v"))
    assert context["ID"][:12] in shown
    assert cached("buildx", "du", "--filter", "description~=(a+").returncode != 0


def test_what_is_pruned(cached: Building) -> None:
    before = {each["ID"] for each in usage(cached)}
    assert printed(cached("buildx", "prune", "-f", "--filter", "until=24h")).startswith("Total:\t0B")
    assert {each["ID"] for each in usage(cached)} == before
    shown = printed(cached("buildx", "prune", "-f", "--filter", "type=exec.cachemount"))
    assert re.search(r"^Total:\s+20\d(\.\d+)?kB$", shown, re.MULTILINE), shown
    assert kinds(cached) == {"regular", "source.local"}
    assert printed(cached("buildx", "prune", "-f", "--reserved-space", "1gb")).startswith("Total:\t0B")
    assert "source.local" in kinds(cached)
    printed(cached("buildx", "prune", "-a", "-f", "--max-used-space", "1", "--verbose"))
    assert not [each for each in usage(cached) if each["Size"] != "0B"]
    printed(cached("buildx", "prune", "-a", "-f"))
    assert usage(cached) == []
    assert told(cached("build", ".")).count("CACHED") == 1  # its base


def test_docker_builder_prune(cached: Building) -> None:
    assert "Total reclaimed space" in printed(cached("builder", "prune", "-a", "-f")) or usage(cached) == []
    assert usage(cached) == []


def test_a_directory_that_did_not_change_is_packed_once(builder: Building, tmp_path: Path) -> None:
    """A named context is a tree, which is found again; a change of a file's time alone makes no other one."""
    place = tmp_path / "there"
    place.mkdir()
    for name in ("one", "two"):
        (place / name).write_text(uuid.uuid4().hex)
    builder.write("COPY --from=there one /")
    for expected in (1, 1, 2):
        told(builder("buildx", "build", "--build-context", f"there={place}", "."))
        found = [each for each in usage(builder) if each["Type"] == "source.local" and not each["Mutable"]]
        assert len(found) == expected, found
        if expected == 1:
            os.utime(place / "two", (1, 1))
            if found[0]["UsageCount"]:
                (place / "two").write_text("other")
