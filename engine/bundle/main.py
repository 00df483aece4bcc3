"""`engine bundle`: writes the engine, daemon and client, as one file that can be executed.

Runs in a process of its own, for whoever installs the engine. It reads the engine's files, writes the one file, and
needs no network, no compiler and no root. `python3 -m _muxer.build` compiles the C muxer before, for this host and for
others (`--target`).
"""

import os
import sys
from collections.abc import Sequence

from engine.bundle import materials, pyz
from engine.commandline import Given, Option, described, given_text, parse
from engine.errors import EngineError, Invalid, SystemFailure

_USAGE = "wrong number of arguments. Usage: engine bundle [OPTIONS]"
OPTIONS_HERE = (
    Option("output", "The file to write", short="o", default="engine.pyz", value="FILE"),
    Option("help", "Show this text", kind="flag", default=False),
)


def main(words: Sequence[str]) -> int:
    """Write the file; returns the exit status of the process."""
    try:
        given, others = parse(OPTIONS_HERE, words)
        if given.get("help"):
            print(usage(), end="")
            return 0
        if others:
            raise Invalid(_USAGE)
        _write(given)
    except EngineError as error:
        print(f"engine bundle: {error}", file=sys.stderr)
        return 1
    return 0


def usage() -> str:
    """The help text."""
    return f"""Usage: engine bundle [OPTIONS]

Write the engine as one file that can be executed

Options:
{described(OPTIONS_HERE)}
"""


def _write(given: Given) -> None:
    files = materials.gather()
    packed = pyz.pack(files)
    path = given_text(given, "output", "engine.pyz")
    put(path, packed.data, 0o755)
    version = ".".join(map(str, sys.version_info[:2]))
    print(f"wrote {path}: {len(packed.data)} bytes")
    print(f"modules: {packed.modules}, of which {packed.with_code} have code for Python {version}")
    print(f"C muxer for: {', '.join(materials.targets(files)) or 'nothing (python3 -m _muxer.build makes it)'}")


def put(path: str, data: bytes, mode: int) -> None:
    """Put a file in place of another: a process that runs from the old one keeps it. Raises SystemFailure."""
    new = f"{path}.new"
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
        os.replace(new, path)
    except OSError as error:
        raise SystemFailure(f"{path} cannot be written: {error.strerror}") from error
