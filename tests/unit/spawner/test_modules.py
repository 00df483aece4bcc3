"""What the spawner keeps is enough for all that a process forked from it may import, and comes from no file."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
LATE = (
    "engine.proxy.main",
    "engine.resolver.main",
    "engine.logs.jsonfiles",
    "engine.logs.compress",
    "engine.logs.drivers.syslog",
    "engine.logs.drivers.fluentsender",
    "engine.logs.drivers.gelfsender",
    "engine.logs.drivers.pluginsender",
    "engine.logs.drivers.splunksender",
    "engine.asking.secure",
    "engine.birth.hooks",
    "engine.birth.joinviaruntime",
    "engine.birth.viaruntime",
    "engine.sandbox.remapped",
)
# In a process of its own, as small as a spawner: a test process has everything imported.
SCRIPT = """
import importlib, importlib.machinery, socket, sys
from engine import postponed
postponed.postpone(*postponed.IDLE)
from engine import boot
from engine.monitor.parts import parts
from engine.muxer import select
from engine.spawner import main, modules
parts(select(sys.argv[2]))
# Python's own, which the launcher of a container whose lines go over a network loads from files before its start.
import base64, json, ssl, zlib
modules.keep()
sys.meta_path.remove(importlib.machinery.PathFinder)
before = set(sys.modules)
for name in sys.argv[3:]:
    importlib.import_module(name)
from engine.logs.drivers import journald
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
    journal.bind(sys.argv[1])
    sender = journald.Sender({"A": "b"}, sys.argv[1])
    sender.send(1, b"short", None, 0)
    sender.send(2, b"x" * (1 << 20), ("id", 1, False), 0)
    assert b"MESSAGE=short" in journal.recv(1000)
print(*sorted(set(sys.modules) - before))
print(*sys.meta_path[0]._made)
print(sys.modules["engine.resolver.main"].__file__, sys.modules["engine.resolver.main"].__spec__.origin)
"""


@pytest.mark.parametrize("muxer", ["auto", "python"])
def test_all_that_is_imported_late_is_kept_and_nothing_else(tmp_path: Path, muxer: str) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "journal"), muxer, *LATE]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    imported, kept, files = (line.split() for line in done.stdout.splitlines())
    assert imported == sorted(kept)
    assert files == [str(PROJECT / "engine/resolver/main.py")] * 2
