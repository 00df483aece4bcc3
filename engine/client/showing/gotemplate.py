"""Fills in templates as docker's `--format` takes them: the part of Go's text/template that people use there.

Pure. Actions are fields (`.State.Pid`), variables, pipes, parentheses, literals, the functions of `gofunctions`, and
`if`, `else`, `range`, `with` and `end`; `{{-` and `-}}` trim. Whatever else Go has is refused by name. A field of JSON
that is not there is an error, as with docker.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from engine.annotating import Any
from engine.client.showing import gofunctions
from engine.dataclass import dataclass, field
from engine.errors import Invalid, NotBuilt
from engine.literals import integer, quoted

_ACTION = re.compile(r"\{\{(-(?=\s))?(.*?)(?:(?<=\s)(-))?\}\}", re.DOTALL)
_COMMENT = re.compile(r"\s*/\*.*\*/\s*", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:\\.|[^"\\\n])*"|`[^`]*`)"""
    r"""|(?P<number>[+-]?\d+(?:\.\d+)?(?![\w.]))"""
    r"""|(?P<field>\.\w+)|(?P<dot>\.)|(?P<variable>\$\w*)|(?P<word>[A-Za-z_]\w*)"""
    r"""|(?P<mark>:=|=|\||\(|\)|,))"""
)
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "nil": None}
_ELSEWHERE = ("define", "template", "block", "break", "continue")
_DEEPEST = 100

Token = tuple[str, str, bool]
"""A token of an action: its kind, its text, and whether blanks stand in front of it."""


@dataclass(slots=True)
class _Scope:
    """What a part of a template sees: the dot, and the variables by name (`$` is the whole)."""

    dot: Any
    variables: dict[str, Any]

    def at(self, dot: Any, more: dict[str, Any] | None = None) -> "_Scope":
        """A scope inside of this one."""
        return _Scope(dot, {**self.variables, **(more or {})})


Operand = Callable[[_Scope], Any]


@dataclass(slots=True)
class _Command:
    """One member of a pipe: a function's name, or an operand; and the operands behind it."""

    function: str
    first: Operand | None
    others: list[Operand]


@dataclass(slots=True)
class _Pipe:
    """Commands, each of which gets what the one before made; names: the variables that it sets."""

    commands: list[_Command]
    names: list[str]
    declares: bool = True

    def value(self, scope: _Scope) -> Any:
        """What the last command makes."""
        value: list[Any] = []
        for command in self.commands:
            value = [_run(command, scope, value)]
        return value[0]


@dataclass(slots=True)
class _Block:
    """`if`, `range` or `with`: its pipe, what stands in it, and what stands behind `else`."""

    kind: str
    pipe: _Pipe
    body: "list[_Node]" = field(default_factory=list)
    otherwise: "list[_Node]" = field(default_factory=list)


_Node = str | _Pipe | _Block


class Template:
    """One template. Raises Invalid for a malformed one, and NotBuilt for what is not known of Go's."""

    def __init__(self, text: str) -> None:
        self._pieces = list(_split(text))
        self._place = 0
        self._nodes, end = self._parsed(0)
        if end:
            raise _wrong(f"unexpected {{{{{end}}}}}")

    def filled(self, data: Any) -> str:
        """The text for these data: JSON, in which a value may be a function. Raises Invalid."""
        return "".join(_texts(self._nodes, _Scope(data, {"$": data})))

    def _parsed(self, depth: int) -> tuple[list[_Node], str]:
        """The nodes up to the `end` or `else` that is not theirs; returns them and that word."""
        if depth > _DEEPEST:
            raise _wrong("too many blocks in one another")
        nodes: list[_Node] = []
        while self._place < len(self._pieces):
            piece = self._pieces[self._place]
            self._place += 1
            if isinstance(piece, str):
                nodes.append(piece)
                continue
            word = piece[0][1] if piece and piece[0][0] == "word" else ""
            if word in ("end", "else"):
                if word == "end" and len(piece) > 1:
                    raise _wrong("unexpected text in end")
                return nodes, " ".join(token[1] for token in piece[:2])
            if word in _BLOCKS:
                nodes.append(self._block(word, piece[1:], depth))
            elif word in _ELSEWHERE:
                raise NotBuilt(f"{{{{{word}}}}} is a part of Go's templates that this client does not have")
            else:
                nodes.append(_Reader(piece).whole())
        return nodes, ""

    def _block(self, word: str, tokens: Sequence[Token], depth: int) -> _Block:
        block = _Block(word, _Reader(tokens).whole())
        block.body, end = self._parsed(depth + 1)
        if end.startswith("else"):
            again = self._pieces[self._place - 1]
            if end in ("else if", "else with") and not isinstance(again, str):
                block.otherwise = [self._block(again[1][1], again[2:], depth + 1)]
                return block
            block.otherwise, end = self._parsed(depth + 1)
        if end != "end":
            raise _wrong("unexpected EOF" if not end else f"unexpected {{{{{end}}}}}")
        return block


