"""`engine bundle`: writes the engine, daemon and client, as one file that can be executed, or as a Debian package.

Runs in a process of its own, for whoever installs the engine. It reads the engine's files, writes the one file, and
needs no network, no compiler and no root. `python3 -m _muxer.build` compiles the C muxer before, for this host and for
others (`--target`).
"""

import os
import sys
from collections.abc import Mapping

from engine.bundle import deb, furnishing, materials, pyz
from engine.commandline import Given, Option, given_text
from engine.errors import Invalid, SystemFailure
from engine.settings import advertised
from engine.tool import Tool

_USUAL, _DEBIANS = "/usr/bin/env python3", "/usr/bin/python3"


def _write(given: Given) -> None:
    files = materials.gather()
    interpreter = _DEBIANS if given.get("deb") else _USUAL
    packed = pyz.pack(files, interpreter=interpreter)
    if given.get("deb"):
        moment = _moment(os.environ)
        data = deb.package(advertised.VERSION, furnishing.entries(packed.data, usage(), moment), moment)
        path, mode = given_text(given, "output", f"engine_{advertised.VERSION}_all.deb"), 0o644
    else:
        data, path, mode = packed.data, given_text(given, "output", "engine.pyz"), 0o755
    put(path, data, mode)
    version = ".".join(map(str, sys.version_info[:2]))
    print(f"wrote {path}: {len(data)} bytes")
    print(f"modules: {packed.modules}, of which {packed.with_code} have code for Python {version}")
    print(f"C muxer for: {', '.join(materials.targets(files)) or 'nothing (python3 -m _muxer.build makes it)'}")


def _moment(environ: Mapping[str, str]) -> int:
    """The time of the package's files, in seconds (SOURCE_DATE_EPOCH, reproducible-builds.org). Raises Invalid."""
    text = environ.get("SOURCE_DATE_EPOCH", str(deb.OLDEST))
    if not (text.isascii() and text.isdecimal() and len(text) <= 11):
        raise Invalid(f"SOURCE_DATE_EPOCH is no number of seconds: {text!r}")
    return int(text)


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


_OPTIONS = (
    Option("output", "The file to write (default engine.pyz, or the package's name)", short="o", value="FILE"),
    Option("deb", "Write a Debian package of it", kind="flag", default=False),
)
TOOL = Tool("bundle", "Write the engine as one file that can be executed, or as a Debian package", _OPTIONS, _write)
main, usage = TOOL.main, TOOL.usage
