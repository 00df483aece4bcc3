"""Rules on how a Dockerfile is written: the case of its words, the names of its stages, its comments.

Pure. Each function yields the marks of one rule of the table in `lintrules`.
"""

from collections.abc import Iterator

from engine.daemon.buildkit.lint.marks import Mark
from engine.daemon.buildkit.lint.review import SCRATCH, Review
from engine.daemon.dockerfile.gotext import quoted
from engine.daemon.dockerfile.statements import Instruction

_RESERVED = ("context", SCRATCH)


def gaps(review: Review) -> Iterator[Mark]:
    """Instructions that continue over an empty line."""
    if review.dockerfile is not None:
        for one in review.dockerfile.instructions:
            if one.gap:
                yield Mark(one, "Empty continuation line", one.gap)


def _named(review: Review) -> Iterator[tuple[Instruction, str, str]]:
    """The FROMs with a name: the word before the name, and the name, both as written."""
    for one in review.read:
        if one.keyword == "FROM" and len(one.arguments) == 3:
            yield one, one.arguments[1], one.arguments[2]


def stage_casing(review: Review) -> Iterator[Mark]:
    """Names of stages with capital letters."""
    for one, _, name in _named(review):
        if name != name.lower():
            yield Mark(one, f"Stage name '{name}' should be lowercase")


def as_casing(review: Review) -> Iterator[Mark]:
    """`as` beside FROM, or `AS` beside from. A FROM of mixed case is another rule's."""
    for one, word, _ in _named(review):
        lower, upper = one.written == one.written.lower(), one.written == one.written.upper()
        if (lower and word != word.lower()) or (upper and not lower and word != word.upper()):
            yield Mark(one, f"'{word}' and '{one.written}' keywords' casing do not match")


def maintainers(review: Review) -> Iterator[Mark]:
    """Each MAINTAINER."""
    for one in review.read:
        if one.keyword == "MAINTAINER":
            yield Mark(one, "Maintainer instruction is deprecated in favor of using label")


def descriptions(review: Review) -> Iterator[Mark]:
    """Comments right above a stage or an argument that begin with another name."""
    names: dict[int, tuple[str, ...]] = {id(one): (name.lower(),) for one, _, name in _named(review)}
    for one in review.read:
        if one.keyword == "ARG":
            names[id(one)] = tuple(word.partition("=")[0] for word in one.arguments)
        own = names.get(id(one), ())
        if own and one.comments and one.comments[-1].split(" ")[0] not in own:
            shown = own[0] if len(own) == 1 else "<arg_key>"
            yield Mark(one, f"Comment for {one.keyword} should follow the format: `# {shown} <description>`")


def reserved(review: Review) -> Iterator[Mark]:
    """Stages named like a thing that is no stage."""
    for one, _, name in _named(review) if review.whole else ():
        if name.lower() in _RESERVED:
            yield Mark(one, f"Stage name should not use the same name as reserved stage {quoted(name.lower())}")


def duplicates(review: Review) -> Iterator[Mark]:
    """Stages named like an earlier one."""
    seen: set[str] = set()
    for one, _, name in _named(review) if review.whole else ():
        if name.lower() in seen:
            yield Mark(one, f"Duplicate stage name {quoted(name.lower())}, stage names should be unique")
        seen.add(name.lower())


def casing(review: Review) -> Iterator[Mark]:
    """Instructions whose case is not that of most. ARGs before the first FROM have no part in it."""
    first = next((at for at, one in enumerate(review.read) if one.keyword == "FROM"), len(review.read))
    judged = review.read[first:] if review.whole else []
    lower = sum(one.written == one.written.lower() for one in judged)
    upper = sum(one.written == one.written.upper() for one in judged)
    wanted, wrong = ("lowercase", str.lower) if lower > upper else ("uppercase", str.upper)
    for one in judged:
        if wrong(one.written) != one.written:
            detail = f"Command '{one.written}' should match the case of the command majority ({wanted})"
            yield Mark(one, detail)
