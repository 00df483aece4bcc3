"""Fill in a create request's Config, HostConfig and EndpointSettings with defaults and the values of the image.

Pure; runs in the daemon's request threads. The results have the form that inspect shows. Once a container owns a
result, nothing changes it again, so the daemon shows it to any number of clients without copying. `validate` decides
whether the values make sense.
"""

import posixpath
from collections.abc import Mapping

from engine.annotating import Any, TypeVar, cast
from engine.daemon.containers.shapes import (
    Config,
    EndpointSettings,
    Healthcheck,
    HostConfig,
    LogConfig,
    PortBinding,
    RestartPolicy,
    Ulimit,
)
from engine.daemon.jsontext import Object
from engine.errors import Invalid
from engine.sandbox import masks
from engine.settings.every import Settings

# The order of the keys is the order in which dockerd shows them.
CONFIG: Config = {
    "Hostname": "",
    "Domainname": "",
    "User": "",
    "AttachStdin": False,
    "AttachStdout": False,
    "AttachStderr": False,
    "ExposedPorts": None,
    "Tty": False,
    "OpenStdin": False,
    "StdinOnce": False,
    "Env": None,
    "Cmd": None,
    "Healthcheck": None,
    "ArgsEscaped": None,
    "Image": "",
    "Volumes": None,
    "WorkingDir": "",
    "Entrypoint": None,
    "NetworkDisabled": None,
    "OnBuild": None,
    "Labels": None,
    "StopSignal": "",
    "StopTimeout": None,
    "Shell": None,
}
HOST_CONFIG: HostConfig = {
    "Binds": None,
    "ContainerIDFile": "",
    "LogConfig": {"Type": "", "Config": {}},  # completed from the daemon's settings
    "NetworkMode": "bridge",
    "PortBindings": {},
    "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    "AutoRemove": False,
    "VolumeDriver": "",
    "VolumesFrom": None,
    "ConsoleSize": [0, 0],
    "Annotations": None,
    "CapAdd": None,
    "CapDrop": None,
    "CgroupnsMode": "private",
    "Dns": None,
    "DnsOptions": None,
    "DnsSearch": None,
    "ExtraHosts": None,
    "GroupAdd": None,
    "IpcMode": "private",
    "Cgroup": "",
    "Links": None,
    "OomScoreAdj": 0,
    "PidMode": "",
    "Privileged": False,
    "PublishAllPorts": False,
    "ReadonlyRootfs": False,
    "SecurityOpt": None,
    "StorageOpt": None,
    "Tmpfs": None,
    "UTSMode": "",
    "UsernsMode": "",
    "ShmSize": 64 << 20,
    "Sysctls": None,
    "Runtime": "runc",
    "Isolation": "",
    "CpuShares": 0,
    "Memory": 0,
    "NanoCpus": 0,
    "CgroupParent": "",
    "BlkioWeight": 0,
    "BlkioWeightDevice": None,
    "BlkioDeviceReadBps": None,
    "BlkioDeviceWriteBps": None,
    "BlkioDeviceReadIOps": None,
    "BlkioDeviceWriteIOps": None,
    "CpuPeriod": 0,
    "CpuQuota": 0,
    "CpuRealtimePeriod": 0,
    "CpuRealtimeRuntime": 0,
    "CpusetCpus": "",
    "CpusetMems": "",
    "Devices": None,
    "DeviceCgroupRules": None,
    "DeviceRequests": None,
    "MemoryReservation": 0,
    "MemorySwap": 0,
    "MemorySwappiness": None,
    "OomKillDisable": False,
    "PidsLimit": None,
    "Ulimits": None,
    "CpuCount": 0,
    "CpuPercent": 0,
    "IOMaximumIOps": 0,
    "IOMaximumBandwidth": 0,
    "Mounts": None,
    "MaskedPaths": list(masks.MASKED_PATHS),
    "ReadonlyPaths": list(masks.READONLY_PATHS),
    "Init": None,
}
ENDPOINT: EndpointSettings = {
    "IPAMConfig": None,
    "Links": None,
    "Aliases": None,
    "DriverOpts": None,
    "GwPriority": 0,
    "NetworkID": "",
    "EndpointID": "",
    "Gateway": "",
    "IPAddress": "",
    "MacAddress": "",
    "IPPrefixLen": 0,
    "IPv6Gateway": "",
    "GlobalIPv6Address": "",
    "GlobalIPv6PrefixLen": 0,
    "DNSNames": None,
}
# The network fills in these keys. A client that sends them has read them from some inspect and means nothing by them.
_ENDPOINT_FILLED = (
    "NetworkID",
    "EndpointID",
    "Gateway",
    "IPAddress",
    "IPPrefixLen",
    "IPv6Gateway",
    "GlobalIPv6Address",
    "GlobalIPv6PrefixLen",
    "DNSNames",
)
# The keys that inspect leaves out when their value is empty (Go's omitempty). It shows every other key.
CONFIG_OPTIONAL = frozenset(
    {"ExposedPorts", "Healthcheck", "ArgsEscaped", "NetworkDisabled", "OnBuild", "StopSignal", "StopTimeout", "Shell"}
)
HOST_CONFIG_OPTIONAL = frozenset({"Annotations", "StorageOpt", "Tmpfs", "Sysctls", "Mounts", "Init"})

