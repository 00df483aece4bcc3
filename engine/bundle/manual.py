"""Writes the manual pages from the help texts, which are made from the tables of verbs and options.

Pure: texts in, a page for man(1) out, in the macros of man(7). A page so says what the program says, and nothing else.
"""

import re
from collections.abc import Iterator, Sequence

_OPTION = re.compile(r" {2,6}(-\S.*?)(?:  +(\S.*))?$")
_TERM = re.compile(r" {2}(\S+)  +(\S.*)$")
_TWO = re.compile(r" {7,}(\S.*)$")


def page(name: str, section: int, version: str, summary: str, helps: Sequence[str]) -> str:
    """A page. summary: what stands behind the name; helps: help texts, of which the first is the program's own."""
    lines = [f'.TH {name.upper()} {section} "" "engine {version}"', ".SH NAME", f"{name} \\- {_text(summary)}"]
    for number, help_text in enumerate(helps):
        usage, _, rest = help_text.partition("\n")
        words = usage.removeprefix("Usage:").strip()
        lines += [".SH SYNOPSIS", f".B {_text(words)}", ".SH DESCRIPTION"] if number == 0 else []
        lines += [".SH EACH VERB"] if number == 1 else []
        lines += [f".SS {_text(words)}"] if number else []
        lines += _body(rest, ".SH" if number == 0 else ".PP\n.B")
    return "\n".join(lines) + "\n"


def _body(text: str, heading: str) -> Iterator[str]:
    """The lines of a help text: headings, terms with what they mean, and paragraphs."""
    begins = True
    for line in text.splitlines():
        if not line:
            begins = True
        elif re.fullmatch(r"\w+( \w+)*:", line):
            yield f"{heading} {line.rstrip(':').upper() if heading == '.SH' else _text(line)}"
            begins = True
        elif found := _OPTION.match(line) or _TERM.match(line):
            yield ".TP"
            yield f".B {_text(found[1])}"
            yield _text(found[2] or "")
        elif found := _TWO.match(line):
            yield _text(found[1])
        else:
            if begins:
                yield ".PP"
            yield _text(line)
            begins = False


def _text(text: str) -> str:
    """A line in which roff sees no request and no escape (groff(7))."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
