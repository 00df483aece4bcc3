"""Colours for what the client writes to a terminal, and to nothing else.

NO_COLOR with any value (https://no-color.org), TERM=dumb and an output that is no terminal switch them off.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from engine.late import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

_CODES = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}


def wanted(out: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether colours may be written to `out`."""
    return not environ.get("NO_COLOR") and environ.get("TERM", "") != "dumb" and out.isatty()


def painted(text: str, colour: str, on: bool) -> str:
    """The text in a colour or weight, where it is `on`. A text without letters stays as it is."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if on and text else text
