"""`engine migrate`: reads the command line, brings everything over in the order in which one thing needs the other, and
tells what was not taken.

Runs in a process of its own, as root, for an operator, while neither dockerd nor a daemon of this engine has the roots.
It starts nothing and speaks to no daemon.
"""

import contextlib
import os
import sys
from collections.abc import Sequence

from engine.errors import EngineError, Invalid
from engine.migrate import (
    accounting,
    asked,
    layeredimages,
    newroot,
    oldcontainers,
    oldnetworks,
    oldvolumes,
    storedimages,
)
from engine.migrate.oldroot import Source
from engine.settings.every import from_arguments


def main(words: Sequence[str]) -> int:
    """Bring over; returns the exit status of the process: 0, also where something was not taken, or 1 with the reason.

    words: `--from DIR`, and options of the daemon that is to run here
    """
    if "--help" in words or "-h" in words:
        print(asked.usage(), end="")
        return 0
    try:
        bring(*asked.split(list(words)))
        sys.stdout.flush()
    except EngineError as error:
        print(f"engine migrate: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # who read has seen enough
    return 0


def bring(place: str, containerd: str, options: Sequence[str]) -> None:
    """Bring over what is in this data root of dockerd's, and tell it on standard output.

    containerd: root of the containerd that has its images, empty for the usual ones; options: of the daemon that will
        have it
    Raises EngineErrors where nothing can be brought over at all.
    """
    if os.geteuid() != 0:
        raise Invalid("only root can read what dockerd has written")
    os.umask(0o022)
    settings = from_arguments(options)
    told = accounting.Telling()
    with contextlib.ExitStack() as work:
        source = work.enter_context(Source(place))
        work.enter_context(source.still())
        root = work.enter_context(newroot.opened(settings))
        told.line(f"from {place} to {settings.data_root}")
        stored = work.enter_context(storedimages.found(containerd, place))
        if stored is not None:
            storedimages.bring(stored, root, told)
        layeredimages.bring(source, root, told, oldcontainers.images_of(source))
        for driver in layeredimages.others(source):
            told.lacks(f"the images of the storage driver {driver}", "only those of overlay2 are read")
        oldvolumes.bring(source, root, told)
        oldnetworks.bring(source, root, told)
        oldcontainers.bring(source, stored, root, told)
    told.end()
