"""Which versions of the API are spoken, and that what is not built says so."""

import json
import re

import pytest

from tests.harness import schema
from tests.harness.daemon import Daemon
from tests.harness.endpoints import BUILT

VERSIONS = [f"v1.{minor}" for minor in range(24, 55)]
LISTED = [
    (method.upper(), path)
    for path, methods in schema.definition()["paths"].items()
    for method in methods
    if method != "parameters"
]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_from_1_24_on_is_spoken(daemon: Daemon, version: str) -> None:
    """Ping, version and list under every version's path."""
    assert daemon.request("GET", f"/{version}/_ping").body == b"OK"
    assert daemon.request("GET", f"/{version}/version").json()["ApiVersion"] == "1.54"
    assert daemon.request("GET", f"/{version}/containers/json").status == 200


def test_a_bare_path_is_the_newest_version(daemon: Daemon) -> None:
    """The same answer with and without the version."""
    assert daemon.request("GET", "/containers/json").json() == daemon.request("GET", "/v1.54/containers/json").json()


@pytest.mark.parametrize("version", ["1.55", "1.99", "2.0", "10.1"])
def test_a_newer_version_is_refused(daemon: Daemon, version: str) -> None:
    """With the words of the transcript."""
    answer = daemon.request("GET", f"/v{version}/version")
    assert answer.status == 400
    assert answer.message == f"client version {version} is too new. Maximum supported API version is 1.54"


@pytest.mark.parametrize("version", ["1.10", "1.23", "0.9"])
def test_an_older_version_is_refused(daemon: Daemon, version: str) -> None:
    """With the words of the transcript, as plain text for clients that old."""
    answer = daemon.request("GET", f"/v{version}/version")
    assert answer.status == 400
    wanted = (
        f"client version {version} is too old. Minimum supported API version is 1.24, "
        "please upgrade your client to a newer version"
    )
    assert wanted in answer.body.decode()


@pytest.mark.parametrize("path", ["/v1/version", "/vx.y/version", "/1.54/version", "/v1.54", "/"])
def test_a_path_that_is_none_is_404(daemon: Daemon, path: str) -> None:
    """The text of the transcript."""
    answer = daemon.request("GET", path)
    assert answer.status == 404
    assert answer.message == "page not found"


@pytest.mark.parametrize(
    ("method", "path"), [row for row in LISTED if row not in BUILT], ids=lambda value: value.replace("/", " ").strip()
)
def test_what_is_not_built_says_so(daemon: Daemon, method: str, path: str) -> None:
    """501 with a text that names the call; never a stub, never a fake success."""
    target = re.sub(r"\{\w+\}", "x", path)
    answer = daemon.request(method, f"/v1.54{target}", {} if method in ("POST", "PUT") else None)
    assert answer.status == 501, answer
    assert method == "HEAD" or ("not built" in answer.message and method in answer.message)


# What a call needs so as to end, or to be about something that is not there.
ENOUGH = {"/events": "?until=1", "/commit": "?container=nope"}


@pytest.mark.parametrize(("method", "path"), sorted(BUILT))
def test_what_is_built_is_not_refused_as_unbuilt(daemon: Daemon, method: str, path: str) -> None:
    """Every endpoint of the issue has a handler behind it."""
    target = re.sub(r"\{\w+\}", "nope", path) + ENOUGH.get(path, "")
    status = daemon.request(method, f"/v1.54{target}", checked=False).status
    assert status != 501 and (status != 404 or "{" in path or "nope" in target)


def test_the_schema_check_knows_a_bad_answer() -> None:
    """The check that stands behind every other test fails when it should."""
    good = {"StatusCode": 0}
    source = {"$ref": "#/definitions/ContainerWaitResponse"}
    assert schema.problems(source, good) == []
    assert schema.problems(source, {"StatusCode": "0"})
    assert schema.problems(source, json.loads("{}"))
