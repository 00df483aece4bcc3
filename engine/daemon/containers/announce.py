"""Publish a container's events on the event bus, with the attributes that docker gives them."""

from engine.daemon.containers.record import Container
from engine.daemon.parts import EventPart


def announce(engine: EventPart, container: Container, action: str, **attributes: object) -> None:
    """Publish the event `action` (`start`, `die`, `exec_create: sh`, ...) of this container.

    attributes: what docker adds for this action (`exitCode`, `signal`, `execID`, ...), with docker's spelling
    """
    told = {**(container.config["Labels"] or {}), **{name: str(value) for name, value in attributes.items()}}
    if container.image:
        told["image"] = container.image
    told["name"] = container.name
    engine.events.publish("container", action, container.id, told)
