"""Tell the event bus what has happened to a container, with the attributes docker gives to it."""

from engine.daemon.containers.record import Container
from engine.daemon.parts import EventPart


def announce(engine: EventPart, container: Container, action: str, **attributes: object) -> None:
    """Publish `action` (`start`, `die`, `exec_create: sh`, ...) of this container.

    attributes: what docker adds for this action (`exitCode`, `signal`, `execID`, ...), as it is spelled there
    """
    told = {**(container.config["Labels"] or {}), **{name: str(value) for name, value in attributes.items()}}
    if container.image:
        told["image"] = container.image
    told["name"] = container.name
    engine.events.publish("container", action, container.id, told)
