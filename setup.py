"""`pip install .`: the commands `engine` and `engined`, with the C muxer where this machine can build it.

The C muxer needs cffi, a C compiler and Python's headers. Where one of them is missing the engine is installed as pure
Python, which is said aloud; a build that fails although all of them are there is an error, never a silent fallback.
With ENGINE_TARGET=aarch64-linux-musl, or another target of `_muxer.cross`, the wheel gets what that has compiled. The
wheel's tag is what the C muxer was linked with: manylinux (PEP 600), musllinux (PEP 656), each with the stable ABI.
"""

import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

CFFI = "cffi>=1.15"
NATIVE = "_muxer._native"
PROGRAMS = ("docker-init", "engine-sleeper")
MUSL = "1_2"  # of musllinux: musl has no versions of symbols, and 1.2 is the oldest with times of 64 bits everywhere
HERE = Path(__file__).resolve().parent
TARGET = os.environ.get("ENGINE_TARGET", "")
sys.path.insert(0, str(HERE))  # for what is imported of the tree below


def missing_for_the_muxer() -> list[str]:
    """What this machine lacks to build the C muxer, in words."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    missing = []
    if not any(map(shutil.which, (compiler, "cc", "gcc", "clang"))):
        missing.append("a C compiler")
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        missing.append("Python's headers (python3-dev)")
    return missing


def say(text: str) -> None:
    """Say it where pip shows it with -v, and where everybody sees it who runs setup.py."""
    print(f"\n*** engine: {text}\n", file=sys.stderr)


def native_arguments() -> dict:
    """The arguments of setup() that are about the C muxer."""
    given = {"install_requires": [CFFI], "options": {"bdist_wheel": {"py_limited_api": "cp311"}}}
    if TARGET:
        if not (compiled() / PROGRAMS[-1]).exists():
            sys.exit(f"*** engine: nothing is compiled for {TARGET}: python3 -m _muxer.cross {TARGET}")
        say(f"the C muxer is that of {TARGET}.")
        return {**given, "ext_modules": [Extension(NATIVE, [], py_limited_api=True)]}
    missing = missing_for_the_muxer()
    if missing:
        say(f"installed as pure Python: {' and '.join(missing)} not found, so the C muxer is not built.")
        return {}
    if find_spec("cffi") is None:
        # An isolated build asks for setup_requires first, installs it, and comes back here with cffi there.
        say("installed as pure Python unless pip brings cffi first: without it the C muxer is not built.")
        return {"setup_requires": [CFFI]}
    say("the C muxer is built.")
    return {**given, "setup_requires": [CFFI], "cffi_modules": ["_muxer/build.py:ffibuilder"]}


def compiled() -> Path:
    """Where `_muxer.cross` has put what is compiled for the target."""
    return HERE / "_muxer" / "targets" / TARGET


class BuildWithPrograms(build_ext):
    """Builds two programs (`_muxer.build.PROGRAMS`) beside the muxer, of which they are no part but that all are C."""

    def run(self) -> None:
        """Build the muxer, then the programs; or take all from where `_muxer.cross` has put them."""
        if TARGET:
            place = Path(self.build_lib, "_muxer")
            place.mkdir(parents=True, exist_ok=True)
            for name in ("_native.abi3.so", *PROGRAMS):
                shutil.copy(compiled() / name, place / name)
            return
        super().run()
        if self.extensions:
            from _muxer.build import build_programs

            build_programs(Path(self.get_ext_fullpath("_muxer.program")).parent)


class TaggedWheel(bdist_wheel):
    """Names the wheel by what its library was linked with, so that pip takes it where it runs and nowhere else."""

    def get_tag(self) -> tuple[str, str, str]:
        """The tags of Python, ABI and platform; called once all is built."""
        python, abi, platform = super().get_tag()
        found = sorted(Path(self.bdist_dir, "_muxer").glob("_native.*so"))
        if not found:
            return python, abi, platform
        from engine.bundle.objects import target

        machine, _, library, version = target(found[0].read_bytes()).split("-")
        if library == "gnu":
            return python, abi, f"manylinux_{version.replace('.', '_')}_{machine}"
        return python, abi, f"musllinux_{MUSL}_{machine}"


setup(cmdclass={"build_ext": BuildWithPrograms, "bdist_wheel": TaggedWheel}, **native_arguments())
