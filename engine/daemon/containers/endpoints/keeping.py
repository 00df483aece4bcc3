"""Save the set of networks that a container is in, in the record and in the database.

Called by the verbs, in any thread of the daemon, under the container's `operation`.
"""

from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import EndpointSettings
from engine.daemon.parts import EndpointParts
from engine.daemon.store import containers as table


def keep(
    engine: EndpointParts,
    container: Container,
    networking: dict[str, EndpointSettings],
    *,
    durable: bool = False,
    frees: bool = False,
) -> None:
    """Replace the container's networks by `networking` (name → settings).

    Raises SystemFailure, and then nothing changes.
    durable: also over a loss of power, for what a client has been told; frees: as for `Database.transaction`
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
