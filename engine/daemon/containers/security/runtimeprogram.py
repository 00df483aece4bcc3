"""Finds the program of another OCI runtime, and refuses one whose containers are no processes of this kernel.

Runs in the daemon's request threads; loaded by the first container that asks for another runtime. A command in a
container, a copy and a count of the engine's enter the namespaces of process 1. In a sandbox with a kernel of its own
(gVisor, Kata) these are the sandbox's, and not the container's, so such a runtime is refused by what it says of itself.
"""

import functools
import os
import shutil
import subprocess

from engine.errors import NotBuilt, SystemFailure

_SECONDS = 10.0
_SANDBOXES = ("runsc", "kata")


def found(name: str, program: str) -> str:
    """The path of a runtime's program. Raises SystemFailure where there is none, NotBuilt for a sandbox."""
    path = shutil.which(program) if program else None
    if path is None:
        raise SystemFailure(f"unknown or invalid runtime name: {name}: there is no program {program or name}")
    whole = os.path.realpath(path)
    said = _version(whole, os.stat(whole).st_mtime_ns)
    if any(word in said.lower() for word in _SANDBOXES):
        raise NotBuilt(f"the runtime {name} ({said}) has a kernel of its own, which is not built in this engine")
    return whole


@functools.cache
def _version(path: str, _changed_ns: int) -> str:
    """The first line of `PROGRAM --version`. Raises SystemFailure."""
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemFailure(f"the runtime {path} does not say what it is: {error}") from error
    return done.stdout[:1000].decode("utf-8", "replace").partition("\n")[0].strip()
