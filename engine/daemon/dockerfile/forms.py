"""Splits an instruction's text into arguments, by the form of its kind: words, pairs, a JSON list, or one text.

Pure. Quotes, escapes and variables stay in the arguments. `words` handles them when the values of the variables are
known.
"""

import json
import re
from collections.abc import Callable
from itertools import islice

from engine.daemon.dockerfile.gotext import SPACE, quoted
from engine.daemon.jsontext import DEEPEST, deeper_than
from engine.dataclass import dataclass
from engine.errors import Invalid

MOST_ARGUMENTS = 10_000
"""Of one instruction: a text of a megabyte could else become twenty times as much."""

_BLANK = re.compile(r"[\t\v\f\r ]+")
_TYPE = re.compile(f"([^{SPACE}]+)[{SPACE}]*(.*)", re.DOTALL)
# One word: text, escaped characters, and quoted text whose closing quote may be missing. An escape as the last
# character is dropped.
_PAIR_WORDS = {
    escape: re.compile(
        rf"""(?:'[^']*+'?|"(?:[^"{mark}]|{mark}.)*+(?:"|(?P<in_quotes>{mark}\Z))?|{mark}.|(?P<last>{mark}\Z)"""
        rf"""|[^{SPACE}'"{mark}])++""",
        re.DOTALL,
    )
    for escape, mark in (("\\", r"\\"), ("`", "`"))
}


@dataclass(frozen=True)
class Arguments:
    """The arguments as written, and whether they were written as a JSON list (exec form).

    spaced: they are one pair in the old form, `name value`
    """

    values: tuple[str, ...] = ()
    exec_form: bool = False
    spaced: bool = False


Form = Callable[[str, str], Arguments]


def whole(text: str, escape: str) -> Arguments:
    """The whole text as one argument, or none for an empty text."""
    return Arguments((text,) if text else ())


def by_space(text: str, escape: str) -> Arguments:
    """Words divided at space; quotes have no meaning."""
    return Arguments(tuple(_few(_BLANK.split(text, MOST_ARGUMENTS))) if text else ())


def exec_or_whole(text: str, escape: str) -> Arguments:
    """The items of a JSON list, or else one text for a shell."""
    return _exec_form(text) or whole(text, escape)


def exec_or_space(text: str, escape: str) -> Arguments:
    """The items of a JSON list, or else words divided at space."""
    return _exec_form(text) or by_space(text, escape)


def names(text: str, escape: str) -> Arguments:
    """Words divided at unquoted space, as in `name other=value "third=with space"`."""
    return Arguments(tuple(_words(text, escape)))


def env_pairs(text: str, escape: str) -> Arguments:
    """The pairs of ENV as a flat list: name, value, name, value, ..."""
    return _pairs("ENV", text, escape)


def label_pairs(text: str, escape: str) -> Arguments:
    """The pairs of LABEL as a flat list: name, value, name, value, ...; errors name LABEL."""
    return _pairs("LABEL", text, escape)


def health(text: str, escape: str) -> Arguments:
    """HEALTHCHECK's type, then perhaps the items of a JSON list or a text for a shell."""
    match = _TYPE.match(text)
    if match is None:
        return Arguments()
    command = exec_or_whole(match[2], escape)
    return Arguments((match[1], *command.values), command.exec_form)


_TOO_MANY = f"an instruction has more than {MOST_ARGUMENTS} arguments"


def _exec_form(text: str) -> Arguments | None:
    """The items of a JSON list of strings; None for any other text, which is meant for a shell."""
    if not text.startswith("[") or deeper_than(DEEPEST, text):
        return None
    if text.count('"') - text.count('\\"') > 2 * MOST_ARGUMENTS:
        raise Invalid(_TOO_MANY)
    try:
        values = json.loads(text, parse_constant=_no_constant, parse_int=float)
    except ValueError:
        return None
    if not all(isinstance(value, str) for value in values):
        raise Invalid("when using JSON array syntax, arrays must be comprised of strings only")
    # A lone surrogate is replaced: it cannot be encoded in a program's arguments.
    return Arguments(
        tuple(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for value in values), True
    )


def _no_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python's parser accepts and JSON does not have."""
    raise ValueError(name)


def _words(text: str, escape: str) -> list[str]:
    matches = islice(_PAIR_WORDS[escape].finditer(text), MOST_ARGUMENTS + 1)
    return _few([match[0][:-1] if match["last"] or match["in_quotes"] else match[0] for match in matches])


def _few(words: list[str]) -> list[str]:
    if len(words) > MOST_ARGUMENTS:
        raise Invalid(_TOO_MANY)
    return words


def _pairs(keyword: str, text: str, escape: str) -> Arguments:
    words = [word for word in _words(text, escape) if word]
    if not words:
        return Arguments()
    if "=" not in words[0]:
        # The old form: a name, then all the rest as its value.
        name, *rest = _BLANK.split(text, maxsplit=1)
        if not rest:
            raise Invalid(f"{keyword} must have two arguments")
        return Arguments((name, rest[0]), spaced=True)
    values: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise Invalid(f"Syntax error - can't find = in {quoted(word)}. Must be of the form: name=value")
        values += [name, value]
    return Arguments(tuple(values))
