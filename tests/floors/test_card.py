"""What the engine was ordered as: what accepts clients, what a birth uses, and its one extension.

The top level and the imports have their tests in `test_files` and `test_imports`.
"""

import ast
import importlib.util
import socketserver
from pathlib import Path

import pytest

from engine.daemon.api import acceptor
from tests.floors.sources import PROJECT, walked


def calls(path: str) -> set[str]:
    """The functions that a file calls, as it writes them."""
    return {ast.unparse(node.func) for node in walked(PROJECT / path) if isinstance(node, ast.Call)}


def test_socketserver_is_what_accepts() -> None:
    """Its loop takes each connection, and its handler serves it in a thread; no listener is accepted on elsewhere."""
    door = acceptor._Door
    assert issubclass(door, socketserver.ThreadingMixIn) and issubclass(door, socketserver.BaseServer)
    assert issubclass(acceptor._Handler, socketserver.BaseRequestHandler)
    for kept in ("serve_forever", "process_request", "finish_request"):
        assert kept not in vars(door)
    rooms = (PROJECT / "engine/daemon/api").rglob("*.py")
    assert [path.stem for path in rooms if "self._listener.accept" in calls(str(path))] == ["acceptor"]


def test_a_birth_in_python_forks_unshares_and_pivots() -> None:
    assert {"os.fork", "syscalls.unshare"} <= calls("engine/monitor/launch.py")
    assert "syscalls.unshare" in calls("engine/birth/init.py")
    assert "syscalls.pivot_root" in calls("engine/sandbox/mounts.py")


def test_the_muxer_is_an_extension_of_cffi_in_api_mode() -> None:
    """It has a source, which a compiler checks against the declarations; `None` in its place would be the ABI mode."""
    sources = [
        node.args[1]
        for node in walked(PROJECT / "_muxer/build.py")
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "builder.set_source"
    ]
    assert len(sources) == 1 and not (isinstance(sources[0], ast.Constant) and sources[0].value is None)
    native = importlib.util.find_spec("_muxer._native")
    if native is None or native.origin is None:
        pytest.skip("needs the extension: python3 setup.py build_ext --inplace")
    assert b"_cffi_" in Path(native.origin).read_bytes()