_Complete = TypeVar("_Complete", Config, HostConfig, EndpointSettings)


def complete(defaults: _Complete, asked: Mapping[str, object]) -> _Complete:
    """`defaults` with every value of `asked` that is not null; keys that `defaults` does not know are dropped.

    asked: decoded along the schema of the type of `defaults` (see `api.schemas`)
    """
    whole = dict(defaults)
    for key, value in asked.items():
        if value is not None and key in whole:
            whole[key] = value
    return cast(_Complete, whole)


def container_config(body: Mapping[str, object]) -> Config:
    """The Config of a request, complete: every key of CONFIG is there."""
    whole = complete(CONFIG, body)
    for key in ("ArgsEscaped", "NetworkDisabled"):
        # Go leaves out a plain false, so inspect must not show one.
        whole[key] = whole[key] or None
    return whole


def defaults(settings: Settings) -> HostConfig:
    """The HostConfig of a container that asks for nothing, by the daemon's settings."""
    return {
        **HOST_CONFIG,
        "IpcMode": settings.default_ipc_mode,
        "CgroupnsMode": settings.default_cgroupns_mode,
        "ShmSize": settings.default_shm_size,
        "Runtime": settings.default_runtime,
    }


def host_config(asked: Object, default: HostConfig = HOST_CONFIG) -> HostConfig:
    """HostConfig, complete, with dockerd's derived defaults (swap is twice the memory, no limit is null, ...).

    default: see `defaults`
    """
    whole = complete(default, asked)
    # An empty value of these means the default too, as an absent value does.
    for key in ("NetworkMode", "IpcMode", "CgroupnsMode", "Runtime"):
        whole[key] = whole[key] or default[key]
    whole["ShmSize"] = whole["ShmSize"] or default["ShmSize"]
    if whole["NetworkMode"] == "default":
        whole["NetworkMode"] = HOST_CONFIG["NetworkMode"]
    whole["LogConfig"] = _log_config(asked.get("LogConfig") or {})
    whole["RestartPolicy"] = _restart_policy(asked.get("RestartPolicy") or {})
    if whole["PidsLimit"] is not None and whole["PidsLimit"] <= 0:
        whole["PidsLimit"] = None
    if whole["Memory"] > 0 and whole["MemorySwap"] == 0:
        whole["MemorySwap"] = whole["Memory"] * 2
    if asked.get("Ulimits"):
        whole["Ulimits"] = [_ulimit(limit or {}) for limit in asked["Ulimits"]]
    whole["PortBindings"] = {
        port: [_binding(binding or {}) for binding in bindings or [None]]  # an empty list means any port, as in docker
        for port, bindings in (asked.get("PortBindings") or {}).items()
    }
    return whole


def _log_config(asked: Object) -> LogConfig:
    return {"Type": asked.get("Type") or "", "Config": asked.get("Config") or {}}


def _restart_policy(asked: Object) -> RestartPolicy:
    return {"Name": asked.get("Name") or "no", "MaximumRetryCount": asked.get("MaximumRetryCount") or 0}


def _ulimit(asked: Object) -> Ulimit:
    return {"Name": asked.get("Name") or "", "Hard": asked.get("Hard") or 0, "Soft": asked.get("Soft") or 0}


