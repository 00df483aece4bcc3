"""`pip install .`: the commands `engine` and `engined`, with the C muxer where this machine can build it.

The C muxer needs cffi, a C compiler and Python's headers. Where one of them is missing the engine is installed as pure
Python, which is said aloud; a build that fails although all of them are there is an error, never a silent fallback.
"""

import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

CFFI = "cffi>=1.15"


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
    missing = missing_for_the_muxer()
    if missing:
        say(f"installed as pure Python: {' and '.join(missing)} not found, so the C muxer is not built.")
        return {}
    if find_spec("cffi") is None:
        # An isolated build asks for setup_requires first, installs it, and comes back here with cffi there.
        say("installed as pure Python unless pip brings cffi first: without it the C muxer is not built.")
        return {"setup_requires": [CFFI]}
    say("the C muxer is built.")
    return {
        "setup_requires": [CFFI],
        "install_requires": [CFFI],
        "cffi_modules": ["_muxer/build.py:ffibuilder"],
        "options": {"bdist_wheel": {"py_limited_api": "cp311"}},
    }


class BuildWithInit(build_ext):
    """Builds docker-init (_muxer/process/dockerinit.c) beside the muxer, of which it is no part but that both are C."""

    def run(self) -> None:
        """As build_ext; then the program."""
        super().run()
        if self.extensions:
            sys.path.insert(0, str(Path(__file__).resolve().parent))
            from _muxer.build import build_init

            build_init(Path(self.get_ext_fullpath("_muxer.docker-init")).parent)


setup(cmdclass={"build_ext": BuildWithInit}, **native_arguments())
