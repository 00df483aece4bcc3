"""The types of Config, HostConfig and EndpointSettings: the keys and values of their defaults and their schemas."""

import types
from collections.abc import Iterator, Mapping
from typing import get_args, get_origin, get_type_hints

import pytest

from engine.annotating import TypedDict
from engine.daemon.api import body, schemas
from engine.daemon.containers import config, shapes
from engine.dataclass import replace

WHOLE = (
    (shapes.Config, config.CONFIG, schemas.CONTAINER_CONFIG),
    (shapes.HostConfig, config.HOST_CONFIG, schemas.HOST_CONFIG),
    (shapes.EndpointSettings, config.ENDPOINT, schemas.ENDPOINT),
)
# A privileged container has none of these, though an ordinary one has defaults for them.
TAKEN_AWAY = {"MaskedPaths", "ReadonlyPaths"}
# A null within these is made a whole entry.
FILLED_IN = {"Ulimits": replace(schemas.RESOURCES["Ulimits"], pointers=False)}


def without_none(hint: object) -> tuple[object, bool]:
    """The type, and whether None may be there in its place."""
    if not isinstance(hint, types.UnionType):
        return hint, False
    kinds = [kind for kind in get_args(hint) if kind is not types.NoneType]
    assert len(kinds) == 1, hint
    return kinds[0], True


def disagreements(place: str, hint: object, schema: body.Schema) -> Iterator[str]:
    """Where a value that was decoded along the schema would not have the type."""
    match schema:
        case body.Scalar():
            agreed = hint is schema.kind
        case body.Array():
            agreed = get_origin(hint) is list
        case body.Mapping():
            agreed = get_origin(hint) is dict and get_args(hint)[0] is str
        case body.Struct():
            agreed = isinstance(hint, type) and issubclass(hint, TypedDict)
    if not agreed:
        yield f"{place}: {hint} is not {schema.go}"
    elif isinstance(schema, body.Struct):
        fields = {name: field for name, _, field in schema.fields.values()}
        hints = get_type_hints(hint)
        if hints.keys() != fields.keys():
            yield f"{place}: {sorted(hints.keys() ^ fields.keys())}"
        for name in hints.keys() & fields.keys():
            yield from disagreements(f"{place}.{name}", hints[name], fields[name])
    elif not isinstance(schema, body.Scalar):
        inner = schema.item if isinstance(schema, body.Array) else schema.value
        kind, optional = without_none(get_args(hint)[-1])
        if optional is not (schema.pointers or body.zero(inner) is None):
            yield f"{place}: a null within is not as the schema says"
        yield from disagreements(f"{place}[]", kind, inner)


@pytest.mark.parametrize(("shape", "defaults", "schema"), WHOLE)
def test_a_type_has_the_keys_of_the_defaults_in_their_order(
    shape: type, defaults: Mapping[str, object], schema: body.Struct
) -> None:
    assert list(get_type_hints(shape)) == list(defaults)
    assert {name for name, _, _ in schema.fields.values()} == set(defaults)


@pytest.mark.parametrize(("shape", "defaults", "schema"), WHOLE)
def test_a_type_is_what_the_schema_decodes(shape: type, defaults: Mapping[str, object], schema: body.Struct) -> None:
    hints = get_type_hints(shape)
    found = []
    for name, _, field in schema.fields.values():
        kind, optional = without_none(hints[name])
        if optional is not (defaults[name] is None or name in TAKEN_AWAY):
            found.append(f"{name}: None is not as the default says")
        found += disagreements(name, kind, FILLED_IN.get(name, field))
    assert not found
