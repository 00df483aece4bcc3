"""Probes what the engine uses where it is there: the C muxer, docker-init, libzstd, journald, the configuration.

Each probe runs in a child of its own (see `trial`), so a library that breaks its process breaks no other row.
"""

import ctypes
import importlib
import os
import shutil
import sysconfig
from importlib.util import find_spec

import _muxer
from engine import origin
from engine.check.row import MISSING, OK, Check, Found
from engine.daemon.containers.security import dockerinit
from engine.muxer import fits
from engine.settings.every import Settings

_FILE = "in one file: apt-get install python3-cffi-backend"
_BUILD = "apt-get install gcc python3-dev python3-cffi; python3 -m _muxer.build"
_JOURNAL = "/run/systemd/journal/socket"


def _muxer_built(_: Settings) -> Found:
    if not _muxer.built() and origin.root() is None:
        if find_spec("_cffi_backend") is None:
            return Found(MISSING, "Python does not find the library of cffi (_cffi_backend)")
        return Found(MISSING, "the engine's file has none for this machine and its C library")
    if not _muxer.built():
        lacking = [name for name, there in _needed() if not there]
        built = "it is not built, and this host lacks {} for that" if lacking else "it is not built{}"
        return Found(MISSING, built.format(", ".join(lacking)))
    try:
        extension = importlib.import_module("_muxer._native")
    except ImportError as error:
        return Found(MISSING, f"it is built, but does not load: {error}")
    if not fits(extension):
        return Found(MISSING, "it is built, but of older sources")
    return Found(OK, "built, and loads")


def _needed() -> list[tuple[str, bool]]:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    return [
        ("cffi", find_spec("cffi") is not None),
        ("a C compiler", bool(shutil.which(compiler) or shutil.which("cc"))),
        ("Python.h", os.path.isfile(header)),
    ]


def _init(settings: Settings) -> Found:
    return Found(OK, dockerinit.program(settings))


def _zstd(_: Settings) -> Found:
    if find_spec("compression") is not None:
        return Found(OK, "Python has zstd itself")
    ctypes.CDLL("libzstd.so.1")
    return Found(OK, "libzstd.so.1")


def _journald(_: Settings) -> Found:
    if os.path.exists(_JOURNAL):
        return Found(OK, _JOURNAL)
    return Found(MISSING, f"{_JOURNAL} does not exist")


CHECKS = (
    Check(
        "C muxer",
        _muxer_built,
        "Python moves the output of containers: slower, with 2 MB more memory for each container.",
        f"{_BUILD} ({_FILE})",
    ),
    Check("docker-init", _init, "--init is refused.", f"{_BUILD}; or the daemon's --init-path FILE"),
    Check("zstd", _zstd, "Images with layers packed by zstd are refused.", "apt-get install libzstd1"),
    Check("journald", _journald, "--log-driver journald is refused.", "apt-get install systemd"),
)
