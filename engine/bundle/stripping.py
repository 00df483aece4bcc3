"""Takes the words for readers out of a source, and leaves each line where it was, so that tracebacks stay right.

Pure. Docstrings and comments are more than a third of the engine's sources; nothing reads them at run time. Nor does
anything read the types of functions' parameters, results and variables; the fields of classes keep theirs. A line is
indented by one space a level, and not at all where it continues another one.
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
    return _narrow(b"\n".join(lines).decode().rstrip() + "\n")


def _narrow(source: str) -> str:
    lines = source.split("\n")
    level, begins, last = 0, True, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            level += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.NEWLINE:
            begins = True
        elif token.type not in (tokenize.NL, tokenize.ENDMARKER):
            row = token.start[0]
            if row > last and not lines[row - 1][: token.start[1]].strip():
                lines[row - 1] = " " * (level if begins else 0) + lines[row - 1].lstrip()
            begins, last = False, token.end[0]  # what a text has in its further lines is part of it
    return "\n".join(lines)


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
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _variables(node)


def _variables(function: ast.AST) -> Iterator[tuple[int, int, int]]:
    """The types of the function's own variables; a class in it has fields."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            row, end = node.target.end_lineno or 0, node.target.end_col_offset or 0
            if row == node.annotation.end_lineno and node.simple:
                yield row - 1, end, node.annotation.end_col_offset or 0
        elif not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _variables(node)


def _blank(lines: list[bytes], statement: ast.Expr, instead: bytes) -> None:
    first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
    before, after = lines[first][: statement.col_offset], lines[last][statement.end_col_offset or 0 :]
    for row in range(first, last + 1):
        lines[row] = b""
    lines[first] = before + instead + (after if first == last else b"")
    if first != last and after.strip():
        lines[last] = b" " * statement.col_offset + after.lstrip(b"; ")
