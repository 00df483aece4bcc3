"""What a daemon's threads import late, several of them at once: nothing of it may be met half loaded."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
BEGUN = "from engine import postponed; postponed.postpone(*postponed.IDLE); import engine.boot, engine.daemon.main"
# Drivers of logs, and standard modules, that the daemon imports inside functions.
DRIVERS = (
    *(f"engine.logs.drivers.{name}" for name in ("journald", "jsonfile", "local", "syslog")),
    "engine.logs.jsonreader",
)
STANDARD = (
    *("_strptime", "bz2", "concurrent.futures.thread", "datetime", "email.message", "email.utils", "encodings.idna"),
    *("fcntl", "grp", "hashlib", "http.client", "importlib.util", "inspect", "ipaddress", "lzma", "pwd", "resource"),
    *("shutil", "socket", "ssl", "subprocess", "textwrap", "traceback", "zlib"),
)


def said(script: str) -> str:
    """What a script prints in a Python of its own that has loaded what a daemon has when its threads begin."""
    whole = f"{BEGUN}\n{script}"
    done = subprocess.run([sys.executable, "-S", "-c", whole], cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_that_is_imported_late_is_imported_in_a_circle() -> None:
    """Of two threads that enter a circle at two places, one gets a module that is half loaded."""
    script = f"""
import builtins, importlib, importlib.util, pkgutil, sys
plain, found = builtins.__import__, set()
def watched(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {{}}).get("__name__", "?")
    full = importlib.util.resolve_name("." * level + name, globals["__package__"]) if level else name
    for each in (full, *(f"{{full}}.{{part}}" for part in fromlist or ())):
        spec = getattr(sys.modules.get(each), "__spec__", None)
        # A package is always begun before what is in it: that is no circle.
        if getattr(spec, "_initializing", False) and not f"{{importer}}.".startswith(f"{{each}}."):
            found.add(f"{{importer}} imports {{each}}")
    return plain(name, globals, locals, fromlist, level)
builtins.__import__ = watched
every = [each.name for each in pkgutil.walk_packages(engine.daemon.__path__, "engine.daemon.")]
names = [each for each in every if ".native" not in each]  # those import cffi, which this Python does not see
for name in (*names, *{DRIVERS}, *{STANDARD}):
    importlib.import_module(name)
assert len(names) > 300 and "http.client" in sys.modules
print(*sorted(found), sep="; ")
"""
    assert said(script) == ""
