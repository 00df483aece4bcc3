"""What a current dockerd answered: the transcript's calls, by their number."""

import functools
import json
import lzma
from pathlib import Path

_DATA = Path(__file__).parents[2] / "data"


@functools.cache
def calls() -> dict[int, dict]:
    """Number of the call → the call, with `request`, `response` and `note`."""
    lines = lzma.decompress((_DATA / "engine-transcript-1.54.jsonl.xz").read_bytes()).splitlines()
    return {call["n"]: call for call in map(json.loads, lines)}


def answer(number: int) -> object:
    """The body that call got."""
    return calls()[number]["response"]["body"]


@functools.cache
def definition(name: str) -> frozenset[str]:
    """The names of the fields of one of the API's definitions, those that it takes over from others too."""
    whole = json.loads(lzma.decompress((_DATA / "engine-api-1.54.json.xz").read_bytes()))["definitions"]
    return frozenset(_fields(whole, whole[name]))


def _fields(whole: dict, schema: dict) -> set[str]:
    found = set(schema.get("properties", ()))
    for part in schema.get("allOf", ()):
        found |= _fields(whole, whole[part["$ref"].rpartition("/")[2]] if "$ref" in part else part)
    return found
