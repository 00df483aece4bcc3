"""Declares every option of the daemon, and reads them from the command line and daemon.json into a `Settings`.

`OPTIONS` is the one declaration: the command line, `--help`, the reader of daemon.json and the table in README.md come
from it (a test compares the last). Names, keys and rules are dockerd's. Read once, before the daemon starts; a
`Settings` never changes. Checks that need a look at the host (does the group exist, can the certificate be read) are
made where the value is used.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence

from engine.commandline import Given, Option, Value, described, given_text, parse
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import LAST_PORT, integer, natural
from engine.settings import builder, cgroups, network, whose
from engine.settings.whose import ROOTS, default_host

VERSION = "0.1.0"
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")
MUXERS = ("auto", "c", "python")
TLS_FILES = ("tlscacert", "tlscert", "tlskey")
TLS_PORT = 2376
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


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a daemon.

    hosts: `unix:///absolute/path`, `fd://` + (nothing, `*`, a number or a name), `tcp://host:port`; at least one
    data_root, exec_root, pidfile, tls*: absolute paths; pidfile and tls* may be empty
    group: name or number of the Unix socket's group, empty for root's own
    registry_mirrors: URLs that end in `/`; insecure_registries: `host[:port]` or a CIDR
    muxer: `auto`, `c` or `python`
    init: containers that do not say otherwise get an init, which reaps, as process 1
    init_path: the program for it, empty for the built-in one
    default_ulimits: `name=soft:hard` each, for containers that do not name that limit
    exec_opts: `name=value` each, see `cgroups`; cgroup_parent: of containers that name none, empty for the cgroup
        driver's own
    log_driver: of containers that name none; log_opts: `name=value` each, its options
    bridge: an existing bridge, `none`, or empty for the engine's own; bip*: its address and prefix; all settings about
        addresses may be empty, except ip; mtu: decimal, 0 for the kernel's
    builder: what builds are given that ask for it: names of entitlements in dockerd's form, or `none`
    default_address_pools: `base,bits` each; default_network_opts: `driver=name=value` each
    """

    hosts: tuple[str, ...]
    data_root: str
    exec_root: str
    pidfile: str
    group: str
    debug: bool
    log_level: str
    registry_mirrors: tuple[str, ...]
    insecure_registries: tuple[str, ...]
    muxer: str
    init: bool
    init_path: str
    default_ulimits: tuple[str, ...]
    exec_opts: tuple[str, ...]
    cgroup_parent: str
    selinux_enabled: bool
    log_driver: str
    log_opts: tuple[str, ...]
    builder: tuple[str, ...]
    tlsverify: bool
    tlscacert: str
    tlscert: str
    tlskey: str
    bridge: str
    bip: str
    bip6: str
    fixed_cidr: str
    fixed_cidr_v6: str
    default_gateway: str
    default_gateway_v6: str
    ipv6: bool
    mtu: str
    icc: bool
    ip_masq: bool
    ip: str
    ip_forward: bool
    ip_forward_no_drop: bool
    iptables: bool
    ip6tables: bool
    userland_proxy: bool
    default_address_pools: tuple[str, ...]
    default_network_opts: tuple[str, ...]
    dns: tuple[str, ...]
    dns_search: tuple[str, ...]
    dns_opts: tuple[str, ...]
    host_gateway_ips: tuple[str, ...]


def host(text: str) -> str:
    """An address to listen on, completed with its defaults. Raises Invalid."""
    kind, separator, rest = text.strip().partition("://")
    if not separator or kind not in _HOST_KINDS:
        raise Invalid(f"Invalid bind address format: {text}")
    return _HOST_KINDS[kind](rest, text)


def _unix_host(rest: str, text: str) -> str:
    if rest and not rest.startswith("/"):
        raise Invalid(f"the path of a Unix socket must be absolute: {text}")
    return f"unix://{rest}" if rest else default_host(whose.owner(os.environ, os.geteuid()), os.environ)


def _activated_host(rest: str, text: str) -> str:
    return f"fd://{rest}"


def _tcp_host(rest: str, text: str) -> str:
    name, separator, port = rest.rpartition(":")
    if not separator or (rest.startswith("[") and rest.endswith("]")):
        name, port = rest, str(TLS_PORT)
    if natural(port, LAST_PORT) is None or "/" in name or (":" in name) != ("[" in name):
        raise Invalid(f"Invalid bind address format: {text}")
    return f"tcp://{name or '0.0.0.0'}:{port}"


_HOST_KINDS = {"unix": _unix_host, "fd": _activated_host, "tcp": _tcp_host}


def _path(text: str) -> str:
    return os.path.abspath(text) if text else ""


def _needed_path(text: str) -> str:
    if not text:
        raise Invalid("the path is empty")
    return os.path.abspath(text)


