"""GET /images/get and /images/{name}/get as HTTP: the head, errors before it, old clients, and events."""

import io
import json
import os
import tarfile
import time
from urllib.parse import quote

import pytest

from tests.api.archives import tar
from tests.harness import listening
from tests.harness.registry import architecture

pytestmark = pytest.mark.usefixtures("busybox")


@pytest.fixture
def large(daemon):
    """An image that no buffer on the way holds whole; its id."""
    identity = daemon.import_image(tar({"big": os.urandom(3_000_000)}), "large:1")
    yield identity
    daemon.request("DELETE", "/images/large:1?force=1")


def entries(data: bytes) -> list[dict]:
    """What manifest.json says."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return json.load(archive.extractfile("manifest.json"))


def test_a_large_image_comes_whole_in_chunks(daemon, large):
    answer = daemon.request("GET", "/images/large:1/get", checked=False)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-tar")
    assert answer.headers["transfer-encoding"] == "chunked"
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
        assert max(info.size for info in archive) > 3_000_000
        assert {info.mtime for info in archive} == {0}, "as those of dockerd's containerd store"
    daemon.request("DELETE", "/images/large:1?force=1")
    lines = daemon.request("POST", "/images/load", answer.body, {"Content-Type": "application/x-tar"}).lines
    assert lines == [{"stream": "Loaded image: large:1\n"}]
    assert daemon.request("GET", "/images/large:1/json").json()["Id"] == large


def test_the_head_of_a_quiet_answer_says_that_the_images_are_here(daemon, large):
    """Upstream's tests read no more of it. While they read they have the name, and the connection is closed at once."""
    archive = daemon.request("GET", "/images/large:1/get", checked=False).body
    daemon.request("DELETE", "/images/large:1?force=1")
    with daemon.connection() as connection:
        connection.send_request("POST", "/images/load?quiet=1", archive, {"Content-Type": "application/x-tar"})
        assert connection.read_head()[0] == 200
        assert daemon.request("GET", "/images/large:1/json").status == 200


def test_a_client_of_http_1_0_gets_plain_bytes(daemon, large):
    whole = daemon.request("GET", "/images/large:1/get", checked=False).body
    with daemon.connection() as connection:
        connection.send(b"GET /images/large:1/get HTTP/1.0\r\n\r\n")
        head, _, body = connection.read_to_end().partition(b"\r\n\r\n")
    assert b"chunked" not in head and body == whole


def test_several_names_are_one_archive(daemon, large):
    answer = daemon.request("GET", "/images/get?names=large:1&names=busybox&names=busybox:latest", checked=False)
    assert sorted(entry["RepoTags"] for entry in entries(answer.body)) == [["busybox:latest"], ["large:1"]]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/images/nope/get", 404, "No such image: nope:latest"),
        ("/images/busybox:nope/get", 404, "No such image: busybox:nope"),
        ("/images/get?names=busybox&names=nope", 404, "No such image: nope:latest"),
        ("/images/a/b/c:1/get", 404, "No such image: a/b/c:1"),
        ("/images/busybox/get?platform=nonsense", 400, "failed to parse platform"),
        ("/images/busybox/get?platform=" + quote('{"os":"linux","architecture":"s390x"}'), 404, "(linux/s390x)"),
    ],
)
def test_errors_come_before_the_first_byte(daemon, path, status, message):
    answer = daemon.request("GET", path)
    assert answer.status == status and message in answer.json()["message"]


def test_a_platform_is_for_clients_that_know_of_it(daemon):
    one = quote(json.dumps({"os": "linux", "architecture": architecture()}))
    other = quote('{"os":"linux","architecture":"s390x"}')
    assert daemon.request("GET", f"/v1.48/images/busybox/get?platform={one}", checked=False).status == 200
    assert daemon.request("GET", f"/v1.47/images/busybox/get?platform={other}", checked=False).status == 200
    two = f"platform={one}&platform={other}"
    assert daemon.request("GET", f"/v1.51/images/busybox/get?{two}").status == 400
    assert daemon.request("GET", f"/v1.52/images/busybox/get?{two}").status == 404


def test_a_client_that_stops_reading_and_goes_leaves_nothing_held(daemon, large):
    with daemon.connection() as connection:
        connection.send(b"GET /images/large:1/get HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.read(10) == b"HTTP/1.1 2"
    assert daemon.request("GET", "/images/large:1/get", checked=False).status == 200


def test_saving_and_loading_are_told(daemon, large):
    """Events of docker's names, with the image's id."""
    since = f"{time.time():.9f}"
    body = daemon.request("GET", "/images/large:1/get", checked=False).body
    daemon.request("POST", "/images/load", body, {"Content-Type": "application/x-tar"})
    query = listening.query(since=since, until=f"{time.time():.9f}", filters={"type": ["image"]})
    events = daemon.request("GET", f"/events?{query}").lines
    told = [(event["Action"], event["Actor"]["ID"]) for event in events if event["Actor"]["ID"] == large]
    assert told == [("save", large), ("load", large)]
