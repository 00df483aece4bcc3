"""The fingerprint of the engine's files, by which the daemon sees that a new spawner is of another version.

Run once by the spawner. A sandbox goes from the daemon to the spawner by position and in Python's own form
(`wire.packed`), which only the same version reads; and the files may have been replaced since the daemon started.
"""

import importlib.util
import os
import sys
import zlib

from engine import origin

_OTHERS = ("daemon", "client", "__pycache__")  # packages that a spawner never runs


def fingerprint() -> str:
    """Equal for the same files and the same Python version, else different. Raises OSError."""
    if origin.ours is not None:
        return origin.ours.digest
    check = zlib.crc32(repr(sys.version_info[:2]).encode())
    for directory, directories, files in os.walk(_place("engine")):
        directories[:] = sorted(set(directories) - set(_OTHERS))
        for name in sorted(files):
            if name.endswith(".py"):
                check = _add(os.path.join(directory, name), check)
    for name in sorted(os.listdir(_place("_muxer"))):
        if name.endswith(".so"):
            check = _add(os.path.join(_place("_muxer"), name), check)
    return f"{check:08x}"


def _place(package: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"package {package} is not in a directory")
    return spec.submodule_search_locations[0]


def _add(path: str, check: int) -> int:
    with open(path, "rb") as file:
        return zlib.crc32(file.read(), check)
