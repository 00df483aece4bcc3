"""Finds the shared libraries that a program of this host would be loaded with, by the rules of its loader (glibc or
musl).

Runs in the client. It only reads files and never runs the program, as ldd(1) would. For glibc the rules are those of
ld.so(8) with /etc/ld.so.cache; for musl those of its path file, or else its three directories.
"""

import contextlib
import functools
import mmap
import os
import struct

from engine.client import elf
from engine.errors import Invalid, NotFound

_GLIBC_DIRECTORIES = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_MUSL_DIRECTORIES = ("/lib", "/usr/local/lib", "/usr/lib")
_CACHE = "/etc/ld.so.cache"
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
# The magic, the number of libraries, the bytes of strings, and 20 bytes that do not matter here (glibc, dl-cache.h).
_CACHE_HEADER = 48
_CACHE_ENTRY = struct.Struct("=iIIIQ")


def read(path: str) -> elf.Elf:
    """The ELF file at `path`; raises Invalid for any other file, NotFound, and OSError as open(2) does."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return elf.parse(data)
    except FileNotFoundError as error:
        raise NotFound(f"{path} does not exist") from error
    except ValueError as error:  # mmap of an empty file
        raise Invalid(f"{path} is not an ELF file") from error


def needed_by(path: str) -> list[str]:
    """The loader and all libraries, also those that libraries need, with which the ELF program at `path` is loaded.

    The paths are those that the loader would open, symbolic links included. Raises NotFound, naming a missing library.
    """
    program = read(path)
    found: dict[str, str] = {}
    # (path, file, directories that DT_RPATH of the files above it in the chain adds)
    waiting: list[tuple[str, elf.Elf, tuple[str, ...]]] = [(path, program, ())]
    while waiting:
        above, file, inherited = waiting.pop()
        own = _expand(file.rpath, above) if not file.runpath else ()
        rpath = (*own, *inherited)
        for name in file.needed:
            if name in found:
                continue
            place = _find(name, program, above, rpath, _expand(file.runpath, above))
            found[name] = place
            waiting.append((place, read(place), rpath))
    loader = [program.interpreter] if program.interpreter else []
    return list(dict.fromkeys(loader + list(found.values())))


def _find(name: str, program: elf.Elf, above: str, rpath: tuple[str, ...], runpath: tuple[str, ...]) -> str:
    if "/" in name:
        candidates = [name]
    elif _is_musl(program) and name.startswith("libc."):
        # musl's libc and its loader are one file.
        candidates = [program.interpreter]
    else:
        candidates = [f"{directory}/{name}" for directory in (*rpath, *runpath)]
        candidates += _cached().get(name, []) if not _is_musl(program) else []
        candidates += [f"{directory}/{name}" for directory in _directories(program)]
    for candidate in candidates:
        with contextlib.suppress(NotFound, Invalid, OSError):  # the loader passes over unreadable files too
            if read(candidate).kind == program.kind:
                return candidate
    raise NotFound(f"{above} needs {name}, which was not found on this host")


def _is_musl(program: elf.Elf) -> bool:
    return os.path.basename(program.interpreter).startswith("ld-musl-")


def _directories(program: elf.Elf) -> tuple[str, ...]:
    """The directories that the loader searches last."""
    if not _is_musl(program):
        return _GLIBC_DIRECTORIES
    name = os.path.basename(program.interpreter).removesuffix(".so.1")
    try:
        with open(f"/etc/{name}.path") as file:
            return tuple(file.read().replace("\n", ":").split(":"))
    except FileNotFoundError:
        return _MUSL_DIRECTORIES


def _expand(directories: tuple[str, ...], above: str) -> tuple[str, ...]:
    """The directories with $ORIGIN filled in; those with another $ word, which names no place by itself,
    are left out.
    """
    origin = os.path.dirname(os.path.realpath(above))
    filled = (text.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for text in directories)
    return tuple(text for text in filled if "$" not in text)


@functools.cache
def _cached() -> dict[str, list[str]]:
    """Library name → paths, as ldconfig(8) found them; empty where there is no cache."""
    try:
        with open(_CACHE, "rb") as file:
            return parse_cache(file.read())
    except FileNotFoundError:
        return {}


def parse_cache(data: bytes) -> dict[str, list[str]]:
    """The entries (library name → paths) of an ld.so.cache in the present format, alone or after one in
    the old format.
    """
    start = data.find(_CACHE_MAGIC)
    found: dict[str, list[str]] = {}
    if start < 0 or len(data) < start + _CACHE_HEADER:
        return found
    (count,) = struct.unpack_from("=I", data, start + len(_CACHE_MAGIC))
    count = min(count, (len(data) - start - _CACHE_HEADER) // _CACHE_ENTRY.size)
    for number in range(count):
        place = start + _CACHE_HEADER + number * _CACHE_ENTRY.size
        _, key, value, _, _ = _CACHE_ENTRY.unpack_from(data, place)
        found.setdefault(_text(data, start + key), []).append(_text(data, start + value))
    return found


def _text(data: bytes, place: int) -> str:
    return data[place : data.find(b"\0", place)].decode("utf-8", "surrogateescape")
