"""engine.daemon.api.routes: every endpoint of the definition has a row, and nothing else has one."""

import re

import pytest

from engine.daemon.api.dispatch import Dispatcher
from engine.daemon.api.routes import REFUSED, ROUTES, Late
from engine.errors import NotBuilt
from tests.harness.schema import definition

LISTED = [
    (method.upper(), path)
    for path, methods in definition()["paths"].items()
    for method in methods
    if method != "parameters"
]
# BuildKit's own, which dockerd has and its definition leaves out; the last is HTTP/2 without an upgrade.
BESIDES = [("POST", "/build/cancel"), ("POST", "/grpc"), ("PRI", "*")]


def test_the_rows_are_the_definition_s_each_once():
    rows = [(route.method, route.pattern.replace("...", "")) for route in ROUTES]
    assert sorted(rows) == sorted([*LISTED, *BESIDES])


@pytest.mark.parametrize(("method", "path"), LISTED)
def test_a_path_of_the_definition_leads_to_its_own_row(method, path):
    route, parameters = Dispatcher(None, ROUTES).find(method, re.sub(r"\{\w+\}", "x", path))
    assert (route.method, route.pattern.replace("...", "")) == (method, path)
    assert list(parameters) == re.findall(r"\{(\w+)\}", path)


@pytest.mark.parametrize("name", ["x", "a/b", "localhost:5000/a/b:c", "json", "a/json"])
@pytest.mark.parametrize("pattern", ["/images/{name...}/json", "/images/{name...}/get", "/images/{name...}/history"])
def test_an_image_s_name_may_hold_slashes(pattern, name):
    route, parameters = Dispatcher(None, ROUTES).find("GET", pattern.replace("{name...}", name))
    assert (route.pattern, parameters) == (pattern, {"name": name})


def test_a_handler_that_is_loaded_late_is_there():
    late = [route.handler for route in ROUTES if isinstance(route.handler, Late)]
    assert len(late) > 20
    assert all(callable(handler.loaded()) for handler in late)


@pytest.mark.parametrize(("method", "pattern", "reason"), REFUSED)
def test_what_the_engine_does_not_do_says_why(method, pattern, reason):
    route = next(route for route in ROUTES if (route.method, route.pattern) == (method, pattern))
    with pytest.raises(NotBuilt) as caught:
        route.handler(None, None)
    assert str(caught.value) == f"{method} {pattern} is not built in this engine: {reason}"
