"""The values of log options, read as dockerd reads them, and refused in the words of Go's library that it passes on.

Pure; used by the daemon's request threads.
"""

import re

from engine.errors import Invalid

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmgtp]?)i?b?", re.IGNORECASE)
DEFAULT_RING = 1_000_000
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def size(text: str, thousand: int = 1000) -> int:
    """`10m` as bytes; thousand: 1000 for the sizes of files, 1024 for those of memory. Raises Invalid."""
    parsed = _SIZE.fullmatch(text)
    if parsed is None:
        raise Invalid(f"invalid size: '{text}'")
    return int(float(parsed[1]) * thousand ** _POWERS[parsed[2].lower()])


def count(text: str) -> int:
    """A whole number. Raises Invalid."""
    digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise Invalid(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def truth(text: str) -> bool:
    """A yes or no. Raises Invalid."""
    if text in TRUE or text in FALSE:
        return text in TRUE
    raise Invalid(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def ring(config: dict[str, str]) -> int:
    """How many bytes of lines may wait for a driver that is `non-blocking`; 0 for one that is not. Raises Invalid."""
    if config.get("mode") != "non-blocking":
        return 0
    return max(size(config["max-buffer-size"], 1024), 1) if "max-buffer-size" in config else DEFAULT_RING
