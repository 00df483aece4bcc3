"""The Dockerfile that a client's question is about, as the answers show it.

Plain values.
"""

import base64
import json

from engine.daemon.jsontext import Object
from engine.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """name: its path as the client gave it; data: its bytes"""

    name: str
    data: bytes

    @property
    def encoded(self) -> str:
        """The bytes as JSON has them."""
        return base64.b64encode(self.data).decode()


Answer = dict[str, bytes]
"""The metadata that answers a question, by name: `result.json`, `result.txt`, `version`, and others."""


def dumped(document: Object | list[Object]) -> bytes:
    """A document as an answer has it."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8", "replace")
