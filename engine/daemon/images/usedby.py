"""Who uses an image: the containers that stand on it, or have it mounted.

Runs in the daemon; reads what it is given, and changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol


class State(Protocol):
    """What a container does at one moment."""

    @property
    def running(self) -> bool:
        """True while its process lives."""


class User(Protocol):
    """A container, as far as the images need to know it: `containers.record.Container`."""

    @property
    def id(self) -> str:
        """Its 64 hex digits."""

    @property
    def image(self) -> str:
        """The name or id of the image that its client asked for."""

    @property
    def layers(self) -> Sequence[str]:
        """The layers that it stands on, lowest first."""

    @property
    def mounts(self) -> Sequence[Mapping[str, Any]]:
        """Its mounts, an image's among them."""

    def snapshot(self) -> State:
        """Its state now."""


UsedBy = Callable[[str], Sequence[User]]
"""The id of an image → the containers that use it."""


def standing(layers: Sequence[str], containers: Iterable[User]) -> list[User]:
    """Those of an image's containers that use the platform with these layers: as their root, or mounted."""
    wanted = list(layers)
    return [
        container
        for container in containers
        if list(container.layers) == wanted
        or any(point["Spec"].get("Layers") == wanted for point in container.mounts if point["Type"] == "image")
    ]
