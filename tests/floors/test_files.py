"""One job per file: length, docstring, names, and what must not stand in a source."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.floors.sources import PROJECT, files, tree

LONGEST = 500
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "misc", "stuff"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
TOP_LEVEL = {"engine", "_muxer", "tests", "bench", "setup.py", "README.md", "pyproject.toml", "LICENSE", ".gitignore"}
TOP_LEVEL |= {".ci", ".git", "MANIFEST.in"}
PYTHON = files(".py")
SOURCES = files(".py", ".c", ".h")
OURS = Path(__file__).resolve()


def name_of(path: Path) -> str:
    """How a test of one file is called."""
    return str(path.relative_to(PROJECT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_file_has_one_job(path: Path) -> None:
    """No file past 500 lines, and no name that could hold anything."""
    lines = path.read_text().count("\n")
    assert lines <= LONGEST, f"{lines} lines: look for two jobs"
    parts = path.relative_to(PROJECT).with_suffix("").parts
    assert not VAGUE & {word for part in parts for word in part.lower().split("_")}


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    """A docstring whose first sentence is the file's one job."""
    assert (ast.get_docstring(tree(path)) or "").strip()


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_is_left_unfinished(path: Path) -> None:
    """What is not built raises NotBuilt in words; nothing in a source waits for later."""
    if path != OURS:
        assert not UNFINISHED.search(path.read_text())


@pytest.mark.parametrize("path", files(".py", trees=("engine", "_muxer")), ids=name_of)
def test_no_failure_is_swallowed(path: Path) -> None:
    """Ignore only what is named: no bare except, and no broad one whose body does nothing."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or (isinstance(node.type, ast.Name) and "Exception" in node.type.id)
            nothing = all(isinstance(step, ast.Pass | ast.Continue) for step in node.body)
            assert not (node.type is None or (broad and nothing)), f"line {node.lineno}"


@pytest.mark.parametrize("path", files(".py", trees=("engine",)), ids=name_of)
def test_public_functions_and_classes_have_docstrings(path: Path) -> None:
    """Shapes, units and errors are said where the function is."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in tree(path).body:
        if isinstance(node, kinds) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name}, line {node.lineno}"


def test_the_top_level_holds_nothing_else() -> None:
    """What git tracks or would track at the top of the tree is listed in the design."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=PROJECT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    assert {line.split("/")[0] for line in listed.stdout.splitlines()} <= TOP_LEVEL


@pytest.mark.parametrize("path", files(".py", trees=("engine",)), ids=name_of)
def test_a_line_of_the_log_begins_with_its_container(path: Path) -> None:
    """`container %s` and the whole id, of which the log's formatter shows twelve digits and the name."""
    for node in ast.walk(tree(path)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) > 1):
            continue
        target, said = node.func.value, node.args[0]
        if isinstance(target, ast.Name) and target.id == "log" and isinstance(said, ast.Constant):
            told = [ast.unparse(argument) for argument in node.args[1:]]
            names_one = [one for one in told if re.fullmatch(r"(\w+\.)*_?container(_id|\.id)", one)]
            assert not names_one or said.value.startswith("container %s"), f"line {node.lineno}: {said.value}"
