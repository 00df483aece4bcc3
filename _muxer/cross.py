"""Compiles the C muxer and its programs for other machines and C libraries, for wheels and for the engine in one file.

`python3 -m _muxer.cross [TARGET...]` puts them into `_muxer/targets/TARGET`, from where `engine bundle` and `setup.py`
(ENGINE_TARGET) take them. Zig has compilers for all targets (`pip install ziglang`). Without Zig, a target's own gcc is
used, or musl-gcc. Needs cffi and Python's headers; no network, and nothing of the other machine. Python's headers are
this machine's: for the stable ABI they say the same for every machine of 64 bits and this byte order.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from _muxer.build import FLAGS, HERE, LINKED, MACROS, PROGRAM_COMPILED, PROGRAM_LINKED, PROGRAMS, SOURCES, make_builder

PLACE = HERE / "targets"
NATIVE = "_native.abi3.so"
TARGETS = {
    "x86_64-linux-gnu": "x86_64-linux-gnu.2.17",
    "aarch64-linux-gnu": "aarch64-linux-gnu.2.17",
    "x86_64-linux-musl": "x86_64-linux-musl",
    "aarch64-linux-musl": "aarch64-linux-musl",
}
"""What wheels are made for, and Zig's name of it: the oldest glibc is that of manylinux2014 (PEP 599)."""

SMALL = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
"""The engine in one file has the C of all targets, and each kilobyte of it takes the room of a module's code."""
HOT = ("log", "pump")
"""The parts that move the bytes of containers; all others are compiled for size."""


def compiler(target: str) -> list[str]:
    """The command of a compiler for a target. Raises FileNotFoundError where this machine has none."""
    if find_spec("ziglang") is not None:
        return [sys.executable, "-P", "-m", "ziglang", "cc", "-target", TARGETS[target]]
    if shutil.which("zig"):
        return ["zig", "cc", "-target", TARGETS[target]]
    names = [f"{target}-gcc"]
    if target == f"{os.uname().machine}-linux-musl":
        names.append("musl-gcc")
    for name in names:
        if shutil.which(name):
            return [name]
    raise FileNotFoundError(f"no compiler for {target}: pip install ziglang, or have {' or '.join(names)}")


def build(target: str, command: Sequence[str], into: Path) -> None:
    """Compile all into the directory `into` with a compiler. Raises OSError and CalledProcessError."""
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "native.c")
        make_builder(str(HERE)).emit_c_code(str(source))
        # Debian's pyconfig.h includes that of the machine which is compiled for, by this name.
        machines = Path(scratch, target, f"python{sysconfig.get_python_version()}")
        machines.mkdir(parents=True)
        shutil.copy(sysconfig.get_config_h_filename(), machines / "pyconfig.h")
        included = [f"-I{place}" for place in (HERE, scratch, sysconfig.get_paths()["include"])]
        macros = [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in MACROS]
        common = (*command, *FLAGS, *SMALL, "-fPIC", *macros, *included)
        hot = [str(HERE / each) for each in SOURCES if each.startswith(HOT)]
        cold = [str(source), *(str(HERE / each) for each in SOURCES if not each.startswith(HOT))]
        objects = [str(Path(scratch, f"{number}.o")) for number in range(len(cold))]
        shared = (*common, "-shared", *LINKED, "-s", *hot, *objects, "-o")
        # The programs in two steps: where nothing of a C library is linked, Zig has not even the kernel's headers.
        steps = [(made, (*common, "-Os", "-c", each, "-o")) for each, made in zip(cold, objects, strict=True)]
        steps.append((NATIVE, shared))
        for name, code in PROGRAMS.items():
            steps.append((f"{name}.o", (*command, *PROGRAM_COMPILED, "-c", str(HERE / "process" / code), "-o")))
            steps.append((name, (*command, *PROGRAM_LINKED, str(Path(scratch, f"{name}.o")), "-o")))
        for name, words in steps:
            subprocess.run([*words, str(Path(scratch, name))], check=True, stderr=subprocess.PIPE, text=True)
        for name in (NATIVE, *PROGRAMS):
            shutil.copy(Path(scratch, name), into / f"{name}.new")
            os.replace(into / f"{name}.new", into / name)  # a process that has the old one keeps it


def main(words: Sequence[str]) -> int:
    """Compile for these targets, or for all; returns the exit status."""
    unknown = sorted(set(words) - set(TARGETS))
    if unknown:
        print(f"Unknown: {', '.join(unknown)}. The targets are {', '.join(TARGETS)}.", file=sys.stderr)
        return 1
    for target in words or TARGETS:
        try:
            build(target, compiler(target), PLACE / target)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"Not built for {target}: {error}\n{getattr(error, 'stderr', None) or ''}".rstrip(), file=sys.stderr)
            return 1
        print(PLACE / target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
