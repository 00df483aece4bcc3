"""How the targets of `fuzz/` are built: C functions of the muxer that read bytes of others, as programs of their own.

Run by the default run with gcc and a simple generator (`test_fuzz`), and by `python3 -m tests --long c` with clang and
libFuzzer, which is led by coverage.
"""

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from _muxer.build import PARTS

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).with_name("fuzz")
MUXER = ROOT / "_muxer"
TARGETS = ("log", "lines", "pump", "keeper", "waiters", "proxy", "birth")
"""The log's files read back, of either form; output, clients, their keys; what a launcher tells its keeper; who waits
for the end; what a daemon tells the proxy, between its clients and the containers; what an image has for its process 1.
"""
# Of the part `process` those that fork (spawner.c, newborn.c, launch.c) have no target, the others are in the keeper's.
_KEEPER = tuple(f"process/{name}" for name in ("ballast", "compress", "title"))
SOURCES = tuple(f"{part}/{name}" for part in ("log", "pump") for name in PARTS[part])
# What a target needs beside those and the files that it includes.
_MORE = {
    "keeper": _KEEPER,
    "proxy": (
        *("proxy/datagram", "proxy/reach", "proxy/stream"),
        *("process/finish", "process/keeper", "process/messages", *_KEEPER),
    ),
    "birth": (
        *(f"birth/{name}" for name in PARTS["birth"] if name not in ("beneath", "command", "users")),
        *("process/newborn", "process/title"),
    ),
}
FLAGS = (
    *("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64"),
    "-fno-omit-frame-pointer",
)
# For musl-gcc: without sanitizers, and with the kernel's headers, which Debian's musl does not bring.
MUSL = ("-static", "-idirafter", "/usr/include", "-idirafter", f"/usr/include/{platform.machine()}-linux-gnu")
MEMORY = "address,undefined"


def build(compiler: str, main: Sequence[str], sanitizers: str, made: Path, objects: Sequence[Path] = ()) -> Path:
    """Compile these files of `fuzz/` with the muxer, or with these objects of it. Raises CalledProcessError.

    sanitizers: for `-fsanitize=`; empty for musl-gcc
    """
    sources = [HERE / f"{name}.c" for name in main]
    sources += [MUXER / f"{name}.c" for target in main for name in _MORE.get(target, ())]
    _run(compiler, sanitizers, "-o", made, *sources, *(objects or _sources()), "-pthread")
    return made


def compiled(compiler: str, sanitizers: str, directory: Path) -> list[Path]:
    """The muxer's own files as objects, for several targets. Raises CalledProcessError."""
    _run(compiler, sanitizers, "-c", *_sources(), where=directory)
    return [directory / f"{Path(name).name}.o" for name in SOURCES]


def _sources() -> list[Path]:
    return [MUXER / f"{name}.c" for name in SOURCES]


def _run(compiler: str, sanitizers: str, *words: object, where: Path | None = None) -> None:
    watched = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"] if sanitizers else MUSL
    command = [compiler, *FLAGS, *watched, f"-I{MUXER}", f"-I{HERE}", *map(str, words)]
    subprocess.run(command, check=True, cwd=where)
