"""The documents of images, as Go writes and reads them."""

import json

import pytest

from engine.daemon.images import image as documents
from engine.errors import Invalid


def test_a_document_has_gos_escapes() -> None:
    """Of what a page of HTML would take for its own; the text is the same."""
    document = {"a": 'x<&>y"é\u2028', "b": [1, {"c": None}]}
    data = documents.dump(document)
    assert data == '{"a":"x\\u003c\\u0026\\u003ey\\"é\\u2028","b":[1,{"c":null}]}'.encode()
    assert json.loads(data) == document


def test_a_document_with_lines_has_gos() -> None:
    """Empty lists and tables take no line."""
    data = documents.dump({"a": [], "b": {"c": "<"}, "d": [1]}, documents.INDENT)
    assert data.decode() == '{\n  "a": [],\n  "b": {\n    "c": "\\u003c"\n  },\n  "d": [\n    1\n  ]\n}'


@pytest.mark.parametrize(("layers", "taken"), [([], True), (None, True), ("", False), ({}, False), (0, False)])
def test_a_manifest_without_layers(layers: object, taken: bool) -> None:
    """Go writes null for a list that was never made: such are the images that BuildKit makes of nothing."""
    config = documents.descriptor(documents.OCI_CONFIG, f"sha256:{'1' * 64}", 2)
    manifest = {"config": config, "layers": layers}
    if taken:
        assert documents.manifest_parts(manifest) == (config, [])
    else:
        with pytest.raises(Invalid, match="no layers"):
            documents.manifest_parts(manifest)


def test_a_manifest_that_does_not_speak_of_layers_is_refused() -> None:
    with pytest.raises(Invalid, match="no layers"):
        documents.manifest_parts({"config": documents.descriptor(documents.OCI_CONFIG, f"sha256:{'1' * 64}", 2)})
