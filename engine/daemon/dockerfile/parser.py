"""Parses a whole Dockerfile, or one ONBUILD trigger, into instructions with their line numbers, flags and heredocs.

Pure, and linear in the text. `parse` also reads every instruction as written, so that errors which need no build are
found before its first step.
"""

import re

from engine.daemon.dockerfile import flags, forms, heredocs, instructions
from engine.daemon.dockerfile.gotext import SPACE, quoted
from engine.daemon.dockerfile.lines import Line, Reader
from engine.daemon.dockerfile.statements import Dockerfile, Heredoc, Instruction, Misplaced
from engine.dataclass import replace
from engine.errors import Invalid

__all__ = ["Dockerfile", "Heredoc", "Instruction", "Misplaced", "misplaced", "parse", "statement", "statements"]

MOST_INSTRUCTIONS = 10_000

_BLANK = re.compile(r"[\t\v\f\r ]+")
_WITH_HEREDOCS = ("ADD", "COPY", "RUN")
# How deep a trigger is parsed that holds a trigger. Such a trigger is refused later; no hand-written text nests deeper.
_MOST_TRIGGERS = 8


def parse(data: bytes, name: str = "Dockerfile") -> Dockerfile:
    """The whole Dockerfile. Raises Invalid in dockerd's words, which name the file or the line."""
    if not data:
        raise Invalid(f"the Dockerfile ({name}) cannot be empty")
    try:
        dockerfile = statements(data)
    except Misplaced as error:
        raise Misplaced(f"failed to parse {name}: {error}", error.reason, error.first, error.last) from error
    for one in dockerfile.instructions:
        try:
            instructions.read(one)
        except Invalid as error:
            raise misplaced(one, error) from error
    return dockerfile


def misplaced(one: Instruction, error: Invalid) -> Misplaced:
    """The fault of an instruction that is read as it stands."""
    text = f"dockerfile parse error on line {one.line}: {error}"
    return Misplaced(text, text, one.line, one.last_line)


def statements(data: bytes) -> Dockerfile:
    """The instructions by their form alone; their keywords need not be known. Raises Misplaced."""
    reader: Reader | None = None
    try:
        reader = Reader(data)
        return _statements(reader)
    except Invalid as error:
        first, last = (reader.begun, reader.number) if reader else (1, 1)
        raise Misplaced(str(error), str(error), max(1, first), max(1, last)) from error


def _statements(reader: Reader) -> Dockerfile:
    found: list[Instruction] = []
    warnings: list[str] = []
    for line in reader.lines():
        if len(found) == MOST_INSTRUCTIONS:
            raise Invalid(f"there are more than {MOST_INSTRUCTIONS} instructions")
        if line.gaps:
            warnings.append(f"Empty continuation line found in: {line.text}")
        found.append(_with_heredocs(_statement(line, reader.escape, _MOST_TRIGGERS), reader))
    if not found:
        raise Invalid("file with no instructions")
    return Dockerfile(tuple(found), reader.escape, reader.directives, tuple(warnings))


def statement(text: str) -> Instruction:
    """The one instruction of an ONBUILD trigger in an image's config.

    Raises Invalid, also for more than one instruction.
    """
    try:
        dockerfile = statements(text.encode("utf-8", "replace"))
    except Invalid as error:
        raise Invalid(f"failed to parse the trigger {quoted(text)}: {error}") from error
    if len(dockerfile.instructions) != 1:
        raise Invalid("onbuild trigger should be a single expression")
    return dockerfile.instructions[0]


def _statement(line: Line, escape: str, triggers: int) -> Instruction:
    text = line.text.strip(SPACE)
    written, *rest = _BLANK.split(text, maxsplit=1)
    keyword = written.upper()
    flagged, arguments = flags.taken_off(rest[0], escape) if rest else ((), "")
    if keyword == "ONBUILD":
        taken = _trigger(arguments, escape, triggers)
    else:
        taken = instructions.form(keyword)(arguments, escape)
    return Instruction(
        keyword=keyword,
        line=line.first,
        last_line=line.last,
        flags=flagged,
        text=arguments,
        original=text,
        arguments=taken.values,
        exec_form=taken.exec_form,
        written=written,
        spaced=taken.spaced,
        gap=line.last if line.gaps else 0,
        comments=line.comments,
    )


def _trigger(text: str, escape: str, triggers: int) -> forms.Arguments:
    if not text:
        return forms.Arguments()
    if not triggers:
        raise Invalid("Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed")
    inner = _statement(Line(text, 0, 0), escape, triggers - 1)
    return forms.Arguments((inner.written, *inner.arguments), inner.exec_form)


def _with_heredocs(instruction: Instruction, reader: Reader) -> Instruction:
    keyword = instruction.keyword
    if keyword == "ONBUILD" and instruction.arguments:
        keyword = instruction.arguments[0].upper()
    if keyword not in _WITH_HEREDOCS or instruction.exec_form or "<<" not in instruction.original:
        return instruction
    found = tuple(reader.heredoc(announced) for announced in heredocs.announced(instruction.original))
    return replace(instruction, heredocs=found, last_line=reader.number)
