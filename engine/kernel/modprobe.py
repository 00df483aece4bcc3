"""Loads a module of the running kernel, after the modules that it needs (finit_module(2)); no program is run.

The kernel itself runs modprobe(8) for most of what the engine uses: file systems, kinds of links, parts of nf_tables.
For the others there is this module, and for all of them on a host without that program (`stand_in`). What an
administrator has forbidden in modprobe.d(5) is not loaded.
"""

import errno
import logging
import os
from collections.abc import Iterable, Iterator

from engine.errors import Unavailable
from engine.kernel import reasons, syscalls
from engine.regex import regex

log = logging.getLogger(__name__)

OVERLAY = ("overlay",)
"""What a mount of layers needs."""
LINKS = {"bridge": ("bridge", "veth"), "macvlan": ("macvlan", "8021q", "dummy"), "ipvlan": ("ipvlan", "8021q", "dummy")}
"""What the interfaces of a network need, by its driver."""
FIREWALL = ("nf_tables", "nft_chain_nat", "nft_ct", "nft_nat", "nft_masq", "nft_fib_inet", "nft_redir")
"""What the rules need; some kernels have a part of it without a module."""

_PROGRAM = "/proc/sys/kernel/modprobe"
_TREES = ("/lib/modules", "/usr/lib/modules")
_FORBIDDING = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
_NAME = regex(r"([^/]+)\.ko(\.[a-z]+)?")


def stand_in(names: Iterable[str]) -> None:
    """Load these modules where the kernel would ask for them in vain, since the program that it runs is not there.

    What cannot be loaded is left to whoever needs it: the kernel may have it built in.
    """
    try:
        with open(_PROGRAM) as file:
            program = file.read().strip()
    except OSError:  # this kernel loads no modules
        return
    if os.access(program, os.X_OK):
        return
    for name in names:
        try:
            load(name)
        except Unavailable as error:
            log.debug("%s", error)


def load(name: str) -> None:
    """Load the module. One that is loaded already is fine. Raises Unavailable, which says why it cannot be."""
    for path in found(name):
        _load(name, path)


def found(name: str) -> list[str]:
    """The files that `load` gives to the kernel; none where the module is loaded already. Raises Unavailable."""
    if os.path.isdir(f"/sys/module/{name}"):
        return []
    tree = next(
        (f"{each}/{os.uname().release}" for each in _TREES if os.path.isdir(f"{each}/{os.uname().release}")), ""
    )
    try:
        with open(f"{tree}/modules.dep", encoding="utf-8", errors="replace") as file:
            paths = needed(name, file)
    except OSError as error:
        raise Unavailable(
            f"the kernel's module {name} cannot be loaded: {tree or _TREES[0]}: {reasons.of(error)}"
        ) from error
    if not paths:
        raise Unavailable(f"the kernel's module {name} cannot be loaded: this kernel has no such module")
    if where := forbidden(name):
        raise Unavailable(f"the kernel's module {name} is not loaded: {where} forbids it")
    return [os.path.join(tree, path) for path in paths]


def needed(name: str, listing: Iterator[str]) -> list[str]:
    """The paths of the module and of all that it needs, in the order in which they are to be loaded; empty for none.

    listing: the lines of modules.dep (modules.dep(5)), each `PATH: PATH ...` with what is needed last
    """
    for line in listing:
        path, _, others = line.strip().partition(":")
        parts = _NAME.fullmatch(os.path.basename(path))
        if parts is not None and parts[1].replace("-", "_") == name:
            return [*reversed(others.split()), path]
    return []


def forbidden(name: str) -> str:
    """The file of modprobe.d that forbids the module (`blacklist`, or `install` with another command); else empty."""
    for path in _settings():
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.split()
                if words[:1] in (["blacklist"], ["install"]) and words[1:2] and words[1].replace("-", "_") == name:
                    return path
    return ""


def _settings() -> Iterator[str]:
    for directory in _FORBIDDING:
        if os.path.isdir(directory):
            yield from (
                os.path.join(directory, each) for each in sorted(os.listdir(directory)) if each.endswith(".conf")
            )


def _load(name: str, path: str) -> None:
    compressed = not path.endswith(".ko")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            syscalls.finit_module(fd, syscalls.MODULE_INIT_COMPRESSED_FILE if compressed else 0)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno != errno.EEXIST:  # it is loaded already
            raise Unavailable(f"the kernel's module {name} cannot be loaded: {path}: {reasons.of(error)}") from error
