"""Says in the log that the daemon before this one has ended in no order, and whether memory was wanting meanwhile.

Run by the main thread at a start and at an orderly end. While a daemon runs, the file `awake` in the exec root has what
the kernel had counted by then; a daemon that finds it there follows one that has died.
"""

import contextlib
import json
import logging
import os
from collections.abc import Iterator

from engine.errors import EngineError
from engine.kernel import memory
from engine.wire import exitfile

log = logging.getLogger(__name__)

NAME = "awake"
_BOOT = "/proc/sys/kernel/random/boot_id"
_MEGABYTE = 1 << 20


@contextlib.contextmanager
def noted(exec_root: str) -> Iterator[bool]:
    """Tell of the daemon before, and leave the file while the `with` block runs. A full exec root keeps nothing.

    Yields whether that daemon has died in this boot.
    """
    path, died = os.path.join(exec_root, NAME), False
    with contextlib.suppress(FileNotFoundError, ValueError), open(path) as file:
        said = json.load(file)
        if isinstance(said, dict) and said.get("boot") == _read(_BOOT):
            died = True
            log.warning("the daemon before this one has ended in no order%s", _why(said.get("kills")))
    with contextlib.suppress(OSError):
        now = {"boot": _read(_BOOT), "kills": memory.kills()}
        exitfile.write(exec_root, json.dumps(now).encode(), NAME)
    try:
        yield died
    except EngineError:  # a start that is refused in words is an end in order
        _forget(path)
        raise
    _forget(path)


def _forget(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _why(kills: object) -> str:
    if not isinstance(kills, int) or memory.kills() <= kills:
        return ""
    limit, used = memory.room()
    return (
        f", and meanwhile the kernel has killed for want of memory: there are {limit // _MEGABYTE} MB, of which others "
        f"than this daemon use {used // _MEGABYTE}"
    )


def _read(path: str) -> str:
    with open(path) as file:
        return file.read().strip()
