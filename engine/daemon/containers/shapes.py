"""The typed dictionaries of a container's mount points, as the engine makes them and keeps them in the record.

Types alone. Config, HostConfig and EndpointSettings are defined by the API, so they stay `jsontext.Object`.
"""

from typing import TypedDict


class MountSpec(TypedDict, total=False):
    """What the engine needs to know of a mount point and does not show to clients; a key that does not apply is absent.

    Copy, Anonymous, Labels, DriverOptions: of a volume: whether it is filled with the image's files at that path,
        whether it was given no name, and the labels and options that it is made with
    Subpath: of a volume or an image, the part that is mounted
    Data: of a tmpfs, its options in the form of HostConfig.Tmpfs
    NonRecursive, CreateMountpoint, ReadOnlyNonRecursive, ReadOnlyForceRecursive: of a bind, as in BindOptions
    DefaultPropagation: the client named no propagation; Fallback: `rprivate` will do where the source is not shared
    Image, Layers: the image's id, and its layers relative to the layer root, lowest first
    """

    Copy: bool
    Anonymous: bool
    Subpath: str
    Labels: dict[str, str] | None
    DriverOptions: dict[str, str] | None
    Data: str
    NonRecursive: bool
    CreateMountpoint: bool
    ReadOnlyNonRecursive: bool
    ReadOnlyForceRecursive: bool
    DefaultPropagation: bool
    Fallback: bool
    Image: str
    Layers: list[str]


class MountPoint(TypedDict):
    """A MountPoint of the API, with one key more. Spec: what the API does not show."""

    Type: str
    Name: str
    Source: str
    Destination: str
    Driver: str
    Mode: str
    RW: bool
    Propagation: str
    Spec: MountSpec
