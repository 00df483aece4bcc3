"""The shapes that the engine itself makes of a container's mounts, and keeps in the container's record.

Types alone. Config, HostConfig and EndpointSettings are the API's, whose definition says what is in them: they stay
`jsontext.Object`.
"""

from typing import TypedDict


class MountSpec(TypedDict, total=False):
    """What the engine needs to know of a mount point and shows to nobody; what does not apply is not there.

    Copy, Anonymous, Labels, DriverOptions: of a volume: it is filled with what the image has there, it was given no
        name, and what it is made with; Subpath: of a volume or an image, the part that is mounted
    Data: of a tmpfs, its options as HostConfig.Tmpfs would have them
    NonRecursive, CreateMountpoint, ReadOnlyNonRecursive, ReadOnlyForceRecursive: of a bind, as BindOptions has them
    DefaultPropagation: the client has named none; Fallback: where the source is not shared, `rprivate` will do
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
