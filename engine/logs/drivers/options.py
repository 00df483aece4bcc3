"""The log options `mode` and `max-buffer-size`, which all log drivers have, read as dockerd reads them.

Pure; used by the daemon's request threads.
"""

from engine import literals

DEFAULT_RING = 1_000_000


def ring(config: dict[str, str]) -> int:
    """How many bytes of lines may wait for a driver that is `non-blocking`; 0 for one that is not. Raises Invalid."""
    if config.get("mode") != "non-blocking":
        return 0
    return max(literals.size(config["max-buffer-size"], 1024), 1) if "max-buffer-size" in config else DEFAULT_RING
