"""Every answer against the API's definition: a small conversion of OpenAPI 2 to JSON Schema, and one check.

Pure but for reading the definition beside the tests. Two things are read more widely than written, because every
dockerd answers so: a Go nil (slice, map, pointer) arrives as null where an array or an object is promised, and an
answer may carry fields that the definition does not list. Scalars, enums and required fields are held to the letter.
"""

import functools
import json
import lzma
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import jsonschema

from tests.harness.http import Answer

DEFINITION = Path(__file__).resolve().parents[1] / "data" / "engine-api-1.54.json.xz"
NEWEST = "1.54"
VERSION = re.compile(r"^/v(\d+\.\d+)(?=/)")
KEPT = ("type", "enum", "minimum", "maximum", "pattern", "required")
EMPTY_BODIES = (204, 304)
STREAMS = ("application/vnd.docker.raw-stream", "application/vnd.docker.multiplexed-stream", "application/x-tar")
# A value of the schema on each line.
LINES = ("application/jsonl", "application/x-ndjson")
# Where a current dockerd departs from its own definition; the evidence is the transcript's call of that number.
NULLABLE = {("Resources", "MemorySwappiness"), ("", "ExitCode")}  # 112; 177, an exec that runs (the schema has no name)
NULL_ANSWERS = {"/containers/{id}/changes"}  # 150
PLAIN_ERRORS = (
    (400, "text/plain", b"client version"),  # 5: an old client cannot be expected to read JSON
    (404, "application/vnd.docker.raw-stream", b"No such container"),  # 207: attach
    (400, "application/vnd.docker.raw-stream", b"Invalid detach keys"),  # the same
)


@functools.cache
def definition() -> dict:
    """The API's definition as it was published, prose removed."""
    return json.loads(lzma.decompress(DEFINITION.read_bytes()))


def _nullable(source: dict) -> bool:
    kinds = ("array", "object")
    return bool(source.get("x-nullable") or source.get("type") in kinds or "$ref" in source or "allOf" in source)


def converted(source: dict, inside: bool = False, owner: str = "") -> dict:
    """One OpenAPI 2 schema as JSON Schema.

    `inside` an object or array a Go nil is allowed for what can be nil; `owner` is the name of the definition, if any.
    """
    schema: dict = {key: source[key] for key in KEPT if key in source}
    if "$ref" in source:
        schema = {"$ref": source["$ref"]}
    if "properties" in source:
        schema["properties"] = {
            name: converted({**value, "x-nullable": True} if (owner, name) in NULLABLE else value, True)
            for name, value in source["properties"].items()
        }
    if isinstance(source.get("additionalProperties"), dict):
        schema["additionalProperties"] = converted(source["additionalProperties"], True)
    if isinstance(source.get("items"), dict):
        schema["items"] = converted(source["items"], True)
    if "allOf" in source:
        schema["allOf"] = [converted(part, owner=owner) for part in source["allOf"]]
    if source.get("x-nullable") and "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    return {"anyOf": [schema, {"type": "null"}]} if inside and _nullable(source) else schema


@functools.cache
def definitions() -> dict:
    """All named schemas, converted."""
    return {name: converted(source, owner=name) for name, source in definition()["definitions"].items()}


@functools.cache
def validator(text: str) -> jsonschema.Draft7Validator:
    """A validator for one OpenAPI schema, given as JSON text so that it can be cached."""
    schema = {**converted(json.loads(text)), "definitions": definitions()}
    return jsonschema.Draft7Validator(schema)


def problems(source: dict, value: object) -> list[str]:
    """Where `value` departs from the schema, in words."""
    found = _leaves(validator(json.dumps(source, sort_keys=True)).iter_errors(value))
    return [f"{'.'.join(map(str, error.absolute_path)) or '(all)'}: {error.message}"[:300] for error in found]


def _leaves(errors: Iterable[jsonschema.ValidationError]) -> Iterator[jsonschema.ValidationError]:
    """The errors themselves; of a nullable schema those of its first branch, not "is not valid under any"."""
    for error in errors:
        if error.validator == "anyOf":
            yield from _leaves(inner for inner in error.context if inner.relative_schema_path[0] == 0)
        else:
            yield error


@functools.cache
def patterns() -> list[tuple[re.Pattern, str]]:
    """The paths as patterns, those with fewer parameters first; an image's name may contain slashes."""
    paths = sorted(definition()["paths"], key=lambda path: (path.count("{"), -len(path)))
    return [(re.compile(re.sub(r"\\\{\w+\\\}", "(.+)", re.escape(path)) + r"\Z"), path) for path in paths]


def operation(method: str, path: str) -> tuple[str, dict] | None:
    """The definition's path and operation for a call, or None when it lists no such call."""
    bare = path.split("?")[0]
    for pattern, template in patterns():
        if pattern.match(bare):
            found = definition()["paths"][template].get(method.lower())
            return (template, found) if found else None
    return None


def departures(method: str, path: str, answer: Answer) -> list[str]:
    """What in this answer is not as the definition says; nothing for calls and versions that it does not cover."""
    version = VERSION.match(path)
    if version and version[1] != NEWEST:
        return []
    known = operation(method, VERSION.sub("", path))
    if method == "HEAD" or answer.status in EMPTY_BODIES:
        return [f"a body: {answer.body!r}"] if answer.body else []
    kind = answer.headers.get("content-type", "").split(";")[0]
    if answer.status >= 400:
        return _error_departures(answer, kind)
    if known is None:
        return []
    response = known[1]["responses"].get(str(answer.status))
    if response is None:
        return [f"status {answer.status} is not in the definition of {method} {known[0]}"]
    source = response.get("schema")
    if not source or source.get("type") == "string" or kind in STREAMS:
        return []
    if kind in LINES:
        return [problem for line in answer.lines for problem in problems(source, line)]
    if kind != "application/json":
        return [f"Content-Type {kind!r}, not application/json"]
    value = answer.json()
    return [] if value is None and known[0] in NULL_ANSWERS else problems(source, value)


def _error_departures(answer: Answer, kind: str) -> list[str]:
    if any((answer.status, kind) == row[:2] and answer.body.startswith(row[2]) for row in PLAIN_ERRORS):
        return []
    if kind != "application/json":
        return [f"an error of Content-Type {kind!r}: {answer.body[:200]!r}"]
    return problems({"$ref": "#/definitions/ErrorResponse"}, answer.json())


def check(method: str, path: str, answer: Answer) -> None:
    """AssertionError listing every departure of an answer from the definition."""
    found = departures(method, path, answer)
    assert not found, f"{method} {path} answered {answer.status}, against the definition:\n  " + "\n  ".join(found)
