"""The options of `run` and `create` that become one field of a container each, with the field and the value's form.

Data and parsers of single values. `container.creating` makes the whole request; options that say more than one field
(`-p`, `-v`, `--mount`, `--network` and so on) are declared here and read there.
"""

from collections.abc import Callable

from engine.annotating import Any
from engine.client.container import gpus, mountflags, portflags
from engine.client.display import parse_size
from engine.client.valuechecks import mapped, number, pair, size, swap, ulimit, ulimits
from engine.commandline import Option
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import duration, integer

_BILLION_DIGITS = 9  # a processor in billionths: decimal places


@dataclass(frozen=True, slots=True)
class Setting:
    """An option and the field that it sets.

    field: its place in the body of POST /containers/create: `HostConfig.Memory`
    form:  makes the field's value of what was given, which `option.check` has found right
    """

    option: Option
    field: str
    form: Callable[[Any], Any] = lambda value: value


def _swap_bytes(text: str) -> int:
    return -1 if text == "-1" else parse_size(text)


def cpus(text: str) -> str:
    """Checks a number of processors, such as `1.5`. Raises Invalid."""
    nano_cpus(text)
    return text


def nano_cpus(text: str) -> int:
    """A number of processors in billionths of one. Raises Invalid."""
    whole, _, part = text.partition(".")
    if not (whole + part).isdecimal() or not text.isascii():
        raise Invalid(f"failed to parse {text} as a rational number")
    if len(part.rstrip("0")) > _BILLION_DIGITS:
        raise Invalid("value is too precise")
    return integer(whole + part[:_BILLION_DIGITS].ljust(_BILLION_DIGITS, "0"))


def _variable(text: str) -> str:
    if not text.partition("=")[0]:
        raise Invalid(f"invalid environment variable: {text}")
    return text


def _span(text: str) -> str:
    duration(text)
    return text


def _extra_host(text: str) -> str:
    name, separator, address = text.partition("=") if "=" in text else text.partition(":")
    if not separator or not name:
        raise Invalid(f'bad format for add-host: "{text}"')
    return f"{name}:{address}"


def _link(text: str) -> str:
    if not 0 < len(text.split(":")) < 3 or not text:
        raise Invalid(f"bad format for links: {text}")
    return text


def _tmpfs(values: tuple[str, ...]) -> dict[str, str]:
    return {path: options for path, _, options in (text.partition(":") for text in values)}


def _devices(values: tuple[str, ...]) -> list[dict[str, str]]:
    return list(map(_device, values))


def _device(text: str) -> dict[str, str]:
    """`/dev/x`, `/dev/x:/dev/y`, `/dev/x:rw` or `/dev/x:/dev/y:rw`."""
    outside, _, rest = text.partition(":")
    inside, _, permissions = rest.partition(":")
    if inside and not inside.startswith("/") and not permissions:
        inside, permissions = "", inside
    return {
        "PathOnHost": outside,
        "PathInContainer": inside or outside,
        "CgroupPermissions": permissions or "rwm",
    }


def _weights(values: tuple[str, ...]) -> list[dict[str, str | int]]:
    return [{"Path": path, "Weight": number} for path, number in map(_weight, values)]


def _weight(text: str) -> tuple[str, int]:
    path, _, weight = text.partition(":")
    if not path.startswith("/dev/") or not weight.isdecimal():
        raise Invalid(f"bad format: {text}")
    return path, integer(weight)


def _rates(values: tuple[str, ...]) -> list[dict[str, str | int]]:
    return [{"Path": path, "Rate": rate} for path, rate in map(_rate, values)]


def _rate(text: str) -> tuple[str, int]:
    path, _, rate = text.partition(":")
    if not path.startswith("/dev/") or not rate:
        raise Invalid(f"bad format: {text}")
    return path, parse_size(rate)


def _weight_checked(text: str) -> str:
    _weight(text)
    return text


def _rate_checked(text: str) -> str:
    _rate(text)
    return text


def _stream(text: str) -> str:
    if text.lower() not in STREAMS:
        raise Invalid("valid streams are STDIN, STDOUT and STDERR")
    return text.lower()


STREAMS = ("stdin", "stdout", "stderr")
"""What `--attach` takes."""


def _text(name: str, help: str, short: str = "", value: str = "string", check: Callable[[str], str] = str) -> Option:
    return Option(name, help, short=short, value=value, check=check)


def _list(name: str, help: str, short: str = "", check: Callable[[str], str] = str) -> Option:
    return Option(name, help, short=short, kind="list", default=(), value="list", check=check)


def _flag(name: str, help: str, short: str = "") -> Option:
    return Option(name, help, short=short, kind="flag", default=False)


