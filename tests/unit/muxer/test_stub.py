"""The types that `_native.pyi` tells a checker, compared with what muxer.h declares to cffi: nothing is forgotten."""

import ast
import re

from tests.floors.sources import PROJECT

STUB = ast.parse((PROJECT / "_muxer" / "_native.pyi").read_text())
DECLARED = (PROJECT / "_muxer" / "muxer.h").read_text().split("/* cffi begin */")[1].split("/* cffi end */")[0]
PLAIN = re.sub(r"/\*.*?\*/", "", DECLARED, flags=re.DOTALL)


def classes(inside: ast.Module | ast.ClassDef) -> dict[str, ast.ClassDef]:
    """The classes that stand here, by name."""
    return {node.name: node for node in inside.body if isinstance(node, ast.ClassDef)}


def attributes(owner: ast.ClassDef) -> set[str]:
    """The names of its annotated attributes."""
    annotated = [node.target for node in owner.body if isinstance(node, ast.AnnAssign)]
    return {target.id for target in annotated if isinstance(target, ast.Name)}


def test_each_function_is_there_with_its_parameters() -> None:
    """By name, and with as many."""
    written = {
        node.name: len(node.args.posonlyargs or node.args.args[1:]) - bool(node.args.posonlyargs)
        for node in classes(STUB)["_Lib"].body
        if isinstance(node, ast.FunctionDef)
    }
    found = re.findall(r"\b(mux_\w+)\(([^)]*)\)", PLAIN)
    assert written == {name: 0 if told == "void" else told.count(",") + 1 for name, told in found}
    assert len(found) > 25


def test_each_constant_is_there() -> None:
    """Those of every enum, and the checksum of the header, which the build adds."""
    assert attributes(classes(STUB)["_Lib"]) == {"MUX_CONTRACT", *re.findall(r"\bMUX_\w+", PLAIN)}


def test_each_struct_is_there_with_its_fields() -> None:
    """A struct is known by the docstring of its class: what a pointer to it is called in C."""
    written = {ast.get_docstring(node): attributes(node) for node in classes(classes(STUB)["ffi"]).values()}
    for name, fields in re.findall(r"struct (\w+) \{(.*?)\}", PLAIN, flags=re.DOTALL):
        # The name is what stands before a comma, a semicolon or the size of an array.
        assert written[f"struct {name} *"] == set(re.findall(r"(\w+)(?:\[\d+\])?[,;]", fields)), name
    for name in re.findall(r"struct (\w+);", PLAIN):
        assert written[f"struct {name} *"] == set(), name