def _mirror(text: str) -> str:
    # Parsed by hand: at start-up urllib.parse would be loaded for this alone.
    scheme, separator, rest = text.partition("://")
    place = rest.partition("/")[0]
    if not separator or not place:
        raise Invalid(f'invalid mirror: "{text}" is not a valid URI')
    if scheme not in ("http", "https"):
        raise Invalid(f'invalid mirror: unsupported scheme "{scheme}" in "{text}"')
    if "@" in place:
        raise Invalid("invalid mirror: username/password not allowed in URI")
    if "?" in rest or "#" in rest:
        raise Invalid(f'invalid mirror: query or fragment at end of the URI "{text}"')
    return text.rstrip("/") + "/"


def _insecure_registry(text: str) -> str:
    for scheme in ("http://", "https://"):
        text = text.removeprefix(scheme)
    if not text or "://" in text or text[0] == "-" or text[-1] == "-":
        raise Invalid(f"insecure registry {text} is not valid: give host, host:port or a CIDR")
    return text


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
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        raise Invalid(f"expected an object of objects, got {json.dumps(value)}")
    return tuple(
        _ulimit(f"{each.get('Name') or name}={each.get('Soft', 0)}:{each.get('Hard', 0)}")
        for name, each in value.items()
    )


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in words:
            raise Invalid(f"give one of {', '.join(words)}")
        return text

    return check


