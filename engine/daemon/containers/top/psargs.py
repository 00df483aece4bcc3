"""Parse the arguments of `ps` that `docker top` passes on: which columns, in which order, and sorted by what.

Pure. Docker runs the host's ps. This engine understands as much of its three syntaxes as matters for a container: the
columns (`-ef`, `aux`, `-o`, ...), the sorting and the tree. Options that select processes change nothing, as docker
shows those of the container alone. Other arguments are refused in procps's words.
"""

import re
from collections.abc import Callable

from engine.daemon.containers.top.psfields import FIELDS, Column, column
from engine.dataclass import dataclass
from engine.errors import SystemFailure
from engine.literals import natural

_FORMATS_SYSV: dict[str, str] = {
    "": "pid tname time ucmd",
    "f": "user=UID pid ppid c stime tname time cmd",
    "F": "user=UID pid ppid c sz rss psr stime tname time cmd",
    "j": "pid pgid sid tname time ucmd",
    "fj": "user=UID pid ppid pgid sid c stime tname time cmd",
    "l": "f s uid pid ppid c opri ni addr sz wchan tname time ucmd",
    "fl": "f s user=UID pid ppid c opri ni addr sz wchan stime tname time cmd",
}
_FORMATS_BSD: dict[str, str] = {
    "": "pid tname stat bsdtime args",
    "u": "user pid pcpu pmem vsz rss tname stat start_time bsdtime args",
    "l": "f uid pid ppid priority ni vsz rss wchan stat tname bsdtime args",
    "j": "ppid pid pgid sid tname tpgid stat uid bsdtime args",
    "v": "pid tname stat bsdtime maj_flt trs drs rss pmem args",
}
_ADDED = ("pid", "s tname time command")  # the columns before and after those of -O
_SELECTING = {"--pid", "--ppid", "--quick-pid", "--user", "--User", "--group", "--Group", "--tty", "--sid"}
_SIZES = {"--cols", "--columns", "--width", "--rows", "--lines"}
_WIDEST = 999
_HEADER_IS_PID = re.compile(r"\s+(\S*)=\s*(PID\S*)")


@dataclass(slots=True)
class Wanted:
    """What to show.

    sort: fields, each with whether the largest comes first; forest: the mark of a tree's branches, empty for no tree;
    headers: whether there is a line of titles
    """

    columns: tuple[Column, ...]
    sort: tuple[tuple[str, bool], ...] = ()
    forest: str = ""
    headers: bool = True


def parse(text: str) -> Wanted:
    """The meaning of these arguments. Raises SystemFailure, as dockerd does for any error of ps."""
    for name, value in _HEADER_IS_PID.findall(text):
        if name != "pid":
            raise SystemFailure(f'specifying "{name}={value}" is not allowed')
    words = text.split()
    first = _Parser(words)
    try:
        first.read()
    except SystemFailure:
        # As ps does: `-aux` is refused as a list of users and read again as `aux`, which its writer meant.
        second = _Parser([word if word.startswith("--") else word.removeprefix("-") or word for word in words])
        try:
            second.read()
        except SystemFailure:
            pass
        else:
            return second.wanted()
        raise
    return first.wanted()


def _refuse(words: str) -> SystemFailure:
    return SystemFailure(f"error: {words}")


