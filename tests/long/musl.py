"""The job `musl`: tests/api, tests/network and tests/clients/test_musl.py with daemons that run on a Python of musl.

The tests themselves, and the clients, run on this host's Python. The daemons find their C muxer in the tree, under the
name that the other Python looks for first and this one never does.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from _muxer import cross
from tests.__main__ import CACHE, PROJECT
from tests.setup import musl, zig

FILES = "tests/clients/test_musl.py tests/api tests/network"
_BUILD = (
    "import sys, pathlib; from _muxer import cross; "
    "cross.build(sys.argv[1], cross.compiler(sys.argv[1]), pathlib.Path(sys.argv[2]))"
)
_SUFFIX = "import importlib.machinery as m; print(m.EXTENSION_SUFFIXES[0])"


@contextlib.contextmanager
def ready() -> Iterator[dict[str, str]]:
    """What is in the environment of the tests; the Python is built if it is not there yet.

    Raises CalledProcessError, and FileNotFoundError with the words for what this host lacks.
    """
    if not musl.complete(CACHE):
        if reason := musl.unable():
            raise FileNotFoundError(f"no Python of musl can be built {reason}")
        print("tests.long: building a Python of musl, which takes some ten minutes", flush=True)
        musl.make(CACHE, Path(sys.executable))
    python = musl.python(CACHE)
    suffix = subprocess.run([python, "-c", _SUFFIX], capture_output=True, text=True, check=True).stdout.strip()
    muxer = cross.HERE / f"_native{suffix}"
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-c", _BUILD, musl.NAME, scratch]
        subprocess.run(command, cwd=PROJECT, env={**os.environ, **zig.variables(CACHE)}, check=True)
        shutil.copy(Path(scratch, cross.NATIVE), muxer)
    try:
        yield {"ENGINE_TEST_PYTHON": str(python)}
    finally:
        muxer.unlink()
