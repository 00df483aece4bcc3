"""Declares the daemon's options about the storage of images and containers, by the names of dockerd's drivers.

Pure. Which storage a data root has is decided at its first daemon (`engine.daemon.images.layers.storage`), which
refuses a driver that the host cannot have, or that the data root does not have.
"""

from engine.commandline import Option
from engine.errors import Invalid

OVERLAYS, COPIES = ("overlay2", "overlayfs"), ("vfs", "native")
"""The names of drivers that mount overlays, and of those that copy."""


def _driver(text: str) -> str:
    if text not in ("", *OVERLAYS, *COPIES):
        raise Invalid(f"driver not supported: {text}: this engine has {', '.join((*OVERLAYS, *COPIES))}")
    return text


OPTIONS = (
    Option(
        "storage-driver",
        "overlay2 or overlayfs (overlays), vfs or native (copies); none: overlays where they work",
        short="s",
        check=_driver,
        value="driver",
        key="storage-driver",
    ),
)
