"""Parses command lines by a table of options and makes the help text, for the daemon and for the client's verbs.

Pure; open to all packages. It follows the rules of the command line of dockerd and docker (pflag): `--name value`,
`--name=value`, `-n value`, `-nvalue`, `-n=value`, bundled short flags, `--` ends the options. argparse is not used
because the daemon would keep its 340 KB for the life of the process. It never exits and never prints.
"""

from collections.abc import Callable, Mapping, Sequence

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import integer

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


class Structured:
    """A value with a form of its own, which only the configuration file can say."""

    __slots__ = ()


Value = str | bool | int | tuple[str, ...] | Structured
"""The value given for an option: of a `text`, of a `flag`, of a `number`, or all values of a `list`."""
Given = Mapping[str, Value]
"""The values given for options, by the options' long names."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    name:    its long name, without dashes; also the key of its value in what `parse` returns
    short:   its one-letter name, or empty
    kind:    `text` (the last one given counts), `number` (the same, a whole number), `list` (each one given counts),
             `flag` (true or false)
    default: the value where nothing is given; a list is a tuple
    check:   text → value, for `text` and for each one of a `list`; for a `number` text → decimal digits; raises
             Invalid with what is wrong
    value:   what the help text calls the value
    key:     its name in the configuration file; empty where it has no place there
    """

    name: str
    help: str
    short: str = ""
    kind: str = "text"
    default: Value = ""
    check: Callable[[str], str] = str
    value: str = "string"
    key: str = ""

    @property
    def shown(self) -> str:
        """The names as an error shows them: `-H, --host`."""
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"

    @property
    def default_shown(self) -> str:
        """The default as a help text shows it; empty for no default."""
        if isinstance(self.default, bool):
            return "true" if self.default else ""
        if isinstance(self.default, int):
            return str(self.default or "")
        if isinstance(self.default, Structured):
            return ""
        return ", ".join(self.default) if isinstance(self.default, tuple) else self.default


def parse(
    options: Sequence[Option], arguments: Sequence[str], *, interspersed: bool = True
) -> tuple[dict[str, Value], list[str]]:
    """Take the options out of `arguments`: returns (the given ones by long name, the other arguments).

    `interspersed`: options may also stand after the first other argument. Without it, that argument and all after it
    are left alone (they are the command of `run`). Raises Invalid in pflag's words.
    """
    long = {option.name: option for option in options}
    short = {option.short: option for option in options if option.short}
    given: dict[str, Value] = {}
    others: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            others += rest
            break
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            if name not in long:
                raise Invalid(f"unknown flag: --{name}")
            _take(long[name], value if has_value else None, rest, f"--{name}", given)
        elif word.startswith("-") and word != "-":
            _take_bundle(short, word[1:], rest, given)
        else:
            others.append(word)
            if not interspersed:
                others += rest
                break
    return given, others


def _take_bundle(short: dict[str, Option], letters: str, rest: list[str], given: dict[str, Value]) -> None:
    bundle = letters
    while letters:
        letter, letters = letters[0], letters[1:]
        option = short.get(letter)
        if option is None:
            raise Invalid(f"unknown shorthand flag: '{letter}' in -{bundle}")
        value: str | None = None
        if letters.startswith("="):
            value, letters = letters[1:], ""
        elif letters and option.kind != "flag":
            value, letters = letters, ""
        _take(option, value, rest, f"'{letter}' in -{bundle}", given)


def _take(option: Option, value: str | None, rest: list[str], written: str, given: dict[str, Value]) -> None:
    if option.kind == "flag":
        given[option.name] = True if value is None else _truth(option, value)
        return
    if value is None:
        if not rest:
            raise Invalid(f"flag needs an argument: {written}")
        value = rest.pop(0)
    checked = _checked(option, value)
    if option.kind == "list":
        given[option.name] = (*given_texts(given, option.name), checked)
    else:
        given[option.name] = integer(checked) if option.kind == "number" else checked


def given_text(given: Given, name: str, default: str = "") -> str:
    """The value given for an option of the kind `text`; `default` where none is given."""
    value = given.get(name)
    return value if isinstance(value, str) else default


def given_texts(given: Given, name: str) -> tuple[str, ...]:
    """All values given for an option of the kind `list`."""
    value = given.get(name)
    return value if isinstance(value, tuple) else ()


def _truth(option: Option, text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise Invalid(f'invalid argument "{text}" for "{option.shown}" flag: neither true nor false')


def _checked(option: Option, text: str) -> str:
    try:
        checked = option.check(text)
        if option.kind == "number":
            integer(checked, reader="strconv.ParseInt")
        return checked
    except Invalid as error:
        raise Invalid(f'invalid argument "{text}" for "{option.shown}" flag: {error}') from error


def described(options: Sequence[Option], width: int = 80) -> str:
    """The options as a help text shows them, one below the other, no line longer than `width`."""
    import textwrap  # imported late: it compiles patterns, and only --help needs it

    rows = [(_left_column(option), _right_column(option)) for option in options]
    margin = max((len(left) for left, _ in rows), default=0) + 2
    lines = []
    for left, right in rows:
        first, *more = textwrap.wrap(right, width - margin, break_on_hyphens=False) or [""]
        lines.append(left.ljust(margin) + first)
        lines += [" " * margin + line for line in more]
    return "\n".join(lines)


def _left_column(option: Option) -> str:
    names = f"  -{option.short}, --{option.name}" if option.short else f"      --{option.name}"
    return names if option.kind == "flag" else f"{names} {option.value}"


def _right_column(option: Option) -> str:
    return f"{option.help} (default {option.default_shown})" if option.default_shown else option.help
