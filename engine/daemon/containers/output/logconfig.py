"""The log drivers that a container can have, the check of its LogConfig, and the log target of one run.

Used by the daemon's request threads. Create checks the names and a few values, as dockerd does; each start checks the
other values. A driver's own options are in `engine/logs/drivers`, whose module is loaded only where it is asked for.
"""

import importlib
from types import ModuleType

from engine import literals
from engine.daemon import patterns
from engine.daemon.containers import paths
from engine.daemon.containers.record import Container
from engine.daemon.jsontext import Object
from engine.errors import Invalid, NotBuilt, SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.logs import attributes
from engine.logs.attributes import Described
from engine.logs.drivers import jsonfile, local, options
from engine.wire.schema import Forward, LogTarget

if TYPE_CHECKING:  # loaded by the first request for details
    from engine.logs import jsonreader
else:
    jsonreader = late("engine.logs.jsonreader")

NONE, LOCAL, JSON_FILE = "none", "local", "json-file"
# Every driver that is built → its module in `engine.logs.drivers`.
BUILT_DRIVERS = {LOCAL: "local", JSON_FILE: "jsonfile", "syslog": "syslog", "journald": "journald", NONE: ""}
# Drivers of the API's definition that this engine does not have.
UNBUILT_DRIVERS = frozenset({"gelf", "fluentd", "awslogs", "splunk", "gcplogs", "etwlogs"})

BLOCKING, NON_BLOCKING = "blocking", "non-blocking"
_OF_ALL = frozenset({"mode", "max-buffer-size"}) | local.CACHE_OPTIONS
_FAILED = "failed to create task for container: failed to initialize logging driver: "


def completed(asked: Object, default_driver: str, default_options: tuple[str, ...]) -> Object:
    """A LogConfig completed from the daemon's settings: the driver where none is named, and that driver's options."""
    driver, config = asked.get("Type") or default_driver, dict(asked.get("Config") or {})
    if driver == default_driver:
        config = {**dict(each.split("=", 1) for each in default_options), **config}
    return {"Type": driver, "Config": config}


def check(log_config: Object) -> None:
    """Raise Invalid in dockerd's words for an unknown driver, an unknown option, or a value that create checks."""
    driver, config = log_config["Type"], log_config["Config"]
    if driver not in BUILT_DRIVERS and driver not in UNBUILT_DRIVERS:
        raise Invalid(f'error looking up logging plugin {driver}: plugin "{driver}" not found')
    if driver == NONE or driver in UNBUILT_DRIVERS:
        return
    _check_mode(config)
    local.cache(config)
    module = _module(driver)
    for option in sorted(config):
        if option not in module.OPTIONS and option not in _OF_ALL:
            raise Invalid(f"unknown log opt '{option}' for {_named(driver)}")
    for option in ("labels-regex", "env-regex"):
        patterns.compile_pattern(config.get(option, ""))  # refuses patterns that could take too long
    if hasattr(module, "check"):
        module.check(config)


def _named(driver: str) -> str:
    return f"log driver {driver}" if driver == LOCAL else f"{driver} log driver"


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


def _module(driver: str) -> ModuleType:
    return importlib.import_module(f"engine.logs.drivers.{BUILT_DRIVERS[driver]}")


def refuse_what_is_not_built(log_config: Object) -> None:
    """Raise NotBuilt for a driver that dockerd has and this engine does not have."""
    if log_config["Type"] in UNBUILT_DRIVERS:
        raise NotBuilt(f'HostConfig.LogConfig: the log driver "{log_config["Type"]}" is not built in this engine')


def target(container: Container, where: paths.Paths) -> LogTarget:
    """The log target of one run. Raises SystemFailure in dockerd's words for invalid values."""
    log_config = container.host_config["LogConfig"]
    driver, config = log_config["Type"], log_config["Config"]
    try:
        if driver == NONE:
            return LogTarget("")
        if driver == LOCAL:
            return LogTarget(where.log, *local.limits(config))
        if driver == JSON_FILE:
            size, files, compress = jsonfile.limits(config)
            said = attributes.as_json(attributes.of(config, _described(container)))
            return LogTarget(where.home, size, files, jsonfile.file_name(container.id), said, compress)
        values = _module(driver).forward(config, _described(container))
        forward = Forward(BUILT_DRIVERS[driver], tuple(values.items()), options.ring(config))
        cache = local.cache(config)
        if cache is None:
            return LogTarget("", forward=forward)
        size, files = cache
        return LogTarget(where.log, size, files, forward=forward)
    except Invalid as error:
        raise SystemFailure(_FAILED + str(error)) from error


def _described(container: Container) -> Described:
    config = container.config
    env, labels = tuple(config["Env"] or ()), dict(config["Labels"] or {})
    return Described(container.id, container.name, container.image, container.image_id, env, labels)


def log_path(container: Container, where: paths.Paths) -> str:
    """The file that inspect shows as LogPath: that of the driver json-file, from the first start on; else empty."""
    if container.host_config["LogConfig"]["Type"] != JSON_FILE or not container.snapshot().started_ns:
        return ""
    return f"{where.home}/{jsonfile.file_name(container.id)}"


def readable(container: Container) -> bool:
    """Whether there is a log that this engine can serve."""
    log_config = container.host_config["LogConfig"]
    if log_config["Type"] in (LOCAL, JSON_FILE):
        return True
    return log_config["Type"] != NONE and local.cache(log_config["Config"]) is not None


def details(container: Container) -> bytes:
    """The attributes of a log in the engine's own form, as `details` puts them before each line, and a space."""
    log_config = container.host_config["LogConfig"]
    if log_config["Type"] in (LOCAL, NONE):
        return b" "
    return jsonreader.details_of(attributes.extra(log_config["Config"], _described(container)))