def _split(text: str) -> Iterator[str | list[Token]]:
    """The template as texts and as the tokens of actions."""
    done, trim = 0, False
    for found in _ACTION.finditer(text):
        before = text[done : found.start()]
        before = before.lstrip() if trim else before
        before = before.rstrip() if found[1] else before
        if before:
            yield before
        done, trim = found.end(), bool(found[3])
        if not _COMMENT.fullmatch(found[2]):
            yield list(_tokens(found[2]))
    rest = text[done:]
    if "{{" in rest:
        raise _wrong("unclosed action")
    rest = rest.lstrip() if trim else rest
    if rest:
        yield rest


def _tokens(action: str) -> Iterator[Token]:
    place, action = 0, action.rstrip()
    while place < len(action):
        found = _TOKEN.match(action, place)
        if found is None:
            raise _wrong(f"unexpected {action[place:].strip()[:20]!r} in an action")
        kind = found.lastgroup or ""
        yield kind, found[kind], found.start(kind) > place
        place = found.end()


class _Reader:
    """Reads the pipe of one action."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = list(tokens)
        self._depth = 0

    def whole(self) -> _Pipe:
        """The pipe that all of the tokens make, with the variables that it sets."""
        names, declares = self._names()
        pipe = self._pipe()
        if self._tokens:
            raise _wrong(f"unexpected {self._tokens[0][1]!r} in an action")
        pipe.names, pipe.declares = names, declares
        return pipe

    def _names(self) -> tuple[list[str], bool]:
        marks = [text for kind, text, _ in self._tokens if kind == "mark" and text in (":=", "=")]
        if not marks:
            return [], True
        names = []
        while self._tokens and self._tokens[0][1] not in (":=", "="):
            kind, text, _ = self._tokens.pop(0)
            if kind == "variable" and len(text) > 1:
                names.append(text)
            elif text != ",":
                raise _wrong(f"unexpected {text!r} in front of {marks[0]}")
        self._tokens.pop(0)
        if not 0 < len(names) < 3:
            raise _wrong("too many declarations")
        return names, marks[0] == ":="

    def _pipe(self) -> _Pipe:
        commands = [self._command()]
        while self._tokens and self._tokens[0][1] == "|" and self._tokens[0][0] == "mark":
            self._tokens.pop(0)
            commands.append(self._command())
        return _Pipe(commands, [])

    def _command(self) -> _Command:
        if not self._tokens:
            raise _wrong("missing value for command")
        kind, text, _ = self._tokens[0]
        function, first = "", None
        if kind == "word" and text not in _CONSTANTS:
            self._tokens.pop(0)
            function = text
            gofunctions.known(function)
        else:
            first = self._operand()
        others = []
        while self._tokens and not (self._tokens[0][0] == "mark" and self._tokens[0][1] in ("|", ")")):
            others.append(self._operand())
        return _Command(function, first, others)

    def _operand(self) -> Operand:
        kind, text, _ = self._tokens.pop(0)
        if kind == "mark" and text == "(":
            base = self._inner()
        elif kind in _LITERALS:
            return _constant(_LITERALS[kind](text))
        elif kind == "field":
            base = _step(_dot, text[1:])
        elif kind == "dot":
            base = _dot
        elif kind == "variable":
            base = _variable(text)
        elif text in _CONSTANTS:
            return _constant(_CONSTANTS[text])
        elif kind == "word":
            # A function among the arguments, which takes none itself.
            gofunctions.known(text)
            command = _Command(text, None, [])
            base = lambda scope: _run(command, scope, [])  # noqa: E731
        else:
            raise _wrong(f"unexpected {text!r} in an action")
        while self._tokens and self._tokens[0][0] == "field" and not self._tokens[0][2]:
            base = _step(base, self._tokens.pop(0)[1][1:])
        return base

    def _inner(self) -> Operand:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _wrong("too many parentheses in one another")
        pipe = self._pipe()
        if not self._tokens or self._tokens[0][1] != ")":
            raise _wrong("unclosed left paren")
        self._tokens.pop(0)
        self._depth -= 1
        return pipe.value


def _number(text: str) -> int | float:
    return float(text) if "." in text else integer(text)


def _string(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]), text[1:-1])


_LITERALS: dict[str, Callable[[str], Any]] = {"string": _string, "number": _number}


def _dot(scope: _Scope) -> Any:
    return scope.dot


def _constant(value: Any) -> Operand:
    return lambda scope: value


def _variable(name: str) -> Operand:
    def read(scope: _Scope) -> Any:
        if name not in scope.variables:
            raise _wrong(f'undefined variable "{name}"')
        return scope.variables[name]

    return read


def _step(base: Operand, name: str) -> Operand:
    """The field of this name of what `base` makes."""

    def read(scope: _Scope) -> Any:
        value = base(scope)
        if isinstance(value, dict):
            if name in value:
                return value[name]
            raise _wrong(f'map has no entry for key "{name}"')
        if value is None:
            raise _wrong(f"nil data; no entry for key {quoted(name)}")
        raise _wrong(f"can't evaluate field {name} in type {gofunctions.kind(value)}")

    return read


def _run(command: _Command, scope: _Scope, piped: list[Any]) -> Any:
    arguments = [each(scope) for each in command.others] + piped
    if command.function:
        return gofunctions.called(command.function, arguments)
    value = command.first(scope) if command.first else None
    if callable(value):
        return value(*arguments)
    if arguments:
        raise _wrong("can't give argument to non-function")
    return value


def _texts(nodes: Sequence[_Node], scope: _Scope) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif isinstance(node, _Pipe):
            value = node.value(scope)
            if node.names:
                scope.variables[node.names[-1]] = value
            else:
                yield gofunctions.shown(value)
        else:
            yield from _BLOCKS[node.kind](node, scope)


def _if(block: _Block, scope: _Scope) -> Iterator[str]:
    value = block.pipe.value(scope)
    inner = scope.at(scope.dot, dict.fromkeys(block.pipe.names, value))
    yield from _texts(block.body if value else block.otherwise, inner)


def _with(block: _Block, scope: _Scope) -> Iterator[str]:
    value = block.pipe.value(scope)
    inner = scope.at(value if value else scope.dot, dict.fromkeys(block.pipe.names, value))
    yield from _texts(block.body if value else block.otherwise, inner)


def _range(block: _Block, scope: _Scope) -> Iterator[str]:
    value = block.pipe.value(scope)
    if value is not None and not isinstance(value, dict | list):
        raise _wrong(f"range can't iterate over {gofunctions.shown(value)}")
    pairs = sorted(value.items()) if isinstance(value, dict) else list(enumerate(value or ()))
    for key, each in pairs:
        *keys, last = block.pipe.names or [""]
        yield from _texts(block.body, scope.at(each, {**dict.fromkeys(keys, key), last: each}))
    if not pairs:
        yield from _texts(block.otherwise, scope.at(scope.dot))


_BLOCKS: dict[str, Callable[[_Block, _Scope], Iterator[str]]] = {"if": _if, "range": _range, "with": _with}


def _wrong(text: str) -> Invalid:
    return Invalid(f"template parsing error: {text}")
