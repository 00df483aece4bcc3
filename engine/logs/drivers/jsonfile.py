"""The log driver `json-file`: its options, and the log that they ask for.

Pure; used by the daemon's request threads. The log itself is written by `engine.logs.jsonwriter`.
"""

from engine import literals
from engine.errors import Invalid
from engine.logs import attributes
from engine.logs.attributes import Described
from engine.logs.drivers import gojson, local
from engine.logs.target import LINES, Config, LogTarget, Place

OPTIONS = attributes.OPTIONS | {"max-size", "max-file", "compress"}
UNKNOWN = "unknown log opt '%s' for json-file log driver"
DEFAULT_SIZE, DEFAULT_FILES = 0, 1
CAPPED: Config = {"max-size": "20m", "max-file": "5"}
"""The options of a log of which nothing else says how large it may get, so that a container does not fill the disk."""


def check(_config: Config) -> None:
    """Create looks at none of its values, as in dockerd."""


def capped(config: Config) -> Config:
    """A container's options, with a cap where no option is about the size of its log."""
    return config if config.keys() & {*CAPPED, "compress"} else {**CAPPED, **config}


def target(config: Config, described: Described, place: Place) -> LogTarget:
    """A file of JSON lines in the container's directory. Raises Invalid in dockerd's words."""
    size, files, compress = limits(config)
    said = gojson.attributes(attributes.of(config, described))
    return LogTarget(place.home, size, files, file(described.id), said, compress)


def form(_config: Config) -> str:
    """Lines of JSON."""
    return LINES


def file(container_id: str) -> str:
    """The name of a container's log."""
    return local.lines_file(container_id)


def details(config: Config, described: Described) -> dict[str, str]:
    """The labels and variables that the options name."""
    return attributes.extra(config, described)


def limits(config: dict[str, str]) -> tuple[int, int, bool]:
    """(bytes of a file, files kept, compressed); 0 bytes: it grows without bound. Raises Invalid in dockerd's words."""
    size, files, compress = DEFAULT_SIZE, DEFAULT_FILES, False
    if "max-size" in config:
        size = literals.size(config["max-size"])
        if size <= 0:
            raise Invalid("max-size must be a positive number")
    if "max-file" in config:
        files = literals.integer(config["max-file"])
        if files < 1:
            raise Invalid("max-file cannot be less than 1")
        files = min(files, local.MOST_FILES)
    if "compress" in config:
        compress = literals.boolean(config["compress"])
        if compress and (files == 1 or size == 0):
            raise Invalid("compress cannot be true when max-file is less than 2 or max-size is not set")
    return size, files, compress
