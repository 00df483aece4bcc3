"""Takes the words for readers out of a source, and leaves each line where it was, so that tracebacks stay right.

Pure. Docstrings and comments are more than a third of the engine's sources; nothing reads them at run time. Nor does
anything read the types of functions' parameters and results; the fields of classes keep theirs.
"""

import ast
import io
import tokenize
from collections.abc import Iterator

_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def without_words(source: str) -> str:
    """The source without comments, functions' types, docstrings and other lone texts. Raises SyntaxError."""
    lines = [line.encode() for line in source.splitlines()]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            start = len(token.line[:column].encode())
            lines[row - 1] = lines[row - 1][:start].rstrip()
    tree = ast.parse(source)
    for row, start, end in sorted(_types(tree, lines), reverse=True):
        lines[row] = lines[row][:start] + lines[row][end:]
    for node in ast.walk(tree):
        for statement in getattr(node, "body", ()) if isinstance(node, _DOCUMENTED) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str())):
                    # Something must stay in a function; before an import from __future__ nothing may.
                    _blank(lines, statement, b"" if isinstance(node, ast.Module) else b"0")
    return b"\n".join(lines).decode().rstrip() + "\n"


def _types(tree: ast.Module, lines: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """Row, start and end of each type that stands in one line, with the sign before it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None and node.lineno == node.end_lineno:
            yield node.lineno - 1, node.col_offset + len(node.arg.encode()), node.end_col_offset or 0
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            row, column = node.returns.lineno - 1, node.returns.col_offset
            sign = lines[row].rfind(b"->", 0, column)
            if sign >= 0 and not lines[row][sign + 2 : column].strip() and node.returns.end_lineno == row + 1:
                yield row, len(lines[row][:sign].rstrip()), node.returns.end_col_offset or 0


def _blank(lines: list[bytes], statement: ast.Expr, instead: bytes) -> None:
    first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
    before, after = lines[first][: statement.col_offset], lines[last][statement.end_col_offset or 0 :]
    for row in range(first, last + 1):
        lines[row] = b""
    lines[first] = before + instead + (after if first == last else b"")
    if first != last and after.strip():
        lines[last] = b" " * statement.col_offset + after.lstrip(b"; ")
