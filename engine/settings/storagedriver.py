"""Declares the daemon's options about the storage of images and containers, by the names of dockerd's drivers.

Pure. Which storage a data root has is decided at its first daemon (`engine.daemon.images.layers.storage`), which
refuses a driver that the host cannot have, or that the data root does not have.
"""

from engine.commandline import Option
from engine.errors import Invalid

OVERLAYS, COPIES = ("overlay2", "overlayfs"), ("vfs", "native")
"""The names of drivers that mount overlays, and of those that copy."""
OVERLAY2 = "overlay2"
GRAPH_DRIVERS = (OVERLAY2, "vfs")
"""Those of dockerd's own; the others are containerd's snapshotters."""


def _driver(text: str) -> str:
    if text not in ("", *OVERLAYS, *COPIES):
        raise Invalid(f"driver not supported: {text}: this engine has {', '.join((*OVERLAYS, *COPIES))}")
    return text


def reported(asked: str, copies: bool) -> str:
    """The driver that clients are told: the one of the settings, else dockerd's word for what the data root has."""
    return asked or ("vfs" if copies else "overlayfs")


OPTIONS = (
    Option(
        "storage-driver",
        "overlay2 or overlayfs (overlays), vfs or native (copies), as clients are told; none: overlays where they work",
        short="s",
        check=_driver,
        value="driver",
        key="storage-driver",
    ),
)
