"""Check the Config and HostConfig of a create request, and refuse what dockerd refuses, with its words.

Pure but for what `resources` and `mounts.requests` ask of the host; runs in the daemon's request threads. What dockerd
allows and this engine does not have yet is refused by `unbuilt`.
"""

import socket
from collections.abc import Iterable

from engine.annotating import Final, Literal
from engine.daemon.containers.mounts import requests
from engine.daemon.containers.security import resources, walls
from engine.daemon.containers.shapes import Config, Healthcheck, HostConfig, PortBinding, RestartPolicy
from engine.daemon.jsontext import Object
from engine.daemon.signals import parse_signal
from engine.errors import Invalid
from engine.literals import LAST_PORT, size, span
from engine.sandbox import capabilities
from engine.sandbox.cgroups.hierarchy import Cgroups
from engine.settings.runtimes import OWN

_Mode = Literal["IpcMode", "PidMode", "UTSMode", "CgroupnsMode"]
_MILLISECOND = 1_000_000
_HEALTH_DURATIONS: Final = ("Interval", "Timeout", "StartPeriod", "StartInterval")
# The keys of Config whose texts, lists of texts, or names of a map are passed to a system call.
_PASSED_ON: Final = ("Env", "Cmd", "Entrypoint", "Hostname", "Domainname", "User", "WorkingDir", "Volumes", "Shell")
# The only texts of HostConfig that are not passed to a system call: they are only kept and shown.
_SHOWN = frozenset({"Annotations", "ContainerIDFile"})
# The keys whose texts, or lists of texts, become part of a line of the container's hosts, hostname or resolv.conf;
# those of Links also become part of other containers' hosts.
_IN_LINES: Final = ("Hostname", "Domainname")
_IN_LINES_OF_HOST: Final = ("Dns", "DnsSearch", "DnsOptions", "ExtraHosts", "Links")
_RESTART_POLICIES = ("no", "always", "on-failure", "unless-stopped")
_NO_QUOTA = (
    "The storage driver does not limit the size of a container's files. The size of --storage-opt is only shown."
)
_LINKS_GO = (
    "Links on the default bridge network are deprecated and will be removed in a future release."
    " Use a custom network instead."
)
_NO_LINKS = "can't be used with links. This would result in undefined behavior"

# (key, the modes that are plain words, whether it may be container:NAME, the text of dockerd's error)
_MODES: tuple[tuple[_Mode, frozenset[str], bool, str], ...] = (
    ("IpcMode", frozenset({"", "none", "host", "private", "shareable"}), True, "invalid IPC mode: {}"),
    ("PidMode", frozenset({"", "host"}), True, "invalid PID mode: {}"),
    ("UTSMode", frozenset({"", "host"}), False, "invalid UTS mode: {}"),
    ("CgroupnsMode", frozenset({"", "private", "host"}), False, "invalid cgroup namespace mode: {}"),
)


def check(
    config: Config, host_config: HostConfig, runtimes: Iterable[str] = (), cgroups: Cgroups | None = None
) -> list[str]:
    """Raise Invalid for the first thing that dockerd would refuse before it looks for the image; return warnings.

    Both dicts are complete (see `config`); `config` is not merged with the image's yet. runtimes: names of others
    cgroups: see `resources.check`
    """
    _check_network_mode(config, host_config)
    if host_config["Isolation"].lower() not in ("", "default"):
        raise Invalid(f"invalid isolation ({host_config['Isolation']}): linux only supports 'default'")
    for asked, what in ((host_config["IOMaximumBandwidth"], "bandwidth"), (host_config["IOMaximumIOps"], "IOPs")):
        if asked:
            raise Invalid(f"invalid option: QoS maximum {what} configuration is not supported on linux")
    _check_config(config)
    _check_host_config(host_config)
    warnings = resources.check(host_config, cgroups)
    _check_modes(host_config)
    if host_config["Runtime"] not in (*OWN, *runtimes):
        raise Invalid(f"unknown or invalid runtime name: {host_config['Runtime']}")
    requests.check_tmpfs(host_config["Tmpfs"] or {})
    if host_config["NetworkMode"] == "host" and host_config["PortBindings"]:
        warnings.append("Published ports are discarded when using host network mode")
    if host_config["NetworkMode"] in ("default", "bridge") and host_config["Links"]:
        warnings.append(_LINKS_GO)
    if host_config["StorageOpt"]:
        _check_storage(host_config["StorageOpt"])
        warnings.append(_NO_QUOTA)
    return warnings


def check_late(host_config: HostConfig) -> None:
    """Raise for what dockerd refuses only once the container has a name: security options and binds."""
    walls.check(host_config)
    requests.check_binds(host_config["Binds"] or [], host_config["Mounts"] or [], host_config["Tmpfs"])


def _check_storage(options: dict[str, str]) -> None:
    """Refuse all but a size, which is only recorded: dockerd's store of containerd takes it and does not obey it."""
    for name, value in options.items():
        if name != "size":
            raise Invalid(f"--storage-opt {name} is not known: there is only size")
        size(value, thousand=1024)


def _check_config(config: Config) -> None:
    workdir = config["WorkingDir"]
    if workdir and not workdir.startswith("/"):
        raise Invalid(f"the working directory '{workdir}' is invalid, it needs to be an absolute path")
    if config["StopSignal"]:
        parse_signal(config["StopSignal"])
    for entry in config["Env"] or ():
        if not entry.partition("=")[0]:
            raise Invalid(f"invalid environment variable: {entry}")
    for name in _PASSED_ON:
        _check_nul(name, config[name])
    for line in _IN_LINES:
        _check_lines(line, config[line])
    _check_health(config["Healthcheck"] or {})


