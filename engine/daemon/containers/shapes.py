"""The typed dictionaries of a container's record: the API's Config, HostConfig and EndpointSettings, and mount points.

Types alone; at run time each of them is a plain dict. `config` makes the first three complete, so each of their keys is
there. The parts of them that the engine does not complete have only the keys that the client sent.
"""

from engine.annotating import TypedDict
from engine.daemon.network.record import IPAMConfig


class Nothing(TypedDict):
    """An empty object: the value of a name that is only to be there, as in ExposedPorts."""


class Healthcheck(TypedDict, total=False):
    """A Healthcheck of the API. The times are nanoseconds."""

    Test: list[str]
    Interval: int
    Timeout: int
    StartPeriod: int
    StartInterval: int
    Retries: int


class Config(TypedDict):
    """A Config of the API, complete. None: no value was given."""

    Hostname: str
    Domainname: str
    User: str
    AttachStdin: bool
    AttachStdout: bool
    AttachStderr: bool
    ExposedPorts: dict[str, Nothing] | None
    Tty: bool
    OpenStdin: bool
    StdinOnce: bool
    Env: list[str] | None
    Cmd: list[str] | None
    Healthcheck: Healthcheck | None
    ArgsEscaped: bool | None
    Image: str
    Volumes: dict[str, Nothing] | None
    WorkingDir: str
    Entrypoint: list[str] | None
    NetworkDisabled: bool | None
    OnBuild: list[str] | None
    Labels: dict[str, str] | None
    StopSignal: str
    StopTimeout: int | None
    Shell: list[str] | None


class LogConfig(TypedDict):
    """A LogConfig of the API, complete. Type: the log driver; Config: its options."""

    Type: str
    Config: dict[str, str]


class RestartPolicy(TypedDict):
    """A RestartPolicy of the API, complete."""

    Name: str
    MaximumRetryCount: int


class PortBinding(TypedDict):
    """A PortBinding of the API, complete. Empty: any address, any port."""

    HostIp: str
    HostPort: str


class Ulimit(TypedDict):
    """A Ulimit of the API, complete."""

    Name: str
    Hard: int
    Soft: int


class WeightDevice(TypedDict, total=False):
    """The weight of one block device."""

    Path: str
    Weight: int


class ThrottleDevice(TypedDict, total=False):
    """The limit of one block device, in bytes or operations a second."""

    Path: str
    Rate: int


class DeviceMapping(TypedDict, total=False):
    """A device of the host, and where the container has it."""

    PathOnHost: str
    PathInContainer: str
    CgroupPermissions: str


class DeviceRequest(TypedDict, total=False):
    """Devices that a device driver is to choose."""

    Driver: str
    Count: int
    DeviceIDs: list[str]
    Capabilities: list[list[str] | None]
    Options: dict[str, str]


class BindOptions(TypedDict, total=False):
    """The options of a Mount of the type `bind`."""

    Propagation: str
    NonRecursive: bool
    CreateMountpoint: bool
    ReadOnlyNonRecursive: bool
    ReadOnlyForceRecursive: bool


class VolumeDriver(TypedDict, total=False):
    """The driver of a volume that a Mount makes."""

    Name: str
    Options: dict[str, str]


class VolumeOptions(TypedDict, total=False):
    """The options of a Mount of the type `volume`."""

    NoCopy: bool
    Labels: dict[str, str]
    Subpath: str
    DriverConfig: VolumeDriver


class ImageOptions(TypedDict, total=False):
    """The options of a Mount of the type `image`."""

    Subpath: str


class TmpfsOptions(TypedDict, total=False):
    """The options of a Mount of the type `tmpfs`. Options: words, or pairs of a word and its value."""

    SizeBytes: int
    Mode: int
    Options: list[list[str] | None]


class Mount(TypedDict, total=False):
    """A Mount of the API: an entry of HostConfig.Mounts."""

    Type: str
    Source: str
    Target: str
    ReadOnly: bool
    Consistency: str
    BindOptions: BindOptions
    VolumeOptions: VolumeOptions
    ImageOptions: ImageOptions
    TmpfsOptions: TmpfsOptions


class HostConfig(TypedDict):
    """A HostConfig of the API, complete. None: no value was given."""

    Binds: list[str] | None
    ContainerIDFile: str
    LogConfig: LogConfig
    NetworkMode: str
    PortBindings: dict[str, list[PortBinding] | None]
    RestartPolicy: RestartPolicy
    AutoRemove: bool
    VolumeDriver: str
    VolumesFrom: list[str] | None
    ConsoleSize: list[int]
    Annotations: dict[str, str] | None
    CapAdd: list[str] | None
    CapDrop: list[str] | None
    CgroupnsMode: str
    Dns: list[str] | None
    DnsOptions: list[str] | None
    DnsSearch: list[str] | None
    ExtraHosts: list[str] | None
    GroupAdd: list[str] | None
    IpcMode: str
    Cgroup: str
    Links: list[str] | None
    OomScoreAdj: int
    PidMode: str
    Privileged: bool
    PublishAllPorts: bool
    ReadonlyRootfs: bool
    SecurityOpt: list[str] | None
    StorageOpt: dict[str, str] | None
    Tmpfs: dict[str, str] | None
    UTSMode: str
    UsernsMode: str
    ShmSize: int
    Sysctls: dict[str, str] | None
    Runtime: str
    Isolation: str
    CpuShares: int
    Memory: int
    NanoCpus: int
    CgroupParent: str
    BlkioWeight: int
    BlkioWeightDevice: list[WeightDevice | None] | None
    BlkioDeviceReadBps: list[ThrottleDevice | None] | None
    BlkioDeviceWriteBps: list[ThrottleDevice | None] | None
    BlkioDeviceReadIOps: list[ThrottleDevice | None] | None
    BlkioDeviceWriteIOps: list[ThrottleDevice | None] | None
    CpuPeriod: int
    CpuQuota: int
    CpuRealtimePeriod: int
    CpuRealtimeRuntime: int
    CpusetCpus: str
    CpusetMems: str
    Devices: list[DeviceMapping] | None
    DeviceCgroupRules: list[str] | None
    DeviceRequests: list[DeviceRequest] | None
    MemoryReservation: int
    MemorySwap: int
    MemorySwappiness: int | None
    OomKillDisable: bool
    PidsLimit: int | None
    Ulimits: list[Ulimit] | None
    CpuCount: int
    CpuPercent: int
    IOMaximumIOps: int
    IOMaximumBandwidth: int
    Mounts: list[Mount] | None
    MaskedPaths: list[str] | None
    ReadonlyPaths: list[str] | None
    Init: bool | None


class EndpointSettings(TypedDict):
    """An EndpointSettings of the API, complete. None: no value was given."""

    IPAMConfig: IPAMConfig | None
    Links: list[str] | None
    Aliases: list[str] | None
    DriverOpts: dict[str, str] | None
    GwPriority: int
    NetworkID: str
    EndpointID: str
    Gateway: str
    IPAddress: str
    MacAddress: str
    IPPrefixLen: int
    IPv6Gateway: str
    GlobalIPv6Address: str
    GlobalIPv6PrefixLen: int
    DNSNames: list[str] | None


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
