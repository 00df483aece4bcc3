"""One call of a sequence, which both sides are sent. Pure."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlencode

VERSION = "v1.54"
TAR = MappingProxyType({"Content-Type": "application/x-tar"})
NONE: Mapping[str, str] = MappingProxyType({})


class Step(NamedTuple):
    """One call. path: below the version, in which `{exec}` and its like stand for ids that an earlier answer gave

    saves: the name under which the `Id` of the answer is kept; shape: only the form of the answer is compared, because
    its values are measurements; rest: seconds in which what was begun comes to its end
    """

    method: str
    path: str
    body: object = None
    headers: Mapping[str, str] = NONE
    saves: str = ""
    shape: bool = False
    rest: float = 0.0

    @property
    def operation(self) -> str:
        """Method and path without the query."""
        return f"{self.method} {self.path.partition('?')[0]}"


def query(target: str, /, **parameters: object) -> str:
    """A path with parameters; those that are dicts or lists are JSON, None is left out."""
    texts = {
        name: json.dumps(value) if isinstance(value, dict | list) else str(value)
        for name, value in parameters.items()
        if value is not None
    }
    return f"{target}?{urlencode(texts)}" if texts else target
