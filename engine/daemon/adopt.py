"""Find the containers of an earlier daemon again, at start-up, before the API answers.

Runs once in the main thread. What the database says and what the exec root holds can differ by whatever happened
between two steps when that daemon died; here the two are brought together, and nothing running is ever disturbed.
"""

import logging
import os
import time

from engine.daemon.containers import paths, remove, start
from engine.daemon.containers.record import Container
from engine.daemon.runtime.links import SilentMonitor
from engine.errors import EngineError
from engine.wire.messages import Exited, Started

log = logging.getLogger(__name__)


def adopt_all(engine: object) -> None:
    """Bring every container's record up to date with what is there, and watch what runs."""
    for container in engine.containers.all():
        try:
            _adopt(engine, container)
        except (EngineError, OSError) as error:
            log.error("container %s was not adopted: %s", container.id, error)


def _adopt(engine: object, container: Container) -> None:
    if container.state.status == "removing":
        remove.finish(engine, container)
        return
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    was_running = container.state.running
    try:
        found = engine.links.adopt(container.id, where.exec_dir)
    except SilentMonitor as silent:
        if was_running and silent.linked:
            engine.links.keep(container.id)  # it runs on, as far as anyone knows
        raise
    if isinstance(found, Started):
        if not was_running:
            start.record_start(engine, container, found)
        engine.links.keep(container.id)
    elif was_running:
        start.ended(engine, container, found or Exited(start.LOST_EXIT, time.time_ns(), container.state.started_ns))
    elif isinstance(found, Exited):
        start.record_start(engine, container, Started(0, 0, found.started_ns))
        start.ended(engine, container, found)
    elif os.path.isdir(where.exec_dir):
        start.clear_run(engine, container, where)
