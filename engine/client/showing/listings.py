"""Shows rows of texts as `--format` asks: as a table, as JSON, or by a template.

A row has a text for each field of its kind, by docker's names of them (`docker ps --format`). A field may also be a
map, such as a container's platform, or a function, such as `.Label "name"` is, which no table and no JSON has.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from engine.client.display import columns
from engine.client.showing import colours
from engine.client.showing.rows import Fields, Named
from engine.commandline import Option
from engine.dataclass import dataclass
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for a template, or for JSON
    from engine.client.showing import gofunctions, gotemplate
else:
    gofunctions = late("engine.client.showing.gofunctions")
    gotemplate = late("engine.client.showing.gotemplate")

FORMAT = Option("format", "Format output: 'table', 'table TEMPLATE', 'json', or a Go template")
SHOW_FORMAT = Option("format", "Format output: 'json', or a Go template", short="f")

_TABLE = "table"
_ESCAPES = {"\\t": "\t", "\\n": "\n"}

Row = Mapping[str, str | Named | Callable[[str], str]]


@dataclass(frozen=True, slots=True)
class Listing:
    """What a kind of rows has.

    heads: the head of each field's column, by the field's name
    shown: the fields of the table that is shown unasked, in order
    """

    heads: Mapping[str, str]
    shown: Sequence[str]


def lines(listing: Listing, rows: Iterable[Row], form: str, fields: Sequence[str] = ()) -> Iterator[str]:
    """The lines of the output. Raises Invalid for a malformed template.

    form:  what the user gave for `--format`; empty for a table
    fields: other ones for the table than the listing's own
    """
    if form in ("", _TABLE):
        names = fields or listing.shown
        yield columns([listing.heads[name] for name in names], [[_text(row, name) for name in names] for row in rows])
    elif form.startswith(_TABLE + " "):
        template = gotemplate.Template(_unescaped(form[len(_TABLE) :].strip()))
        heads: Row = {**dict.fromkeys(("Label",), _no_argument), **listing.heads}
        table = [template.filled(Fields(row)).split("\t") for row in (heads, *rows)]
        widest = max(map(len, table))
        first, *others = [[*row, *[""] * (widest - len(row))] for row in table]
        yield columns(first, others)
    elif form == "json":
        yield from (gofunctions.compact(Fields(row)) for row in rows)
    else:
        template = gotemplate.Template(_unescaped(form))
        yield from (template.filled(Fields(row)) for row in rows)


def show(listing: Listing, rows: Iterable[Row], form: str, fields: Sequence[str] = ()) -> None:
    """Print the lines of `lines`; the heads of a table are bold on a terminal."""
    on = form.partition(" ")[0] in ("", _TABLE) and colours.wanted(sys.stdout)
    for text in lines(listing, rows, form, fields):
        head, end, rest = text.partition("\n")
        print(colours.painted(head, "bold", on) + end + rest)


def shown(document: object, form: str) -> str:
    """One document of the API, by a template or as JSON. Raises Invalid for a malformed template."""
    if form == "json":
        return gofunctions.compact(document)
    return gotemplate.Template(_unescaped(form)).filled(document)


def labelled(labels: Mapping[str, str] | None) -> dict[str, str | Callable[[str], str]]:
    """The fields that show the labels of something: all of them, and one by its name."""
    found = labels or {}
    return {
        "Labels": ",".join(f"{name}={found[name]}" for name in sorted(found)),
        "Label": lambda name: found.get(name, ""),
    }


def _no_argument(name: str) -> str:
    return name


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _unescaped(form: str) -> str:
    """A template in which `\\t` and `\\n`, as a shell leaves them, are what they mean."""
    for written, meant in _ESCAPES.items():
        form = form.replace(written, meant)
    return form
