"""Makes the code that Python runs of a source: the same bytes each time, and without what nothing reads.

That is the columns of tracebacks, and the types of functions' parameters and results; fields of classes keep theirs.
Pure. The code is for the version of Python that runs this; any other version compiles the source.
"""

import ast
import marshal
from collections.abc import Iterator
from types import CodeType

_FORM = 2
"""Of marshal: later forms note which values are shared, which differs from one process to the next."""
_NO_COLUMNS, _NO_LINE = 13, 15
_LONGEST = 8


def made(source: bytes) -> bytes:
    """The code of a module. `engine.onefile` sets the name of its file. Raises SyntaxError."""
    code: CodeType = compile(untyped(source), "", "exec", dont_inherit=True)
    return marshal.dumps(_lean(code), _FORM)


def untyped(source: bytes) -> ast.Module:
    """The tree of a source, without its functions' types."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return tree


def _lean(code: CodeType) -> CodeType:
    constants = tuple(_lean(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_consts=constants, co_linetable=b"".join(_lines(code)))


def _lines(code: CodeType) -> Iterator[bytes]:
    """The table of lines (CPython's Objects/locations.md, "Location entries"), with lines alone."""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        units = (end - start) // 2
        while units > 0:
            length = min(units, _LONGEST)
            if number is None:
                yield bytes((0x80 | _NO_LINE << 3 | length - 1,))
            else:
                yield bytes((0x80 | _NO_COLUMNS << 3 | length - 1,)) + _signed(number - line)
                line = number
            units -= length


def _signed(value: int) -> bytes:
    """A number in groups of six bits, the least first; its sign is the lowest bit."""
    rest = (-value << 1) | 1 if value < 0 else value << 1
    groups = bytearray()
    while rest >= 64:
        groups.append(0x40 | rest & 0x3F)
        rest >>= 6
    groups.append(rest)
    return bytes(groups)
