"""Requests from the API's definition: every parameter, header and field of a body, each with the values of `absurd`.

Pure; the test that sends them is test_generated_requests. A request is an ordinary one (`QUERIES` and `BODIES`, what an
operation needs to get as far as its parts are looked at) in which one thing is replaced, so that the answer speaks of
it. In its texts `{running}` and its like (`STANDING`) are names of what the daemon has.
"""

import functools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from tests.api.fields import FIELDS
from tests.chaos import absurd
from tests.chaos.absurd import Octets, Raw
from tests.harness import rootfs, schema

STANDING = ("running", "stopped", "exec", "volume", "network", "new")
# Operations that answer for as long as one likes, or do nothing until something happens.
ENDLESS = (
    *("/events", "/containers/{id}/stats", "/containers/{id}/logs", "/containers/{id}/wait", "/containers/{id}/attach"),
)
# Operations that never come to look at their parts: a few values of each are enough.
FAR = ("/services", "/tasks", "/secrets", "/configs", "/nodes", "/swarm", "/plugins", "/session")
ONE_IN = 25
DOCKERFILE = rootfs.archive([("Dockerfile", 0o644, b"FROM busybox\nLABEL a=b\n"), ("a", 0o644, b"a")])
SMALL_TAR = rootfs.archive([("made", 0o644, b"made")])

# The start of a path with a parameter, and what usually stands there.
SEGMENTS = {
    "/containers/{id}": "{running}",
    "/exec/{id}": "{exec}",
    "/images/{name}": "busybox",
    "/volumes/{name}": "{volume}",
    "/networks/{id}": "{network}",
    "/distribution/{name}": "127.0.0.1:1/x",
}
QUERIES = {
    "GET /containers/{id}/logs": {"stdout": "1"},
    "GET /containers/{id}/stats": {"stream": "0"},
    "POST /containers/{id}/resize": {"h": "10", "w": "10"},
    "POST /exec/{id}/resize": {"h": "10", "w": "10"},
    "POST /containers/{id}/rename": {"name": "{new}"},
    "POST /containers/{id}/attach": {"stdout": "1", "stream": "1"},
    "HEAD /containers/{id}/archive": {"path": "/etc"},
    "GET /containers/{id}/archive": {"path": "/etc"},
    "PUT /containers/{id}/archive": {"path": "/tmp"},
    "POST /images/create": {"fromSrc": "-", "repo": "{new}"},
    "POST /images/{name}/tag": {"repo": "{new}", "tag": "x"},
    "POST /commit": {"container": "{stopped}", "repo": "{new}"},
    "GET /images/search": {"term": "127.0.0.1:1/x"},
    "GET /images/get": {"names": "busybox"},
    "GET /events": {"since": "1", "until": "2"},
    "PUT /volumes/{name}": {"version": "1"},
    "GET /plugins/privileges": {"remote": "127.0.0.1:1/x"},
    "POST /plugins/pull": {"remote": "127.0.0.1:1/x"},
    "POST /build": {"networkmode": "none", "t": "{new}"},
}
BODIES: dict[str, object] = {
    "POST /containers/create": {"Image": "busybox", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}},
    "POST /containers/{id}/update": {},
    "POST /containers/{id}/exec": {"Cmd": ["true"]},
    "POST /exec/{id}/start": {"Detach": True},
    "POST /networks/create": {"Name": "{new}"},
    "POST /networks/{id}/connect": {"Container": "{stopped}"},
    "POST /networks/{id}/disconnect": {"Container": "{stopped}", "Force": True},
    "POST /volumes/create": {"Name": "{new}"},
    "PUT /volumes/{name}": {"Spec": {}},
    "POST /auth": {"username": "a", "password": "b", "serveraddress": "127.0.0.1:1"},
    "POST /commit": {},
    "POST /build": DOCKERFILE,
    "POST /images/load": SMALL_TAR,
    "POST /images/create": SMALL_TAR,
    "PUT /containers/{id}/archive": SMALL_TAR,
}


