"""The texts of an object's members, of documents that a stranger has written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.daemon.buildkit.sbom import rawmembers
from engine.errors import Invalid

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False) | some.text(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner, max_size=4),
    max_leaves=20,
)


@given(some.dictionaries(some.text(), VALUES, max_size=5), some.sampled_from([None, 1]))
def test_what_is_split_has_the_values_of_the_whole(document: dict, indent: int | None) -> None:
    data = json.dumps(document, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:  # half of a pair, which is no UTF-8
        with pytest.raises(Invalid):
            rawmembers.split(data, "it")
        return
    assert {name: json.loads(text) for name, text in rawmembers.split(data, "it").items()} == document


def test_of_several_with_one_name_the_last_counts() -> None:
    assert rawmembers.split(b' {"a": 1, "a" : [ 2 ] } ', "it") == {"a": "[ 2 ]"}


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"null", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}', b'{"a" 1}', b"{1:2}"),
        *(b'{"a":1} {}', b'{"a":1}x', b'{"a":NaN}', b'{"a":Infinity}', b'{"a":01}', b'{"a":"\x01"}', b'{"a":"\xff"}'),
        *(b'{"a":tru}', b'{"a":[1,]}', b'{"a":{"b"}}', b'{,"a":1}', b"{a:1}", b"{'a':1}"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid, match="invalid it: it is not a single JSON object"):
        rawmembers.split(data, "it")


def test_depth_and_number_are_bounded() -> None:
    with pytest.raises(Invalid, match="nested too deeply"):
        rawmembers.split(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", "it")
    with pytest.raises(Invalid, match="more than 1000000 values"):
        rawmembers.split(b'{"a":[' + b"1," * rawmembers.MOST_VALUES + b"1]}", "it")
