"""A table as text, its columns aligned by spaces.

Pure.
"""

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], gap: int) -> str:
    """The rows, a line each. All but the last column are as wide as their widest cell and `gap` spaces."""
    wide = [max(len(cell) for cell in column) + gap for column in zip(*rows, strict=True)]
    wide[-1:] = [0]
    return "".join("".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)) + "\n" for row in rows)
