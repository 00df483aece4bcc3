"""A source without words is the same program, line for line."""

import ast
from pathlib import Path

import pytest

from engine.bundle import bytecode
from engine.bundle.stripping import without_words

pytestmark = pytest.mark.seldom

ENGINE = Path(__file__).resolve().parents[3] / "engine"
SOURCES = sorted(ENGINE.rglob("*.py"))


def shape(source: str) -> list[tuple[str, int]]:
    """The kind and line of each node but the texts that stand by themselves, and what holds their place."""
    tree = bytecode.untyped(source.encode())
    found = []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, name, None), list):
                setattr(node, name, [each for each in getattr(node, name) if not alone(each)])
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            found.append((type(node).__name__, node.lineno))
    return found


def alone(node: ast.AST) -> bool:
    """Whether it is a constant that nobody uses."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@pytest.mark.parametrize("part", range(4))
def test_every_module_of_the_engine_stays_the_same_program(part: int) -> None:
    for path in SOURCES[part::4]:
        source = path.read_text()
        assert shape(without_words(source)) == shape(source), path


def test_words_go_and_texts_stay() -> None:
    source = '"""A."""\nfrom __future__ import annotations\nX = "#1"  # one\n"""About X."""\n'
    source += 'def f():\n    """B.\n\n    C."""\n'
    assert without_words(source) == '\nfrom __future__ import annotations\nX = "#1"\n\ndef f():\n    0\n'


def test_types_of_functions_go_and_those_of_fields_stay() -> None:
    source = "class A:\n    b: int = 1\n    def c(self, *d: 'A', e: int = 2, **f: dict[str, int]) -> list[\n"
    source += "        int\n    ]: ...\n"
    source += "def g(\n    ä: str,\n) -> None: pass\n"
    kept = "class A:\n    b: int = 1\n    def c(self, *d, e = 2, **f) -> list[\n        int\n    ]: ...\n"
    assert without_words(source) == kept + "def g(\n    ä,\n): pass\n"


def test_columns_count_bytes_where_letters_have_several() -> None:
    source = 'def f():\n    """ä"""; return "→"  # ü\n'
    scope: dict = {}
    exec(without_words(source), scope)
    assert scope["f"]() == "→"


def test_what_is_stripped_once_stays() -> None:
    source = (ENGINE / "__main__.py").read_text()
    assert without_words(without_words(source)) == without_words(source)
