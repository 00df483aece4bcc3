"""The log drivers that a container can have, the check of its LogConfig, and the log target of one run.

Used by the daemon's request threads. Create checks the names and a few values, as dockerd does; each start checks the
other values. A driver's own options are in `engine/logs/drivers`, whose module is loaded only where it is asked for.
"""

from engine import literals
from engine.daemon import patterns
from engine.daemon.containers import paths
from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import LogConfig
from engine.daemon.plugins.activation import Plugins
from engine.errors import Invalid, NotBuilt, SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.logs.attributes import Described
from engine.logs.drivers import jsonfile, local
from engine.logs.drivers.driver import Driver
from engine.logs.query import Query
from engine.logs.target import LINES, LogTarget, Place

if TYPE_CHECKING:  # each is loaded by the first container that asks for it
    from engine.daemon.containers.output import plugged
    from engine.logs import details as attributes
    from engine.logs.drivers import fluentd, gelf, journald, none, splunk, syslog
else:
    plugged = late("engine.daemon.containers.output.plugged")
    attributes = late("engine.logs.details")
    fluentd = late("engine.logs.drivers.fluentd")
    gelf = late("engine.logs.drivers.gelf")
    journald = late("engine.logs.drivers.journald")
    none = late("engine.logs.drivers.none")
    splunk = late("engine.logs.drivers.splunk")
    syslog = late("engine.logs.drivers.syslog")

DRIVERS: dict[str, Driver] = {
    "local": local,
    "json-file": jsonfile,
    "syslog": syslog,
    "journald": journald,
    "gelf": gelf,
    "fluentd": fluentd,
    "splunk": splunk,
    "none": none,
}
"""Every driver that is built, by the name that clients know."""
# Drivers of the API's definition that this engine does not have.
UNBUILT_DRIVERS = frozenset({"awslogs", "gcplogs", "etwlogs"})

BLOCKING, NON_BLOCKING = "blocking", "non-blocking"
_OF_ALL = frozenset({"mode", "max-buffer-size"}) | local.CACHE_OPTIONS
_PATTERNS = ("labels-regex", "env-regex")
_FAILED = "failed to create task for container: failed to initialize logging driver: "


def completed(asked: LogConfig, default_driver: str, default_options: tuple[str, ...]) -> LogConfig:
    """A LogConfig completed from the daemon's settings: the driver where none is named, and that driver's options."""
    driver, config = asked["Type"] or default_driver, dict(asked["Config"])
    if driver == default_driver:
        config = {**dict(each.split("=", 1) for each in default_options), **config}
    return {"Type": driver, "Config": config}


def capped(log_config: LogConfig) -> LogConfig:
    """The LogConfig of a new container, in which a log of JSON lines does not grow without bound unless asked to."""
    if DRIVERS.get(log_config["Type"]) is not jsonfile:
        return log_config
    return {"Type": log_config["Type"], "Config": jsonfile.capped(log_config["Config"])}


def check(log_config: LogConfig, plugins: Plugins | None = None) -> None:
    """Raise Invalid in dockerd's words for an unknown driver, an unknown option, or a value that create checks.

    plugins: those among which a driver is looked for that is not the engine's own
    """
    name, config = log_config["Type"], log_config["Config"]
    if name in UNBUILT_DRIVERS:
        return
    driver = _driver(plugins, name)
    if driver is not none:
        _check_mode(config)
        local.cache(config)
    if driver.OPTIONS is not None:
        for option in sorted(config):
            if option not in driver.OPTIONS and option not in _OF_ALL:
                raise Invalid(driver.UNKNOWN % option)
        for option in _PATTERNS:
            patterns.matcher([config.get(option, "")])  # refuses what is too large
    driver.check(config)


def _check_mode(config: dict[str, str]) -> None:
    # The mode matters only for drivers that send output to another program: only they may drop some. A write to a log
    # file need not wait for anything, as the page cache takes it.
    mode = config.get("mode", "")
    if mode not in ("", BLOCKING, NON_BLOCKING):
        raise Invalid(f"logger: logging mode not supported: {mode}")
    if "max-buffer-size" in config:
        if mode != NON_BLOCKING:
            raise Invalid(f"logger: max-buffer-size option is only supported with 'mode={NON_BLOCKING}'")
        try:
            literals.size(config["max-buffer-size"], 1024)
        except Invalid as error:
            raise Invalid(f"error parsing option max-buffer-size: {error}") from error


def refuse_what_is_not_built(log_config: LogConfig) -> None:
    """Raise NotBuilt for a driver that dockerd has and this engine does not have."""
    if log_config["Type"] in UNBUILT_DRIVERS:
        raise NotBuilt(f'HostConfig.LogConfig: the log driver "{log_config["Type"]}" is not built in this engine')


def _driver(plugins: Plugins | None, name: str) -> Driver:
    if name in DRIVERS:
        return DRIVERS[name]
    if plugins is None or not plugins.possible():
        raise Invalid(f'error looking up logging plugin {name}: plugin "{name}" not found')
    return plugged.Plugged(plugins, name)


def target(plugins: Plugins, container: Container, where: paths.Paths) -> LogTarget:
    """The log target of one run. Raises SystemFailure in dockerd's words for invalid values."""
    driver, config = _asked_for(plugins, container)
    try:
        return driver.target(config, _described(container), Place(where.home, where.log, where.exec_dir))
    except Invalid as error:
        raise SystemFailure(_FAILED + str(error)) from error


def _asked_for(plugins: Plugins | None, container: Container) -> tuple[Driver, dict[str, str]]:
    log_config = container.host_config["LogConfig"]
    return _driver(plugins, log_config["Type"]), log_config["Config"]


def _described(container: Container) -> Described:
    config = container.config
    env, labels = tuple(config["Env"] or ()), dict(config["Labels"] or {})
    return Described(
        container.id,
        container.name,
        container.image,
        container.image_id,
        env,
        labels,
        container.path,
        tuple(container.args),
        container.created_ns,
    )


def log_path(container: Container, where: paths.Paths) -> str:
    """The file that inspect shows as LogPath, from the first start on; else empty."""
    driver = DRIVERS.get(container.host_config["LogConfig"]["Type"])
    name = driver.file(container.id) if driver is not None else ""
    return f"{where.home}/{name}" if name and container.snapshot().started_ns else ""


def form(container: Container, plugins: Plugins | None = None) -> str:
    """What a reader of the log finds, see `engine.logs.target`. A plugin may be asked for it."""
    driver, config = _asked_for(plugins, container)
    return driver.form(config)


def is_json(container: Container) -> bool:
    """Whether the log is of JSON lines, which the monitor does not send again itself."""
    driver = DRIVERS.get(container.host_config["LogConfig"]["Type"])
    return driver is not None and driver.form(container.host_config["LogConfig"]["Config"]) == LINES


def send_from_plugin(
    plugins: Plugins, container: Container, sink: int, query: Query, chunked: bool, ended: int | None
) -> None:
    """Write the lines of which the container's log plugin tells to `sink`, see `plugged.Plugged.send`."""
    log_config = container.host_config["LogConfig"]
    reader = plugged.Plugged(plugins, log_config["Type"])
    reader.send(log_config["Config"], _described(container), sink, query, chunked, ended)


def details(plugins: Plugins, container: Container) -> bytes:
    """The attributes of a log of frames, as `details` puts them before each line, and a space."""
    driver, config = _asked_for(plugins, container)
    shown = driver.details(config, _described(container))
    return attributes.shown(shown) if shown else b" "
