"""Builds the C muxer as `_muxer._native`, by cffi, for the stable ABI of every CPython from 3.11 on; and two programs.

`python3 -m _muxer.build` builds all in place; setup.py uses `ffibuilder`; the tests build it under the sanitizers with
`build(directory, sanitize=True)`. Needs cffi and a C compiler; nothing at run time imports this.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

try:
    from cffi import FFI, VerificationError
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"The C muxer is not built: {error}. Debian: apt-get install python3-cffi; elsewhere: pip install cffi")

import _muxer

HERE = Path(__file__).resolve().parent
PARTS = {
    "log": (
        *("format", "room", "lasting", "order", "text", "jsonwriter", "writer"),
        *("segment", "sink", "lines", "seek", "waiting", "together", "reader", "jsonlines", "jsonreader", "later"),
    ),
    "pump": ("client", "flow", "pump", "waiters"),
    "proxy": ("confine", "datagram", "orders", "reach", "stream", "turns"),
    "files": ("extract", "sha256", "trees"),
    "birth": ("beneath", "command", "devices", "join", "mounts", "plan", "rights", "steps", "streams", "users"),
    "process": (
        "ballast",
        "compress",
        "finish",
        "launch",
        "messages",
        "newborn",
        "keeper",
        "proxy",
        "title",
        "spawner",
    ),
}
SOURCES = tuple(os.path.join(part, f"{name}.c") for part, names in PARTS.items() for name in names)
# 64-bit file offsets and times also where `long` has 32 bits.
MACROS = [("_GNU_SOURCE", None), ("_FILE_OFFSET_BITS", "64"), ("_TIME_BITS", "64")]
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"]
LINKED = ["-Wl,-z,now"]  # a keeper has given up what a lazy binding needs (process/ballast.c)
SANITIZE = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"]

PROGRAMS = {"docker-init": "dockerinit.c", "engine-sleeper": "sleeper.c"}
"""The programs without a C library: the containers' process 1, and what `engine listen` becomes."""
PROGRAM_MACHINES = ("x86_64", "aarch64", "riscv64", "armv7l")
PROGRAM_COMPILED = (
    *("-std=c99", "-Os", "-Wall", "-Wextra", "-ffreestanding", "-fno-builtin", "-fno-stack-protector"),
    *("-fno-asynchronous-unwind-tables", "-fno-pie"),
)
PROGRAM_LINKED = ("-no-pie", "-nostdlib", "-static", "-s", "-Wl,-z,noexecstack,--build-id=none")


def make_builder(directory: str, sanitize: bool = False) -> FFI:
    """The cffi builder; `directory` is where the sources are, in the form that the compiler gets (setuptools:
    relative).
    """
    builder = FFI()
    contract = (HERE / "muxer.h").read_text()
    builder.cdef(contract.split("/* cffi begin */")[1].split("/* cffi end */")[0])
    builder.cdef("#define MUX_CONTRACT ...")
    builder.set_source(
        "_muxer._native",
        f'#include "muxer.h"\n#define MUX_CONTRACT {_muxer.contract()}u',
        sources=[os.path.join(directory, name) for name in SOURCES],
        include_dirs=[directory],
        define_macros=MACROS,
        extra_compile_args=FLAGS + (SANITIZE if sanitize else []),
        extra_link_args=LINKED + (SANITIZE[1:2] if sanitize else []),
        py_limited_api=True,
    )
    return builder


def build(target: Path, sanitize: bool = False) -> Path:
    """Compiles the extension into the directory `target`; returns its path. Raises what cffi and the compiler raise."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(make_builder(str(HERE), sanitize).compile(tmpdir=scratch))
        final = target / made.name
        # Written beside the old file and renamed over it: a process that has the old one loaded keeps it.
        shutil.copy(made, final.with_suffix(".new"))
        os.replace(final.with_suffix(".new"), final)
    return final


def build_programs(target: Path) -> list[Path]:
    """Compiles the programs of `PROGRAMS` into the directory `target`; returns their paths.

    There are none on a machine for which they are not written. They are no extensions: static, without a C library.
    Raises what the compiler raises.
    """
    if os.uname().machine not in PROGRAM_MACHINES:
        return []
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    for name, source in PROGRAMS.items():
        made = target / f"{name}.new"
        words = (*PROGRAM_COMPILED, *PROGRAM_LINKED, "-o", str(made), str(HERE / "process" / source))
        subprocess.run([shutil.which(compiler) or "cc", *words], check=True)
        os.replace(made, target / name)  # a process that runs the old one keeps it
    return [target / name for name in PROGRAMS]


def main() -> int:
    """Build all in place, and print where they are; returns the exit status."""
    try:
        print(build(HERE), *build_programs(HERE), sep="\n")
    except (VerificationError, OSError, subprocess.CalledProcessError) as error:
        needs = "It needs a C compiler, Python's headers, and a directory that can be written"
        print(f"The C muxer is not built: {error}. {needs} (Debian: apt-get install gcc python3-dev).", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

ffibuilder = make_builder("_muxer")
