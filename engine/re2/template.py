"""Fills a template as Go's package regexp does: `$1`, `$name` and `${name}` stand for groups, and `$$` for a `$`.

Pure. A name goes as far as letters, digits and `_` do, so `$1x` is the group `1x`.
"""

import re
from collections.abc import Mapping

from engine.errors import Invalid

_NAMED = re.compile(r"\$(?:(\$)|\{(\w+)\}|(\w+))")


def expanded(template: str, groups: Mapping[str, str], most: int) -> str:
    """The template with the groups, nothing for one that is none. Raises Invalid for more than `most` characters."""
    made: list[str] = []
    size = last = 0
    for match in _NAMED.finditer(template):
        made += template[last : match.start()], match[1] or groups.get(match[2] or match[3], "")
        last = match.end()
        size += len(made[-1]) + len(made[-2])
        if size > most:
            raise Invalid(f"a text that is made of a template has more than {most} characters")
    return "".join(made) + template[last:]
