"""Which frontend a file asks for by its `syntax`: docker's own for Dockerfiles is this engine's, any other an image.

Pure. A syntax is a directive at the beginning of the file, of `#` or of `//` comments, or a key of a file in JSON; a
first line that begins with `#!` is passed over. Source: buildkit, frontend/dockerfile/parser/directives.go.
"""

import re

from engine.daemon import jsontext
from engine.daemon.dockerfile.gotext import SPACE
from engine.daemon.images.reference import Reference
from engine.errors import EngineError, Invalid

_KEY = "syntax"
_KNOWN = (_KEY, "escape", "check")
_LONGEST = 64 * 1024  # of a file in JSON that is a frontend's own, and of the directives
_OURS = ("docker/dockerfile", "docker/dockerfile-upstream")
_DIRECTIVE = re.compile(rf"(?a:([a-zA-Z][a-zA-Z0-9]*))[{SPACE}]*=[{SPACE}]*(.+)")


class OtherFrontend(EngineError):
    """The file is for the frontend of an image. words: the reference of the image, perhaps with words after it"""

    def __init__(self, words: str) -> None:
        super().__init__(f"the file asks for the frontend {words}")
        self.words = words

    @property
    def source(self) -> str:
        """The reference alone."""
        return self.words.split(" ", 1)[0]


def other(data: bytes, asked: str = "") -> str:
    """The words that name another frontend than this engine's: a reference of an image, perhaps with words after it.

    asked: the value of BUILDKIT_SYNTAX, which goes before what the file says. Empty where the frontend is this engine's
    """
    wanted = asked.strip(SPACE) or syntax(data)
    return "" if not wanted or _is_ours(wanted.split(" ", 1)[0]) else wanted


def syntax(data: bytes) -> str:
    """What the file says, empty where it says nothing."""
    text = data[:_LONGEST].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    if text.startswith("#!"):
        text = text.partition("\n")[2]
    return _directive(text, "#") or _directive(text, "//") or _of_json(text if len(data) <= _LONGEST else "")


def _directive(text: str, mark: str) -> str:
    for line in text.split("\n"):
        match = _DIRECTIVE.fullmatch(line[len(mark) :].strip(SPACE)) if line.startswith(mark) else None
        if match is None or match[1].lower() not in _KNOWN:
            return ""
        if match[1].lower() == _KEY:
            return match[2]
    return ""


def _of_json(text: str) -> str:
    if not text.lstrip(SPACE).startswith("{"):
        return ""
    try:
        document = jsontext.parse(text, _KEY)
    except Invalid:  # a file of another kind
        return ""
    found = document.get(_KEY) if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""


def _is_ours(name: str) -> bool:
    """Whether an image is docker's frontend, from any registry and in any version."""
    try:
        path = Reference.parse(name).path
    except Invalid:
        return False
    return path in _OURS or path.endswith(tuple(f"/{each}" for each in _OURS))
