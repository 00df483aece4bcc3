"""An error's text for a client is in docker's words: `no space left on device`, not Python's `[Errno 28] No space ...`.

Each handler of an OSError in what a client hears of is looked at: its error may go into a log as it is, and into any
other text by way of `engine.kernel.reasons`.
"""

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "engine"
ROOMS = ("daemon", "sandbox", "monitor", "wire", "resolver")
# The text of each is only logged: a client that is gone hears nothing, and a warning of a monitor goes to the log.
LOGGED = {"daemon/api/connection.py", "monitor/life.py"}


def _names(kind: ast.expr | None) -> set[str]:
    return {part.id for part in ast.walk(kind) if isinstance(part, ast.Name)} if kind is not None else set()


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = [getattr(builtins, name, None) for name in _names(handler.type)]
    return any(
        isinstance(kind, type) and (issubclass(kind, OSError) or issubclass(OSError, kind)) for kind in kinds if kind
    )


def _is_log(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "log"
    )


def _texts(node: ast.AST, name: str) -> Iterator[int]:
    """The lines where the error of that name becomes a text as Python writes it."""
    if _is_log(node):
        return
    inner = node.value if isinstance(node, ast.FormattedValue) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        inner = node.args[0]
    if isinstance(inner, ast.Name) and inner.id == name:
        yield inner.lineno
    for child in ast.iter_child_nodes(node):
        yield from _texts(child, name)


def raw_texts(source: str) -> list[int]:
    """The lines of a module's source where an OSError becomes a text as it is."""
    handlers = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ExceptHandler))
    caught = [(one, one.name) for one in handlers if one.name and _catches(one)]
    return sorted({line for one, name in caught for part in one.body for line in _texts(part, name)})


@pytest.mark.parametrize("room", ROOMS)
def test_no_error_of_a_system_call_is_told_in_pythons_form(room: str) -> None:
    found = []
    for path in sorted((ENGINE / room).rglob("*.py")):
        place = path.relative_to(ENGINE).as_posix()
        if place not in LOGGED:
            found += [f"{place}:{line}" for line in raw_texts(path.read_text())]
    assert not found


def test_the_look_itself() -> None:
    source = """
try:
    work()
except (EngineError, OSError) as error:
    log.error("%s", f"{error}")
    raise SystemFailure(f"it failed: {error}") from error
except FileNotFoundError as error:
    tell(str(error))
except Exception as error:
    tell(f"{reasons.whole(error)} {error.errno}")
except ValueError as error:
    tell(str(error))
"""
    assert raw_texts(source) == [6, 8]
