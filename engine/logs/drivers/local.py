"""The driver `local`: the engine's own form (see `engine.logs.format`), which a container gets that asks for none.

Pure; used by the daemon's request threads. Its options are dockerd's, and its size is capped as there; but for
`compress`, which is refused: a reader seeks in these files. What another driver keeps beside, so that its log can be
read here, is of the same form (dockerd calls that the cache).
"""

from collections.abc import Callable

from engine import literals
from engine.errors import Invalid, NotBuilt

OPTIONS = frozenset({"max-size", "max-file", "compress"})
CACHE_OPTIONS = frozenset({"cache-disabled", "cache-max-size", "cache-max-file", "cache-compress"})
DEFAULT_SIZE, DEFAULT_FILES = 20_000_000, 5


def check(config: dict[str, str]) -> None:
    """Raise NotBuilt for what this engine does not have; what is wrong in itself is said at the start, as dockerd's."""
    if config.get("compress", "false") in literals.TRUE:
        raise NotBuilt(
            'HostConfig.LogConfig: the option "compress" of the log driver "local" is not built in this engine'
        )


def limits(config: dict[str, str]) -> tuple[int, int]:
    """(bytes a segment, segments kept); 0 bytes: it grows without bound. Raises Invalid in dockerd's words."""
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


def cache(config: dict[str, str]) -> tuple[int, int] | None:
    """The same for what a driver that cannot be read keeps beside; None: nothing. Raises Invalid."""
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