class Asked(NamedTuple):
    """One request; path: as the definition has it; tried: what is replaced in it, in words."""

    method: str
    path: str
    target: str
    headers: dict[str, str]
    body: bytes
    tried: str

    @property
    def operation(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"


Request = Callable[[], Asked]


def encode(value: object) -> str:
    """JSON in which `Raw` stands as it is, and half of a surrogate pair as an escape."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{encode(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    return json.dumps(value)


def percent(value: object) -> str:
    """A value as it stands in a query or a path: letters, digits and escapes, or the name of what is standing."""
    if value in {f"{{{name}}}" for name in STANDING}:
        return value
    return quote(bytes(value) if isinstance(value, Octets) else str(value).encode("utf-8", "surrogatepass"), safe="")


class Operation:
    """One operation of the definition, and every request that differs from its ordinary one in one place."""

    def __init__(self, method: str, path: str, found: dict) -> None:
        self.method, self.path = method.upper(), path
        self.name = f"{self.method} {path}"
        self.parameters = found.get("parameters", [])
        self.filtered = any(each["name"] == "filters" for each in self.parameters)
        self._step = ONE_IN if path.startswith(FAR) else 1
        self._query = QUERIES.get(self.name, {})
        self._body = BODIES.get(self.name)

    def request(
        self,
        tried: tuple[str, object],
        segment: object = None,
        query: dict | None = None,
        headers: dict | None = None,
        body: object = None,
    ) -> Asked:
        """The ordinary request with what is given in the place of its own; tried: a name and what is tried there."""
        usual = next((name for start, name in SEGMENTS.items() if self.path.startswith(start)), "x")
        before, brace, rest = self.path.partition("{")
        target = before + (percent(usual if segment is None else segment) + rest.partition("}")[2] if brace else "")
        pairs = [f"{name}={percent(value)}" for name, value in {**self._query, **(query or {})}.items()]
        target = f"/v{schema.NEWEST}{target}" + ("?" + "&".join(pairs) if pairs else "")
        content, fields = self._body if body is None else body, dict(headers or {})
        if isinstance(content, bytes):
            fields.setdefault("Content-Type", "application/x-tar")
        elif content is not None:
            fields.setdefault("Content-Type", "application/json")
            content = encode(content).encode()
        return Asked(self.method, self.path, target, fields, content or b"", f"{tried[0]} {tried[1]!r:.60}")

    def requests(self) -> Iterator[Request]:
        """All of them, but those of `with_filter`; each is made when it is called."""
        yield partial(self.request, ("as", "usual"))
        for parameter in self.parameters:
            name, place = parameter["name"], parameter["in"]
            if place == "path":
                for value in self._few((*absurd.TEXTS, *absurd.NOT_TEXTS)):
                    if isinstance(value, str) and value and not value.strip("/"):
                        continue  # a path with slashes at its end is the same path: that asks for another operation
                    yield partial(self.request, (f"{{{name}}} =", value), segment=value)
            elif place == "query":
                for value in self._few(_query_values(name)):
                    yield partial(self.request, (f"?{name}=", value), query={name: value})
            elif place == "header":
                values = absurd.CONTENT_TYPES if name.lower() == "content-type" else absurd.CREDENTIALS
                for value in self._few(values):
                    yield partial(self.request, (f"{name}:", value), headers={name: value})
            else:
                yield from self._with_body(parameter.get("schema", {}))

    def with_filter(self, name: str) -> Iterator[Request]:
        """Every value of one filter; the first is an ordinary one."""
        for value in ("x", *absurd.TEXTS, absurd.LONELY):
            yield partial(self.request, (f"filter {name}=", value), query={"filters": json.dumps({name: [value]})})

    def _few(self, values: Iterable) -> list:
        return list(values)[:: self._step]

    def _with_body(self, source: dict) -> Iterator[Request]:
        if isinstance(self._body, bytes):
            for number, broken in enumerate((b"", self._body[:700], *absurd.NOT_TARS)):
                yield partial(self.request, ("broken tar", number), body=broken)
            return
        for broken in self._few(absurd.NOT_JSON):
            yield partial(self.request, ("body", broken), body=broken, headers={"Content-Type": "application/json"})
        for kind in self._few(absurd.CONTENT_TYPES):
            yield partial(self.request, ("Content-Type:", kind), headers={"Content-Type": kind})
        for path, found in leaves(source):
            for value in self._few(_values(found)):
                yield partial(self._with_field, path, value)

    def _with_field(self, path: str, value: object) -> Asked:
        return self.request((f"{path} =", value), body=placed(self._around(path), path, value))

    def _around(self, path: str) -> dict:
        """The ordinary body, with what a field needs beside it."""
        row = FIELDS.get(path) if self.path == "/containers/create" else None
        base = json.loads(json.dumps(self._body or {}))
        for name, value in getattr(row, "body", {}).items():
            both = isinstance(base.get(name), dict) and isinstance(value, dict)
            base[name] = {**base[name], **value} if both else value
        return base


def _query_values(name: str) -> tuple:
    if name == "filters":
        return absurd.NOT_FILTERS
    if name in ("labels", "buildargs", "cachefrom", "outputs", "platform", "type"):  # JSON, or perhaps
        return (*absurd.TEXTS, *absurd.NOT_TEXTS, *absurd.NOT_FILTERS)
    return (*absurd.TEXTS, *absurd.NOT_TEXTS)


def leaves(source: dict, path: str = "", inside: tuple[str, ...] = ()) -> Iterator[tuple[str, dict]]:
    """Each field of a schema, those that hold others too, named as in `tests.api.fields`."""
    definitions = schema.definition()["definitions"]
    if "$ref" in source:
        name = source["$ref"].rpartition("/")[2]
        if name not in inside:
            yield from leaves(definitions[name], path, (*inside, name))
        return
    for part in source.get("allOf", ()):
        yield from leaves(part, path, inside)
    if path:
        yield path, source
    for name, value in source.get("properties", {}).items():
        yield from leaves(value, f"{path}.{name}" if path else name, inside)
    if source.get("type") == "array":
        yield from leaves(source["items"], f"{path}[]", inside)
    if isinstance(source.get("additionalProperties"), dict):
        yield from leaves(source["additionalProperties"], f"{path}.*", inside)


def _values(source: dict) -> list:
    """What is tried in a field of a body."""
    kind = source.get("type", "object")
    if kind == "string":
        return [*source.get("enum", ()), *absurd.TEXTS, absurd.LONELY, Raw('"\\udc00\\ud800\\udfff"'), *absurd.OTHERS]
    if kind in ("integer", "number"):
        return [*absurd.NUMBERS, *absurd.OTHERS]
    if kind == "boolean":
        return list(absurd.OTHERS)
    if kind == "array":
        return [*absurd.OTHERS, ["a"] * 1_000, [""], ["\0"], [absurd.LONELY], ["a" * absurd.LONG], [1], [True], "a"]
    keyed = [{key: value} for key in absurd.TEXTS for value in (key, {})]
    return [*absurd.OTHERS, *keyed, {absurd.LONELY: absurd.LONELY}, {f"k{number}": "v" for number in range(1_000)}]


def placed(base: dict, path: str, value: object) -> dict:
    """A body with a value at a path such as `A.B[].C.*`; what is on the way there is kept."""
    return _put(base, path.replace("[]", ".[]").split("."), value)


def _put(found: object, steps: list[str], value: object) -> object:
    if not steps:
        return value
    first, *rest = steps
    if first == "[]":
        items = list(found) if isinstance(found, list) and found else [None]
        return [_put(items[0], rest, value), *items[1:]]
    entries = dict(found) if isinstance(found, dict) else {}
    if first == "*":
        first = next(iter(entries), "a")
    return {**entries, first: _put(entries.get(first), rest, value)}


@functools.cache
def operations() -> list[Operation]:
    """All of the definition's."""
    paths = schema.definition()["paths"]
    return [Operation(method, path, found) for path, item in paths.items() for method, found in item.items()]


def chosen(random_: random.Random, offered: Iterable[list[Request]], number: int) -> list[Request]:
    """So many requests in any order: of each of the lists as many as of the others, as long as it has any left."""
    lists = [random_.sample(each, len(each)) for each in offered]
    found: list[Request] = []
    while len(found) < number and any(lists):
        found += [each.pop() for each in lists if each]
    random_.shuffle(found)
    return found[:number]
