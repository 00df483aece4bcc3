"""The log driver `none`: keeps nothing of what a container writes.

Pure; used by the daemon's request threads.
"""

from engine.logs.attributes import Described
from engine.logs.target import NOTHING, Config, LogTarget, Place

OPTIONS = None
UNKNOWN = "unknown log opt '%s' for none log driver"


def check(_config: Config) -> None:
    """Accept every option, as dockerd does."""


def target(_config: Config, _described: Described, _place: Place) -> LogTarget:
    """Nowhere."""
    return LogTarget("")


def form(_config: Config) -> str:
    """There is nothing to read."""
    return NOTHING


def file(_container_id: str) -> str:
    """There is no file."""
    return ""


def details(_config: Config, _described: Described) -> dict[str, str]:
    """There is no line to show them before."""
    return {}
