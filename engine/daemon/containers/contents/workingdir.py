"""Makes the working directory of a new container where its image has none, as dockerd does at create.

Runs in the daemon's request threads, before the container can be seen. Most images have theirs, and that is found out
by looking at the layers alone, without a mount.
"""

import os
import stat
from collections.abc import Sequence

from engine.daemon.containers.contents import rootfs
from engine.daemon.containers.record import Container
from engine.daemon.images.layers.storage import OVERLAY
from engine.daemon.images.layers.whiteouts import TRUSTED_OPAQUE, USER_OPAQUE
from engine.daemon.parts import MountParts
from engine.errors import Invalid, SystemFailure
from engine.kernel.beneath import make_directories
from engine.kernel.reasons import of as words


def make(engine: MountParts, container: Container) -> None:
    """Make the directory, in the container's own files, beneath what is mounted there. Raises SystemFailure."""
    path = container.config["WorkingDir"]
    # With mapped ids it is the container's root who makes it, at the start.
    if not path.strip("/") or engine.settings.userns_remap:
        return
    if engine.storage == OVERLAY and _is_there(engine.images.layer_root, container.layers, path):
        return
    try:
        rootfs.visit(
            engine, container, lambda view: os.close(make_directories(view.root, path)), writes=True, mounted=False
        )
    except NotADirectoryError as error:
        raise SystemFailure(f"Cannot mkdir: {path} is not a directory") from error
    except (OSError, Invalid) as error:
        reason = words(error) if isinstance(error, OSError) else error
        raise SystemFailure(f"mkdir {path}: {reason}") from error


def _is_there(root: str, layers: Sequence[str], path: str) -> bool:
    """Whether some layer has the directory and none above hides it; False where only a mount can tell."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for layer in reversed(layers):
        place, hides = os.path.join(root, layer), False
        for part in parts:
            place = os.path.join(place, part)
            try:
                mode = os.lstat(place).st_mode
            except OSError:
                break
            if part == ".." or not stat.S_ISDIR(mode):
                return False
            hides = hides or any(_has(place, mark) for mark in (TRUSTED_OPAQUE, USER_OPAQUE))
        else:
            return True
        if hides:
            return False
    return False


def _has(place: str, mark: str) -> bool:
    try:
        return bool(os.getxattr(place, mark, follow_symlinks=False))
    except OSError:  # it has no such attribute, or may not be asked for it
        return False
