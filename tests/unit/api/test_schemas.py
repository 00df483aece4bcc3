"""engine.daemon.api.schemas: the tables know every field of the definition, with its type."""

import pytest

from engine.daemon.api import schemas
from engine.daemon.api.body import Array, Mapping, Scalar, Struct
from engine.errors import Invalid
from tests.harness.schema import definition

KINDS = {"string": str, "integer": int, "boolean": bool}
DEFINITIONS = definition()["definitions"]


def resolved(source: dict) -> dict:
    """A schema of the definition with its references and its `allOf` taken in."""
    while "$ref" in source:
        source = DEFINITIONS[source["$ref"].rpartition("/")[2]]
    for part in source.get("allOf", ()):
        inner = resolved(part)
        source = {**inner, **source, "properties": {**inner.get("properties", {}), **source.get("properties", {})}}
    return source


def compare(source: dict, schema: object, where: str) -> None:
    """Every field that the definition has is in the table, and of the same type."""
    source = resolved(source)
    kind = source.get("type", "object" if source.get("properties") else "string")
    if kind in KINDS:
        assert isinstance(schema, Scalar), where
        assert schema.kind is KINDS[kind], where
    elif kind == "array":
        assert isinstance(schema, Array), where
        compare(source["items"], schema.item, f"{where}[]")
    elif isinstance(source.get("additionalProperties"), dict):
        assert isinstance(schema, Mapping), where
        compare(source["additionalProperties"], schema.value, f"{where}.*")
    else:
        assert isinstance(schema, Struct), where
        for name, field in source.get("properties", {}).items():
            assert name.lower() in schema.fields, f"{where}.{name} is missing"
            known, _, inner = schema.fields[name.lower()]
            assert known == name, where
            compare(field, inner, f"{where}.{name}")


@pytest.mark.parametrize(
    ("source", "schema"),
    [
        (DEFINITIONS["ContainerConfig"], schemas.CONTAINER_CREATE),
        (DEFINITIONS["HostConfig"], schemas.HOST_CONFIG),
        (DEFINITIONS["EndpointSettings"], schemas.ENDPOINT),
        (DEFINITIONS["Mount"], schemas.MOUNT),
        (DEFINITIONS["HealthConfig"], schemas.HEALTHCHECK),
        (DEFINITIONS["AuthConfig"], schemas.AUTH_CONFIG),
        (
            definition()["paths"]["/containers/create"]["post"]["parameters"][2]["schema"],
            schemas.CONTAINER_CREATE,
        ),
    ],
    ids=["Config", "HostConfig", "EndpointSettings", "Mount", "HealthConfig", "AuthConfig", "create"],
)
def test_the_table_has_every_field_of_the_definition(source, schema):
    compare(source, schema, schema.go)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("10.0.0.1", "10.0.0.1"),
        ("0::0", "::"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("FE80::1%eth0", "fe80::1%eth0"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
    ],
)
def test_an_address_has_one_text(text: str, canonical: str):
    """Who compares them, as the ports of the host are, would take two texts of one address for two addresses."""
    assert schemas.ADDRESS.parse(text) == canonical


@pytest.mark.parametrize("text", ["10.0.0", "1.2.3.4%eth0", "%eth0", "a", "1.2.3.4\0"])
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(Invalid, match="unable to parse IP"):
        schemas.ADDRESS.parse(text)
