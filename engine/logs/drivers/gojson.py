"""Writes texts and objects of texts as Go's encoding/json does, by which dockerd tells of a container.

Pure; used by the daemon's request threads and by the processes that forward lines. Bytes that are no UTF-8 become
U+FFFD.
"""

from collections.abc import Mapping

from engine.logs.jsonwriter import escape


def text(value: bytes) -> bytes:
    """A text with its quotes."""
    # Only a tab differs between encoding/json and dockerd's writer of lines, which has it as \u0009.
    return b'"' + b"\\t".join(escape(part) for part in value.split(b"\t")) + b'"'


def packed(values: Mapping[str, str]) -> bytes:
    """An object of texts, its names sorted."""
    pairs = (_encoded(name) + b":" + _encoded(value) for name, value in sorted(values.items()))
    return b"{" + b",".join(pairs) + b"}"


def attributes(values: Mapping[str, str]) -> bytes:
    """The part of a JSON line between the stream and the time: `"attrs":{...},` as Go writes it, or nothing."""
    return b'"attrs":' + packed(values) + b"," if values else b""


def _encoded(value: str) -> bytes:
    return text(value.encode("utf-8", "surrogateescape"))
