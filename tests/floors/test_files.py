"""One job per file: length, docstring, names, and what must not stand in a source."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.floors.sources import PROJECT, files, name_of, tree, walked

Node = TypeVar("Node", bound=ast.AST)

LONGEST = 500
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "misc", "stuff"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
TOP_LEVEL = {"engine", "_muxer", "tests", "bench", "setup.py", "README.md", "pyproject.toml", "LICENSE", ".gitignore"}
TOP_LEVEL |= {".ci", ".git", "MANIFEST.in"}
PYTHON = files(".py")
ENGINE = files(".py", trees=("engine",))
# Tables of messages, one for each .proto of BuildKit: whole, with its names, whoever reads which of their fields.
TABLES = "engine/daemon/buildkit/messages/"
OWN = [path for path in ENGINE if not name_of(path).startswith(TABLES)]
SOURCES = files(".py", ".c", ".h")
OURS = Path(__file__).resolve()


def nodes(kind: type[Node], paths: list[Path]) -> Iterator[tuple[str, Node]]:
    """The nodes of one kind in these files, each with the file and line where it stands."""
    for path in paths:
        for node in walked(path):
            if isinstance(node, kind):
                yield f"{name_of(path)}:{getattr(node, 'lineno', 0)}", node


def test_a_file_has_one_job() -> None:
    """No file past 500 lines, and no name that could hold anything."""
    lengths = {name_of(path): path.read_text().count("\n") for path in SOURCES}
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST}, "look for two jobs"
    words = {name: {word for part in Path(name).with_suffix("").parts for word in part.split("_")} for name in lengths}
    assert not [name for name in words if VAGUE & words[name]]


def test_a_module_says_what_it_is_for() -> None:
    """A docstring whose first sentence is the file's one job."""
    assert not [name_of(path) for path in PYTHON if not (ast.get_docstring(tree(path)) or "").strip()]


def test_nothing_is_left_unfinished() -> None:
    """What is not built raises NotBuilt in words; nothing in a source waits for later."""
    assert not [name_of(path) for path in SOURCES if path != OURS and UNFINISHED.search(path.read_text())]


def swallowing(node: ast.ExceptHandler) -> bool:
    """Whether it catches everything, and without a name for it or without doing anything about it."""
    broad = node.type is None or (isinstance(node.type, ast.Name) and "Exception" in node.type.id)
    nothing = all(isinstance(step, ast.Pass | ast.Continue) for step in node.body)
    return node.type is None or (broad and nothing)


def test_no_failure_is_swallowed() -> None:
    """Ignore only what is named: no bare except, and no broad one whose body does nothing."""
    handlers = nodes(ast.ExceptHandler, files(".py", trees=("engine", "_muxer")))
    assert not [place for place, node in handlers if swallowing(node)]


def test_public_functions_and_classes_have_docstrings() -> None:
    """Shapes, units and errors are said where the function is."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    public = [(path, node) for path in OWN for node in tree(path).body if isinstance(node, kinds)]
    bare = [(path, node) for path, node in public if not (node.name.startswith("_") or ast.get_docstring(node))]
    assert not [f"{name_of(path)}:{node.lineno}: {node.name}" for path, node in bare]


def test_the_top_level_holds_nothing_else() -> None:
    """What git tracks or would track at the top of the tree is listed in the design."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=PROJECT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    assert {line.split("/")[0] for line in listed.stdout.splitlines()} <= TOP_LEVEL


def test_a_line_of_the_log_begins_with_its_container() -> None:
    """`container %s` and the whole id, of which the log's formatter shows twelve digits and the name."""
    calls = [(place, node) for place, node in nodes(ast.Call, ENGINE) if isinstance(node.func, ast.Attribute)]
    for place, node in calls:
        target, said = node.func.value, node.args[:1]
        if isinstance(target, ast.Name) and target.id == "log" and said and isinstance(said[0], ast.Constant):
            told = [ast.unparse(argument) for argument in node.args[1:]]
            names_one = [one for one in told if re.fullmatch(r"(\w+\.)*_?container(_id|\.id)", one)]
            assert not names_one or said[0].value.startswith("container %s"), f"{place}: {said[0].value}"


# Named by those who call them alone, and by nobody here.
CALLED_FROM_OUTSIDE = {
    "get_source",  # linecache, for tracebacks
    "options_table",  # whoever renews engine/README.md
    *("daemon_threads", "block_on_close", "get_request"),  # socketserver, as are the next
    *("process_request_thread", "handle_error", "shutdown_request"),
}


def named(node: ast.AST) -> list[str]:
    """The names that a definition or an assignment gives."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_nothing_is_named_that_nobody_uses() -> None:
    """A name that stands once in all of the sources is dead code."""
    words = Counter(
        re.findall(r"\w+", "".join((PROJECT / name).read_text() for name in ("pyproject.toml", "setup.py")))
    )
    for path in files(".py", ".c", ".h", trees=("engine", "_muxer", "bench")):
        words.update(re.findall(r"\w+", path.read_text()))
    found = {name for _, node in nodes(ast.AST, OWN) for name in named(node) if words[name] == 1}
    assert {name for name in found if not name.startswith("__")} == CALLED_FROM_OUTSIDE


def test_nothing_that_was_built_is_in_git() -> None:
    """A program is for one kind of machine; a clone makes its own, or does without."""
    if not (PROJECT / ".git").exists():
        pytest.skip("this is no clone")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    present = [PROJECT / name for name in listed.split("\0") if name and (PROJECT / name).is_file()]
    assert [str(path) for path in present if path.read_bytes()[:4] == b"\x7fELF"] == []


def test_no_handler_compares_versions() -> None:
    """What an older client gets, or may ask for, is decided in `api/versions`."""
    compared = [
        place
        for place, node in nodes(ast.Compare, [path for path in ENGINE if "handlers" in path.parts])
        if "request.version" in ast.unparse(node)
    ]
    assert compared == []
