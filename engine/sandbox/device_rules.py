"""The device rules of a container in the format of the cgroup's devices controller (`c 1:3 rwm`), and their parser.

Pure: a rule is a kind (`a` all, `b` block, `c` character), major and minor number (`*` any), and the accesses it allows
(`r` read, `w` write, `m` make a node). What no rule allows is forbidden. Version 1 takes the texts as they are;
`device_program` makes version 2's program of them.
"""

import re

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import natural
from engine.regex import regex

DEFAULT: tuple[str, ...] = (
    "c *:* m",
    "b *:* m",
    "c 1:3 rwm",
    "c 1:5 rwm",
    "c 1:7 rwm",
    "c 1:8 rwm",
    "c 1:9 rwm",
    "c 5:0 rwm",
    "c 5:1 rwm",
    "c 5:2 rwm",
    "c 136:* rwm",
)
"""The rules of a container that is not privileged: make any node, use docker's default devices and terminals."""

_FORM = regex(r"([acb]) ([0-9]{1,10}|\*):([0-9]{1,10}|\*) ([rwm]{1,3})", re.ASCII)
_LARGEST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Rule:
    """One parsed rule; None is any number. A kind of `a` is every device, whatever the numbers say."""

    kind: str
    major: int | None
    minor: int | None
    access: str


def parse(text: str) -> Rule:
    """The rule of a text. Raises Invalid, in docker's words."""
    form = _FORM.fullmatch(text)
    numbers = [] if form is None else [natural(each, _LARGEST) for each in form.group(2, 3)]
    if form is None or any(
        number is None and each != "*" for number, each in zip(numbers, form.group(2, 3), strict=True)
    ):
        raise Invalid(f"invalid device cgroup rule format: '{text}'")
    return Rule(form[1], numbers[0], numbers[1], "".join(mark for mark in "rwm" if mark in form[4]))