class _Parser:
    """One reading of the arguments, from left to right."""

    def __init__(self, words: list[str]) -> None:
        self._words = list(words)
        self._chosen: list[Column] = []
        self._added: list[Column] = []
        self._sysv = ""
        self._bsd: str | None = None
        self._sort: list[tuple[str, bool]] = []
        self._forest = ""
        self._headers = True

    def read(self) -> None:
        """Read all of the words. Raises SystemFailure."""
        while self._words:
            word = self._words.pop(0)
            if word.startswith("--"):
                self._gnu(word)
            elif word.startswith("-"):
                self._letters(word[1:], self._sysv_letter)
            elif not word[0].isdigit():  # a list of pids may stand alone
                self._bsd = self._bsd or ""
                self._letters(word, self._bsd_letter)

    def wanted(self) -> Wanted:
        """The result of the reading. Raises SystemFailure."""
        return Wanted(tuple(self._columns()), tuple(self._sort), self._forest, self._headers)

    def _columns(self) -> list[Column]:
        if self._chosen:
            if self._sysv or self._bsd:
                raise _refuse("conflicting format options")
            return self._chosen
        if self._added:
            before, after = ([column(name) for name in part.split()] for part in _ADDED)
            return [*before, *self._added, *after]
        table, key = (_FORMATS_SYSV, "".join(sorted(set(self._sysv)))) if self._sysv else (_FORMATS_BSD, self._bsd)
        if self._sysv and self._bsd:
            raise _refuse("conflicting format options")
        if key is None:
            table, key = _FORMATS_SYSV, ""
        if key not in table:
            raise _refuse("conflicting format options")
        return [_renamed(item) for item in table[key].split()]

    def _letters(self, letters: str, meaning: Callable[[str, str], str]) -> None:
        if not letters:
            raise _refuse("garbage option")
        while letters:
            letters = meaning(letters[0], letters[1:])

    def _argument(self, rest: str, otherwise: str) -> str:
        """The argument of an option: the rest of its word, or the next word."""
        if rest:
            return rest
        if not self._words:
            raise _refuse(otherwise)
        return self._words.pop(0)

    def _sysv_letter(self, letter: str, rest: str) -> str:
        if letter in "eAadwM":
            return rest
        if letter in "fFlj":
            self._sysv += letter
            return rest
        if letter == "H":
            self._forest = " "
            return rest
        if letter in "oO":
            self._choose(letter, self._argument(rest, f"format specification must follow -{letter}"))
        elif letter in "uU":
            _check_users(self._argument(rest, "user name does not exist"))
        elif letter in "pq":
            _check_pids(self._argument(rest, "process ID list syntax error"))
        elif letter in "gGCts":
            self._argument(rest, f"list of members must follow -{letter}")
        else:
            raise _refuse("unsupported SysV option")
        return ""

    def _bsd_letter(self, letter: str, rest: str) -> str:
        if letter in "axgw":
            return rest
        if letter in "uljv":
            self._bsd = (self._bsd or "") + letter
        elif letter == "f":
            self._forest = "\\_ "
        elif letter == "h":
            self._headers = False
        elif letter in "oO":
            self._choose(letter, self._argument(rest, f"format specification must follow {letter}"))
            return ""
        elif letter == "k":
            self._sort_by(self._argument(rest, "long sort specification must follow 'k'"))
            return ""
        elif letter in "pq":
            _check_pids(self._argument(rest, "process ID list syntax error"))
            return ""
        elif letter in "Ut":
            self._argument(rest, "list of members must follow " + letter)
            return ""
        else:
            raise _refuse("unsupported option (BSD syntax)")
        return rest

    def _gnu(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if name == "--format":
            self._choose("o", self._argument(value, "format specification must follow --format"))
        elif name == "--sort":
            self._sort_by(self._argument(value, "long sort specification must follow '--sort'"))
        elif name == "--forest" and not equals:
            self._forest = "\\_ "
        elif name in ("--no-headers", "--no-heading") and not equals:
            self._headers = False
        elif name in ("--headers", "--heading") and not equals:
            self._headers = True
        elif name in _SELECTING | _SIZES:
            self._argument(value, "list of members must follow " + name)
        else:
            raise _refuse("unknown gnu long option")

    def _choose(self, letter: str, text: str) -> None:
        if text.startswith(","):
            raise _refuse("improper format list")
        chosen = self._chosen if letter == "o" else self._added
        chosen += [_renamed(item) for item in text.split(",") if item]

    def _sort_by(self, text: str) -> None:
        for item in text.split(","):
            name = item.lstrip("+-")
            if name not in FIELDS:
                raise _refuse("unknown sort specifier")
            self._sort.append((name, item.startswith("-")))


def _renamed(item: str) -> Column:
    """The column of an item of -o: `user`, `user:20`, `user=WHO`."""
    name, equals, header = item.partition("=")
    name, colon, width = name.partition(":")
    if name not in FIELDS:
        raise _refuse(f'unknown user-defined format specifier "{name}"')
    wide = natural(width, _WIDEST) if colon else None
    if colon and not wide:
        raise _refuse("column widths must be unsigned decimal numbers")
    return column(name, header if equals else None, wide)


def _check_pids(text: str) -> None:
    if not all(pid.isascii() and pid.isdigit() for pid in text.split(",")):
        raise _refuse("process ID list syntax error")


def _check_users(text: str) -> None:
    import pwd  # an extension module, which most daemons never need

    for name in text.split(","):
        try:
            if not (name.isascii() and name.isdigit()):
                pwd.getpwnam(name)
        except KeyError as error:
            raise _refuse("user name does not exist") from error