def _binding(asked: Object) -> PortBinding:
    return {"HostIp": asked.get("HostIp") or "", "HostPort": asked.get("HostPort") or ""}


def endpoint(asked: Object | None) -> EndpointSettings:
    """EndpointSettings, complete: every key is there, and the keys that the network fills in have their default."""
    return complete(ENDPOINT, {key: value for key, value in (asked or {}).items() if key not in _ENDPOINT_FILLED})


def networking(asked: Object, network_mode: str) -> dict[str, EndpointSettings]:
    """EndpointsConfig, complete: name or id of the network → EndpointSettings.

    If the client names no network, the result has the network of NetworkMode alone.
    """
    endpoints = {}
    for name, settings in (asked.get("EndpointsConfig") or {}).items():
        if settings is None:
            raise Invalid(f"no EndpointSettings for {name}")
        endpoints["bridge" if name == "default" else name] = endpoint(settings)
    if network_mode == "host" or network_mode.startswith("container:"):
        # The container has no endpoint of its own that could have any of these settings.
        if any(settings["MacAddress"] for settings in endpoints.values()):
            raise Invalid("conflicting options: mac-address and the network mode")
        if network_mode != "host":
            if any(settings != ENDPOINT for settings in endpoints.values()):
                text = "cannot attach both user-defined and non-user-defined network-modes"
                raise Invalid(f"conflicting options: {text}")
            return {}
    return endpoints or {network_mode: {**ENDPOINT}}


def merge_image(config: Config, image: Mapping[str, Any]) -> None:
    """Fill in, in place, what the client left open from the image's own config (the `config` of the OCI image).

    The rules are dockerd's. An Entrypoint from the client hides the image's Cmd. Environment variables and labels are
    merged by name, and the client's value wins.
    """
    for key in ("User", "WorkingDir", "StopSignal"):
        config[key] = config[key] or image.get(key) or ""
    config["Shell"] = config["Shell"] or image.get("Shell") or None
    for names in ("ExposedPorts", "Volumes"):
        config[names] = {**(config[names] or {}), **(image.get(names) or {})} or config[names] or image.get(names)
    config["Labels"] = {**(image.get("Labels") or {}), **(config["Labels"] or {})}
    config["Env"] = _merge_environment(config["Env"], image.get("Env"))
    if not config["Entrypoint"]:
        if not config["Cmd"]:
            config["Cmd"] = image.get("Cmd")
            config["ArgsEscaped"] = image.get("ArgsEscaped") or None
        if config["Entrypoint"] is None:
            config["Entrypoint"] = image.get("Entrypoint")
    if image.get("Healthcheck"):
        config["Healthcheck"] = {**image["Healthcheck"], **_given(config["Healthcheck"] or {})}


def _given(health: Healthcheck) -> Healthcheck:
    """The keys that a health check sets, in dockerd's order. An empty value means "as in the image, or the default"."""
    given: Healthcheck = {}
    if test := health.get("Test"):
        given["Test"] = test
    for key in ("Interval", "Timeout", "StartPeriod", "StartInterval", "Retries"):
        if health.get(key):
            given[key] = health[key]
    return given


def _merge_environment(asked: list[str] | None, image: list[str] | None) -> list[str] | None:
    if not asked:
        return image
    names = {entry.partition("=")[0] for entry in asked}
    return [*asked, *(entry for entry in image or () if entry.partition("=")[0] not in names)]


def normalise(config: Config) -> None:
    """Bring a merged Config into its last form, in place.

    WorkingDir is cleaned, and an Entrypoint of one empty text becomes null.
    """
    if config["WorkingDir"]:
        # normpath keeps two leading slashes, which POSIX leaves open and Linux reads as one.
        config["WorkingDir"] = "/" + posixpath.normpath(config["WorkingDir"]).lstrip("/")
    if config["Entrypoint"] == [""]:
        config["Entrypoint"] = None
    if config["Healthcheck"]:
        config["Healthcheck"] = _given(config["Healthcheck"])


def command(config: Config) -> tuple[str, list[str]]:
    """The Path and the Args of a merged Config. Raises Invalid when there is nothing to run."""
    words = [*(config["Entrypoint"] or ()), *(config["Cmd"] or ())]
    if not words:
        raise Invalid("no command specified")
    return words[0], words[1:]
