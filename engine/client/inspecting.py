"""The verbs `engine inspect` and `engine KIND inspect`: show what the daemon knows of things, as JSON or by a template.

Runs in the client's one thread. A name without a kind is looked for among containers, images, networks and volumes, in
this order, as docker does.
"""

import json
import sys
from collections.abc import Callable, Sequence

from engine.client.api import Api, ApiError, container_path, image_path, noun_path
from engine.client.showing.gofunctions import compact
from engine.client.showing.gotemplate import Template
from engine.client.showing.listings import SHOW_FORMAT, shown
from engine.client.transport import Object
from engine.commandline import Given, Option, given_text
from engine.errors import Invalid

OPTIONS = (SHOW_FORMAT,)
_SIZE = Option("size", "Display total file sizes if the type is container", short="s", kind="flag", default=False)
CONTAINER_OPTIONS = (SHOW_FORMAT, _SIZE)
ANY_OPTIONS = (SHOW_FORMAT, _SIZE, Option("type", "Only inspect objects of the given type"))
_NOT_FOUND = 404
_WRONG_TEMPLATE = 64

# kind → the path of a thing of it
_PATHS: dict[str, Callable[[str], str]] = {
    "container": lambda name: container_path(name, "json"),
    "image": lambda name: image_path(name, "json"),
    "network": lambda name: noun_path("networks", name),
    "volume": lambda name: noun_path("volumes", name),
}


def _of(*kinds: str) -> Callable[[Api, Given, Sequence[str]], int]:
    """A verb about things of these kinds."""

    def inspect(api: Api, given: Given, others: Sequence[str]) -> int:
        wanted = given_text(given, "type")
        if wanted and wanted not in kinds:
            raise Invalid(f'"{wanted}" is not a valid value for --type')
        form = given_text(given, "format")
        if form not in ("", "json"):
            try:
                Template(form)
            except Invalid as error:
                print(error, file=sys.stderr)
                return _WRONG_TEMPLATE
        found, refused = [], []
        for name in others:
            try:
                found.append(_found(api, (wanted,) if wanted else kinds, name, bool(given.get("size"))))
            except ApiError as error:
                refused.append(str(error) if len(kinds) == 1 or wanted or error.status != _NOT_FOUND else _none(name))
        _show(found, form)
        for text in refused:
            print(f"Error response from daemon: {text}" if len(kinds) == 1 else f"Error: {text}", file=sys.stderr)
        return 1 if refused else 0

    return inspect


def _none(name: str) -> str:
    return f"No such object: {name}"


def _found(api: Api, kinds: Sequence[str], name: str, sized: bool) -> Object:
    *firsts, last = kinds
    for kind in firsts:
        try:
            return _one(api, kind, name, sized)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
    return _one(api, last, name, sized)


def _one(api: Api, kind: str, name: str, sized: bool) -> Object:
    query = {"size": True} if sized and kind == "container" else None
    found: Object = api.call("GET", _PATHS[kind](name), query)
    return found


def _show(found: Sequence[Object], form: str) -> None:
    if not form:
        print(json.dumps(found, indent=4, ensure_ascii=False))
        return
    if form == "json":
        print(compact(found))
        return
    for document in found:
        print(shown(document, form))


FUNCTIONS = {
    "inspect": (_of("container", "image", "network", "volume"), ANY_OPTIONS),
    **{
        f"{kind} inspect": (_of(kind), CONTAINER_OPTIONS if kind == "container" else OPTIONS)
        for kind in ("container", "image", "network", "volume")
    },
}