OPTIONS = (
    Option(
        "host",
        "Where to listen: unix://PATH, fd:// (sockets from systemd), tcp://HOST:PORT (with --tlsverify); repeatable",
        short="H",
        kind="list",
        check=host,
        default=(default_host(0, {}),),
        value="address",
        key="hosts",
    ),
    Option(
        "data-root",
        "Directory of images, containers and state that is to last",
        check=_needed_path,
        default=ROOTS.data_root,
        value="path",
        key="data-root",
    ),
    Option(
        "exec-root",
        "Directory of sockets and state that lasts until the next boot",
        check=_needed_path,
        default=ROOTS.exec_root,
        value="path",
        key="exec-root",
    ),
    Option(
        "pidfile",
        "File that holds the daemon's process id",
        short="p",
        check=_path,
        default=ROOTS.pidfile,
        value="path",
        key="pidfile",
    ),
    Option("group", "Group that may use the Unix socket (mode 0660)", short="G", value="group", key="group"),
    Option("config-file", "Configuration file", check=_needed_path, default=ROOTS.config_file, value="path"),
    Option("debug", "Log everything, as --log-level debug does", short="D", kind="flag", default=False, key="debug"),
    Option(
        "log-level",
        f"Least level to log: {', '.join(LOG_LEVELS)}",
        short="l",
        check=_one_of(LOG_LEVELS),
        default="info",
        value="level",
        key="log-level",
    ),
    Option(
        "registry-mirror",
        "URL of a mirror of docker.io to ask first; repeatable",
        kind="list",
        check=_mirror,
        default=(),
        value="url",
        key="registry-mirrors",
    ),
    Option(
        "insecure-registry",
        "Registry (host, host:port, CIDR) to trust without TLS or with any certificate; repeatable",
        kind="list",
        check=_insecure_registry,
        default=(),
        value="registry",
        key="insecure-registries",
    ),
    Option(
        "muxer",
        f"What moves the output of containers: {', '.join(MUXERS)}; auto is c where it was built",
        check=_one_of(MUXERS),
        default="auto",
        value="kind",
        key="muxer",
    ),
    Option(
        "log-driver",
        "Log driver of containers that ask for none: local, json-file, syslog, journald, none",
        default="local",
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
        "init-path", "Another program than the built-in one for that init", check=_path, value="path", key="init-path"
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
    *cgroups.OPTIONS,
    Option(
        "selinux-enabled",
        "Give containers SELinux labels, on a host that has SELinux",
        kind="flag",
        default=False,
        key="selinux-enabled",
    ),
    Option(
        "tlsverify",
        "Use TLS on tcp:// and ask each client for a certificate",
        kind="flag",
        default=False,
        key="tlsverify",
    ),
    Option(
        "tlscacert", "Trust the clients' certificates signed by this CA", check=_path, value="path", key="tlscacert"
    ),
    Option("tlscert", "The daemon's TLS certificate", check=_path, value="path", key="tlscert"),
    Option("tlskey", "The daemon's TLS key", check=_path, value="path", key="tlskey"),
    *network.OPTIONS,
    *builder.OPTIONS,
)


def from_arguments(
    arguments: Sequence[str], environ: Mapping[str, str] = os.environ, uid: int | None = None
) -> Settings:
    """The settings from the command line after `daemon`, and from the configuration file.

    `uid`: the user whose daemon it is to be, by default the caller's own. Raises Invalid with the text to show.
    """
    user = whose.owner(environ, os.geteuid()) if uid is None else uid
    default = whose.of(user, environ)
    given, others = parse(OPTIONS, arguments)
    if others:
        raise Invalid('"engine daemon" accepts no arguments')
    path = given_text(given, "config-file", default.config_file)
    values: dict[str, Value] = {option.key: option.default for option in OPTIONS if option.key}
    values |= {"data-root": default.data_root, "exec-root": default.exec_root, "pidfile": default.pidfile}
    values["hosts"] = (default_host(user, environ),)
    values |= _from_file(path, given, required="config-file" in given)
    values |= {option.key: given[option.name] for option in OPTIONS if option.key and option.name in given}
    network.check_together(values)
    by_field = {key.replace("-", "_"): value for key, value in values.items()}
    settings = Settings(**by_field)  # type: ignore[arg-type]  # each has the type of its field: `kind` in OPTIONS
    _check_together(settings)
    return settings


def _check_together(settings: Settings) -> None:
    missing = [name for name in TLS_FILES if not getattr(settings, name)]
    if settings.tlsverify and missing:
        raise Invalid(f"--tlsverify needs {', '.join('--' + name for name in missing)} too")
    for address in settings.hosts:
        if address.startswith("tcp://") and not settings.tlsverify:
            raise Invalid(f"{address} without --tlsverify would give root to everyone who can reach it: refused")


def _from_file(path: str, given: Given, required: bool) -> dict[str, Value]:
    """The values of the configuration file by key; none when a file that the user did not name does not exist."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except FileNotFoundError as error:
        if not required:
            return {}
        raise Invalid(f"unable to configure the daemon with file {path}: {error.strerror}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"unable to configure the daemon with file {path}: {error}") from error
    try:
        return read_config(text, given)
    except Invalid as error:
        raise Invalid(f"unable to configure the daemon with file {path}: {error}") from error


def read_config(text: str, given: Given) -> dict[str, Value]:
    """The text of a daemon.json as values by key.

    `given`: the command line's values by option name; a key that stands in both places is an error, as in dockerd,
    because neither place could be trusted otherwise. Raises Invalid.
    """
    if not text.strip():
        return {}
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Invalid(str(error)) from error
    if not isinstance(document, dict):
        raise Invalid("not a JSON object")
    by_key = {option.key: option for option in OPTIONS if option.key}
    if unknown := sorted(document.keys() - by_key.keys()):
        raise Invalid(f"the following directives don't match any configuration option: {', '.join(unknown)}")
    twice = [
        f"{key}: (from flag: {json.dumps(given[by_key[key].name])}, from file: {json.dumps(value)})"
        for key, value in sorted(document.items())
        if by_key[key].name in given
    ]
    if twice:
        raise Invalid(
            "the following directives are specified both as a flag and in the configuration file: " + ", ".join(twice)
        )
    return {key: _file_value(by_key[key], value) for key, value in document.items() if value != []}


def _file_value(option: Option, value: object) -> Value:
    try:
        return _FILE_READERS[option.key](value) if option.key in _FILE_READERS else _plain_value(option, value)
    except Invalid as error:
        raise Invalid(f"{option.key}: {error}") from error


def _plain_value(option: Option, value: object) -> Value:
    if option.kind == "flag" and isinstance(value, bool):
        return value
    if option.kind == "text" and isinstance(value, str):
        return option.check(value)
    if option.kind == "list" and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(option.check(item) for item in value)
    raise Invalid(f"expected {_FILE_TYPES[option.kind]}, got {json.dumps(value)}")


# The options whose value has a form of its own in the file.
_FILE_READERS: dict[str, Callable[[object], Value]] = {
    "log-opts": _log_opts_of_file,
    "default-ulimits": _ulimits_of_file,
    **network.FILE_READERS,
    **builder.FILE_READERS,
}
_FILE_TYPES = {"flag": "true or false", "text": "a string", "list": "a list of strings"}


def usage() -> str:
    """The help text of `engine daemon`."""
    return f"""Usage: engine daemon [OPTIONS]

The daemon of a container engine that speaks the Docker Engine API.

Options:
{described(OPTIONS)}

Every option but --config-file may stand in the configuration file instead,
under the key that dockerd's daemon.json has for it. A key in both is an error.
"""


def options_table() -> str:
    """The options as README.md shows them: a Markdown table."""
    rows = ["| option | default | daemon.json | what it does |", "|---|---|---|---|"]
    for option in OPTIONS:
        names = f"`-{option.short}`, `--{option.name}`" if option.short else f"`--{option.name}`"
        shown = f"`{option.default_shown}`" if option.default_shown else ""
        rows.append(f"| {names} | {shown} | {f'`{option.key}`' if option.key else ''} | {option.help} |")
    return "\n".join(rows)
