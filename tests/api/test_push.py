"""POST /images/{name}/push, GET /distribution/{name}/json and GET /images/search, as bytes on the socket."""

import base64
import hashlib
import json
import os
import threading
import time
from urllib.parse import quote

import pytest

from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.registry import Registry

EMPTY = {"X-Registry-Auth": base64.urlsafe_b64encode(b"{}").decode()}
NOBODY = "dial tcp 127.0.0.1:1: connect: connection refused"


@pytest.fixture(scope="module")
def pushed(daemon: Daemon, registry: Registry):
    """An image of one small layer that goes by a name of the registry; (name, id)."""
    data = rootfs.archive([("file", 0o644, os.urandom(50_000))])
    target = f"/images/create?fromSrc=-&repo={registry.address}/api/push&tag=1"
    made = daemon.request("POST", target, data, {"Content-Type": "application/x-tar"}).lines[-1]["status"]
    yield f"{registry.address}/api/push", made
    daemon.request("DELETE", f"/images/{made}?force=1")


def push(daemon: Daemon, name: str, query: str = "", **options: object) -> list[dict]:
    """Push; the lines."""
    answer = daemon.request("POST", f"/images/{name}/push{query}", headers=EMPTY, **options)
    assert answer.status == 200, answer
    return answer.lines


def test_the_lines_and_the_event_of_a_push(daemon: Daemon, pushed) -> None:
    """docker's clients draw them; what the registry has then is what was said."""
    name, identity = pushed
    lines = push(daemon, name, "?tag=1")
    assert lines[0] == {"status": f"The push refers to repository [{name}]"}
    (short,) = {line["id"] for line in lines if "id" in line}
    assert {"status": "Preparing", "progressDetail": {}, "id": short} in lines
    assert {"status": "Pushed", "progressDetail": {}, "id": short} in lines
    aux = lines[-1]["aux"]
    assert aux["Tag"] == "1" and aux["Digest"] == identity
    assert lines[-2] == {"status": f"1: digest: {identity} size: {aux['Size']}"}
    assert daemon.request("GET", f"/images/{name}:1/json").json()["Identity"] == {"Pull": [{"Repository": name}]}
    seen = daemon.request("GET", f"/distribution/{name}:1/json").json()
    assert seen["Descriptor"]["digest"] == identity and seen["Descriptor"]["size"] == aux["Size"]
    assert seen["Platforms"][0]["os"] == "linux"
    chosen = quote(json.dumps({"type": ["image"], "event": ["push"], "image": [f"{name}:1"]}))
    (event,) = daemon.request("GET", f"/events?since=1&until={int(time.time()) + 1}&filters={chosen}").lines
    assert event["Actor"] == {"ID": f"{name}:1", "Attributes": {"name": name}}


def test_credentials_come_in_the_header_or_in_the_body(daemon: Daemon, pushed) -> None:
    """Clients of long ago sent them in the body; without either, or with what cannot be read, there are none."""
    target = f"/images/{pushed[0]}/push?tag=1"
    assert daemon.request("POST", target, {"username": "u"}).lines[-1]["aux"]["Tag"] == "1"
    assert daemon.request("POST", target).lines[-1]["aux"]["Tag"] == "1"
    broken = daemon.request("POST", target, b"{", {"Content-Type": "application/json"})
    assert broken.lines[-1]["aux"]["Tag"] == "1"


@pytest.mark.parametrize(
    ("name", "query", "words"),
    [
        ("localhost:1/x", "", "An image does not exist locally with the tag: localhost:1/x"),
        ("nope", "", "An image does not exist locally with the tag: nope"),
        ("nope", "?tag=1", "tag does not exist: nope:1"),
    ],
)
def test_what_is_not_here_is_told_after_the_first_line(daemon: Daemon, name: str, query: str, words: str) -> None:
    """Transcript 226 and 227."""
    lines = push(daemon, name, query)
    assert lines[0]["status"].startswith("The push refers to repository [")
    assert lines[1] == {"error": words, "errorDetail": {"message": words}}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("/images/Bad/push", "must be lowercase"),
        ("/images/nope/push?tag=-x", "invalid tag format"),
        ("/images/nope/push?platform=linux", "failed to parse platform"),
    ],
)
def test_what_is_wrong_in_itself_is_a_status(daemon: Daemon, target: str, words: str) -> None:
    """Before anything was begun."""
    answer = daemon.request("POST", target, headers=EMPTY)
    assert answer.status == 400 and words in answer.json()["message"]


