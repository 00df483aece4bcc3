"""Keep which networks a container is in.

Called by the verbs, in any thread of the daemon, under the container's `operation`.
"""

from engine.daemon.containers.record import Container
from engine.daemon.jsontext import Object
from engine.daemon.parts import EndpointParts
from engine.daemon.store import containers as table


def keep(
    engine: EndpointParts, container: Container, networking: Object, *, durable: bool = False, frees: bool = False
) -> None:
    """Put these, by their names, in the place of what the container had. Raises SystemFailure, and nothing changes.

    durable: over a loss of power too, for what a client has been told; frees: as for `Database.transaction`
    """
    with container.changed:
        before = container.networking
        container.networking = dict(sorted(networking.items()))
        try:
            with engine.database.transaction(durable=durable, frees=frees) as connection:
                table.save_settings(connection, container)
        except BaseException:
            container.networking = before
            raise
