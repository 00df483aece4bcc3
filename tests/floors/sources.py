"""The project's source files and the imports in them, read with `ast`; nothing is executed."""

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[2]
TREES = ("engine", "_muxer", "tests", "bench")


class Import(NamedTuple):
    """One imported module; `late` inside a function."""

    module: str
    line: int
    late: bool


def files(*suffixes: str, trees: tuple[str, ...] = TREES) -> list[Path]:
    """The source files with these suffixes, generated ones left out."""
    found = [path for tree in trees for path in sorted((PROJECT / tree).rglob("*")) if path.suffix in suffixes]
    return [path for path in found if path.name != "_native.c" and "__pycache__" not in path.parts]


def module(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def name_of(path: Path) -> str:
    """The path of a file inside the project."""
    return str(path.relative_to(PROJECT))


@functools.cache
def tree(path: Path) -> ast.Module:
    """The parsed file; the collector passes over all of them, which takes four fifths of the time away."""
    gc.disable()
    try:
        return ast.parse(path.read_text(), str(path))
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def walked(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the file: several tests look at all of them."""
    gc.disable()
    try:
        return tuple(ast.walk(tree(path)))
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def imports(path: Path) -> tuple[Import, ...]:
    """Every import of the file as the full name of the module (`from engine import errors` is engine.errors)."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[Import]:
    late = {
        id(inner)
        for outer in walked(path)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or of_types(outer)
        for inner in ast.walk(outer)
    }
    for node in walked(path):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(name.name, node.lineno, id(node) in late)
        elif isinstance(node, ast.ImportFrom):
            yield from (Import(name, node.lineno, id(node) in late) for name in _from(path, node))


def of_types(node: ast.AST) -> bool:
    """Whether this is `if TYPE_CHECKING:`, whose first branch never runs."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _from(path: Path, node: ast.ImportFrom) -> list[str]:
    if node.level:
        package = module(path).split(".")
        package = package if path.name == "__init__.py" else package[:-1]
        base = ".".join(package[: len(package) - node.level + 1] + ([node.module] if node.module else []))
    else:
        base = node.module
    named = [f"{base}.{name.name}" for name in node.names]
    return [name if exists(name) else base for name in named]


@functools.cache
def exists(name: str) -> bool:
    """Whether a dotted name is a module of the project."""
    path = PROJECT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
