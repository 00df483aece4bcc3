"""Names, steps and platforms of images over HTTP: tag, history, prune, the list's filters, and many clients at once."""

import json
import threading
import time
import uuid
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.harness import rootfs, schema
from tests.harness.daemon import Daemon
from tests.harness.registry import Registry, architecture

pytestmark = pytest.mark.root

TAR = {"Content-Type": "application/x-tar"}
OTHER = "arm64" if architecture() != "arm64" else "amd64"


def query(**values: object) -> str:
    """A query, what is no text as JSON."""
    parts = ((key, value if isinstance(value, str) else json.dumps(value)) for key, value in values.items())
    return "&".join(f"{key.replace('_', '-')}={quote(value)}" for key, value in parts)


@pytest.fixture
def name(daemon: Daemon, busybox: str) -> Iterator[str]:
    """A name; what has it afterwards is removed."""
    chosen = f"named-{uuid.uuid4().hex[:12]}"
    yield chosen
    patterns = [f"{chosen}*", f"*/{chosen}*"]
    for image in daemon.request("GET", f"/images/json?all=1&{query(filters={'reference': patterns})}").json():
        daemon.request("DELETE", f"/images/{image['Id']}?force=1", checked=False)


def small(daemon: Daemon, name: str, contents: bytes = b"small") -> str:
    """An image of one small file; its id."""
    return daemon.import_image(rootfs.archive([("file", 0o644, contents + name.encode())]), name)


def asked(daemon: Daemon, method: str, path: str, status: int = 200) -> object:
    """The answer, checked against the definition."""
    answer = daemon.request(method, path, checked=False)
    assert answer.status == status, answer
    schema.check(method, f"/v1.54{path}", answer)
    return answer.json() if answer.body else None


@pytest.fixture
def two(daemon: Daemon, registry: Registry, name: str) -> str:
    """The name of an image of two platforms, pulled one after the other."""
    members = {}
    for machine in (OTHER, architecture()):
        layers = [rootfs.busybox(), rootfs.archive([("machine", 0o644, machine.encode())])]
        members[machine] = registry.push(f"{name}:", layers, {"Cmd": ["cat", "/machine"]}, "oci", machine)
    registry.push_index(f"{name}:1", members)
    whole = f"{registry.address}/{name}:1"
    for machine in members:
        daemon.request("POST", f"/images/create?{query(fromImage=whole, platform=f'linux/{machine}')}")
    return whole


def test_both_platforms_of_an_index_run(daemon: Daemon, two: str) -> None:
    """The machine's own when none is named, each by its name; a container shows which one it has."""
    assert daemon.run(Image=two).stdout == architecture().encode()
    created = daemon.request("POST", f"/containers/create?platform=linux/{OTHER}", {"Image": two}).json()["Id"]
    shown = daemon.inspect(created)["ImageManifestDescriptor"]
    (listed,) = asked(daemon, "GET", f"/images/json?manifests=1&{query(filters={'reference': [two]})}")
    manifests = {one["ImageData"]["Platform"]["architecture"]: one for one in listed["Manifests"]}
    assert manifests.keys() == {OTHER, architecture()} and all(one["Available"] for one in manifests.values())
    assert manifests[OTHER]["ImageData"]["Containers"] == [created]
    assert (shown["digest"], shown["platform"]["architecture"]) == (manifests[OTHER]["ID"], OTHER)
    wanted = query(platform={"os": "linux", "architecture": OTHER})
    single = asked(daemon, "GET", f"/images/{two}/json?{wanted}")
    assert (single["Id"], single["Architecture"]) == (manifests[OTHER]["ID"], OTHER)
    assert asked(daemon, "GET", f"/images/{two}/json")["Architecture"] == architecture()
    assert asked(daemon, "GET", f"/images/{two}/history?{wanted}")[0]["CreatedBy"] == "layer 1"
    daemon.remove(created)


def test_a_platform_is_removed_by_itself(daemon: Daemon, two: str) -> None:
    wanted = query(platforms={"os": "linux", "architecture": OTHER})
    asked(daemon, "DELETE", f"/images/{two}?{wanted}", 400)
    (gone,) = asked(daemon, "DELETE", f"/images/{two}?force=1&{wanted}")
    assert daemon.run(Image=two).stdout == architecture().encode()
    (listed,) = asked(daemon, "GET", f"/images/json?manifests=1&{query(filters={'reference': [two]})}")
    assert {one["ID"]: one["Available"] for one in listed["Manifests"]}[gone["Deleted"]] is False
    missing = asked(daemon, "DELETE", f"/images/{two}?force=1&{wanted}", 404)
    assert "does not provide the specified platform" in missing["message"]
    asked(daemon, "DELETE", f"/images/{two}?force=1&platforms=linux", 400)