_HOST = "HostConfig."
SETTINGS = (
    Setting(
        _list("add-host", "Add a custom host-to-IP mapping (host:ip)", check=_extra_host), _HOST + "ExtraHosts", list
    ),
    Setting(_list("annotation", "Add an annotation to the container"), _HOST + "Annotations", mapped),
    Setting(
        _text("blkio-weight", "Block IO (relative weight), between 10 and 1000, or 0 to disable", "", "int", number),
        _HOST + "BlkioWeight",
        integer,
    ),
    Setting(
        _list("blkio-weight-device", "Block IO weight (relative device weight)", check=_weight_checked),
        _HOST + "BlkioWeightDevice",
        _weights,
    ),
    Setting(_list("cap-add", "Add Linux capabilities"), _HOST + "CapAdd", list),
    Setting(_list("cap-drop", "Drop Linux capabilities"), _HOST + "CapDrop", list),
    Setting(_text("cgroup-parent", "Optional parent cgroup for the container"), _HOST + "CgroupParent"),
    Setting(_text("cgroupns", "Cgroup namespace to use (host|private)"), _HOST + "CgroupnsMode"),
    Setting(_text("cpu-period", "Limit CPU CFS period", "", "int", number), _HOST + "CpuPeriod", integer),
    Setting(_text("cpu-quota", "Limit CPU CFS quota", "", "int", number), _HOST + "CpuQuota", integer),
    Setting(
        _text("cpu-rt-period", "Limit CPU real-time period in microseconds", "", "int", number),
        _HOST + "CpuRealtimePeriod",
        integer,
    ),
    Setting(
        _text("cpu-rt-runtime", "Limit CPU real-time runtime in microseconds", "", "int", number),
        _HOST + "CpuRealtimeRuntime",
        integer,
    ),
    Setting(_text("cpu-shares", "CPU shares (relative weight)", "c", "int", number), _HOST + "CpuShares", integer),
    Setting(_text("cpus", "Number of CPUs", "", "decimal", cpus), _HOST + "NanoCpus", nano_cpus),
    Setting(_text("cpuset-cpus", "CPUs in which to allow execution (0-3, 0,1)"), _HOST + "CpusetCpus"),
    Setting(_text("cpuset-mems", "MEMs in which to allow execution (0-3, 0,1)"), _HOST + "CpusetMems"),
    Setting(_list("device", "Add a host device to the container"), _HOST + "Devices", _devices),
    Setting(
        _list("device-cgroup-rule", "Add a rule to the cgroup allowed devices list"), _HOST + "DeviceCgroupRules", list
    ),
    *(
        Setting(
            _list(f"device-{way}-{unit}", f"Limit {way} rate ({words} per second) from a device", check=_rate_checked),
            f"{_HOST}BlkioDevice{way.title()}{field}",
            _rates,
        )
        for way in ("read", "write")
        for unit, words, field in (("bps", "bytes", "Bps"), ("iops", "IO", "IOps"))
    ),
    Setting(_list("dns", "Set custom DNS servers", check=portflags.address), _HOST + "Dns", list),
    Setting(_list("dns-option", "Set DNS options"), _HOST + "DnsOptions", list),
    Setting(_list("dns-search", "Set custom DNS search domains"), _HOST + "DnsSearch", list),
    Setting(_text("domainname", "Container NIS domain name"), "Domainname"),
    Setting(
        _list("gpus", "GPU devices to add to the container ('all' to pass all GPUs)", check=gpus.checked),
        _HOST + "DeviceRequests",
        gpus.requests,
    ),
    Setting(_list("group-add", "Add additional groups to join"), _HOST + "GroupAdd", list),
    Setting(_text("hostname", "Container host name", "h"), "Hostname"),
    Setting(
        _flag("init", "Run an init inside the container that forwards signals and reaps processes"), _HOST + "Init"
    ),
    Setting(_text("ipc", "IPC mode to use"), _HOST + "IpcMode"),
    Setting(_text("isolation", "Container isolation technology"), _HOST + "Isolation"),
    Setting(_list("link", "Add link to another container", check=_link), _HOST + "Links", list),
    Setting(_text("log-driver", "Logging driver for the container"), _HOST + "LogConfig.Type"),
    Setting(_list("log-opt", "Log driver options"), _HOST + "LogConfig.Config", mapped),
    Setting(_text("memory", "Memory limit", "m", "bytes", size), _HOST + "Memory", parse_size),
    Setting(
        _text("memory-reservation", "Memory soft limit", "", "bytes", size), _HOST + "MemoryReservation", parse_size
    ),
    Setting(
        _text("memory-swap", "Memory plus swap, '-1' for no limit", "", "bytes", swap),
        _HOST + "MemorySwap",
        _swap_bytes,
    ),
    Setting(
        _text("memory-swappiness", "Tune container memory swappiness (0 to 100)", "", "int", number),
        _HOST + "MemorySwappiness",
        integer,
    ),
    Setting(_flag("oom-kill-disable", "Disable OOM Killer"), _HOST + "OomKillDisable"),
    Setting(
        _text("oom-score-adj", "Tune host's OOM preferences (-1000 to 1000)", "", "int", number),
        _HOST + "OomScoreAdj",
        integer,
    ),
    Setting(_text("pid", "PID namespace to use"), _HOST + "PidMode"),
    Setting(
        _text("pids-limit", "Tune container pids limit (set -1 for unlimited)", "", "int", number),
        _HOST + "PidsLimit",
        integer,
    ),
    Setting(_flag("privileged", "Give extended privileges to this container"), _HOST + "Privileged"),
    Setting(_flag("publish-all", "Publish all exposed ports to random ports", "P"), _HOST + "PublishAllPorts"),
    Setting(_flag("read-only", "Mount the container's root filesystem as read only"), _HOST + "ReadonlyRootfs"),
    Setting(_flag("rm", "Automatically remove the container when it exits"), _HOST + "AutoRemove"),
    Setting(_text("runtime", "Runtime to use for this container"), _HOST + "Runtime"),
    Setting(_text("shm-size", "Size of /dev/shm", "", "bytes", size), _HOST + "ShmSize", parse_size),
    Setting(_text("stop-signal", "Signal to stop the container"), "StopSignal"),
    Setting(
        _text("stop-timeout", "Timeout (in seconds) to stop a container", "", "int", number), "StopTimeout", integer
    ),
    Setting(_list("storage-opt", "Storage driver options for the container"), _HOST + "StorageOpt", mapped),
    Setting(_list("sysctl", "Sysctl options", check=pair), _HOST + "Sysctls", mapped),
    Setting(_list("tmpfs", "Mount a tmpfs directory"), _HOST + "Tmpfs", _tmpfs),
    Setting(_flag("tty", "Allocate a pseudo-TTY", "t"), "Tty"),
    Setting(_list("ulimit", "Ulimit options", check=ulimit), _HOST + "Ulimits", ulimits),
    Setting(_text("user", "Username or UID (format: <name|uid>[:<group|gid>])", "u"), "User"),
    Setting(_text("userns", "User namespace to use"), _HOST + "UsernsMode"),
    Setting(_text("uts", "UTS namespace to use"), _HOST + "UTSMode"),
    Setting(_text("volume-driver", "Optional volume driver for the container"), _HOST + "VolumeDriver"),
    Setting(_list("volumes-from", "Mount volumes from the specified container(s)"), _HOST + "VolumesFrom", list),
    Setting(_text("workdir", "Working directory inside the container", "w"), "WorkingDir"),
    Setting(
        _text("health-cmd", "Command to run to check health"), "Healthcheck.Test", lambda text: ["CMD-SHELL", text]
    ),
    Setting(
        _text("health-interval", "Time between running the check (ms|s|m|h)", "", "duration", _span),
        "Healthcheck.Interval",
        duration,
    ),
    Setting(
        _text("health-retries", "Consecutive failures needed to report unhealthy", "", "int", number),
        "Healthcheck.Retries",
        integer,
    ),
    Setting(
        _text("health-start-period", "Time to initialize before failures count (ms|s|m|h)", "", "duration", _span),
        "Healthcheck.StartPeriod",
        duration,
    ),
    Setting(
        _text("health-start-interval", "Time between checks during the start period (ms|s|m|h)", "", "duration", _span),
        "Healthcheck.StartInterval",
        duration,
    ),
    Setting(
        _text("health-timeout", "Maximum time to allow one check to run (ms|s|m|h)", "", "duration", _span),
        "Healthcheck.Timeout",
        duration,
    ),
)

