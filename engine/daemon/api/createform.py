"""The body of POST /containers/create from a client of an older API version, in the form of the newest one.

It is apart from `versions`, so that an idle daemon does not load it. Pure; used by request threads. What a version did
not have is left out of the body or refused, as dockerd does it, and what has changed since is told in warnings.
"""

from engine.daemon.api.versions import Version
from engine.daemon.jsontext import Object
from engine.errors import Invalid
from engine.literals import mac_address, quoted

_ONE_NETWORK_UNTIL = (1, 44)
_OWN_MAC_UNTIL = (1, 52)
_EMPTY_BINDINGS_SINCE = (1, 52)
_IGNORED_DRIVER_SINCE = (1, 48)
_CHECKED_OPTIONS_SINCE = (1, 42)
# Key of Config, HostConfig, a bind's options or an endpoint → the first version that had it: it is left out before.
_CONFIG = {"Healthcheck.StartInterval": (1, 44)}
_HOST_CONFIG = {"Annotations": (1, 43), "ConsoleSize": (1, 42)}
_MOUNT = {"BindOptions.NonRecursive": (1, 40), "BindOptions.CreateMountpoint": (1, 42)}
_ENDPOINT = {"GwPriority": (1, 48)}
# Type of a mount, empty for all, an option or `Type` → the first version that had it: it is refused before.
_REFUSED = (
    ("bind", "BindOptions.ReadOnlyForceRecursive", (1, 44), "BindOptions.ReadOnlyForceRecursive"),
    ("", "VolumeOptions.Subpath", (1, 45), "VolumeOptions.Subpath"),
    ("image", "Type", (1, 48), 'Mount type "Image"'),
)
_OPTIONS = {"VolumeOptions": "volume", "BindOptions": "bind", "TmpfsOptions": "tmpfs"}
_OTHER_MAC = (
    "the container-wide MAC address must match the endpoint-specific MAC address for the main network, or be left empty"
)
_NO_NETWORK = (
    "unable to migrate container-wide MAC address to a specific network: "
    "HostConfig.NetworkMode must match the identity of a network in NetworkSettings.Networks"
)
_MAC_MOVED = "The container-wide MacAddress field is now deprecated. It should be specified in EndpointsConfig instead."
_DRIVER_IGNORED = (
    "WARNING: the container-wide volume-driver configuration is ignored for volumes specified via 'mount'. "
    "Use '--mount type=volume,volume-driver=...' instead"
)


def created(version: Version, body: Object, cgroups: str) -> tuple[Object, list[str]]:
    """The body as the newest version has it, and the warnings of its form.

    cgroups: the version of the host's cgroup hierarchy, "1" or "2"
    Raises Invalid for what such a client cannot ask for.
    """
    body = _without(version, body, _CONFIG)
    host_config = _without(version, body.get("HostConfig") or {}, _HOST_CONFIG)
    if version < (1, 40):
        host_config["IpcMode"] = host_config.get("IpcMode") or "shareable"
    if version < (1, 41) and cgroups == "1":
        host_config["CgroupnsMode"] = host_config.get("CgroupnsMode") or "host"
    mounts = [_without(version, mount, _MOUNT) for mount in host_config.get("Mounts") or ()]
    _check_mounts(version, mounts)
    if mounts:
        host_config["Mounts"] = mounts
    networking = body.get("NetworkingConfig") or {}
    endpoints = networking.get("EndpointsConfig") or {}
    if version < _ONE_NETWORK_UNTIL and len(endpoints) > 1:
        names = ", ".join(sorted(endpoints))
        raise Invalid(f"Container cannot be created with multiple network endpoints: {names}")
    endpoints = {name: each and _without(version, each, _ENDPOINT) for name, each in endpoints.items()}
    warnings = _volume_driver(version, host_config, mounts)
    if version < _OWN_MAC_UNTIL:
        warnings += _with_mac(version, endpoints, host_config.get("NetworkMode") or "default", body)
    warnings += _empty_bindings(version, host_config)
    if host_config:
        body["HostConfig"] = host_config
    if endpoints:
        body["NetworkingConfig"] = {**networking, "EndpointsConfig": endpoints}
    return body, warnings


def _without(version: Version, asked: Object, since: dict[str, Version]) -> Object:
    """A copy of `asked` without the keys, or those of an object in it, that this version did not have."""
    made = {**asked}
    for path, first in since.items():
        name, _, inner = path.partition(".")
        if version >= first or not made.get(name):
            continue
        if inner:
            made[name] = {key: value for key, value in made[name].items() if key != inner}
        else:
            del made[name]
    return made


def _check_mounts(version: Version, mounts: list[Object]) -> None:
    for mount in mounts if version >= _CHECKED_OPTIONS_SINCE else ():
        for options, kind in _OPTIONS.items():
            if mount.get(options) is not None and mount.get("Type") != kind:
                shown = quoted(mount.get("Type") or "")
                raise Invalid(f"{options} must not be specified on mount type {shown}")
    for kind, path, since, what in _REFUSED:
        name, _, inner = path.partition(".")
        for mount in mounts if version < since else ():
            value = mount.get(name) or {}
            if kind in ("", mount.get("Type")) and (value.get(inner) if inner else value):
                raise Invalid(f"{what} needs API v{since[0]}.{since[1]} or newer")


def _volume_driver(version: Version, host_config: Object, mounts: list[Object]) -> list[str]:
    if version < _IGNORED_DRIVER_SINCE or not host_config.get("VolumeDriver"):
        return []
    drivers = [
        ((mount.get("VolumeOptions") or {}).get("DriverConfig") or {}).get("Name")
        for mount in mounts
        if mount.get("Type") == "volume"
    ]
    return [] if all(drivers) else [_DRIVER_IGNORED]


def _with_mac(version: Version, endpoints: Object, mode: str, body: Object) -> list[str]:
    """Give, in place, the main network's endpoint the MAC address that stood beside the networks; return warnings.

    Before 1.44 an endpoint could not have one of its own. A text that is no address counts as none.
    """
    if version < _ONE_NETWORK_UNTIL:
        endpoints.update({name: each and {**each, "MacAddress": None} for name, each in endpoints.items()})
    mac = mac_address(body.get("MacAddress") or "")
    if not mac:
        return []
    warnings = [_MAC_MOVED] if version >= _ONE_NETWORK_UNTIL else []
    if mode in ("host", "none") or mode.startswith("container:"):
        if warnings:
            return warnings
        raise Invalid("conflicting options: mac-address and the network mode")
    name = "bridge" if mode == "default" and mode not in endpoints else mode
    if endpoints and name not in endpoints:
        if warnings:
            raise Invalid(_NO_NETWORK)
        (name,) = endpoints
    settings = endpoints.get(name) or {}
    if (mac_address(settings.get("MacAddress") or "") or mac) != mac:
        raise Invalid(_OTHER_MAC)
    endpoints[name] = {**settings, "MacAddress": mac}
    return warnings


def _empty_bindings(version: Version, host_config: Object) -> list[str]:
    bindings = host_config.get("PortBindings") or {}
    empty = [port for port, given in bindings.items() if not given]
    if not empty or version < _EMPTY_BINDINGS_SINCE:
        return []
    wrong = f"Following container port(s) have an empty list of port-bindings: {', '.join(empty)}."
    return [f"{wrong} Such bindings will be discarded in a future version."]
