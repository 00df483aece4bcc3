"""Takes the words for readers out of a source, and leaves each line where it was, so that tracebacks stay right.

Pure. Docstrings and comments are more than a third of the engine's sources; nothing reads them at run time.
"""

import ast
import io
import tokenize

_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def without_words(source: str) -> str:
    """The source without comments, docstrings and other texts that stand by themselves. Raises SyntaxError."""
    lines = [line.encode() for line in source.splitlines()]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            start = len(token.line[:column].encode())
            lines[row - 1] = lines[row - 1][:start].rstrip()
    for node in ast.walk(ast.parse(source)):
        for statement in getattr(node, "body", ()) if isinstance(node, _DOCUMENTED) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str())):
                    # Something must stay in a function; before an import from __future__ nothing may.
                    _blank(lines, statement, b"" if isinstance(node, ast.Module) else b"0")
    return b"\n".join(lines).decode().rstrip() + "\n"


def _blank(lines: list[bytes], statement: ast.Expr, instead: bytes) -> None:
    first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
    before, after = lines[first][: statement.col_offset], lines[last][statement.end_col_offset or 0 :]
    for row in range(first, last + 1):
        lines[row] = b""
    lines[first] = before + instead + (after if first == last else b"")
    if first != last and after.strip():
        lines[last] = b" " * statement.col_offset + after.lstrip(b"; ")
