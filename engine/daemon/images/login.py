"""Checking a client's credentials against their registry (POST /auth).

Runs in the daemon, on the request's thread. Keeps nothing of what it is given.
"""

import contextlib

from engine.daemon.images.auth import Credentials
from engine.daemon.images.registry import Registry
from engine.daemon.images.transport import ConnectFailure
from engine.errors import Unauthorized

_OFFICIAL = "registry-1.docker.io"
_OFFICIAL_NAMES = ("", "docker.io", "index.docker.io", "registry-1.docker.io")


def check(credentials: dict, insecure: tuple[str, ...]) -> str:
    """Ask the registry's base with the credentials (API: AuthConfig); returns an identity token, or an empty text.

    Raises Unauthorized where they are refused, SystemFailure where the registry cannot be asked (transcript 230).
    """
    address = str(credentials.get("serveraddress") or "")
    netloc = address.partition("://")[2].partition("/")[0] if "://" in address else address.partition("/")[0]
    if netloc in _OFFICIAL_NAMES:
        netloc = _OFFICIAL
    registry = Registry(netloc, "https", "", insecure, Credentials.of(credentials))
    with contextlib.closing(registry.transport):
        try:
            registry.ping()
        except ConnectFailure:
            raise
        except Unauthorized as error:
            raise Unauthorized(f'Get "{registry.base}": unauthorized: {error}') from error
    # A registry gives no identity token for a password; docker's client then keeps the password itself.
    return ""
