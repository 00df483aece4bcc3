"""The driver `null`: no network at all, for containers that have loopback alone.

There is one such network, and nothing is ever made for it. Pure.
"""

from collections.abc import Iterable

from engine.daemon.network.record import Network
from engine.errors import Forbidden


def check(network: Network, others: Iterable[Network]) -> None:
    """Raise Forbidden: the one there is has always been there."""
    if any(other.driver == "null" and other.id != network.id for other in others):
        raise Forbidden('only one instance of "null" network is allowed')


def device(_: Network) -> str:
    """It has none."""
    return ""


def gateways(_: Network) -> tuple[bool, bool]:
    """It has no addresses."""
    return False, False