def test_a_platform_counts_since_version_1_46(daemon: Daemon, pushed) -> None:
    """Older daemons never looked at it."""
    platform = "?tag=1&platform=" + quote('{"os": "linux", "architecture": "s390x"}')
    assert "specified platform (linux/s390x)" in push(daemon, pushed[0], platform)[-1]["error"]
    target = f"/v1.45/images/{pushed[0]}/push{platform}"
    assert "aux" in daemon.request("POST", target, headers=EMPTY, checked=False).lines[-1]


def test_a_registry_that_is_not_there(daemon: Daemon, registry: Registry) -> None:
    """Docker's words at each door (transcript 228), and soon."""
    data = rootfs.archive([("file", 0o644, b"x")])
    target = "/images/create?fromSrc=-&repo=localhost:1/gone&tag=1"
    made = daemon.request("POST", target, data, {"Content-Type": "application/x-tar"}).lines[-1]["status"]
    try:
        assert push(daemon, "localhost:1/gone", "?tag=1")[-1]["error"] == f'Get "http://localhost:1/v2/": {NOBODY}'
    finally:
        daemon.request("DELETE", f"/images/{made}?force=1")
    seen = daemon.request("GET", "/distribution/localhost:1/x/json")
    assert (seen.status, seen.json()["message"]) == (500, f'Get "http://localhost:1/v2/": {NOBODY}')
    found = daemon.request("GET", "/images/search?term=localhost:1/x")
    tried = [f'Get "{scheme}://localhost:1/v1/_ping": {NOBODY}' for scheme in ("https", "http")]
    said = f"HTTPS attempt: {tried[0]}. HTTP attempt: {tried[1]}"
    assert (found.status, found.message) == (400, f'invalid registry endpoint "http://localhost:1/v1/". {said}')


def test_statuses_of_a_look_and_of_a_search(daemon: Daemon, registry: Registry) -> None:
    """Names that are none, images that are not there, filters and limits that are wrong."""
    for target, status in (
        (f"/distribution/{registry.address}/nope/json", 404),
        ("/distribution/Bad/json", 400),
        (f"/distribution/{'a' * 64}/json", 500),
        (f"/images/search?term={registry.address}/x", 500),
        ("/images/search?term=x&limit=a", 400),
        ("/images/search?term=x&limit=101", 400),
        ("/images/search?term=x&filters=x", 400),
        ("/images/search?term=x&filters=" + quote('{"colour":["red"]}'), 400),
    ):
        assert daemon.request("GET", target).status == status, target
    automated = quote('{"is-automated":["true"]}')
    assert daemon.request("GET", f"/images/search?term=x&filters={automated}").json() == []


def test_a_layer_that_does_not_shrink_is_pushed_and_pulled_as_the_tar_that_it_is(
    daemon: Daemon, registry: Registry
) -> None:
    """The registry tells so of it, and what comes back has the same files."""
    data = rootfs.archive([("file", 0o644, os.urandom(3_000_000))])
    name = f"{registry.address}/api/plain"
    made = daemon.import_image(data, "plain:1")
    files = daemon.request("GET", "/images/plain:1/json").json()["RootFS"]
    try:
        daemon.request("POST", f"/images/plain:1/tag?repo={quote(name, safe='')}&tag=1")
        assert push(daemon, name, "?tag=1")[-1]["aux"]["Digest"] == made
        accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
        (layer,) = json.loads(registry.request("GET", "/v2/api/plain/manifests/1", headers=accept).body)["layers"]
        assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar"
        assert layer["digest"] == files["Layers"][0] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        daemon.request("DELETE", f"/images/{made}?force=1")
        pulled = daemon.request("POST", f"/images/create?fromImage={quote(name, safe='')}&tag=1").lines
        assert "error" not in pulled[-1], pulled
        assert daemon.request("GET", f"/images/{name}:1/json").json()["RootFS"] == files
    finally:
        daemon.request("DELETE", f"/images/{made}?force=1", checked=False)


def test_many_pushes_at_once(daemon: Daemon, pushed) -> None:
    """Of one image to one name: each is told that it is there."""
    found: list[list[dict]] = []
    threads = [threading.Thread(target=lambda: found.append(push(daemon, pushed[0], "?tag=1"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [lines[-1]["aux"]["Digest"] for lines in found] == [pushed[1]] * 8
