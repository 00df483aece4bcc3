"""Declares every option of the daemon, and reads them from the command line and daemon.json into a `Settings`.

`OPTIONS` is the one declaration: the command line, `--help`, the reader of daemon.json and the table in README.md come
from it (a test compares the last). Names, keys and rules are dockerd's. Read once, before the daemon starts; a
`Settings` never changes. Checks that need a look at the host (does the group exist, can the certificate be read) are
made where the value is used.
"""

import os
from collections.abc import Callable, Mapping, Sequence

from engine.commandline import Option, Value, described, given_text, given_texts, parse
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import integer
from engine.settings import (
    advertised,
    asleep,
    builder,
    cgroups,
    configfile,
    defaults,
    elsewhere,
    extensions,
    listening,
    network,
    runtimes,
    storagedriver,
    transfers,
    whose,
)
from engine.settings.gcpolicy import GcPolicy
from engine.settings.whose import DOCKERD, ROOTS

MUXERS = ("auto", "c", "python")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a daemon.

    hosts: `unix:///absolute/path`, `fd://` + (nothing, `*`, a number or a name), `tcp://host:port`; at least one
    data_root, exec_root, pidfile, tls*: absolute paths; pidfile and tls* may be empty
    group: name or number of the Unix socket's group, empty for root's own
    tls, tlsverify: TCP sockets speak TLS, and ask each client for a certificate
    registry_mirrors: URLs that end in `/`; insecure_registries: `host[:port]` or a CIDR
    max_*: 0 for no limit; *_proxy: as the variables of the same names, empty to look at those
    muxer: `auto`, `c` or `python`
    live_restore: containers run on when the daemon ends; shutdown_timeout: seconds, negative for no end
    init: containers that do not say otherwise get an init, which reaps, as process 1
    init_path: the program for it, empty for the built-in one
    default_ulimits: `name=soft:hard` each, for containers that do not name that limit
    storage_driver: a name of dockerd's, empty for what the data root has or can have
    bridge_accept_fwmark: `MARK[/MASK]`, or empty
    default_shm_size: bytes; default_stop_timeout: seconds
    runtimes: see `runtimes.programs`
    cdi_spec_dirs: absolute paths, none where there are to be no such devices
    userns_remap: `USER[:GROUP]` or `default`, whose subordinate ids containers have; empty for none
    seccomp_profile: a path, `builtin` or `unconfined`
    exec_opts: `name=value` each, see `cgroups`; cgroup_parent: of containers that name none, empty for the cgroup
        driver's own; cpu_rt_*: microseconds for all containers together, 0 for what the host has
    log_driver: of containers that name none; log_opts: `name=value` each, its options
    metrics_addr: `host:port`, or empty
    report_version: of docker, as clients are told it
    labels, node_generic_resources, features: `name=value` each; a feature's value is `true` or `false`
    bridge: an existing bridge, `none`, or empty for the engine's own; bip*: its address and prefix; all settings about
        addresses may be empty, except ip; mtu: decimal, 0 for the kernel's
    entitlements: what builds are given that ask for it, by dockerd's names, or `none`; gc: of the build cache
    idle_exit: seconds without work after which the daemon ends; 0 for never
    default_address_pools: `base,bits` each; default_network_opts: `driver=name=value` each
    authorization_plugins: names, in the order in which they are asked; plugin_dirs: absolute paths
    unguarded: the administrator has said that whoever reaches a TCP socket may use it
    as_dockerd: the daemon was started by dockerd's name: `docker0` and the devices of all networks are there from the
        start
    notes: lines for the log, about options that change nothing
    """

    hosts: tuple[str, ...]
    group: str
    tls: bool
    tlsverify: bool
    tlscacert: str
    tlscert: str
    tlskey: str
    data_root: str
    exec_root: str
    pidfile: str
    debug: bool
    log_level: str
    log_format: str
    report_version: str
    labels: tuple[str, ...]
    node_generic_resources: tuple[str, ...]
    metrics_addr: str
    experimental: bool
    features: tuple[str, ...]
    min_api_version: str
    registry_mirrors: tuple[str, ...]
    insecure_registries: tuple[str, ...]
    max_concurrent_downloads: int
    max_concurrent_uploads: int
    max_download_attempts: int
    http_proxy: str
    https_proxy: str
    no_proxy: str
    storage_driver: str
    muxer: str
    live_restore: bool
    shutdown_timeout: int
    log_driver: str
    log_opts: tuple[str, ...]
    init: bool
    init_path: str
    default_ulimits: tuple[str, ...]
    default_cgroupns_mode: str
    default_ipc_mode: str
    default_shm_size: int
    default_stop_timeout: int
    no_new_privileges: bool
    userns_remap: str
    seccomp_profile: str
    cdi_spec_dirs: tuple[str, ...]
    selinux_enabled: bool
    runtimes: tuple[str, ...]
    default_runtime: str
    exec_opts: tuple[str, ...]
    cgroup_parent: str
    cpu_rt_period: int
    cpu_rt_runtime: int
    idle_exit: int
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
    allow_direct_routing: bool
    bridge_accept_fwmark: str
    default_address_pools: tuple[str, ...]
    default_network_opts: tuple[str, ...]
    dns: tuple[str, ...]
    dns_search: tuple[str, ...]
    dns_opts: tuple[str, ...]
    host_gateway_ips: tuple[str, ...]
    entitlements: tuple[str, ...]
    gc: GcPolicy
    authorization_plugins: tuple[str, ...]
    plugin_dirs: tuple[str, ...]
    unguarded: bool
    as_dockerd: bool
    notes: tuple[str, ...]


def _needed_path(text: str) -> str:
    if not text:
        raise Invalid("the path is empty")
    return listening.path(text)


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in words:
            raise Invalid(f"give one of {', '.join(words)}")
        return text

    return check


def _place(name: str, help_: str, default: str, check: Callable[[str], str], short: str = "") -> Option:
    return Option(name, help_, short=short, check=check, default=default, value="path", key=name)


_ASKED = (
    Option("help", "Show this text", short="h", kind="flag", default=False),
    Option("version", "Show the version", short="v", kind="flag", default=False),
    Option("validate", "Check the options and the configuration file, and start nothing", kind="flag", default=False),
)
OPTIONS = (
    *listening.OPTIONS,
    _place("data-root", "Directory of images, containers and state that is to last", ROOTS.data_root, _needed_path),
    _place("exec-root", "Directory of sockets and state that lasts until the next boot", ROOTS.exec_root, _needed_path),
    _place("pidfile", "File that holds the daemon's process id", ROOTS.pidfile, listening.path, short="p"),
    Option("config-file", "Configuration file", check=_needed_path, default=ROOTS.config_file, value="path"),
    *advertised.OPTIONS,
    *transfers.OPTIONS,
    *storagedriver.OPTIONS,
    Option(
        "muxer",
        f"What moves the output of containers: {', '.join(MUXERS)}; auto is c where it was built",
        check=_one_of(MUXERS),
        default="auto",
        value="kind",
        key="muxer",
    ),
    Option(
        "live-restore",
        "Containers run on while there is no daemon; false: the daemon stops them when it is stopped",
        kind="flag",
        default=True,
        key="live-restore",
    ),
    Option(
        "shutdown-timeout",
        "Seconds that the daemon waits at least for the containers that it stops with itself; negative: for ever",
        kind="number",
        check=lambda text: str(integer(text, reader="strconv.ParseInt")),
        default=15,
        value="seconds",
        key="shutdown-timeout",
    ),
    *defaults.OPTIONS,
    *runtimes.OPTIONS,
    *cgroups.OPTIONS,
    *asleep.OPTIONS,
    *network.OPTIONS,
    *builder.OPTIONS,
    *extensions.OPTIONS,
    *elsewhere.OPTIONS,
    *_ASKED,
)
FILE_ONLY = (*advertised.FILE_ONLY, *builder.FILE_ONLY)
"""What only the configuration file may say."""
_FILE_READERS: configfile.Readers = {
    **advertised.FILE_READERS,
    **defaults.FILE_READERS,
    **network.FILE_READERS,
    **builder.FILE_READERS,
    **runtimes.FILE_READERS,
    **elsewhere.FILE_READERS,
}


def asked(arguments: Sequence[str]) -> str:
    """What a command line asks for in the place of a daemon: `help`, `version`, `validate`; empty for a daemon.

    Raises Invalid.
    """
    given, _ = _parsed(arguments, whose.program())
    return next((each.name for each in _ASKED if given.get(each.name)), "")


def _parsed(arguments: Sequence[str], name: str) -> tuple[dict[str, Value], list[str]]:
    try:
        return parse(OPTIONS, arguments)
    except Invalid as error:
        if name != DOCKERD:
            raise
        raise Invalid(f"Status: {error}\nSee '{name} --help'., Code: 125") from error


def from_arguments(
    arguments: Sequence[str], environ: Mapping[str, str] = os.environ, uid: int | None = None, name: str = ""
) -> Settings:
    """The settings from the command line after `daemon`, and from the configuration file.

    `uid`: the user whose daemon it is to be, by default the caller's own; name: of the program, see `whose.program`.
    Raises Invalid with the text to show.
    """
    user = whose.owner(environ, os.geteuid()) if uid is None else uid
    name = name or whose.program()
    places = whose.of(user, environ, name)
    given, others = _parsed(arguments, name)
    if others:
        raise Invalid(f"\"{name}\" accepts no argument(s).\nSee '{name} --help'.")
    path = given_text(given, "config-file", places.config_file)
    declared = (*OPTIONS, *FILE_ONLY)
    of_file = configfile.read(path, declared, _FILE_READERS, given, required="config-file" in given)
    told = of_file | {option.key: given[option.name] for option in OPTIONS if option.key and option.name in given}
    values: dict[str, Value] = {option.key: option.default for option in declared if option.key}
    values |= {"data-root": places.data_root, "exec-root": places.exec_root, "pidfile": places.pidfile}
    values |= {"hosts": (f"unix://{places.socket}",), "group": places.group, asleep.KEY: asleep.of_environment(environ)}
    values |= {"plugin-dirs": extensions.directories(user, environ)}
    values |= told
    if environ.get("DOCKER_MIN_API_VERSION"):
        values["min-api-version"] = advertised.oldest_by_variable(environ["DOCKER_MIN_API_VERSION"])
    if name == DOCKERD and values["log-format"] == "text":
        values["log-format"] = "logfmt"
    cdi = advertised.has_feature(given_texts(values, "features"), "cdi", default=True)
    values["cdi-spec-dirs"] = tuple(filter(None, given_texts(values, "cdi-spec-dirs"))) if cdi else ()
    values["labels"] = advertised.check_labels(given_texts(values, "labels"))
    values["runtimes"] = (*given_texts(of_file, "runtimes"), *given_texts(given, "add-runtime"))
    runtimes.check(given_texts(values, "runtimes"), given_text(values, "default-runtime"))
    network.check_together(values)
    unguarded = listening.complete(values, told, environ, name)
    notes = elsewhere.notes_on({each.name: told[each.key] for each in elsewhere.OPTIONS if each.key in told} | given)
    notes += advertised.notes_on(given_texts(values, "features"))
    strange = {option.key for option in elsewhere.OPTIONS}
    by_field = {_field(key): value for key, value in values.items() if key not in strange}
    # Each has the type of its field: `kind` in OPTIONS.
    return Settings(**by_field, unguarded=unguarded, as_dockerd=name == DOCKERD, notes=notes)  # type: ignore[arg-type]  # see above


def _field(key: str) -> str:
    return key.rpartition(".")[2].replace("-", "_")


def usage(name: str = "") -> str:
    """The help text of the daemon. name: of the program, see `whose.program`"""
    return f"""Usage: {name or whose.program()} [OPTIONS]

The daemon of a container engine that speaks the Docker Engine API.

Options:
{described(OPTIONS)}

Most options may stand in the configuration file instead, under the key that
dockerd's daemon.json has for it. A key in both is an error.
"""


def version(name: str = "") -> str:
    """The line of `--version`, in the form of dockerd's where the program has its name."""
    if (name or whose.program()) == DOCKERD:
        return f"Docker version {advertised.REPORTED_VERSION}, build engine"
    return f"engine {advertised.VERSION}"


def options_table() -> str:
    """The options as README.md shows them: a Markdown table."""
    rows = ["| option | default | daemon.json | what it does |", "|---|---|---|---|"]
    for option in (*OPTIONS, *FILE_ONLY):
        names = f"`-{option.short}`, `--{option.name}`" if option.short else f"`--{option.name}`"
        shown = f"`{option.default_shown}`" if option.default_shown else ""
        key = f"`{option.key}`" if option.key else ""
        rows.append(f"| {'' if option in FILE_ONLY else names} | {shown} | {key} | {option.help} |")
    return "\n".join(rows)
