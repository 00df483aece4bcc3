"""Types for the containers that use an image, and the choice of those that use it by its layers or as a mount.

Runs in the daemon; reads its arguments only, and changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.annotating import Any, Protocol


class State(Protocol):
    """The state of a container at one moment."""

    @property
    def running(self) -> bool:
        """True while the container's process lives."""


class User(Protocol):
    """The part of a container that the images' code needs; `containers.record.Container` has it."""

    @property
    def id(self) -> str:
        """The container's id, 64 hex digits."""

    @property
    def image(self) -> str:
        """The name or id of the image that its client asked for."""

    @property
    def layers(self) -> Sequence[str]:
        """The layers of its root, lowest first."""

    @property
    def mounts(self) -> Sequence[Mapping[str, Any]]:
        """Its mounts, those of images among them."""

    def snapshot(self) -> State:
        """Its present state."""


UsedBy = Callable[[str], Sequence[User]]
"""A function from the id of an image to the containers that use it."""


def standing(layers: Sequence[str], containers: Iterable[User]) -> list[User]:
    """Those of an image's containers that use its platform with these layers, as their root or as a mount."""
    wanted = list(layers)
    return [
        container
        for container in containers
        if list(container.layers) == wanted
        or any(point["Spec"].get("Layers") == wanted for point in container.mounts if point["Type"] == "image")
    ]