def _check_nul(name: str, value: object) -> None:
    if _holds_nul(value):
        raise Invalid(f"invalid {name}: a NUL character cannot be passed on")


def _holds_nul(value: object) -> bool:
    """Whether a text, or any text within a list or a map, has a zero byte."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_holds_nul(key) or _holds_nul(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_holds_nul, value))


def _check_lines(name: str, value: str | list[str] | None) -> None:
    """Refuse a line end in a text that becomes part of a line: it would begin a second one (as in CVE-2022-4318)."""
    if any(entry.splitlines() not in ([], [entry]) for entry in ([value] if isinstance(value, str) else value or ())):
        raise Invalid(f"invalid {name}: there is a line end in it")


def _check_health(health: Healthcheck) -> None:
    _check_nul("Healthcheck", health.get("Test"))
    for key in _HEALTH_DURATIONS:
        # 0 means "as in the image, or the default".
        if health.get(key) and health[key] < _MILLISECOND:
            raise Invalid(f"{key} in Healthcheck cannot be less than 1ms")
    if (health.get("Retries") or 0) < 0:
        raise Invalid("Retries in Healthcheck cannot be negative")


def _check_host_config(host_config: HostConfig) -> None:
    for name, value in host_config.items():
        if name not in _SHOWN:
            _check_nul(f"HostConfig.{name}", value)
    policy = host_config["RestartPolicy"]
    if host_config["AutoRemove"] and policy["Name"] != "no":
        raise Invalid("can't create 'AutoRemove' container with restart policy")
    requests.check_mounts(host_config["Mounts"] or [])
    for lines in _IN_LINES_OF_HOST:
        _check_lines(lines, host_config[lines])
    for extra in host_config["ExtraHosts"] or ():
        _check_extra_host(extra)
    _check_port_bindings(host_config["PortBindings"])
    _check_restart_policy(policy["Name"], policy["MaximumRetryCount"])
    capabilities.effective(host_config["CapAdd"] or (), host_config["CapDrop"] or (), host_config["Privileged"])
    if "" in (host_config["Annotations"] or {}):
        raise Invalid("invalid Annotations: the empty string is not permitted as an annotation key")


def _check_extra_host(entry: str) -> None:
    # The API takes `name:address`. Only the first colon separates, since an IPv6 address has colons too.
    name, colon, address = entry.partition(":")
    if not (name and colon):
        raise Invalid(f'bad format for add-host: "{entry}"')
    if address != "host-gateway" and not _is_address(address.removeprefix("[").removesuffix("]")):
        raise Invalid(f'invalid IP address in add-host: "{address}"')


def _is_address(text: str) -> bool:
    # The module ipaddress would do this too, but would cost the idle daemon a megabyte.
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False


def _check_port_bindings(bindings: dict[str, list[PortBinding] | None]) -> None:
    for port, hosts in bindings.items():
        number = port.partition("/")[0]
        if span(number, LAST_PORT) is None:
            raise Invalid(f'invalid port specification: "{number}"')
        for host in hosts or ():
            text = (host.get("HostPort") or "").partition("/")[0]
            if text and span(text, LAST_PORT) is None:
                raise Invalid(f'invalid port specification: "{host["HostPort"]}"')


def restart_policy(asked: Object) -> RestartPolicy | None:
    """The RestartPolicy of an update, complete; None for one without a name. Raises Invalid."""
    name, retries = asked.get("Name") or "", asked.get("MaximumRetryCount") or 0
    if not name:
        return None
    _check_restart_policy(name, retries)
    return {"Name": name, "MaximumRetryCount": retries}


def _check_restart_policy(name: str, retries: int) -> None:
    if name not in _RESTART_POLICIES:
        raise Invalid(
            f"invalid restart policy: unknown policy '{name}';"
            " use one of 'no', 'always', 'on-failure', or 'unless-stopped'"
        )
    if name == "on-failure" and retries < 0:
        raise Invalid("invalid restart policy: maximum retry count cannot be negative")
    if name != "on-failure" and retries:
        suffix = " and cannot be negative" if retries < 0 else ""
        raise Invalid(f"invalid restart policy: maximum retry count can only be used with 'on-failure'{suffix}")


def _check_modes(host_config: HostConfig) -> None:
    for key, words, shareable, text in _MODES:
        mode = host_config[key]
        joins = shareable and mode.startswith("container:") and len(mode) > len("container:")
        if mode not in words and not joins:
            raise Invalid(text.format(mode))
    if host_config["ShmSize"] < 0:
        raise Invalid("SHM size can not be less than 0")


def _check_network_mode(config: Config, host_config: HostConfig) -> None:
    """Refuse the options that the network mode excludes (dockerd's runconfig)."""
    mode = host_config["NetworkMode"]
    if host_config["UTSMode"] == "host" and config["Hostname"]:
        raise Invalid("conflicting options: hostname and the UTS mode")
    if mode == "host" and host_config["Links"]:
        raise Invalid(f"conflicting options: host type networking {_NO_LINKS}")
    if not mode.startswith("container:"):
        return
    if mode == "container:":
        raise Invalid("invalid network mode: invalid container format container:<name|id>")
    ports = host_config["PortBindings"] or host_config["PublishAllPorts"]
    for given, text in (
        (config["Hostname"], "hostname and the network mode"),
        (host_config["Links"], f"container type network {_NO_LINKS}"),
        (host_config["Dns"], "dns and the network mode"),
        (host_config["ExtraHosts"], "custom host-to-IP mapping and the network mode"),
        (ports, "port publishing and the container type network mode"),
        (config["ExposedPorts"], "port exposing and the container type network mode"),
    ):
        if given:
            raise Invalid(f"conflicting options: {text}")
