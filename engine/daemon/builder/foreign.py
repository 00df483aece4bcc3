"""Whether this host can run the programs of a platform: its own, one that it also runs, or one with an interpreter.

Reads binfmt_misc(5), where an emulator such as QEMU is registered for programs of another architecture.
"""

import os

from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.errors import Unavailable

_INTERPRETERS = "/proc/sys/fs/binfmt_misc"
# QEMU's name of an architecture, in the names of the files there, where it is not the architecture's own.
_QEMU = {"amd64": "x86_64", "arm64": "aarch64", "386": "i386"}


def check(wanted: Platform) -> None:
    """Raise Unavailable for a platform whose programs this host cannot run."""
    if platforms.rank(platforms.host(), wanted, strict=False) is not None:
        return
    name = f"qemu-{_QEMU.get(wanted.architecture, wanted.architecture)}"
    try:
        with open(os.path.join(_INTERPRETERS, name)) as file:
            if file.readline().strip() == "enabled":
                return
    except OSError:  # none is registered, or binfmt_misc is not mounted
        pass
    raise Unavailable(
        f"RUN for {wanted} is not possible on this host ({platforms.host()}): it needs an emulator that is registered"
        f" with binfmt_misc as {name}"
    )
