"""The schemas of all JSON request bodies: field names, types, and Go's names of the types for error texts.

Data only; `body` decodes along them. A field of the API's definition is here whether or not the engine obeys it: that
is the handler's part.
"""

import socket

from engine.daemon.api.body import Array, Fields, Mapping, Scalar, Struct, parse_exposed, parse_port
from engine.errors import Invalid
from engine.literals import INT64 as _INT64
from engine.literals import UINT64 as _UINT64
from engine.literals import mac_address, natural, quoted


def _canonical(text: str) -> str:
    """The canonical text of an IP address; empty for a text that is no address."""
    # An IPv6 zone is allowed, as in Go's netip.ParseAddr. The module ipaddress would cost the idle daemon a megabyte.
    plain, percent, zone = text.partition("%")
    for family, address, rest in ((socket.AF_INET, text, ""), (socket.AF_INET6, plain, percent + zone)):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, address)) + rest
        except (OSError, ValueError):
            continue
    return ""


def _address(text: str) -> str:
    found = _canonical(text)
    if text and not found:
        raise Invalid(f"ParseAddr({quoted(text)}): unable to parse IP")
    return found


def _mac(text: str) -> str:
    found = mac_address(text)
    if text and not found:
        raise Invalid(f"address {text}: invalid MAC address")
    return found


def named(go: str) -> Scalar:
    """The schema of a text that has a Go type of its own, named `go`."""
    return Scalar(go, str)


def _prefix(text: str) -> str:
    """A text that Go's netip.ParsePrefix takes; raises Invalid in that function's words for any other."""
    if not text:
        return text
    address, slash, bits = text.rpartition("/")
    problem = ""
    if not slash:
        problem = "no '/'"
    elif not _canonical(address):
        problem = f"ParseAddr({quoted(address)}): unable to parse IP"
    elif "%" in address:
        problem = "IPv6 zones cannot be present in a prefix"
    elif (length := natural(bits, 999)) is None or (len(bits) > 1 and bits[0] == "0"):
        problem = f"bad bits after slash: {quoted(bits)}"
    elif length > (128 if ":" in address else 32):
        problem = "prefix length out of range"
    if problem:
        raise Invalid(f"netip.ParsePrefix({quoted(text)}): {problem}")
    return text


STRING = Scalar("string", str)
BOOL = Scalar("bool", bool)
INT = Scalar("int", int, *_INT64)
INT64 = Scalar("int64", int, *_INT64)
UINT = Scalar("uint", int, *_UINT64)
UINT16 = Scalar("uint16", int, 0, 2**16 - 1)
UINT64 = Scalar("uint64", int, *_UINT64)
DURATION = Scalar("time.Duration", int, *_INT64)
FILE_MODE = Scalar("fs.FileMode", int, 0, 2**32 - 1)
ADDRESS = Scalar("netip.Addr", str, parse=_address)
PREFIX = Scalar("netip.Prefix", str, parse=_prefix)
STRINGS = Array(STRING)
TEXTS = Mapping(STRING)
NOTHING = Struct("struct {}", {})


def whole(go: str, fields: Fields) -> Struct:
    """A struct that Go writes with all its keys."""
    return Struct(go, fields, empty=True)


def sparse(go: str, fields: Fields) -> Struct:
    """A struct that Go writes without its empty keys."""
    return Struct(go, fields, empty=False)


_THROTTLE = Array(whole("blkiodev.ThrottleDevice", {"Path": STRING, "Rate": UINT64}), pointers=True)

HEALTHCHECK = sparse(
    "v1.HealthcheckConfig",
    {
        "Test": STRINGS,
        "Interval": DURATION,
        "Timeout": DURATION,
        "StartPeriod": DURATION,
        "StartInterval": DURATION,
        "Retries": INT,
    },
)

CONFIG: Fields = {
    "Hostname": STRING,
    "Domainname": STRING,
    "User": STRING,
    "AttachStdin": BOOL,
    "AttachStdout": BOOL,
    "AttachStderr": BOOL,
    "ExposedPorts": Mapping(NOTHING, "network.PortSet", parse_exposed),
    "Tty": BOOL,
    "OpenStdin": BOOL,
    "StdinOnce": BOOL,
    "Env": STRINGS,
    "Cmd": STRINGS,
    "Healthcheck": HEALTHCHECK,
    "ArgsEscaped": BOOL,
    "Image": STRING,
    "Volumes": Mapping(NOTHING),
    "WorkingDir": STRING,
    "Entrypoint": STRINGS,
    "NetworkDisabled": BOOL,
    "OnBuild": STRINGS,
    "Labels": TEXTS,
    "StopSignal": STRING,
    "StopTimeout": INT,
    "Shell": STRINGS,
}

