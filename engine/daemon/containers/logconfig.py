"""The log drivers a container can ask for, and what their options mean.

Pure tables and parsers, used by the daemon's request threads. Writing and reading logs is the room `logs`'s job.
"""

import re

from engine.errors import Invalid, NotBuilt

_COMMON = frozenset({"mode", "max-buffer-size"})
_FILE = frozenset({"max-size", "max-file", "compress", "labels", "labels-regex", "env", "env-regex", "tag"})

# Every driver of the definition and the options it knows; None: whichever, as this engine does not have the driver.
DRIVERS: dict[str, frozenset[str] | None] = {
    "local": _FILE,
    "none": None,
    "json-file": _FILE,
    "syslog": None,
    "journald": None,
    "gelf": None,
    "fluentd": None,
    "awslogs": None,
    "splunk": None,
    "gcplogs": None,
}
# What a container gets that asks for none: clients (the SDK's `run`) read logs only of drivers whose name they know.
DEFAULT_DRIVER = "json-file"
# Both keep their lines in this engine's own format, behind the same API; no LogPath says otherwise. What differs is
# dockerd's default size: (bytes a segment, segments kept).
BUILT_DRIVERS = {"json-file": (0, 1), "local": (20_000_000, 5)}
_UNREADABLE = "none"
# Options this engine obeys, and the one value of others that asks for nothing more than it does anyway.
BUILT_OPTIONS = frozenset({"max-size", "max-file"})
HARMLESS = {"mode": "blocking", "compress": "false"}

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmgtp]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4, "p": 1000**5}


def check(log_config: dict) -> None:
    """Raise Invalid with dockerd's words for an unknown driver, an unknown option or a bad value."""
    driver, options = log_config["Type"], log_config["Config"]
    if driver not in DRIVERS:
        raise Invalid(f'error looking up logging plugin {driver}: plugin "{driver}" not found')
    known = DRIVERS[driver]
    for option in sorted(options):
        if known is not None and option not in known | _COMMON:
            raise Invalid(f"unknown log opt '{option}' for {driver} log driver")
    if driver in BUILT_DRIVERS:
        limits(log_config)


def refuse_what_is_not_built(log_config: dict) -> None:
    """Raise NotBuilt for a driver or an option that dockerd has and this engine does not have yet."""
    driver = log_config["Type"]
    if driver == _UNREADABLE:
        return
    if driver not in BUILT_DRIVERS:
        raise NotBuilt(f'HostConfig.LogConfig: the log driver "{driver}" is not built yet in this engine')
    for option, value in log_config["Config"].items():
        if option not in BUILT_OPTIONS and HARMLESS.get(option) != value:
            raise NotBuilt(f'HostConfig.LogConfig: the log option "{option}" is not built yet in this engine')


def limits(log_config: dict) -> tuple[int, int]:
    """(bytes a segment, segments kept) of a log that is kept; 0 bytes: it grows without bound.

    Sizes are decimal as in dockerd (`10m` is ten million bytes). Raises Invalid.
    """
    options = log_config["Config"]
    default_size, default_files = BUILT_DRIVERS[log_config["Type"]]
    size, files = options.get("max-size", str(default_size)), options.get("max-file", str(default_files))
    parsed = _SIZE.fullmatch(size)
    if parsed is None:
        raise Invalid(f"invalid value for max-size: invalid size: '{size}'")
    if not (files.isascii() and files.isdigit()):
        raise Invalid(f'invalid value for max-file: strconv.Atoi: parsing "{files}": invalid syntax')
    if int(files) < 1:
        raise Invalid("max-file cannot be less than 1")
    return int(float(parsed[1]) * _UNITS[parsed[2].lower()]), int(files)
