"""Finds the program of another OCI runtime, and what kind of runtime that is, by what it says of itself.

Runs in the daemon's request threads; loaded by the first container that asks for another runtime.
"""

import functools
import os
import shutil
import subprocess

from engine.dataclass import dataclass
from engine.errors import NotBuilt, SystemFailure
from engine.kernel import reasons

_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Kind:
    """What sets a runtime apart. word: is in the first line of its `--version`

    apart: its containers have a kernel of their own: signals, execs and the list of processes go by its commands
    arguments: come before those of the operator; refused: why the engine cannot call it, in words; empty when it can
    """

    word: str
    apart: bool = False
    arguments: tuple[str, ...] = ()
    refused: str = ""


KINDS = (
    # Else gVisor keeps what a container writes to its root to itself: a copy, a commit and the next run would miss it.
    Kind("runsc", apart=True, arguments=("--overlay2=none",)),
    Kind("kata", refused="is a shim of containerd, without the command line of an OCI runtime"),
)
_USUAL = Kind("")


@dataclass(frozen=True, slots=True)
class Found:
    """How a runtime is called: its program's path, and the first arguments. apart: see `Kind`"""

    path: str
    arguments: tuple[str, ...]
    apart: bool


def found(name: str, program: str, arguments: tuple[str, ...]) -> Found:
    """The program of a runtime. Raises SystemFailure where there is none, NotBuilt for one that cannot be called."""
    path = shutil.which(program) if program else None
    if path is None:
        raise SystemFailure(f"unknown or invalid runtime name: {name}: there is no program {program or name}")
    whole = os.path.realpath(path)
    said = _version(whole, os.stat(whole).st_mtime_ns)
    kind = next((each for each in KINDS if each.word in said.lower()), _USUAL)
    if kind.refused:
        raise NotBuilt(f"the runtime {name} ({said}) {kind.refused}")
    return Found(whole, (*kind.arguments, *arguments), kind.apart)


@functools.cache
def _version(path: str, _changed_ns: int) -> str:
    """The first line of `PROGRAM --version`. Raises SystemFailure."""
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemFailure(f"the runtime {path} does not say what it is: {reasons.whole(error)}") from error
    return done.stdout[:1000].decode("utf-8", "replace").partition("\n")[0].strip()