RESOURCES: Fields = {
    "CpuShares": INT64,
    "Memory": INT64,
    "NanoCpus": INT64,
    "CgroupParent": STRING,
    "BlkioWeight": UINT16,
    "BlkioWeightDevice": Array(whole("blkiodev.WeightDevice", {"Path": STRING, "Weight": UINT16}), pointers=True),
    "BlkioDeviceReadBps": _THROTTLE,
    "BlkioDeviceWriteBps": _THROTTLE,
    "BlkioDeviceReadIOps": _THROTTLE,
    "BlkioDeviceWriteIOps": _THROTTLE,
    "CpuPeriod": INT64,
    "CpuQuota": INT64,
    "CpuRealtimePeriod": INT64,
    "CpuRealtimeRuntime": INT64,
    "CpusetCpus": STRING,
    "CpusetMems": STRING,
    "Devices": Array(
        whole(
            "container.DeviceMapping",
            {"PathOnHost": STRING, "PathInContainer": STRING, "CgroupPermissions": STRING},
        )
    ),
    "DeviceCgroupRules": STRINGS,
    "DeviceRequests": Array(
        whole(
            "container.DeviceRequest",
            {
                "Driver": STRING,
                "Count": INT,
                "DeviceIDs": STRINGS,
                "Capabilities": Array(STRINGS),
                "Options": TEXTS,
            },
        )
    ),
    "MemoryReservation": INT64,
    "MemorySwap": INT64,
    "MemorySwappiness": INT64,
    "OomKillDisable": BOOL,
    "PidsLimit": INT64,
    "Ulimits": Array(Struct("units.Ulimit", {"Name": STRING, "Hard": INT64, "Soft": INT64}), pointers=True),
    "CpuCount": INT64,
    "CpuPercent": INT64,
    "IOMaximumIOps": UINT64,
    "IOMaximumBandwidth": UINT64,
}

MOUNT = sparse(
    "mount.Mount",
    {
        "Type": named("mount.Type"),
        "Source": STRING,
        "Target": STRING,
        "ReadOnly": BOOL,
        "Consistency": named("mount.Consistency"),
        "BindOptions": sparse(
            "mount.BindOptions",
            {
                "Propagation": named("mount.Propagation"),
                "NonRecursive": BOOL,
                "CreateMountpoint": BOOL,
                "ReadOnlyNonRecursive": BOOL,
                "ReadOnlyForceRecursive": BOOL,
            },
        ),
        "VolumeOptions": sparse(
            "mount.VolumeOptions",
            {
                "NoCopy": BOOL,
                "Labels": TEXTS,
                "Subpath": STRING,
                "DriverConfig": sparse("mount.Driver", {"Name": STRING, "Options": TEXTS}),
            },
        ),
        "ImageOptions": sparse("mount.ImageOptions", {"Subpath": STRING}),
        "TmpfsOptions": sparse(
            "mount.TmpfsOptions", {"SizeBytes": INT64, "Mode": FILE_MODE, "Options": Array(STRINGS)}
        ),
    },
)

RESTART_POLICY = Struct(
    "container.RestartPolicy", {"Name": named("container.RestartPolicyMode"), "MaximumRetryCount": INT}
)

HOST_CONFIG = Struct(
    "container.HostConfig",
    {
        "Binds": STRINGS,
        "ContainerIDFile": STRING,
        "LogConfig": Struct("container.LogConfig", {"Type": STRING, "Config": TEXTS}),
        "NetworkMode": named("container.NetworkMode"),
        "PortBindings": Mapping(
            Array(Struct("network.PortBinding", {"HostIp": ADDRESS, "HostPort": STRING})),
            "network.PortMap",
            parse_port,
        ),
        "RestartPolicy": RESTART_POLICY,
        "AutoRemove": BOOL,
        "VolumeDriver": STRING,
        "VolumesFrom": STRINGS,
        "ConsoleSize": Array(UINT, length=2),
        "Annotations": TEXTS,
        "CapAdd": STRINGS,
        "CapDrop": STRINGS,
        "CgroupnsMode": named("container.CgroupnsMode"),
        "Dns": Array(ADDRESS),
        "DnsOptions": STRINGS,
        "DnsSearch": STRINGS,
        "ExtraHosts": STRINGS,
        "GroupAdd": STRINGS,
        "IpcMode": named("container.IpcMode"),
        "Cgroup": named("container.CgroupSpec"),
        "Links": STRINGS,
        "OomScoreAdj": INT,
        "PidMode": named("container.PidMode"),
        "Privileged": BOOL,
        "PublishAllPorts": BOOL,
        "ReadonlyRootfs": BOOL,
        "SecurityOpt": STRINGS,
        "StorageOpt": TEXTS,
        "Tmpfs": TEXTS,
        "UTSMode": named("container.UTSMode"),
        "UsernsMode": named("container.UsernsMode"),
        "ShmSize": INT64,
        "Sysctls": TEXTS,
        "Runtime": STRING,
        "Isolation": named("container.Isolation"),
        "Mounts": Array(MOUNT),
        "MaskedPaths": STRINGS,
        "ReadonlyPaths": STRINGS,
        "Init": BOOL,
    },
    {"Resources": RESOURCES},
)