def test_events_of_names_and_prunes(daemon: Daemon, name: str) -> None:
    first, second = small(daemon, name), small(daemon, f"{name}:2", b"other")
    asked(daemon, "POST", f"/images/{first}/tag?repo={name}&tag=2", 201)
    dangling = asked(daemon, "GET", f"/images/{second}/json")
    assert dangling["RepoTags"] == []
    wanted = query(filters={"dangling": ["true"], "until": ["2020-01-01"]})
    assert asked(daemon, "POST", f"/images/prune?{wanted}") == {"ImagesDeleted": None, "SpaceReclaimed": 0}
    pruned = asked(daemon, "POST", "/images/prune")
    assert {"Deleted": second} in pruned["ImagesDeleted"] and pruned["SpaceReclaimed"] > 0
    begun = time.time() - 60
    events = daemon.request("GET", f"/events?since={begun:.9f}&until={time.time():.9f}")
    mine = [(one["Action"], one["Actor"]["Attributes"]) for one in events.lines if one["Type"] == "image"]
    assert ("tag", {"name": f"{name}:2"}) in mine and ("delete", {"name": second}) in mine
    assert ("prune", {"reclaimed": str(pruned["SpaceReclaimed"])}) in mine


@pytest.mark.parametrize("pattern", ["[", "a\\", "[z-a]"])
def test_a_malformed_pattern_matches_nothing(daemon: Daemon, busybox: str, pattern: str) -> None:
    """As for dockerd, also beside one that matches."""
    assert asked(daemon, "GET", f"/images/json?{query(filters={'reference': [pattern]})}") == []
    both = asked(daemon, "GET", f"/images/json?{query(filters={'reference': [pattern, 'busybox']})}")
    assert any("busybox:latest" in each["RepoTags"] for each in both)


@pytest.mark.parametrize("query", ["", "?repo=", "?repo=&tag=x"])
def test_a_tag_without_a_repository_is_nothing_to_do(daemon: Daemon, query: str) -> None:
    """As for dockerd, which looks for no image then."""
    assert daemon.request("POST", f"/images/nope/tag{query}", checked=False).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("POST", "/images/busybox/tag?repo=a@sha256:" + "0" * 64, 400, "cannot import digest reference"),
        ("POST", "/images/busybox/tag?repo=sha256", 400, "ambiguous tag"),
        ("POST", "/images/busybox/tag?repo=x%0a", 400, "invalid reference format"),
        ("POST", "/images/..%2f..%2fetc/tag?repo=x", 400, "invalid reference format"),
        ("GET", "/images/nope/history", 404, "No such image: nope:latest"),
        ("GET", "/images/busybox/history?platform=linux", 400, "platform"),
        ("GET", "/images/json?identity=1", 400, "identity requires manifests=1"),
        ("GET", "/images/json?filters=%7B%22reference%22%3A%5B%22" + "x" * 600 + "%22%5D%7D", 400, "too long"),
        ("GET", "/images/json?filters=%7B%22before%22%3A%5B%22nope%22%5D%7D", 404, "No such image: nope:latest"),
        ("POST", "/images/prune?filters=%7B%22reference%22%3A%5B%22a%22%5D%7D", 400, "invalid filter 'reference'"),
        ("POST", "/images/prune?filters=%7B%22dangling%22%3A%5B%22x%22%5D%7D", 400, "invalid filter 'dangling=[x]'"),
        ("DELETE", "/images/%20", 400, "image name cannot be blank"),
    ],
)
def test_what_makes_no_sense_is_refused(
    daemon: Daemon, busybox: str, method: str, path: str, status: int, words: str
) -> None:
    assert words in asked(daemon, method, path, status)["message"]


def test_clients_at_once_leave_a_legal_state(daemon: Daemon, two: str, name: str) -> None:
    """Four clients tag, remove, prune and pull the same image; each is told success, 404 or 409, and nothing else."""
    pull = f"/images/create?{query(fromImage=two, platform=f'linux/{OTHER}')}"
    calls = [
        ("POST", f"/images/{two}/tag?repo={name}&tag=a"),
        ("DELETE", f"/images/{name}:a?force=1"),
        ("DELETE", f"/images/{two}?force=1"),
        ("DELETE", f"/images/{two}?force=1&{query(platforms={'os': 'linux', 'architecture': architecture()})}"),
        ("POST", "/images/prune"),
        ("POST", pull),
        ("GET", "/images/json?manifests=1&all=1&shared-size=1"),
        ("GET", f"/images/{two}/history"),
    ]
    statuses: list[tuple[str, int, bytes]] = []

    def work(first: int) -> None:
        for number in range(16):
            method, path = calls[(first + number * 3) % len(calls)]
            answer = daemon.request(method, path, checked=False)
            statuses.append((path, answer.status, answer.body))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(statuses) == 64
    assert [one for one in statuses if one[1] not in (200, 201, 404, 409)] == []
    assert [one for one in statuses if one[0] == pull and b'"error"' in one[2]] == []
    daemon.request("POST", f"/images/create?{query(fromImage=two)}")
    assert daemon.run(Image=two).stdout == architecture().encode()
