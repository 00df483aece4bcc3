"""A container that runs has another name: its networks answer to that one from now on.

Runs in the API's threads, under `Container.operation`.
"""

import os
from dataclasses import replace

from engine.daemon.containers.networking import asked, wires
from engine.daemon.containers.record import Container
from engine.daemon.network.names import has_resolver


def renamed(engine: object, container: Container) -> None:
    """Nothing for one that does not run, or that is only in networks without names. Raises SystemFailure."""
    state = container.snapshot()
    pairs = wires.places(engine, container)
    if not state.alive or not has_resolver(pairs):
        return
    for network, endpoint in pairs:
        if network.user_defined:
            names = tuple(asked.dns_names(container, container.networking[network.name]))
            engine.networks.update(replace(endpoint, names=names))
    netns = wires.namespace(state.pid, state.pid_start)
    try:
        wires.make_known(engine, container, wires.places(engine, container), netns, state.pid, state.pid_start)
    finally:
        os.close(netns)
