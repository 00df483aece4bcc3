"""Writes a line's attributes as `docker logs --details` shows them before it.

Pure; used by the daemon's threads.
"""

from urllib.parse import quote_plus


def shown(attributes: dict[str, str] | None) -> bytes:
    """The attributes as docker shows them with `details`, and the space after them."""
    pairs = (
        f"{quote_plus(name, safe='~')}={quote_plus(value, safe='~')}"
        for name, value in sorted((attributes or {}).items())
    )
    return ",".join(pairs).encode() + b" "
