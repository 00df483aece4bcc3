"""Rename a container, in the database, the roster and the networks that answer to its name."""

from engine.daemon.containers import naming
from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.parts import ContainerParts
from engine.daemon.store import containers as table
from engine.errors import Conflict, Invalid, NotFound
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded where a resolver may be asked for the name
    from engine.daemon.containers.endpoints import renaming
else:
    renaming = late("engine.daemon.containers.endpoints.renaming")


def rename(engine: ContainerParts, container: Container, name: str) -> None:
    """Rename the container; both names are taken until the new one is durable.

    Raises Invalid, NotFound for a removed container, Conflict for a name that is in use.
    """
    name = f"/{name.removeprefix('/')}"
    with container.operation:
        if container.removed:
            raise NotFound(f"No such container: {container.id}")
        old = container.name
        if name == f"/{old}":
            raise Invalid("Renaming a container with the same name as its current name")
        try:
            new = naming.check(name)
            engine.containers.take_name(container, new)
        except (Invalid, Conflict) as error:
            raise type(error)(f"Error when allocating new name: {error}") from error
        try:
            with engine.database.transaction(durable=True) as connection:
                table.rename(connection, container, new)
        except BaseException:
            engine.containers.free_name(container, new)
            raise
        with container.changed:
            container.name = new
        engine.containers.free_name(container, old)
        if engine.networks.endpoints(container_id=container.id):
            renaming.renamed(engine, container)
        announce(engine, container, "rename", oldName=f"/{old}")
