"""Declares the daemon's options about what containers get that do not say otherwise.

Pure. Names, keys and words are dockerd's. `cgroups` declares those about cgroups, `network` those about networks.
"""

import json
from collections.abc import Callable

from engine.commandline import Option, Value
from engine.errors import Invalid
from engine.literals import integer, size
from engine.settings import configfile
from engine.settings.listening import path

BUILTIN = "builtin"
"""The engine's own seccomp profile, by dockerd's name."""
_IPC_MODES = ("shareable", "private")
_OTHER_IPC_MODES = ("none", "host")
_CGROUPNS_MODES = ("host", "private")
_THOUSAND = 1024
_ULIMIT = ("Name", "Soft", "Hard")  # the members of one in daemon.json
ULIMITS = frozenset(
    [
        "as",
        "core",
        "cpu",
        "data",
        "fsize",
        "locks",
        "memlock",
        "msgqueue",
        "nice",
        "nofile",
        "nproc",
        "rss",
        "rtprio",
        "rttime",
        "sigpending",
        "stack",
    ]
)


def _log_opt(text: str) -> str:
    if "=" not in text:
        raise Invalid("give NAME=VALUE")
    return text


def _log_opts_of_file(value: object) -> tuple[str, ...]:
    """Log options from daemon.json, which has an object: {"max-size": "10m"}."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise Invalid(f"expected an object of strings, got {json.dumps(value)}")
    return tuple(f"{name}={each}" for name, each in value.items())


def _ulimit(text: str) -> str:
    name, separator, limits = text.partition("=")
    soft, colon, hard = limits.partition(":")
    numbers = [soft, hard if colon else soft]
    try:
        least, most = (integer(number) for number in numbers)
    except Invalid as error:
        raise Invalid(f"invalid ulimit argument: {text}") from error
    if not separator:
        raise Invalid(f"invalid ulimit argument: {text}")
    if name not in ULIMITS:
        raise Invalid(f"invalid ulimit type: {name}")
    if most != -1 and (least == -1 or least > most):
        raise Invalid(f"ulimit soft limit must be less than or equal to hard limit: {least} > {most}")
    return f"{name}={least}:{most}"


def _ulimits_of_file(value: object) -> tuple[str, ...]:
    """Ulimits of daemon.json, an object by name: {"nofile": {"Name": "nofile", "Soft": 1024, "Hard": 2048}}."""
    limits = {name: configfile.members(each, _ULIMIT) for name, each in configfile.members(value, ()).items()}
    return tuple(
        _ulimit(f"{each.get('Name') or name}={each.get('Soft', 0)}:{each.get('Hard', 0)}")
        for name, each in limits.items()
    )


def _ipc_mode(text: str) -> str:
    if text in _IPC_MODES or not text:
        return text or "private"
    hint = 'use "shareable" or "private"'
    if text in _OTHER_IPC_MODES or text.startswith("container:"):
        raise Invalid(f'IPC mode "{text}" is not supported as default value; {hint}')
    raise Invalid(f"default IPC mode setting ({text}) is invalid; {hint}")


def _cgroupns_mode(text: str) -> str:
    if text not in ("", *_CGROUPNS_MODES):
        raise Invalid(f'invalid default cgroup namespace ({text}): use "host" or "private"')
    return text


def _shm_size(text: str) -> str:
    return str(size(text, _THOUSAND) or 64 << 20)


def _shm_size_of_file(value: object) -> int:
    """The size of /dev/shm from daemon.json, which has it as a number of bytes or as a text like "64m"."""
    if not isinstance(value, str) and type(value) is not int:
        raise Invalid(f"expected a size, got {json.dumps(value)}")
    return int(_shm_size(str(value)))


def _stop_timeout(text: str) -> str:
    if integer(text, reader="strconv.ParseInt") < 0:
        raise Invalid(f"invalid default stop timeout: {text}")
    return text


LOG_DRIVER = "json-file"
"""The log driver of a daemon that is told none."""
OPTIONS = (
    Option(
        "log-driver",
        "Log driver of containers that ask for none: json-file, local, syslog, journald, gelf, fluentd, splunk, none",
        default=LOG_DRIVER,
        value="driver",
        key="log-driver",
    ),
    Option(
        "log-opt",
        "Option NAME=VALUE of that log driver; repeatable",
        kind="list",
        check=_log_opt,
        default=(),
        value="option",
        key="log-opts",
    ),
    Option(
        "init",
        "Run an init in each container that reaps processes and forwards signals",
        kind="flag",
        default=False,
        key="init",
    ),
    Option(
        "init-path", "Another program than the built-in one for that init", check=path, value="path", key="init-path"
    ),
    Option(
        "default-ulimit",
        "Resource limit NAME=SOFT[:HARD] of containers that do not name it; repeatable",
        kind="list",
        check=_ulimit,
        default=(),
        value="limit",
        key="default-ulimits",
    ),
    Option(
        "default-cgroupns-mode",
        "Cgroup namespace of containers that name none: host or private (a namespace of its own)",
        check=_cgroupns_mode,
        default="private",
        value="mode",
        key="default-cgroupns-mode",
    ),
    Option(
        "default-ipc-mode",
        "IPC namespace of containers that name none: private, or shareable with other containers",
        check=_ipc_mode,
        default="private",
        value="mode",
        key="default-ipc-mode",
    ),
    Option(
        "default-shm-size",
        "Size of /dev/shm of containers that name none, in bytes or with a unit (64m)",
        kind="number",
        check=_shm_size,
        default=64 << 20,
        value="size",
        key="default-shm-size",
    ),
    Option(
        "default-stop-timeout",
        "Seconds that a container with no StopTimeout has between its stop signal and SIGKILL",
        kind="number",
        check=_stop_timeout,
        default=10,
        value="seconds",
        key="default-stop-timeout",
    ),
    Option(
        "no-new-privileges",
        "No program in a container gains rights by setuid or file capabilities (no_new_privs)",
        kind="flag",
        default=False,
        key="no-new-privileges",
    ),
    Option(
        "userns-remap",
        "Containers have a user namespace, with the subordinate ids of this user (USER[:GROUP]); default: dockremap",
        value="user",
        key="userns-remap",
    ),
    Option(
        "seccomp-profile",
        f"File of the seccomp profile of containers that name none; {BUILTIN}: the engine's own; unconfined: none",
        check=lambda text: text or BUILTIN,
        default=BUILTIN,
        value="path",
        key="seccomp-profile",
    ),
    Option(
        "cdi-spec-dir",
        "Directory of CDI files, which describe devices that containers may ask for; an empty one: none; repeatable",
        kind="list",
        check=path,
        default=("/etc/cdi", "/var/run/cdi"),
        value="path",
        key="cdi-spec-dirs",
    ),
    Option(
        "selinux-enabled",
        "Give containers SELinux labels, on a host that has SELinux",
        kind="flag",
        default=False,
        key="selinux-enabled",
    ),
)
FILE_READERS: dict[str, Callable[[object], Value]] = {
    "log-opts": _log_opts_of_file,
    "default-ulimits": _ulimits_of_file,
    "default-shm-size": _shm_size_of_file,
}