# What `container.creating` and `container.run` read themselves.
OTHERS = (
    _list("attach", "Attach to STDIN, STDOUT or STDERR", "a", _stream),
    _text("cidfile", "Write the container ID to the file"),
    _text("entrypoint", "Overwrite the default ENTRYPOINT of the image"),
    _list("env", "Set environment variables; NAME alone takes its value from here", "e", _variable),
    _list("env-file", "Read in a file of environment variables"),
    _list("expose", "Expose a port or a range of ports"),
    _flag("interactive", "Keep STDIN open even if not attached", "i"),
    _text("ip", "IPv4 address (e.g., 172.30.100.104)"),
    _text("ip6", "IPv6 address (e.g., 2001:db8::33)"),
    _list("link-local-ip", "Container IPv4/IPv6 link-local addresses", check=portflags.address),
    _list("label", "Set meta data on a container", "l", pair),
    _list("label-file", "Read in a line delimited file of labels"),
    _text("mac-address", "Container MAC address (e.g., 92:d0:c6:0a:29:33)"),
    _list("mount", "Attach a filesystem mount to the container", check=mountflags.checked),
    _text("name", "Assign a name to the container"),
    _list("network", "Connect a container to a network", check=portflags.network_checked),
    _list("network-alias", "Add network-scoped alias for the container"),
    _flag("no-healthcheck", "Disable any container-specified HEALTHCHECK"),
    _text("platform", "Set platform if server is multi-platform capable"),
    _list("publish", "Publish a container's port(s) to the host", "p"),
    Option("pull", 'Pull image before running ("always", "missing", "never")', default="missing"),
    _flag("quiet", "Suppress the pull output", "q"),
    Option("restart", "Restart policy to apply when a container exits", default="no"),
    _list("security-opt", "Security Options"),
    _list("volume", "Bind mount a volume", "v"),
)
# What is about this terminal, and not about the container.
RUN_OPTIONS = (
    _flag("detach", "Run container in background and print container ID", "d"),
    _text("detach-keys", "Override the key sequence for detaching a container"),
    Option("sig-proxy", "Proxy received signals to the process", kind="flag", default=True),
)