ENDPOINT = Struct(
    "network.EndpointSettings",
    {
        "IPAMConfig": sparse(
            "network.EndpointIPAMConfig",
            {"IPv4Address": ADDRESS, "IPv6Address": ADDRESS, "LinkLocalIPs": Array(ADDRESS)},
        ),
        "Links": STRINGS,
        "Aliases": STRINGS,
        "MacAddress": Scalar("network.HardwareAddr", str, parse=_mac),
        "DriverOpts": TEXTS,
        "GwPriority": INT,
        "NetworkID": STRING,
        "EndpointID": STRING,
        "Gateway": ADDRESS,
        "IPAddress": ADDRESS,
        "IPPrefixLen": INT,
        "IPv6Gateway": ADDRESS,
        "GlobalIPv6Address": ADDRESS,
        "GlobalIPv6PrefixLen": INT,
        "DNSNames": STRINGS,
    },
)

CONTAINER_CREATE = Struct(
    "container.CreateRequest",
    {
        "HostConfig": HOST_CONFIG,
        "NetworkingConfig": Struct("network.NetworkingConfig", {"EndpointsConfig": Mapping(ENDPOINT, pointers=True)}),
        "MacAddress": STRING,  # sent by older clients, see `createform`
    },
    {"Config": CONFIG},
)

CONTAINER_UPDATE = Struct("container.UpdateConfig", {"RestartPolicy": RESTART_POLICY}, {"Resources": RESOURCES})

EXEC_CREATE = Struct(
    "container.ExecCreateRequest",
    {
        "User": STRING,
        "Privileged": BOOL,
        "Tty": BOOL,
        "ConsoleSize": Array(UINT, length=2),
        "AttachStdin": BOOL,
        "AttachStderr": BOOL,
        "AttachStdout": BOOL,
        "DetachKeys": STRING,
        "Env": STRINGS,
        "WorkingDir": STRING,
        "Cmd": STRINGS,
    },
)

EXEC_START = Struct("container.ExecStartRequest", {"Detach": BOOL, "Tty": BOOL, "ConsoleSize": Array(UINT, length=2)})

CONTAINER_CONFIG = Struct("container.Config", CONFIG)

NETWORK_CREATE = Struct(
    "network.CreateRequest",
    {"Name": STRING},
    {
        "CreateOptions": {
            "Driver": STRING,
            "Scope": STRING,
            "EnableIPv4": BOOL,
            "EnableIPv6": BOOL,
            "IPAM": Struct(
                "network.IPAM",
                {
                    "Driver": STRING,
                    "Options": TEXTS,
                    "Config": Array(
                        Struct(
                            "network.IPAMConfig",
                            {
                                "Subnet": PREFIX,
                                "IPRange": PREFIX,
                                "Gateway": ADDRESS,
                                "AuxiliaryAddresses": Mapping(ADDRESS),
                            },
                        )
                    ),
                },
            ),
            "Internal": BOOL,
            "Attachable": BOOL,
            "Ingress": BOOL,
            "ConfigOnly": BOOL,
            "ConfigFrom": Struct("network.ConfigReference", {"Network": STRING}),
            "Options": TEXTS,
            "Labels": TEXTS,
        }
    },
)

NETWORK_CONNECT = Struct("network.ConnectRequest", {"Container": STRING, "EndpointConfig": ENDPOINT})

NETWORK_DISCONNECT = Struct("network.DisconnectRequest", {"Container": STRING, "Force": BOOL})

VOLUME_CREATE = Struct(
    "volume.CreateRequest",
    {
        "Name": STRING,
        "Driver": STRING,
        "DriverOpts": TEXTS,
        "Labels": TEXTS,
        "ClusterVolumeSpec": Struct("volume.ClusterVolumeSpec", {"Group": STRING}),
    },
)

AUTH_CONFIG = Struct(
    "registry.AuthConfig",
    {
        "username": STRING,
        "password": STRING,
        "auth": STRING,
        "serveraddress": STRING,
        "identitytoken": STRING,
        "registrytoken": STRING,
    },
)
