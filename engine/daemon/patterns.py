"""Compiles the regular expressions that clients give in filters, and refuses those that could take too long to search
with.

Pure. dockerd's engine for regular expressions takes linear time, Python's backtracks. So an expression that could take
for ever is refused, and the time of all others is bounded by a small power of `MOST_SEARCHED`.
"""

import re

from engine.errors import Invalid

MOST_SEARCHED = 128
"""The most characters of a text that are searched: no real name or id of a container is longer."""

_LONGEST = 256

_MOST_REPEATED = 3
_NESTED = re.compile(r"\)[*+?{]|\\[1-9]|\(\?P=")
_REPEATED = re.compile(r"[*+]|\{\d*,")


def compile_pattern(value: str) -> re.Pattern[str]:
    """The compiled expression; raises Invalid for one that nests repetitions, refers back, or repeats more than a few
    times.
    """
    if len(value) > _LONGEST or _NESTED.search(value) or len(_REPEATED.findall(value)) > _MOST_REPEATED:
        raise Invalid(f"invalid filter: the expression {value!r} could take too long")
    try:
        return re.compile(value)
    except re.error:
        # A text that is no valid expression can still be a name.
        return re.compile(re.escape(value))
