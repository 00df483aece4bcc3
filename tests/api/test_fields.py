"""A walk over every field of create in the API's definition: each is honoured, shown, or refused in words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.fields import FIELDS, Daemons, Inside, Proven, Refused, Shown, Told
from tests.harness import schema
from tests.harness.daemon import Daemon

TESTS = Path(__file__).resolve().parents[1]


def leaves(found: dict, path: str = "") -> Iterator[str]:
    """The leaves of a schema, named as in `fields`."""
    definitions = schema.definition()["definitions"]
    if "$ref" in found:
        yield from leaves(definitions[found["$ref"].rpartition("/")[2]], path)
        return
    for part in found.get("allOf", ()):
        yield from leaves(part, path)
    for name, value in found.get("properties", {}).items():
        yield from leaves(value, f"{path}.{name}" if path else name)
    if "allOf" in found or "properties" in found:
        return
    inner, mark = (found["items"], "[]") if found.get("type") == "array" else (found.get("additionalProperties"), ".*")
    below = list(leaves(inner, path + mark)) if isinstance(inner, dict) else []
    yield from below if below and below != [path + mark] else [path]


def every_field() -> list[str]:
    """All leaves of the body of create."""
    parameters = schema.definition()["paths"]["/containers/create"]["post"]["parameters"]
    return list(leaves(next(each["schema"] for each in parameters if each["in"] == "body")))


def rows(kind: type) -> list:
    """The rows of one kind, as parameters."""
    return [pytest.param(row, id=name) for name, row in FIELDS.items() if isinstance(row, kind)]


def body_of(row: tuple, script: str = "true") -> dict:
    """A whole body: what the row asks, in busybox, running the script."""
    return {"Image": "busybox", "Cmd": ["sh", "-c", script], "HostConfig": {"NetworkMode": "none"}, **row.body}


def at(found: object, path: str) -> object:
    """The value at a path of names."""
    for name in path.split("."):
        found = found[name]
    return found


def test_every_field_of_the_definition_has_its_row() -> None:
    """A field that a newer definition brings has to be decided on."""
    assert sorted(set(every_field())) == sorted(FIELDS)


@pytest.mark.parametrize("row", rows(Inside))
def test_the_container_shows_the_field(daemon: Daemon, busybox: str, row: Inside) -> None:
    """Seen from inside, as the program in the container sees it."""
    whole = body_of(row, row.script)
    if not row.script:
        del whole["Cmd"]
    output = daemon.run(**whole)
    words = (row.words,) if isinstance(row.words, str) else row.words
    said = output.stdout.decode().replace("\r\n", "\n")
    assert output.status == 0 and any(each in said for each in words), output


@pytest.mark.parametrize("row", rows(Shown))
def test_inspect_shows_the_field(daemon: Daemon, container, row: Shown) -> None:
    """What is only to be kept is kept."""
    made = container(**body_of(row))
    assert at(daemon.inspect(made), row.path) == row.value


@pytest.mark.parametrize("row", rows(Refused))
def test_the_field_is_refused_in_words(daemon: Daemon, busybox: str, row: Refused) -> None:
    """At create, or where dockerd notices it: at start."""
    answer = daemon.request("POST", "/containers/create", body_of(row))
    if answer.status == 201:
        made = answer.json()["Id"]
        answer = daemon.request("POST", f"/containers/{made}/start")
        daemon.remove(made)
    assert (answer.status, row.words in answer.message) == (row.status, True), answer


@pytest.mark.parametrize("row", rows(Told))
def test_a_warning_tells_of_the_field(daemon: Daemon, busybox: str, row: Told) -> None:
    """Discarded, and said so."""
    answer = daemon.request("POST", "/containers/create", body_of(row))
    daemon.remove(answer.json()["Id"])
    assert any(row.words in warning for warning in answer.json()["Warnings"]), answer


@pytest.mark.parametrize("row", rows(Daemons))
def test_what_is_the_daemons_to_say_is_not_taken_from_a_client(daemon: Daemon, container, row: Daemons) -> None:
    """The value is the daemon's own, whatever was sent; so it is with dockerd."""
    made = container(**body_of(row))
    name = row.path.rpartition(".")[2]
    assert at(daemon.inspect(made), row.path) != row.body["NetworkingConfig"]["EndpointsConfig"]["bridge"][name]


@pytest.mark.parametrize("row", rows(Proven))
def test_the_test_that_shows_the_field_is_there(row: Proven) -> None:
    """A row that points elsewhere points at something."""
    path = TESTS / row.file
    text = path.read_text()
    assert f"def {row.function}" in text, f"{path} has no {row.function}"
