"""The options of the log driver `local`, the default: the engine's own log format (see `engine.logs.format`).

Pure; used by the daemon's request threads. The options are dockerd's, and the size is capped as in dockerd. Only
`compress` is refused, because a reader seeks in these files. Drivers that cannot be read keep a copy of their log in
the same format, so that it can be read (dockerd calls that the cache).
"""

from collections.abc import Callable

from engine import literals
from engine.errors import Invalid, NotBuilt
from engine.logs.attributes import Described
from engine.logs.target import FRAMES, Config, LogTarget, Place

OPTIONS = frozenset({"max-size", "max-file", "compress"})
UNKNOWN = "unknown log opt '%s' for log driver local"
CACHE_OPTIONS = frozenset({"cache-disabled", "cache-max-size", "cache-max-file", "cache-compress"})
DEFAULT_SIZE, DEFAULT_FILES = 20_000_000, 5


def check(config: Config) -> None:
    """Raise NotBuilt for an option that this engine does not have.

    A value that is wrong in itself is reported at the start, as in dockerd.
    """
    if config.get("compress", "false") in literals.TRUE:
        raise NotBuilt(
            'HostConfig.LogConfig: the option "compress" of the log driver "local" is not built in this engine'
        )


def target(config: Config, _described: Described, place: Place) -> LogTarget:
    """A log of frames. Raises Invalid in dockerd's words."""
    return LogTarget(place.log, *limits(config))


def form(_config: Config) -> str:
    """Frames."""
    return FRAMES


def file(_container_id: str) -> str:
    """inspect shows no LogPath."""
    return ""


def details(_config: Config, _described: Described) -> dict[str, str]:
    """None, as in dockerd."""
    return {}


def limits(config: Config) -> tuple[int, int]:
    """(bytes of a segment, segments kept); 0 bytes: it grows without bound. Raises Invalid in dockerd's words."""
    size, files = DEFAULT_SIZE, DEFAULT_FILES
    if "max-size" in config:
        size = _read("max-size", config["max-size"], literals.size)
    if "max-file" in config:
        files = _read("max-file", config["max-file"], literals.integer)
        if files < 1:
            raise Invalid(f"invalid value for max-file: {files}: max-file must be at least 1")
    if "compress" in config:
        try:
            literals.boolean(config["compress"])
        except Invalid as error:
            raise Invalid(f"error reading compress log option: {error}") from error
    return size, files


def cache(config: Config) -> tuple[int, int] | None:
    """(bytes of a segment, segments kept) of the copy of a log whose driver cannot be read; None: no copy.

    Raises Invalid, and NotBuilt for a compressed copy.
    """
    if "cache-disabled" in config:
        try:
            disabled = literals.boolean(config["cache-disabled"])
        except Invalid as error:
            raise Invalid(f"invalid value for option cache-disabled: {config['cache-disabled']}") from error
        if disabled:
            return None
    given = {name: config[f"cache-{name}"] for name in OPTIONS if f"cache-{name}" in config}
    check(given)
    return limits(given)


def _read(name: str, text: str, reader: Callable[[str], int]) -> int:
    try:
        return reader(text)
    except Invalid as error:
        raise Invalid(f"invalid value for {name}: {text}: {error}") from error
