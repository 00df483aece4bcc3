"""The options of the log driver `local`: the engine's own log format (see `engine.logs.format`).

Pure; used by the daemon's request threads. The options are dockerd's, and the size is capped as in dockerd. In the
engine's own format a reader seeks, which it cannot in compressed files. So a log with `compress`, which is off here
unless it is asked for, is one of JSON lines, whose older files are compressed. Drivers that cannot be read keep a copy
of their log in the same way, so that it can be read (dockerd calls that the cache).
"""

from collections.abc import Callable

from engine import literals
from engine.errors import Invalid
from engine.logs.attributes import Described
from engine.logs.target import FRAMES, LINES, Config, Forward, LogTarget, Place

OPTIONS = frozenset({"max-size", "max-file", "compress"})
UNKNOWN = "unknown log opt '%s' for log driver local"
CACHE_OPTIONS = frozenset({"cache-disabled", "cache-max-size", "cache-max-file", "cache-compress"})
DEFAULT_SIZE, DEFAULT_FILES = 20_000_000, 5
MOST_FILES = 2**32 - 1
"""What the writer in C counts to; a log that may have more files has as many as it ever makes."""
Limits = tuple[int, int, bool]
"""(bytes of a file, files kept, whether older ones are compressed); 0 bytes: it grows without bound."""


def check(_config: Config) -> None:
    """Create looks at none of its values, as in dockerd: what is wrong in itself is reported at the start."""


def target(config: Config, described: Described, place: Place) -> LogTarget:
    """A log of frames, or of JSON lines where it is to be compressed. Raises Invalid in dockerd's words."""
    return kept(limits(config), described, place)


def kept(
    limits: Limits, described: Described, place: Place, forward: Forward | None = None, attributes: bytes = b""
) -> LogTarget:
    """A log with these limits. forward: who else is sent each line; attributes: see `LogTarget`"""
    size, files, compressed = limits
    if compressed:
        return LogTarget(place.home, size, files, lines_file(described.id), attributes, True, forward)
    return LogTarget(place.log, size, files, forward=forward)


def form(config: Config) -> str:
    """Frames, or lines of JSON where they are compressed."""
    return LINES if config.get("compress") in literals.TRUE else FRAMES


def lines_file(container_id: str) -> str:
    """The name of a log of JSON lines in the container's directory."""
    return f"{container_id}-json.log"


def file(_container_id: str) -> str:
    """inspect shows no LogPath."""
    return ""


def details(_config: Config, _described: Described) -> dict[str, str]:
    """None, as in dockerd."""
    return {}


def limits(config: Config) -> Limits:
    """The limits that the options say. Raises Invalid in dockerd's words."""
    size, files = DEFAULT_SIZE, DEFAULT_FILES
    if "max-size" in config:
        size = _read("max-size", config["max-size"], literals.size)
    if "max-file" in config:
        files = _read("max-file", config["max-file"], literals.integer)
        if files < 1:
            raise Invalid(f"invalid value for max-file: {files}: max-file must be at least 1")
        files = min(files, MOST_FILES)
    try:
        compressed = _flag(config, "compress")
    except Invalid as error:
        raise Invalid(f"error reading compress log option: {error}") from error
    if compressed and files == 1:
        raise Invalid("compression cannot be enabled when max file count is 1")
    return size, files, compressed


def cache(config: Config) -> Limits | None:
    """The limits of the copy of a log whose driver cannot be read; None: no copy. Raises Invalid."""
    if "cache-disabled" in config:
        try:
            disabled = literals.boolean(config["cache-disabled"])
        except Invalid as error:
            raise Invalid(f"invalid value for option cache-disabled: {config['cache-disabled']}") from error
        if disabled:
            return None
    given = {name: config[f"cache-{name}"] for name in OPTIONS if f"cache-{name}" in config}
    return limits(given)


def _flag(config: Config, name: str) -> bool:
    return name in config and literals.boolean(config[name])


def _read(name: str, text: str, reader: Callable[[str], int]) -> int:
    try:
        return reader(text)
    except Invalid as error:
        raise Invalid(f"invalid value for {name}: {text}: {error}") from error
