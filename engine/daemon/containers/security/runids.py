"""Keeps the ids that a run of a container has on the host, in a file of its exec directory (`--userns-remap`).

A run has the ids with which it was started, whatever option the daemon has meanwhile. They are not asked of the
container's process 1: that one may go into a user namespace of its own making, also in a container that has none.
"""

import os

from engine.daemon.containers import paths
from engine.daemon.containers.record import Container
from engine.daemon.parts import SettingsPart
from engine.errors import SystemFailure
from engine.kernel import idmaps, reasons
from engine.kernel.idmaps import Ids

_FILE = "ids"
_BETWEEN = "\n\n"


def keep(exec_dir: str, ids: Ids) -> None:
    """Write the ids of the run that is about to start. Raises SystemFailure."""
    text = _BETWEEN.join(idmaps.text(each).decode().rstrip() for each in (ids.users, ids.groups))
    try:
        with open(os.path.join(exec_dir, _FILE), "w") as file:
            file.write(text)
    except OSError as error:
        raise SystemFailure(f"the ids of the container cannot be kept: {reasons.whole(error)}") from error


def of(engine: SettingsPart, container: Container) -> Ids | None:
    """The ids of the container's present run; None where it is in the host's user namespace. Raises OSError."""
    settings = engine.settings
    place = paths.of(settings.data_root, settings.exec_root, container.id)
    try:
        with open(os.path.join(place.exec_dir, _FILE)) as file:
            users, _, groups = file.read().partition(_BETWEEN)
    except FileNotFoundError:
        return None
    return Ids(idmaps.parsed(users), idmaps.parsed(groups))
