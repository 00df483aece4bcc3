"""A source without words is the same program, line for line."""

import ast
from pathlib import Path
from typing import Any

import pytest

from engine.bundle import bytecode
from engine.bundle.stripping import without_words

pytestmark = pytest.mark.seldom

ENGINE = Path(__file__).resolve().parents[3] / "engine"
SOURCES = sorted(ENGINE.rglob("*.py"))


def shape(source: str) -> list[tuple[str, int]]:
    """The kind and line of each node but the texts that stand by themselves, and what holds their place."""
    tree = Variables().visit(bytecode.untyped(source.encode()))
    found = []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, name, None), list):
                setattr(node, name, [each for each in getattr(node, name) if not alone(each)])
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            found.append((type(node).__name__, node.lineno))
    return found


class Variables(ast.NodeTransformer):
    """Takes the types from the variables of functions."""

    depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        before, self.depth = self.depth, 1
        self.generic_visit(node)
        self.depth = before
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        before, self.depth = self.depth, 0
        self.generic_visit(node)
        self.depth = before
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        one_line = node.target.end_lineno == node.annotation.end_lineno
        if self.depth and node.value is not None and node.simple and one_line:
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        return node


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
    assert without_words(source) == '\nfrom __future__ import annotations\nX = "#1"\n\ndef f():\n 0\n'


def test_types_of_functions_go_and_those_of_fields_stay() -> None:
    source = "class A:\n    b: int = 1\n    def c(self, *d: 'A', e: int = 2, **f: dict[str, int]) -> list[\n"
    source += "        int\n    ]: ...\n"
    source += "def g(\n    ä: str,\n) -> None: pass\n"
    kept = "class A:\n b: int = 1\n def c(self, *d, e = 2, **f) -> list[\nint\n]: ...\n"
    assert without_words(source) == kept + "def g(\nä,\n): pass\n"


def test_types_of_variables_go_and_those_of_fields_stay() -> None:
    source = "def f():\n    a: int = 1\n    b: int\n    class C:\n        d: int = 2\n"
    source += "    for e in C.d:\n        g: str = e\n"
    kept = "def f():\n a = 1\n b: int\n class C:\n  d: int = 2\n for e in C.d:\n  g = e\n"
    assert without_words(source) == kept


def test_texts_of_several_lines_keep_their_spaces() -> None:
    source = "def f(a):\n    if a:\n        b = f'''x\n    {a}\n    y'''\n"
    source += "        c = (\n            'z'\n'''  w\n    v''')\n        return b + \\\n            c\n"
    before, after = dict[str, Any](), dict[str, Any]()
    exec(source, before)
    exec(without_words(source), after)
    assert after["f"](1) == before["f"](1)
    assert "\n  return b + \\\nc" in without_words(source)


def test_columns_count_bytes_where_letters_have_several() -> None:
    source = 'def f():\n    """ä"""; return "→"  # ü\n'
    scope: dict = {}
    exec(without_words(source), scope)
    assert scope["f"]() == "→"


def test_what_is_stripped_once_stays() -> None:
    source = (ENGINE / "__main__.py").read_text()
    assert without_words(without_words(source)) == without_words(source)
